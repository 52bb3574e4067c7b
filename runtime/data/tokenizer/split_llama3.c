/* SPDX-License-Identifier: Apache-2.0 */
/* Llama 3's regular expression, alternative by alternative. */
#include "split_rules.h"
#include "unicode.h"

enum {
    OTHER = UNICODE_OTHER,
    LETTER = UNICODE_LETTER,
    NUMBER = UNICODE_NUMBER,
    SPACE = UNICODE_SPACE
};

/* Class of ASCII bytes; 4 sends the others to the decoder. */
static const uint8_t ascii[256] = {
    [9] = SPACE,
    [10] = SPACE,
    [11] = SPACE,
    [12] = SPACE,
    [13] = SPACE,
    [' '] = SPACE,
    ['0' ... '9'] = NUMBER,
    ['A' ... 'Z'] = LETTER,
    ['a' ... 'z'] = LETTER,
    [0x80 ... 0xFF] = 4,
};

/* Class and length of the character at 'at', which is before the end. */
static inline unsigned class_at(const uint8_t *at, const uint8_t *end, size_t *length)
{
    unsigned class = ascii[*at];
    uint32_t point;

    *length = 1;
    if (__builtin_expect(class < 4, 1))
        return class;
    *length = utf8_decode(at, end, &point);
    return point == UNICODE_INVALID ? OTHER : unicode_class(point);
}

/* Skip characters of one class. */
static inline const uint8_t *skip(const uint8_t *at, const uint8_t *end, unsigned class)
{
    size_t length;

    while (at < end && class_at(at, end, &length) == class)
        at += length;
    return at;
}

static inline int is_newline(uint8_t byte)
{
    return byte == '\r' || byte == '\n';
}

static const uint8_t *skip_digits(const uint8_t *at, const uint8_t *end, int most)
{
    size_t length;

    for (int count = 0; at < end && (most == 0 || count < most); count++) {
        if (class_at(at, end, &length) != NUMBER)
            break;
        at += length;
    }
    return at;
}

/* Punctuation and the line ends after it. */
static const uint8_t *skip_other(const uint8_t *at, const uint8_t *end)
{
    at = skip(at, end, OTHER);
    while (at < end && is_newline(*at))
        at++;
    return at;
}

/* A run of white space: up to its last line end; or all but its last character, which belongs to
 * what follows; or all of it. */
static const uint8_t *skip_space(const uint8_t *at, const uint8_t *end)
{
    const uint8_t *begin = at, *newline = NULL, *last = at;
    size_t length;

    while (at < end && class_at(at, end, &length) == SPACE) {
        last = at;
        if (is_newline(*at))
            newline = at;
        at += length;
    }
    if (newline)
        return newline + 1;
    return at == end || last == begin ? at : last;
}

static const uint8_t *next_word(const struct split_options *options, const uint8_t *at,
                                const uint8_t *end)
{
    size_t length, next_length;
    unsigned class = class_at(at, end, &length), next = SPACE;

    if (class == LETTER)
        return skip(at + length, end, LETTER);
    if (class == NUMBER)
        return skip_digits(at, end, options->digits);
    if (*at == '\'' && !options->no_contractions) {
        size_t size = split_contraction(at, end);

        if (size > 0)
            return at + size;
    }
    if (at + length < end)
        next = class_at(at + length, end, &next_length);
    if (next == LETTER && !is_newline(*at))
        return skip(at + length, end, LETTER);
    if (class == OTHER || (*at == ' ' && next == OTHER))
        return skip_other(at + length, end);
    return skip_space(at, end);
}

size_t split_llama3(struct splitter *splitter, size_t size)
{
    const uint8_t *base = splitter->text + splitter->base;
    const uint8_t *at = base, *end = splitter->text + splitter->length, *limit = base + size;
    size_t count = splitter->engine->llama3(splitter, size);

    if (count > 0)
        return count;
    while (at < limit) {
        at = next_word(&splitter->options, at, end);
        if (at < end)
            splitter->ends[count++] = (uint32_t)(at - base);
    }
    splitter->count = count;
    return (size_t)(at - base);
}
