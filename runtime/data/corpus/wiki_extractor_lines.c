/* SPDX-License-Identifier: Apache-2.0 */
/* WikiExtractor's selection and formatting of lines. */
#include "config.h"
#include "data/tokenizer/unicode.h"
#include "wiki_looks.h"
#include "wiki_passes.h"

#include <stdbool.h>

/* Is the character at 'at' not part of a word? '*length' becomes its length. */
static bool is_other(const char *at, const char *end, size_t *length)
{
    uint32_t point;
    enum unicode_class class;

    *length = utf8_decode((const uint8_t *)at, (const uint8_t *)end, &point);
    class = point == UNICODE_INVALID ? UNICODE_OTHER : unicode_class(point);
    return class != UNICODE_LETTER && class != UNICODE_NUMBER && *at != '_';
}

/* A newline, one or more non-word characters and a newline count as one newline. Returns the
 * position of the second one, or NULL. */
static const char *odd_line(const char *at, const char *end)
{
    size_t length;

    if (at + 1 >= end || !is_other(at + 1, end, &length))
        return NULL;
    for (at += 1 + length; at < end && *at != '\n'; at += length)
        if (!is_other(at, end, &length))
            return NULL;
    return at < end ? at : NULL;
}

static void odd_lines(const struct wiki_buffer *in, struct wiki_buffer *out)
{
    const char *at = in->data, *end = at + in->size, *kept = at, *stop;

    while (at < end && (at = memchr(at, '\n', (size_t)(end - at)))) {
        stop = odd_line(at, end);
        if (!stop) {
            at++;
            continue;
        }
        wiki_copy(out, kept, (size_t)(at - kept));
        kept = stop;
        at = stop + 1;
    }
    wiki_put(out, kept, (size_t)(end - kept));
}

/* The characters that put_line changes. */
static inline wiki_matches changes(wiki_bytes bytes)
{
    return (bytes == ',') | (bytes == '&') | (bytes == '<') | (bytes == '>');
}

/* Write a line: collapses commas and escapes <, > and &. */
static void put_line(struct wiki_buffer *out, const char *line, size_t size)
{
    if (out->size > 0)
        wiki_put_char(out, '\n');
    for (const char *end = line + size; line < end;) {
        const char *from = line;
        size_t commas;

        line = wiki_find_mark(line, end, changes);
        wiki_copy(out, from, (size_t)(line - from));
        if (line == end)
            return;
        if (*line != ',') {
            wiki_put_text(out, *line == '&' ? "&amp;" : *line == '<' ? "&lt;" : "&gt;");
            line++;
            continue;
        }
        for (from = line; line < end && *line == ',';)
            line++;
        commas = (size_t)(line - from + 1) / 2 - (line < end && *line == '.');
        for (; commas > 0; commas--)
            wiki_put_char(out, ',');
    }
}

struct heading {
    const char *data;
    size_t size;
};

/* Write the pending headings before the first text that follows. */
static void put_headings(struct wiki_buffer *out, struct heading *pending)
{
    for (int i = 0; i < WIKI_LEVELS; i++) {
        size_t before = out->size;

        if (!pending[i].data)
            continue;
        put_line(out, pending[i].data, pending[i].size);
        if (out->size > before && out->data[out->size - 1] != '!' &&
            out->data[out->size - 1] != '?')
            wiki_put_char(out, '.');
        pending[i].data = NULL;
    }
}

static bool is_dropped(const char *line, size_t size)
{
    char first = line[0], last = line[size - 1];

    if (first == '*' || first == '#' || first == ';' || first == '{' || first == '|' ||
        last == '}' || (first == '(' && last == ')'))
        return true;
    for (size_t i = 0; i < size; i++)
        if (line[i] != '.' && line[i] != '-')
            return false;
    return true;
}

static bool is_white(const char *line, size_t size)
{
    for (size_t i = 0; i < size; i++)
        if (!wiki_is_space(line[i]))
            return false;
    return true;
}

static void compact(const struct wiki_buffer *in, struct wiki_buffer *out)
{
    const char *at = in->data, *end = at + in->size;
    struct heading pending[WIKI_LEVELS] = {{NULL, 0}};

    while (at < end) {
        const char *stop = memchr(at, '\n', (size_t)(end - at)), *line = at;
        size_t size = (size_t)((stop ? stop : end) - at);
        struct wiki_span heading;
        int level = wiki_heading(wiki_span(line, size), &heading);

        at += size + 1;
        if (level > 0) {
            for (int i = level; i < WIKI_LEVELS; i++)
                pending[i].data = NULL;
            if (heading.size > 0)
                pending[level] = (struct heading){heading.data, heading.size};
            continue;
        }
        if (is_white(line, size) || is_dropped(line, size))
            continue;
        /* An indented line is written without its headings. */
        if (*line != ':')
            put_headings(out, pending);
        while (size > 0 && *line == ':') {
            line++;
            size--;
        }
        if (size == 0)
            continue;
        put_line(out, line, size);
    }
}

void wiki_extractor_lines(const struct wiki_buffer *in, struct wiki_buffer *scratch,
                          struct wiki_buffer *out)
{
    scratch->size = out->size = 0;
    odd_lines(in, scratch);
    compact(scratch, out);
}
