/* Is a file a complete squashfs image? */
#ifndef MEGATRON_SQUASHFS_H
#define MEGATRON_SQUASHFS_H

#include <stddef.h>
#include <stdint.h>
#include "error.h"

/* Read the superblock of the open file 'fd' and compare it with the size of the file. 'path' is for
 * the error. '*size' (may be NULL) gets the file's size. Returns 0, or -1 if it is not squashfs 4.0
 * or is truncated. */
int squashfs_check(int fd, const char *path, int64_t *size, struct error *err);

/* Check the file 'name' likewise. 'path' gets its real path, which Enroot evaluates as shell text:
 * one with characters that a shell would expand is refused. Returns 0 or -1. */
int squashfs_find(const char *name, char *path, size_t size, struct error *err);

#endif
