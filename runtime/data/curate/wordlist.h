/* SPDX-License-Identifier: Apache-2.0 */
/* Splits a text into words, for the rules and for fingerprints.
 *
 * A word is a run of letters, digits, marks and '_'. In scripts without spaces (Han, kana) each
 * character is a word. A symbol is a run of other characters, except white space. If symbols count
 * (WORDS_ALL), a single one within an ASCII word belongs to the word, unless it is one of
 * - , : / < = > */
#ifndef MEGATRON_CURATE_WORDLIST_H
#define MEGATRON_CURATE_WORDLIST_H

#include <stddef.h>
#include <stdint.h>
#include "data/tokenizer/unicode.h"

enum word_flags {
    WORD_ALPHA = 1,  /* contains a letter */
    WORD_SYMBOL = 2, /* contains neither letters nor digits */
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
    WORDS_REGEX, /* what Python's \w+ matches: no symbols, marks split words, Han and kana do not */
};

/* Find the words of 'text', of which at most 4 GiB count. */
void wordlist_find(struct wordlist *words, const char *text, size_t size, enum words_mode mode);
void wordlist_clear(struct wordlist *words);

/* Copy 'text' in lower case, for letters whose size in bytes stays the same: ASCII, Latin, Greek,
 * Cyrillic and Armenian. */
void wordlist_fold(const char *text, size_t size, char *folded);

/* The length of the white space character at 'at' (before 'end'), or 0 if it is not one. White
 * space is that of Unicode and ASCII's separators, as for Python's str.isspace(). */
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

/* The number of code points of a valid text. */
size_t text_chars(const char *text, size_t size);

#endif
