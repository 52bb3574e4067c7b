/* SPDX-License-Identifier: Apache-2.0 */
/* What only the program does with files and directories, besides lib/file.h. */
#ifndef MEGATRON_STORAGE_H
#define MEGATRON_STORAGE_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "lib/error.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Read 'size' bytes at 'offset', retrying short reads. Returns the number of bytes read before the
 * end of the file, or -1 with errno set. */
ssize_t file_read_at(int fd, void *out, size_t size, int64_t offset);

/* Flush a file to disk, 32 MiB at a time, and call 'moved' after each step: a single fsync can take
 * minutes without any sign of progress. Returns 0, or -1 with errno set. */
int file_flush(int fd, void (*moved)(void *context), void *context);

/* Create 'path' and its missing parents with permissions 'mode', as `mkdir -p` does. Returns 0, or
 * -1 with errno set. */
int file_make_directories(const char *path, mode_t mode);

/* To undo it after a failure: ask before how much of 'path' exists (the length of its longest
 * existing ancestor, or its own), and afterwards remove the directories that were created, as far
 * as they are empty. */
size_t file_existing_length(const char *path);
void file_remove_created(const char *path, size_t existing);

/* Bytes free for this user in the file system of 'path', or -1 with errno set. */
int64_t file_free_space(const char *path);

/* NFS clients cache that a name does not exist. Opening the directory makes them ask the server. */
void file_refresh_directory(const char *path);

/* Do two paths refer to the same file or directory? 0 if one of them does not exist. */
int file_is_same(const char *path, const char *other);

/* May a file operation that failed with errno 'number' succeed later without any change: a file
 * server is down, a disk is full, too many files are open? A path that does not exist or may not be
 * read is permanently wrong. */
int file_error_may_pass(int number);

/* 'err' is about a path that the user named. It becomes a usage error, unless errno says that the
 * operation may succeed later; set errno to 0 before a function that may fail without it. Returns
 * -1. */
int file_path_error(struct error *err);

#ifdef __cplusplus
}
#endif

#endif
