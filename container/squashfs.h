/* SPDX-License-Identifier: Apache-2.0 */
/* Check that a file is a complete squashfs image. */
#ifndef MEGATRON_SQUASHFS_H
#define MEGATRON_SQUASHFS_H

#include <stddef.h>
#include <stdint.h>
#include "lib/error.h"

/* Read the superblock of the open file 'fd' and compare it with the file size. 'path' is for the
 * error. '*size' (may be NULL) gets the file size. Returns 0, or -1 if the file is not squashfs 4.0
 * or is truncated. */
int squashfs_check(int fd, const char *path, int64_t *size, struct error *err);

/* The same for the file 'name'. 'path' gets its real path. Enroot evaluates that path as shell
 * text, so one with characters that a shell would expand is an error. Returns 0 or -1. */
int squashfs_find(const char *name, char *path, size_t size, struct error *err);

#endif
