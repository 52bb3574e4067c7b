/* SPDX-License-Identifier: Apache-2.0 */
/* Directories that other users can enter, or whose parents they can: in /tmp, on a node's disk, on
 * a shared file system. A name there may be another user's, and may be replaced between two calls.
 * Therefore a directory is opened once, itself and not what a symbolic link points to, and checked
 * through the descriptor; everything in it is accessed relative to the descriptor:
 *
 *     at = trusted_directory_open(AT_FDCWD, "/scratch/images", TRUSTED_SHARED, &err);
 *     own = trusted_directory_open(at, "1001", TRUSTED_PRIVATE, &err);
 *     file = openat(own, "lease", O_RDWR | O_NOFOLLOW); */
#ifndef MEGATRON_TRUSTED_H
#define MEGATRON_TRUSTED_H

#include "error.h"

enum trusted_kind {
    TRUSTED_PRIVATE, /* no other user can write to it */
    TRUSTED_SHARED,  /* others may create entries, but cannot replace or remove those of this user:
                        the sticky bit is set (chmod 1777) */
};

/* Open what is at 'path', itself and not what a symbolic link points to. A directory is opened for
 * reading if possible, since that makes an automounter mount it; otherwise with O_PATH, which does
 * not: the descriptor would then be of the empty mount point. Returns a descriptor for fstat
 * and *at calls, or -1 with errno set. */
int trusted_descriptor(int at, const char *path);

/* The same for directory 'path', which this user or root must own. A directory of this user's
 * may also be group-writable. Returns -1 with errno set to EPERM if it is not trusted.
 */
int trusted_directory_open(int at, const char *path, enum trusted_kind kind, struct error *err);

/* Check that no directory on the way to the absolute 'path', nor to what it resolves to, lets all
 * users replace its entries. Returns 0 or -1. */
int trusted_parents(const char *path, struct error *err);

#endif
