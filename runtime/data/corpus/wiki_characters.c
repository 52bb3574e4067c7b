/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"
#include "wiki_buffer.h"
#include "wiki_inline.h"

#include <stdbool.h>

/* Cleans up around dropped text: spaces, commas and parentheses that lost their content. */
struct writer {
    struct wiki_buffer *out;
    const char *at, *end;
    size_t open; /* 1 + offset of the last open parenthesis in the output */
    int dropped; /* something was dropped since the last character */
};

static char last(const struct wiki_buffer *out)
{
    return out->size > 0 ? out->data[out->size - 1] : '\n';
}

static void put_space(struct writer *writer)
{
    char before = last(writer->out);

    if (before != ' ' && before != '\n')
        wiki_put_char(writer->out, ' ');
}

static bool is_filler(char c)
{
    return c == ' ' || c == ',' || c == ';' || c == ':';
}

/* Remove the remnants before a closing parenthesis: "(a; )" and "( )". */
static void close_parenthesis(struct writer *writer)
{
    struct wiki_buffer *out = writer->out;
    size_t size = out->size, open = writer->open;
    int filled = 0;

    writer->open = 0;
    if (open == 0 || size < open) {
        wiki_put_char(out, ')');
        return;
    }
    while (size > open && is_filler(out->data[size - 1])) {
        size--;
        filled = 1;
    }
    if (size > open) {
        if (filled)
            out->size = size;
        wiki_put_char(out, ')');
        return;
    }
    /* "f()" is not a remnant of anything. */
    if (!filled && !writer->dropped && (open < 2 || out->data[open - 2] != ' ')) {
        wiki_put_char(out, ')');
        return;
    }
    out->size = open - 1;
    if (last(out) == ' ' && writer->at + 1 < writer->end &&
        (writer->at[1] == ' ' || writer->at[1] == ',' || writer->at[1] == '.' ||
         writer->at[1] == ';' || writer->at[1] == '\n' || writer->at[1] == WIKI_BREAK))
        out->size--;
}

static void take_quotes(struct writer *writer)
{
    size_t count = 0;

    while (writer->at < writer->end && *writer->at == '\'') {
        writer->at++;
        count++;
    }
    for (count = wiki_apostrophes(count); count > 0; count--)
        wiki_put_char(writer->out, '\'');
}

/* Code points to drop or to replace by a space. */
static void put_point(struct writer *writer, uint32_t point)
{
    if (point == 0xa0 || point == ' ' || point == '\t' || (point >= 0x2002 && point <= 0x200a) ||
        point == 0x202f)
        put_space(writer);
    else if (point == '\n')
        wiki_put_char(writer->out, '\n');
    else if (point == 0xad || point == 0x200b || point == 0x200e || point == 0x200f ||
             point == 0x2060 || point == 0xfeff || point < ' ')
        return;
    else
        wiki_put_point(writer->out, point);
}

static void take_reference(struct writer *writer)
{
    const char *at = writer->at;
    uint32_t point;
    size_t length = wiki_entity(at, writer->end, &point);

    if (length == 0 && writer->end - at >= 6 && memcmp(at, "&apos;", 6) == 0) {
        length = 6;
        point = '\'';
    }
    writer->at += length > 0 ? length : 1;
    if (length == 0)
        wiki_put_char(writer->out, '&');
    else
        put_point(writer, point);
}

/* Multibyte spaces: U+00A0, U+2002 to U+200A, and zero-width characters. */
static void take_wide(struct writer *writer)
{
    const unsigned char *at = (const unsigned char *)writer->at;
    size_t left = (size_t)(writer->end - writer->at);

    if (left >= 2 && at[0] == 0xc2 && (at[1] == 0xa0 || at[1] == 0xad)) {
        put_point(writer, at[1]);
        writer->at += 2;
    } else if (left >= 3 && at[0] == 0xe2 && at[1] == 0x80 &&
               ((at[2] >= 0x82 && at[2] <= 0x8b) || at[2] == 0x8e || at[2] == 0x8f ||
                at[2] == 0xaf)) {
        put_point(writer, 0x2000u + (at[2] & 0x3f));
        writer->at += 3;
    } else if (left >= 3 && at[0] == 0xef && at[1] == 0xbb && at[2] == 0xbf) {
        writer->at += 3;
    } else {
        wiki_put_char(writer->out, *writer->at++);
    }
}

/* A comma or full stop joins the previous word, and is not repeated where something was dropped. */
static void take_stop(struct writer *writer)
{
    struct wiki_buffer *out = writer->out;
    char c = *writer->at, next = writer->at + 1 < writer->end ? writer->at[1] : '\n';
    int ends = next == ' ' || next == '\n' || next == WIKI_BREAK || next == WIKI_DROPPED;

    writer->at++;
    if (ends && last(out) == ' ' && out->size > 1 && out->data[out->size - 2] != '\n')
        out->size--;
    if (ends && writer->dropped && (last(out) == ',' || (c == '.' && last(out) == ';')))
        out->size--;
    wiki_put_char(out, c);
}

static void take_parenthesis(struct writer *writer)
{
    if (*writer->at == ')') {
        close_parenthesis(writer);
        writer->at++;
        return;
    }
    wiki_put_char(writer->out, '(');
    writer->open = writer->out->size;
    writer->dropped = 0;
    writer->at++;
    /* "( ; a)": the text before the semicolon was dropped. */
    if (writer->at < writer->end && (*writer->at == ' ' || *writer->at == WIKI_DROPPED ||
                                     *writer->at == ';' || *writer->at == ','))
        while (writer->at < writer->end &&
               (is_filler(*writer->at) || *writer->at == WIKI_DROPPED)) {
            writer->dropped = 1;
            writer->at++;
        }
}

/* Special characters, except the space, and some that are copied. */
static inline wiki_matches special(wiki_bytes bytes)
{
    return wiki_in(bytes, 0, ' ' - 1) | wiki_in(bytes, '&', ')') | (bytes == ',') | (bytes == '.') |
           (bytes == ';') | wiki_in(bytes, '[', '_') | (bytes == 0xc2) | (bytes == 0xe2) |
           (bytes == 0xef);
}

/* Find the first special character from 'at' on, skipping spaces between two ordinary characters,
 * as most are. The text is sealed with a special one. */
static const char *find_special(const char *at)
{
    /* The last byte only provides the context of the one before it. */
    for (uint64_t first = WIKI_FIRST;; at += WIKI_VECTOR - 1) {
        wiki_bytes bytes = wiki_load(at);
        uint64_t marks = wiki_mask(special(bytes)), spaces = wiki_mask(bytes == ' ');

        /* A space at the start is special. */
        marks |= spaces & ((marks | spaces) >> WIKI_LANE | first);
        if (marks & WIKI_NOT_LAST)
            return at + wiki_first(marks);
        first = 0;
    }
}

static void take_character(struct writer *writer)
{
    char c = *writer->at;
    size_t length;

    switch (c) {
    case ' ':
    case '\t':
        put_space(writer);
        writer->at++;
        break;
    case '\'':
        take_quotes(writer);
        break;
    case '&':
        take_reference(writer);
        break;
    case '(':
    case ')':
        take_parenthesis(writer);
        break;
    case ',':
    case ';':
    case '.':
        take_stop(writer);
        break;
    case WIKI_DROPPED:
        writer->dropped = 1;
        writer->at++;
        return;
    case WIKI_APOSTROPHE:
        wiki_put_char(writer->out, '\'');
        writer->at++;
        break;
    case '\r':
    case WIKI_CELL:
        writer->at++;
        break;
    case '\n':
    case WIKI_BREAK:
        if (last(writer->out) == ' ')
            writer->out->size--;
        writer->open = 0;
        wiki_put_char(writer->out, '\n');
        writer->at++;
        break;
    case '[':
    case ']': /* of incomplete links */
        length = writer->at + 1 < writer->end && writer->at[1] == c ? 2 : 0;
        if (length == 0)
            wiki_put_char(writer->out, c);
        writer->at += length ? length : 1;
        break;
    case '_':
        length = wiki_switch(writer->at, writer->end);
        if (length == 0)
            wiki_put_char(writer->out, c);
        writer->at += length ? length : 1;
        break;
    default:
        take_wide(writer);
    }
    if (c != ' ' && c != '(')
        writer->dropped = 0;
}

void wiki_characters(const struct wiki_buffer *in, struct wiki_buffer *out)
{
    struct writer writer = {.out = out, .at = in->data, .end = in->data + in->size};

    wiki_seal(in, '\n');
    while (writer.at < writer.end) {
        const char *from = writer.at;

        writer.at = find_special(from);
        if (writer.at > from)
            writer.dropped = 0;
        wiki_copy(out, from, (size_t)(writer.at - from));
        if (writer.at < writer.end)
            take_character(&writer);
    }
}
