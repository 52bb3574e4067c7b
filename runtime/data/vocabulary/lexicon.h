/* SPDX-License-Identifier: Apache-2.0 */
/* The words to learn from, and how often each occurs in the corpus. */
#ifndef MEGATRON_LEXICON_H
#define MEGATRON_LEXICON_H

#include <stddef.h>
#include <stdint.h>
#include "data/jobs/bytes.h"

struct lexicon_word {
    uint64_t offset; /* of its first byte in 'text' */
    uint64_t size;
    int64_t times;
};

/* All zero is an empty list. */
struct lexicon {
    struct bytes text;
    struct lexicon_word *words;
    size_t count, capacity;
};

void lexicon_add(struct lexicon *lexicon, const void *text, size_t size, int64_t times);

/* Most frequent first; equally frequent ones by their bytes. */
void lexicon_sort(struct lexicon *lexicon);
void lexicon_clear(struct lexicon *lexicon);

/* A character, and how often it occurs in the corpus. */
struct character {
    int64_t times;
    uint32_t point;
};

/* The characters of all words: the most frequent first, equally frequent ones by code point. The
 * caller frees them. */
struct character *lexicon_characters(const struct lexicon *lexicon, size_t *count);

#endif
