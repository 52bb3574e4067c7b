/* SPDX-License-Identifier: Apache-2.0 */
/* For alphabet.c and bpe_learn.c only. */
#ifndef MEGATRON_BPE_PRIVATE_H
#define MEGATRON_BPE_PRIVATE_H

#include "bpe_learn.h"

struct bpe_word {
    uint64_t offset; /* of its first symbol */
    uint64_t length;
    int64_t times;
};

/* Where a pair occurs: an entry of the queue. */
struct bpe_occurrences {
    uint32_t *words;
    size_t count, capacity;
};

struct bpe_pair {
    uint64_t key; /* left << 32 | right */
    int64_t count;
    uint32_t round;       /* the merge in which 'occurrences' was begun */
    uint32_t occurrences; /* where it has come up in that merge: a number in 'occurrences' */
};

struct bpe_candidate {
    int64_t count; /* when it was put into the queue */
    uint64_t key;
    uint32_t occurrences;
};

struct bpe_learning {
    const struct bpe_rules *rules;
    struct bpe_learned *learned;
    uint32_t *symbols; /* of all words */
    struct bpe_word *words;
    size_t word_count;
    struct bpe_pair *pairs; /* hash table; count 0 and key 0: empty */
    size_t pair_capacity, pair_count;
    struct bpe_occurrences *occurrences;
    size_t occurrence_count, occurrence_capacity;
    uint32_t *fresh; /* occurrences begun in this merge */
    size_t fresh_count, fresh_capacity;
    uint64_t *fresh_keys;
    struct bpe_candidate *queue; /* a binary heap */
    size_t queue_count, queue_capacity;
    uint32_t round;
    int failed; /* out of memory */
};

/* The specials and the alphabet. */
int bpe_add_alphabet(struct bpe_learning *learning, const struct lexicon *lexicon,
                     struct error *err);
/* Words as symbols; characters that are not in the alphabet are left out. */
int bpe_write_words(struct bpe_learning *learning, const struct lexicon *lexicon,
                    struct error *err);

#endif
