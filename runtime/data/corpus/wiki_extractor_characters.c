/* SPDX-License-Identifier: Apache-2.0 */
/* WikiExtractor's treatment of spaces, dots, quotes and character references. */
#include "config.h"
#include "wiki_buffer.h"
#include "wiki_looks.h"
#include "wiki_passes.h"

static void put_space(struct wiki_buffer *out)
{
    size_t size = out->size;

    if (size > 0 && out->data[size - 1] == ' ')
        return;
    if (size > 0 && (out->data[size - 1] == '(' || out->data[size - 1] == '[' ||
                     (size > 1 && memcmp(out->data + size - 2, "\xc2\xab", 2) == 0)))
        return;
    wiki_put_char(out, ' ');
}

static void drop_space(struct wiki_buffer *out)
{
    if (out->size > 0 && out->data[out->size - 1] == ' ')
        out->size--;
}

/* Characters that are special to wiki_extractor_characters. */
static const char special[256] = {[' '] = 1,  ['\t'] = 1,
                                  ['&'] = 1,  ['<'] = 1,
                                  ['>'] = 1,  ['.'] = 1,
                                  ['"'] = 1,  [','] = 1,
                                  [':'] = 1,  [')'] = 1,
                                  [']'] = 1,  ['_'] = 1,
                                  ['\r'] = 1, [(unsigned char)'\xc2'] = 1};

/* The same characters without the space; other control characters do no harm, since they are
 * copied. */
static inline wiki_matches special_bytes(wiki_bytes bytes)
{
    return wiki_in(bytes, 0, ' ' - 1) | (bytes == '"') | (bytes == '&') | (bytes == ')') |
           (bytes == ',') | (bytes == '.') | (bytes == '<') | (bytes == '>') | (bytes == ':') |
           (bytes == ']') | (bytes == '_') | (bytes == 0xc2);
}

/* Find the first special character from 'at' on, skipping spaces between two ordinary characters,
 * as most are. The text is sealed with a special one. */
static const char *find_special(const char *at)
{
    uint64_t opened = WIKI_FIRST; /* by the previous byte; a space at the start is special */

    /* The last byte only provides the context of the one before it. */
    for (;; at += WIKI_VECTOR - 1) {
        wiki_bytes bytes = wiki_load(at);
        uint64_t marks = wiki_mask(special_bytes(bytes)), spaces = wiki_mask(bytes == ' ');
        /* These swallow the space after them. */
        uint64_t opening = wiki_mask((bytes == '(') | (bytes == '[') | (bytes == 0xab));

        marks |= spaces & ((marks | spaces) >> WIKI_LANE | opening << WIKI_LANE | opened);
        if (marks & WIKI_NOT_LAST)
            return at + wiki_first(marks);
        opened = opening >> (WIKI_VECTOR - 2) * WIKI_LANE & WIKI_FIRST;
    }
}

/* After a punctuation mark that was just written: copy the space that usually follows, to save a
 * search. */
static inline const char *put_plain_space(const char *at, struct wiki_buffer *out)
{
    if (*at != ' ' || special[(unsigned char)at[1]])
        return at;
    wiki_put_char(out, ' ');
    return at + 1;
}

static const char *put_dots(const char *at, const char *end, struct wiki_buffer *out)
{
    const char *from = at;

    while (at < end && *at == '.')
        at++;
    drop_space(out);
    wiki_put(out, "...", at - from > 3 ? 3 : (size_t)(at - from));
    return put_plain_space(at, out);
}

static const char *put_reference(const char *at, const char *end, struct wiki_buffer *out)
{
    uint32_t point;
    size_t length = at + 2 < end && at[2] == 'X' ? 0 : wiki_entity(at, end, &point);

    if (length == 0) {
        wiki_put_char(out, '&');
        return at + 1;
    }
    if (point == ' ' || point == '\t')
        put_space(out);
    else if (point == 0)
        wiki_put_char(out, ' ');
    else
        wiki_put_point(out, point);
    return at + length;
}

/* ""a"" becomes "a": find the quotes that match those at 'at', or NULL. */
static const char *second_quotes(const char *at, const char *end)
{
    const char *next = end - at > 2 ? memchr(at + 2, '"', (size_t)(end - at - 2)) : NULL;

    return next && next + 1 < end && next[1] == '"' ? next : NULL;
}

void wiki_extractor_characters(const struct wiki_buffer *in, struct wiki_buffer *out)
{
    const char *at = in->data, *end = at + in->size, *second = NULL;

    wiki_seal(in, '&');
    while (at < end) {
        const char *from = at;
        size_t length;

        at = find_special(at);
        wiki_copy(out, from, (size_t)(at - from));
        if (at == end)
            break;
        if (*at == ' ' || *at == '\t') {
            put_space(out);
            at++;
        } else if (*at == '&') {
            at = put_reference(at, end, out);
        } else if (*at == '.') {
            at = put_dots(at, end, out);
        } else if ((*at == '<' || *at == '>') && at + 1 < end && at[1] == *at) {
            if (*at == '>')
                drop_space(out);
            wiki_put(out, *at == '<' ? "\xc2\xab" : "\xc2\xbb", 2);
            at += 2;
        } else if (*at == '"' && at + 1 < end && at[1] == '"' &&
                   (at == second || (second = second_quotes(at, end)))) {
            wiki_put_char(out, '"');
            at += 2;
        } else if (*at == '_' && (length = wiki_switch(at, end)) > 0) {
            at += length;
        } else if (*at == '\r') {
            if (at + 1 == end || at[1] != '\n')
                wiki_put_char(out, '\n');
            at++;
        } else {
            if (*at == ',' || *at == ':' || *at == ')' || *at == ']' ||
                (*at == '\xc2' && at + 1 < end && at[1] == '\xbb'))
                drop_space(out);
            wiki_put_char(out, *at++);
            at = put_plain_space(at, out);
        }
    }
}
