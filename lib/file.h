/* SPDX-License-Identifier: Apache-2.0 */
/* Files and directories: read and write whole files, create directories, make changes durable. An
 * atomic write never leaves a partial file under its final name: the bytes go to a temporary file
 * in the same directory, which is flushed with fsync and renamed.
 *
 *     if (file_read(path, 1 << 20, &bytes, &err) == 0)
 *         parse(bytes.data, bytes.length);
 *     file_bytes_clear(&bytes);
 */
#ifndef MEGATRON_FILE_H
#define MEGATRON_FILE_H

#include <limits.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include "error.h"

#ifdef __cplusplus
extern "C" {
#endif

/* --- Read ------------------------------------------------------------------------------------ */

struct file_bytes {
    char *data; /* 'length' bytes, followed by a NUL */
    size_t length;
};

/* Read all of 'path' (a regular file or a pipe) if it has at most 'limit' bytes. Returns 0, or -1
 * with an error that names the file, and errno set. The caller clears 'bytes'. */
int file_read(const char *path, size_t limit, struct file_bytes *bytes, struct error *err);

/* The same for an open descriptor, which stays open; 'name' is for the error. */
int file_read_fd(int fd, const char *name, size_t limit, struct file_bytes *bytes,
                 struct error *err);

void file_bytes_clear(struct file_bytes *bytes);

/* Read up to 'size' - 1 bytes of a small file, such as one in /proc, and NUL-terminate them. The
 * last part of the path is not followed if it is a symbolic link, and nothing is waited for.
 * Returns the number of bytes, or -1 with an empty text. */
ssize_t file_read_text(const char *path, char *text, size_t size);

/* The same for an open descriptor (-1: the file could not be opened), which is closed. */
ssize_t file_read_text_fd(int fd, char *text, size_t size);

/* The same for the first line only, without its end. */
ssize_t file_read_line(const char *path, char *line, size_t size);

/* --- Write ----------------------------------------------------------------------------------- */

/* Write 'size' bytes at 'offset'. Returns 0, or -1 with errno set. */
int file_write_at(int fd, const void *data, size_t size, int64_t offset);

enum file_write_flags {
    /* An existing file is kept, and the new one is dropped. */
    FILE_KEEP = 1,
    /* The caller holds a lock, so nobody else writes 'path': the temporary file has the fixed name
     * PATH.new, and a killed writer leaves at most that one. Otherwise it is PATH.HOST.THREAD.tmp.
     */
    FILE_SINGLE_WRITER = 2,
    /* Sync the directory too, so that the new name survives a power failure. */
    FILE_SYNC_DIRECTORY = 4,
};

/* Write 'size' bytes to 'path' atomically: on failure there is no new file. A symbolic link stays,
 * and the file that it points to is replaced. A device or a pipe is written to, not replaced.
 * Returns 0 or -1. */
int file_write_whole(const char *path, const void *data, size_t size, unsigned flags,
                     struct error *err);

/* --- Directories ----------------------------------------------------------------------------- */

/* Flush a directory's entries to disk, so that a rename in it survives a power failure. Does
 * nothing on file systems that do not support it. Returns 0 or -1. */
int file_sync_directory(const char *path, struct error *err);

/* The same for the directory that contains 'path'. */
int file_sync_parent(const char *path, struct error *err);

/* Take the kernel's lock on an open, writable file, waiting up to 'seconds' for another process to
 * release it. The lock belongs to the descriptor and ends when it is closed, or with the process.
 * Returns 0; 1 if another process still holds it; -1 with errno set if the file system has no
 * locks. */
int file_lock(int fd, double seconds);

#ifdef __cplusplus
}
#endif

#endif
