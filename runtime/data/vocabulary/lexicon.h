/* SPDX-License-Identifier: Apache-2.0 */
/* The words to learn from, and how often each occurs in the corpus. */
#ifndef MEGATRON_LEXICON_H
#define MEGATRON_LEXICON_H

#include <stddef.h>
#include <stdint.h>
#include "data/preprocess/bytes.h"
#include "lib/error.h"

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

int lexicon_add(struct lexicon *lexicon, const void *text, size_t size, int64_t times,
                struct error *err);

/* Most frequent first; equally frequent ones by their bytes. */
void lexicon_sort(struct lexicon *lexicon);
void lexicon_clear(struct lexicon *lexicon);

#endif
