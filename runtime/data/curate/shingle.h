/* SPDX-License-Identifier: Apache-2.0 */
/* The shingles of a text: hashes of all its n-grams of words or characters. */
#ifndef MEGATRON_CURATE_SHINGLE_H
#define MEGATRON_CURATE_SHINGLE_H

#include "wordlist.h"

enum shingle_unit { SHINGLE_WORDS, SHINGLE_CHARACTERS };

/* Buffers of one thread. All zero is a valid start. */
struct shingles {
    struct wordlist words;
    char *folded;
    size_t folded_capacity;
    uint32_t *items;
    size_t count, capacity;
};

/* Compute the shingles of a text, duplicates included. Words are lower-cased, numbers are all
 * equal, and punctuation is ignored; a text of fewer than n words has one shingle. Characters are
 * taken as they are. */
void shingles_make(struct shingles *shingles, enum shingle_unit unit, size_t n, const char *text,
                   size_t size);

/* Sort them and remove duplicates. */
void shingles_unique(struct shingles *shingles);

/* The Jaccard similarity of two sorted sets. */
double shingles_similarity(const uint32_t *a, size_t a_count, const uint32_t *b, size_t b_count);

void shingles_clear(struct shingles *shingles);

#endif
