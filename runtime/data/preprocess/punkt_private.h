/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by punkt.c (candidates and sentences), punkt_tokens.c (is it a break?) and punkt_files.c.
 */
#ifndef MEGATRON_PUNKT_PRIVATE_H
#define MEGATRON_PUNKT_PRIVATE_H

#include "punkt.h"
#include "data/tokenizer/word_table.h"

#include <stdint.h>

/* Bytes of the longest word in the tables; a longer token is in none of them. */
enum { PUNKT_LONGEST = 255 };

/* How a word was seen when the parameters were trained; the counts of 'context'. */
enum {
    ORTHO_BEGIN_UPPER = 2,
    ORTHO_MIDDLE_UPPER = 4,
    ORTHO_UNKNOWN_UPPER = 8,
    ORTHO_BEGIN_LOWER = 16,
    ORTHO_MIDDLE_LOWER = 32,
    ORTHO_UNKNOWN_LOWER = 64,
    ORTHO_UPPER = ORTHO_BEGIN_UPPER | ORTHO_MIDDLE_UPPER | ORTHO_UNKNOWN_UPPER,
    ORTHO_LOWER = ORTHO_BEGIN_LOWER | ORTHO_MIDDLE_LOWER | ORTHO_UNKNOWN_LOWER,
};

struct punkt {
    struct word_table abbreviations, starters;
    struct word_table collocations; /* two words with a tab between them */
    struct word_table context;      /* counts are ORTHO_* */
};

/* Bytes that end a sentence, that end a word, ... */
enum { BYTE_MARK = 1, BYTE_NON_WORD = 2, BYTE_SPACE = 4, BYTE_NO_START = 8, BYTE_CLOSER = 16 };
extern const uint8_t punkt_bytes[256];

/* Length of the white space character at 'at' (before 'end'); 0 if there is none. */
size_t punkt_space(const char *at, const char *end);

/* Length of the character at 'at' that ends a word ('class' BYTE_NON_WORD) or closes a sentence
 * (BYTE_CLOSER); 0 if there is none. With 'curly', curly quotes and guillemets do both. */
size_t punkt_quote(const char *at, const char *end, int class, int curly);

/* Does a sentence end in the context [at, end) before its last word? */
int punkt_breaks(const struct punkt *punkt, const char *at, const char *end, int curly);

#endif
