/* SPDX-License-Identifier: Apache-2.0 */
/* For alphabet.c and bpe_learn.c only. */
#ifndef MEGATRON_BPE_PRIVATE_H
#define MEGATRON_BPE_PRIVATE_H

#include "base/core/list.h"
#include "bpe_learn.h"

struct bpe_word {
    uint64_t offset; /* of its first symbol */
    uint64_t length;
    int64_t times;
};

/* The words in which a pair occurs: an entry of the queue. */
struct bpe_occurrences {
    LIST(uint32_t) words;
};

struct bpe_pair {
    uint64_t key; /* left << 32 | right */
    int64_t count;
    uint32_t round;       /* the merge in which 'occurrences' was begun */
    uint32_t occurrences; /* index into 'occurrences', for that merge */
};

struct bpe_candidate {
    int64_t count; /* when it was put into the queue */
    uint64_t key;
    uint32_t occurrences;
};

/* A pair that this merge has created. */
struct bpe_fresh {
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
    LIST(struct bpe_occurrences) occurrences;
    LIST(struct bpe_fresh) fresh;
    LIST(struct bpe_candidate) queue; /* a binary heap */
    uint32_t round;
};

/* The specials and the alphabet. */
void bpe_add_alphabet(struct bpe_learning *learning, const struct lexicon *lexicon);
/* Words as symbols; characters that are not in the alphabet are left out. */
void bpe_write_words(struct bpe_learning *learning, const struct lexicon *lexicon);

#endif
