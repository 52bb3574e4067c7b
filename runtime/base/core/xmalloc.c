/* SPDX-License-Identifier: Apache-2.0 */
#include "xmalloc.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "last_resort.h"

/* Allocation functions may return NULL for 0 bytes; ours never do. */
static void *checked(void *memory, size_t count, size_t size)
{
    char text[160];

    if (memory)
        return memory;
    snprintf(text, sizeof(text),
             "out of memory: cannot allocate another %.1f MiB; raise the memory limit of the job "
             "(sbatch --mem)",
             (double)count * (double)size / (1 << 20));
    last_resort(text);
}

void *xmalloc(size_t size)
{
    return checked(malloc(size ? size : 1), 1, size);
}

void *xcalloc(size_t count, size_t size)
{
    return checked(count && size ? calloc(count, size) : calloc(1, 1), count, size);
}

void *xrealloc(void *old, size_t count, size_t size)
{
    size_t bytes;

    if (__builtin_mul_overflow(count, size, &bytes))
        return checked(NULL, count, size);
    return checked(realloc(old, bytes ? bytes : 1), count, size);
}

char *xstrdup(const char *text)
{
    size_t bytes = strlen(text) + 1;

    return memcpy(xmalloc(bytes), text, bytes);
}

char *xstrndup(const char *text, size_t length)
{
    size_t bytes = strnlen(text, length);
    char *copy = xmalloc(bytes + 1);

    memcpy(copy, text, bytes);
    copy[bytes] = '\0';
    return copy;
}

char *xvasprintf(const char *format, va_list arguments)
{
    va_list again;
    char *text;
    int length;

    va_copy(again, arguments);
    length = vsnprintf(NULL, 0, format, arguments);
    text = xmalloc((size_t)(length > 0 ? length : 0) + 1);
    vsnprintf(text, (size_t)(length > 0 ? length : 0) + 1, format, again);
    va_end(again);
    return text;
}

char *xasprintf(const char *format, ...)
{
    va_list arguments;
    char *text;

    va_start(arguments, format);
    text = xvasprintf(format, arguments);
    va_end(arguments);
    return text;
}
