/* SPDX-License-Identifier: Apache-2.0 */
/* The n-grams of test sets, and where a text has one of them. */
#ifndef MEGATRON_CURATE_NGRAMS_H
#define MEGATRON_CURATE_NGRAMS_H

#include <stddef.h>
#include <stdint.h>
#include "wordlist.h"

enum { NGRAM_MOST = 256 };

struct ngrams {
    uint64_t *keys; /* in the order in which they were met */
    size_t count, capacity;
    uint32_t *slots; /* 1 + number of the key; 0: free */
    size_t mask;
    unsigned char *spared; /* per key; NULL: none is */
    size_t longest, least;
    size_t lengths[NGRAM_MOST]; /* that there are below the longest, ascending */
    size_t length_count;
    enum words_mode mode;
};

void ngrams_init(struct ngrams *ngrams, size_t longest, size_t least, enum words_mode mode);
void ngrams_clear(struct ngrams *ngrams);

/* What one thread looks at texts with. All zero to begin with. */
struct ngram_scratch {
    struct wordlist words;
    char *folded;
    size_t folded_capacity;
    uint64_t *sums; /* of the hashes of all words before */
    size_t sums_capacity;
};
void ngram_scratch_clear(struct ngram_scratch *scratch);

/* Add those of a text of a test set. Returns 0, or -1 if memory runs out. */
int ngrams_add(struct ngrams *ngrams, struct ngram_scratch *scratch, const char *text, size_t size);

/* Where a text has an n-gram of the set. */
struct ngram_match {
    size_t key;         /* its number */
    size_t begin;       /* in bytes */
    size_t first, size; /* in words */
    size_t chars;       /* of its words with a space between them */
};

/* Find the first. Returns 1, 0, or -1 if memory runs out. */
int ngrams_find(const struct ngrams *ngrams, struct ngram_scratch *scratch, const char *text,
                size_t size, struct ngram_match *match);

#endif
