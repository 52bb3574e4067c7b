/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"
#include "wiki_buffer.h"
#include "base/core/xmalloc.h"

#include <stdlib.h>

/* Enough for most pages. */
enum { USUAL_SIZE = 4 << 20 };

void wiki_buffer_grow(struct wiki_buffer *buffer, size_t more)
{
    size_t want = buffer->size + more + WIKI_PADDING, room = buffer->capacity * 2;

    if (room < want)
        room = want;
    if (room < 4096)
        room = 4096;
    buffer->data = xrealloc(buffer->data, room, 1);
    buffer->capacity = room;
}

void wiki_buffer_clear(struct wiki_buffer *buffer)
{
    free(buffer->data);
    memset(buffer, 0, sizeof(*buffer));
}

void wiki_buffer_reset(struct wiki_buffer *buffer)
{
    if (buffer->capacity > USUAL_SIZE)
        wiki_buffer_clear(buffer);
    buffer->size = 0;
}

void wiki_put_point(struct wiki_buffer *buffer, uint32_t point)
{
    char bytes[4];
    size_t size = 1;

    if (point == 0 || point > 0x10ffff || (point >= 0xd800 && point < 0xe000))
        point = 0xfffd;
    if (point < 0x80) {
        bytes[0] = (char)point;
    } else if (point < 0x800) {
        bytes[0] = (char)(0xc0 | point >> 6);
        size = 2;
    } else if (point < 0x10000) {
        bytes[0] = (char)(0xe0 | point >> 12);
        size = 3;
    } else {
        bytes[0] = (char)(0xf0 | point >> 18);
        size = 4;
    }
    for (size_t i = 1; i < size; i++)
        bytes[i] = (char)(0x80 | (point >> 6 * (size - 1 - i) & 0x3f));
    wiki_put(buffer, bytes, size);
}

struct wiki_span wiki_trim(struct wiki_span span)
{
    while (span.size > 0 && wiki_is_space(span.data[0])) {
        span.data++;
        span.size--;
    }
    while (span.size > 0 && wiki_is_space(span.data[span.size - 1]))
        span.size--;
    return span;
}

struct wiki_span wiki_trimmed(const char *from, const char *end)
{
    return wiki_trim(wiki_span(from, (size_t)(end - from)));
}

int wiki_is(struct wiki_span span, const char *lower)
{
    for (size_t i = 0; i < span.size; i++)
        if (lower[i] == '\0' || wiki_lower(span.data[i]) != lower[i])
            return 0;
    return lower[span.size] == '\0';
}

const char *wiki_find(const char *from, const char *end, const char *text)
{
    size_t length = strlen(text);

    /* Faster than memmem if 'text' begins with a rare character. */
    while (from < end && (from = memchr(from, text[0], (size_t)(end - from)))) {
        if ((size_t)(end - from) < length)
            return NULL;
        if (memcmp(from, text, length) == 0)
            return from;
        from++;
    }
    return NULL;
}
