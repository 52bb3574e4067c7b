/* SPDX-License-Identifier: Apache-2.0 */
/* The set of n-grams of test sets, and the search for them in a text. */
#ifndef MEGATRON_CURATE_NGRAMS_H
#define MEGATRON_CURATE_NGRAMS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "wordlist.h"

enum { NGRAM_MOST = 256 };

struct ngrams {
    uint64_t *keys; /* in order of insertion */
    size_t count, capacity;
    uint32_t *slots; /* hash table: 1 + index of the key; 0: free */
    size_t mask;
    unsigned char *spared; /* per key: ignored as frequent; NULL: none */
    size_t longest, least;
    size_t lengths[NGRAM_MOST]; /* shorter lengths that occur, ascending */
    size_t length_count;
    enum words_mode mode;
};

void ngrams_init(struct ngrams *ngrams, size_t longest, size_t least, enum words_mode mode);
void ngrams_clear(struct ngrams *ngrams);

/* Buffers of one thread. All zero is a valid start. */
struct ngram_scratch {
    struct wordlist words;
    char *folded;
    size_t folded_capacity;
    uint64_t *sums; /* prefix sums of word hashes */
    size_t sums_capacity;
};
void ngram_scratch_clear(struct ngram_scratch *scratch);

/* Add the n-grams of a text of a test set. */
void ngrams_add(struct ngrams *ngrams, struct ngram_scratch *scratch, const char *text,
                size_t size);

/* An occurrence of an n-gram of the set. */
struct ngram_match {
    size_t key;         /* index of the n-gram */
    size_t begin;       /* in bytes */
    size_t first, size; /* in words */
    size_t chars;       /* characters of its words, joined by single spaces */
};

/* Find the first match. */
bool ngrams_find(const struct ngrams *ngrams, struct ngram_scratch *scratch, const char *text,
                 size_t size, struct ngram_match *match);

#endif
