/* A file of bounded size as bytes in memory, and whole pieces of any file. */
#ifndef MEGATRON_FILE_H
#define MEGATRON_FILE_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include "error.h"

#ifdef __cplusplus
extern "C" {
#endif

struct file_bytes {
    char *data; /* 'length' bytes and a NUL behind them */
    size_t length;
};

/* Read all of 'path' (a plain file or a pipe) if it has at most 'limit' bytes. Returns 0, or -1
 * with a sentence that names the file and errno set. The caller clears 'bytes'. */
int file_read(const char *path, size_t limit, struct file_bytes *bytes, struct error *err);

void file_bytes_clear(struct file_bytes *bytes);

/* Read 'size' bytes at 'offset', however many calls it takes. Returns how many there were before
 * the file's end, or -1 with errno set. */
ssize_t file_read_at(int fd, void *out, size_t size, int64_t offset);

/* Write 'size' bytes at 'offset'. Returns 0, or -1 with errno set. */
int file_write_at(int fd, const void *data, size_t size, int64_t offset);

/* Bring all of a file to disk, part by part, and call 'moved' after each: fsync alone would take
 * minutes for what is in memory, and nobody could tell whether it gets on. Returns 0, or -1 with
 * errno set. */
int file_flush(int fd, void (*moved)(void *context), void *context);

/* Do two paths lead to one file or directory? Not where there is none. */
int file_is_same(const char *path, const char *other);

#ifdef __cplusplus
}
#endif

#endif
