/* A file that grows by whole records. What a full disk did not take is held and tried again, so
 * that nothing is torn in the middle once there is room. */
#ifndef MEGATRON_APPEND_FILE_H
#define MEGATRON_APPEND_FILE_H

#include <stddef.h>
#include "error.h"

struct append_file;

/* Open 'path' for appending; with 'fresh' it must not be there yet. NULL with a sentence. */
struct append_file *append_file_open(const char *path, int fresh, struct error *err);

/* Hold a record for the next flush. */
void append_file_add(struct append_file *file, const void *record, size_t size);

/* Write all that is held. Returns -1 where some of it could not be written; it is still held then,
 * unless it grew beyond a megabyte. */
int append_file_flush(struct append_file *file, struct error *err);

/* Flush and free; -1 if anything was lost. 'file' may be NULL. */
int append_file_close(struct append_file *file, struct error *err);

#endif
