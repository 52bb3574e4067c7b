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

#endif
