/* Small helpers around the file system: whole files, written so that nobody sees half of one. */
#ifndef MEGATRON_PREPROCESS_DISK_H
#define MEGATRON_PREPROCESS_DISK_H

#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h>
#include "error.h"

enum { DISK_PATH = 4096 };

/* Format a path; fails where it is longer than DISK_PATH. */
int disk_path(char *buffer, struct error *err, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* Write all of it, at the end of what the descriptor has or at 'offset'. 'path' is for the error.
 */
int disk_writev(int fd, struct iovec *parts, int count, const char *path, struct error *err);
int disk_pwrite(int fd, const void *data, size_t size, int64_t offset, const char *path,
                struct error *err);

/* Read exactly 'size' bytes at 'offset'. Returns 0; 1 where the file ends before; -1 on error. */
int disk_pread(int fd, void *data, size_t size, int64_t offset, const char *path,
               struct error *err);

/* Put a file of 'size' bytes at 'path': written under another name, synced, renamed. */
int disk_write_file(const char *path, const void *data, size_t size, struct error *err);

/* The same, but a file that is there already stays. */
int disk_write_first(const char *path, const void *data, size_t size, struct error *err);

/* Read a file of at most 'limit' bytes into memory that the caller frees. Returns 0; 1 where there
 * is no such file; -1 on error. */
int disk_read_file(const char *path, size_t limit, unsigned char **data, size_t *size,
                   struct error *err);

/* fsync the directory that holds 'path', so that a rename in it lasts. */
int disk_sync_directory(const char *path, struct error *err);

/* Remove a directory with the files in it and in the directories directly below it. What is gone
 * already is no error. */
void disk_remove_tree(const char *path);

/* Is it there; is it surely not, and not only out of reach? */
int disk_exists(const char *path);
int disk_is_gone(const char *path);

/* Seconds of a clock that never goes back. */
double disk_now(void);

void disk_sleep(double seconds);

#endif
