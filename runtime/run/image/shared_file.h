/* SPDX-License-Identifier: Apache-2.0 */
/* Small files in a directory that nodes share, replaced atomically. Relative paths begin at the
 * open directory 'at'. */
#ifndef MEGATRON_SHARED_FILE_H
#define MEGATRON_SHARED_FILE_H

#include <stddef.h>
#include <sys/types.h>
#include "lib/error.h"
#include "lib/file.h"
#include "lib/clock.h"

/* Read up to 'size' - 1 bytes of a file that 'owner' or root owns, NUL-terminated. Symbolic links
 * are not followed. Returns 0, or -1 with an empty text if the file cannot be read or belongs to
 * another user. */
int shared_file_read(int at, const char *path, uid_t owner, char *text, size_t size);

/* Atomically replace the contents of 'path' by 'text': write a draft in directory 'work' of the
 * same file system (sweep.h removes drafts of killed processes), fsync, rename. Returns 0 or -1. */
int shared_file_replace(int at, const char *path, const char *work, const char *text,
                        struct error *err);

/* Create 'directory' and all missing parents, accessible to this user only. 'variable' is the
 * environment variable that selects another directory, for the error. Returns 0 or -1. */
int shared_directory_create(const char *directory, const char *variable, struct error *err);

#endif
