/* Is a file a whole squashfs image? */
#ifndef MEGATRON_SQUASHFS_H
#define MEGATRON_SQUASHFS_H

#include <stdint.h>
#include "error.h"

/* Read the superblock of the open file 'fd' and compare it with the file's size. 'path' is for the
 * error. '*size' (may be NULL) gets the file's size. Returns 0, or -1 where it is not squashfs 4.0
 * or ends too early. */
int squashfs_check(int fd, const char *path, int64_t *size, struct error *err);

#endif
