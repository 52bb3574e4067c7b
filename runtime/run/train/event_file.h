/* SPDX-License-Identifier: Apache-2.0 */
/* TensorBoard event files: scalars by step. */
#ifndef MEGATRON_EVENT_FILE_H
#define MEGATRON_EVENT_FILE_H

#include <stdint.h>
#include "lib/error.h"

struct event_file;

/* Create a new event file in 'directory', which is created if needed. NULL on error. */
struct event_file *event_file_create(const char *directory, struct error *err);

/* Buffer a scalar for the next flush. */
void event_file_scalar(struct event_file *file, const char *tag, int64_t step, double value);

/* Write what is buffered. Returns -1 if not all of it could be written; a later flush tries again.
 */
int event_file_flush(struct event_file *file, struct error *err);

/* Flush and free; -1 if anything was lost. 'file' may be NULL. */
int event_file_close(struct event_file *file, struct error *err);

#endif
