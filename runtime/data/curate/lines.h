/* SPDX-License-Identifier: Apache-2.0 */
/* JSON lines on their way into a file, plain or as zstd frames, and parts of files put together.
 *
 * A part is the result of one job. Parts are complete zstd frames (or whole lines), so the output
 * is simply all parts one after the other, and can itself be cut and read by many threads. */
#ifndef MEGATRON_CURATE_LINES_H
#define MEGATRON_CURATE_LINES_H

#include <stddef.h>
#include <stdint.h>
#include "curate.h"

struct lines;

/* Does the name of an output ask for zstd, and does this build have it? Returns 0 or 1, or -1 with
 * 'err' set where the name asks for something that cannot be written. */
int lines_codec(const char *path, struct error *err);

/* Begin the file NAME-NUMBER of the job. 'packed': zstd. Returns NULL with 'err' set. */
struct lines *lines_create(struct curate_job *job, const char *name, int packed, struct error *err);

/* Add bytes; the caller adds newlines. */
int lines_put(struct lines *lines, const void *data, size_t size, struct error *err);

/* Where in the uncompressed bytes the next one goes. */
int64_t lines_at(const struct lines *lines);

/* Bring the file to disk and give it its name. '*size' is its size on disk. Frees in any case. */
int lines_finish(struct lines *lines, int64_t *size, struct error *err);
void lines_abandon(struct lines *lines);

/* A document's line with another text, or a text as a JSON string. Grows as it is needed. */
struct line_buffer {
    char *data;
    size_t size, capacity;
    int failed;
};
void line_put(struct line_buffer *line, const void *data, size_t size);
void line_put_word(struct line_buffer *line, const char *word);
void line_put_string(struct line_buffer *line, const char *text, size_t size); /* with quotes */
void line_buffer_clear(struct line_buffer *line);

/* The output as one file: parts NAME-0 to NAME-(count - 1) of 'phase', whose sizes are known, are
 * copied to their places by all ranks. Returns as curate_phase. */
int parts_join(struct curate *engine, const char *phase, const char *name, size_t count,
               const int64_t *sizes, const char *joined, struct error *err);

/* Give what parts_join has made its final name. Doing it again changes nothing. */
int parts_publish(struct curate *engine, const char *joined, const char *path, struct error *err);

#endif
