/* SPDX-License-Identifier: Apache-2.0 */
/* A growing buffer for the passes over a page, and spans and searches in it. */
#ifndef MEGATRON_CORPUS_WIKI_BUFFER_H
#define MEGATRON_CORPUS_WIKI_BUFFER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include "wiki_vector.h"

/* Readable bytes after the text, of undefined value. */
enum { WIKI_PADDING = 64 };

struct wiki_buffer {
    char *data;
    size_t size, capacity;
};

/* Make room for 'more' bytes. */
void wiki_buffer_grow(struct wiki_buffer *buffer, size_t more);
/* Free the memory. */
void wiki_buffer_clear(struct wiki_buffer *buffer);
/* Empty the buffer, and free the memory of an unusually long page. */
void wiki_buffer_reset(struct wiki_buffer *buffer);

static inline void wiki_put(struct wiki_buffer *buffer, const char *data, size_t size)
{
    if (size == 0)
        return;
    if (buffer->capacity - buffer->size < size + WIKI_PADDING)
        wiki_buffer_grow(buffer, size);
    memcpy(buffer->data + buffer->size, data, size);
    buffer->size += size;
}

/* Like wiki_put, for 'data' in a buffer: copies the padding, too, which makes short pieces
 * cheap. */
static inline void wiki_copy(struct wiki_buffer *buffer, const char *data, size_t size)
{
    char *to;

    if (buffer->capacity - buffer->size < size + WIKI_PADDING)
        wiki_buffer_grow(buffer, size);
    to = buffer->data + buffer->size;
    if (size <= 32) {
        memcpy(to, data, 16);
        memcpy(to + 16, data + 16, 16);
    } else {
        memcpy(to, data, size);
    }
    buffer->size += size;
}

static inline void wiki_put_char(struct wiki_buffer *buffer, char c)
{
    if (buffer->capacity - buffer->size < 1 + WIKI_PADDING)
        wiki_buffer_grow(buffer, 1);
    buffer->data[buffer->size++] = c;
}

static inline void wiki_put_text(struct wiki_buffer *buffer, const char *text)
{
    wiki_put(buffer, text, strlen(text));
}

/* Put a code point as UTF-8. Invalid ones become U+FFFD. */
void wiki_put_point(struct wiki_buffer *buffer, uint32_t point);

/* A piece of a text, not null-terminated. */
struct wiki_span {
    const char *data;
    size_t size;
};

static inline struct wiki_span wiki_span(const char *data, size_t size)
{
    return (struct wiki_span){data, size};
}

static inline void wiki_put_span(struct wiki_buffer *buffer, struct wiki_span span)
{
    wiki_put(buffer, span.data, span.size);
}

/* Trim white space at both ends. */
struct wiki_span wiki_trim(struct wiki_span span);
struct wiki_span wiki_trimmed(const char *from, const char *end);
/* Compare with a lower-case text, ignoring the case of ASCII letters. */
int wiki_is(struct wiki_span span, const char *lower);
/* Find the first 'text' in [from, end), or NULL. */
const char *wiki_find(const char *from, const char *end, const char *text);

/* Put a sentinel after the text for a search to stop at. It is not part of the text. */
static inline void wiki_seal(const struct wiki_buffer *buffer, char stop)
{
    buffer->data[buffer->size] = stop;
}

/* Find the first 'a' or 'b' in [at, end), or 'end'. */
static inline const char *wiki_scan(const char *at, const char *end, char a, char b)
{
    for (; end - at >= WIKI_VECTOR; at += WIKI_VECTOR) {
        wiki_bytes bytes = wiki_load(at);
        uint64_t mask = wiki_mask((bytes == (unsigned char)a) | (bytes == (unsigned char)b));

        if (mask)
            return at + wiki_first(mask);
    }
    while (at < end && *at != a && *at != b)
        at++;
    return at;
}

/* Also the mark of something that was dropped (wiki_inline.h). */
static inline int wiki_is_space(char c)
{
    return c == ' ' || c == '\t' || c == '\n' || c == '\r' || c == '\x01';
}

static inline char wiki_lower(char c)
{
    return c >= 'A' && c <= 'Z' ? (char)(c + 32) : c;
}

static inline bool wiki_is_letter(char c)
{
    return wiki_lower(c) >= 'a' && wiki_lower(c) <= 'z';
}

static inline bool wiki_is_digit(char c)
{
    return c >= '0' && c <= '9';
}

/* Does [at, end) begin with a lower-case text, ignoring the case of ASCII letters? */
static inline bool wiki_begins(const char *at, const char *end, const char *lower)
{
    for (; *lower != '\0'; at++, lower++)
        if (at == end || wiki_lower(*at) != *lower)
            return false;
    return true;
}

/* Parse the character reference (&amp; &#65; &#x41;) at 'at', which is '&'. Returns its length and
 * the code point in '*point' (not checked: it may be 0 or a surrogate), or 0 if it is not a
 * reference. Only the names of HTML 4 are known: "apos" is not. */
size_t wiki_entity(const char *at, const char *end, uint32_t *point);

#endif
