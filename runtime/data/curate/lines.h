/* SPDX-License-Identifier: Apache-2.0 */
/* Output files of jobs, plain or as zstd frames, and their concatenation.
 *
 * A part is the file that one job writes. It consists of whole lines or complete zstd frames, so
 * the output is simply the concatenation of all parts, and can itself be cut and read by many
 * threads. */
#ifndef MEGATRON_CURATE_LINES_H
#define MEGATRON_CURATE_LINES_H

#include <stddef.h>
#include <stdint.h>
#include "data/jobs/jobs.h"

struct lines;

/* Does the extension of an output file ask for zstd? Returns 0 or 1, or -1 with 'err' set if it
 * asks for something that this build cannot write. */
int lines_codec(const char *path, struct error *err);

/* Create the file NAME-NUMBER of the job. 'packed': with zstd. Returns NULL with 'err' set. */
struct lines *lines_create(struct job *job, const char *name, int packed, struct error *err);

/* Append bytes; newlines are the caller's. */
int lines_put(struct lines *lines, const void *data, size_t size, struct error *err);

/* The current offset in the uncompressed bytes. */
int64_t lines_at(const struct lines *lines);

/* Sync the file and rename it to its final name. '*size' becomes its size on disk. Frees 'lines' in
 * any case. */
int lines_finish(struct lines *lines, int64_t *size, struct error *err);
void lines_abandon(struct lines *lines);

/* A growing buffer for a line of JSON. */
struct line_buffer {
    char *data;
    size_t size, capacity;
};
void line_put(struct line_buffer *line, const void *data, size_t size);
void line_put_word(struct line_buffer *line, const char *word);
void line_put_string(struct line_buffer *line, const char *text, size_t size); /* with quotes */
void line_buffer_clear(struct line_buffer *line);

/* Concatenate the files NAME-0 to NAME-(count - 1) of 'phase', whose sizes are given; all ranks
 * copy. Returns like jobs_phase. */
int parts_join(struct jobs *engine, const char *phase, const char *name, size_t count,
               const int64_t *sizes, const char *joined, struct error *err);

/* Rename what parts_join made to its final name. Idempotent. */
int parts_publish(struct jobs *engine, const char *joined, const char *path, struct error *err);

#endif
