/* SPDX-License-Identifier: Apache-2.0 */
/* Small file system helpers, whose errors name the path. */
#ifndef MEGATRON_JOBS_DISK_H
#define MEGATRON_JOBS_DISK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h>
#include "lib/error.h"
#include "lib/file.h"

enum { DISK_PATH = 4096 };

/* Format a path; fails if it is longer than DISK_PATH. */
int disk_path(char *buffer, struct error *err, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* Write everything, at the current position or at 'offset'. 'path' is for the error. */
int disk_writev(int fd, struct iovec *parts, int count, const char *path, struct error *err);
int disk_pwrite(int fd, const void *data, size_t size, int64_t offset, const char *path,
                struct error *err);

/* Read exactly 'size' bytes at 'offset'. Returns 0; 1 if the file ends early; -1 on error. */
int disk_pread(int fd, void *data, size_t size, int64_t offset, const char *path,
               struct error *err);

/* Read a file of at most 'limit' bytes. Returns 0; 1 if there is no such file; -1 on error. The
 * caller clears 'bytes'. */
int disk_read_file(const char *path, size_t limit, struct file_bytes *bytes, struct error *err);

/* Can files be created in the directory of 'path'? Returns 0 or -1. */
int disk_check_directory(const char *path, struct error *err);

/* Does the file exist? Is it certainly gone, rather than unreachable? */
bool disk_exists(const char *path);
bool disk_is_gone(const char *path);

#endif
