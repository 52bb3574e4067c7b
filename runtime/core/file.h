/* A file of bounded size as bytes in memory. */
#ifndef MEGATRON_FILE_H
#define MEGATRON_FILE_H

#include <stddef.h>
#include "error.h"

#ifdef __cplusplus
extern "C" {
#endif

struct file_bytes {
    char *data; /* 'length' bytes and a NUL behind them */
    size_t length;
};

/* Read all of 'path' (a plain file or a pipe) if it has at most 'limit' bytes. Returns 0, or -1
 * with a sentence that names the file. The caller clears 'bytes'. */
int file_read(const char *path, size_t limit, struct file_bytes *bytes, struct error *err);

void file_bytes_clear(struct file_bytes *bytes);

#ifdef __cplusplus
}
#endif

#endif
