/* SPDX-License-Identifier: Apache-2.0 */
/* A text as words, for rules and fingerprints.
 *
 * A word is a run of letters, digits, marks and '_'. A character of a script without spaces (Han,
 * kana) is a word of its own. What is left between words and white space is a symbol: a run of
 * other characters. Where symbols count (WORDS_ALL), a single one within a word of ASCII belongs to
 * it, unless it is one of - , : / < = > */
#ifndef MEGATRON_CURATE_WORDLIST_H
#define MEGATRON_CURATE_WORDLIST_H

#include <stddef.h>
#include <stdint.h>
#include "data/tokenizer/unicode.h"

enum word_flags {
    WORD_ALPHA = 1,  /* it has a letter */
    WORD_SYMBOL = 2, /* it has neither letters nor digits */
};

struct word {
    uint64_t hash;
    uint32_t begin, size; /* in bytes */
    uint32_t chars;       /* code points */
    uint32_t flags;
};

struct wordlist {
    struct word *items;
    size_t count, capacity;
};

enum words_mode {
    WORDS_ALL,   /* words and symbols */
    WORDS_ONLY,  /* no symbols */
    WORDS_REGEX, /* what \w+ finds in Python: no symbols, marks divide, Han and kana do not */
};

/* Find the words of 'text'. Returns 0, or -1 when memory is out or the text has 4 GiB. */
int wordlist_find(struct wordlist *words, const char *text, size_t size, enum words_mode mode);
void wordlist_clear(struct wordlist *words);

/* Copy 'text' with capital letters made small, where that keeps the number of bytes: ASCII, Latin,
 * Greek, Cyrillic and Armenian letters. */
void wordlist_fold(const char *text, size_t size, char *folded);

/* Length of the white space character at 'at' (before 'end'), 0 if it is another: all of Unicode's,
 * and ASCII's separators, as Python's str.isspace() has it. */
static inline size_t text_space(const char *at, const char *end)
{
    uint8_t byte = (uint8_t)*at;
    uint32_t point;
    size_t length;

    if (byte < 0x80)
        return byte == ' ' || (byte >= '\t' && byte <= '\r') || (byte >= 0x1C && byte <= 0x1F);
    length = utf8_decode((const uint8_t *)at, (const uint8_t *)end, &point);
    return point != UNICODE_INVALID && unicode_class(point) == UNICODE_SPACE ? length : 0;
}

/* Code points of a valid text. */
size_t text_chars(const char *text, size_t size);

#endif
