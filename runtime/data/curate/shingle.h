/* SPDX-License-Identifier: Apache-2.0 */
/* A text as a set of shingles: hashes of all its n-grams, of words or of characters. */
#ifndef MEGATRON_CURATE_SHINGLE_H
#define MEGATRON_CURATE_SHINGLE_H

#include "wordlist.h"

enum shingle_unit { SHINGLE_WORDS, SHINGLE_CHARACTERS };

/* What one thread makes shingles with. All zero to begin with. */
struct shingles {
    struct wordlist words;
    char *folded;
    size_t folded_capacity;
    uint32_t *items;
    size_t count, capacity;
};

/* The shingles of a text, as often as they come. Of words: letters are made small, numbers are all
 * alike, punctuation is left out; a text of fewer than n words has one shingle of all of them. Of
 * characters: as they are. Returns 0, or -1 if memory runs out. */
int shingles_make(struct shingles *shingles, enum shingle_unit unit, size_t n, const char *text,
                  size_t size);

/* Sort them, each once. */
void shingles_unique(struct shingles *shingles);

/* The Jaccard similarity of two sets of sorted numbers. */
double shingles_similarity(const uint32_t *a, size_t a_count, const uint32_t *b, size_t b_count);

void shingles_clear(struct shingles *shingles);

#endif
