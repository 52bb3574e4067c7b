/* SPDX-License-Identifier: Apache-2.0 */
/* A stream into memory. Like xmalloc.h, it ends the process if memory runs out:
 *
 *     char *text;
 *     size_t size;
 *     FILE *stream = memory_stream(&text, &size);
 *
 *     fprintf(stream, ...);
 *     memory_stream_close(stream);    'text' has 'size' bytes and a NUL; the caller frees it
 */
#ifndef MEGATRON_MEMORY_STREAM_H
#define MEGATRON_MEMORY_STREAM_H

#include <stdio.h>

#include "last_resort.h"
#include "lib/error.h"

static inline FILE *memory_stream(char **text, size_t *size)
{
    FILE *stream = open_memstream(text, size);

    if (!stream)
        last_resort("out of memory");
    return stream;
}

static inline void memory_stream_close(FILE *stream)
{
    if (fclose(stream) != 0)
        last_resort("out of memory");
}

/* Text on its way to a file that the user named:
 *
 *     struct output output;
 *
 *     output_open(&output);
 *     fprintf(output.stream, ...);
 *     return output_write(&output, path, err);
 */
struct output {
    FILE *stream;
    char *text;
    size_t size;
};

void output_open(struct output *output);

/* Replace the file ("-": write to standard output), or append to it, and free the text. Return 0,
 * or -1 with an error about a path that the user named. */
int output_write(struct output *output, const char *path, struct error *err);
int output_append(struct output *output, const char *path, struct error *err);

#endif
