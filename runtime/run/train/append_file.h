/* SPDX-License-Identifier: Apache-2.0 */
/* A file that grows by whole records. Records that cannot be written because the disk is full are
 * buffered and retried, so that none is torn once there is space. */
#ifndef MEGATRON_APPEND_FILE_H
#define MEGATRON_APPEND_FILE_H

#include <stddef.h>
#include "lib/error.h"

struct append_file;

/* Open 'path' for appending; if 'fresh' is set the file must not exist. Otherwise its records are
 * lines, and an incomplete last line is terminated. Returns NULL on error. */
struct append_file *append_file_open(const char *path, int fresh, struct error *err);

/* Buffer a record for the next flush. */
void append_file_add(struct append_file *file, const void *record, size_t size);

/* Write everything that is buffered. Returns -1 if some of it could not be written; it stays in the
 * buffer, unless the buffer would exceed one megabyte. */
int append_file_flush(struct append_file *file, struct error *err);

/* Flush and free; -1 if anything was lost. 'file' may be NULL. */
int append_file_close(struct append_file *file, struct error *err);

#endif
