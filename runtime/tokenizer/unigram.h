/* SPDX-License-Identifier: Apache-2.0 */
/* Unigram, the model of T5, ALBERT and XLNet: of all ways to write a text with pieces the one with the
 * highest sum of scores (Viterbi). The sums are rounded as the reference rounds them: sentencepiece
 * adds up in float over the whole text, Hugging Face in double over a word. */
#ifndef MEGATRON_UNIGRAM_H
#define MEGATRON_UNIGRAM_H

#include <stddef.h>
#include <stdint.h>
#include "bpe.h"

struct unigram {
    const struct bpe *bpe;   /* its trie has the pieces; what an unknown character becomes */
    double *scores;          /* by id; NAN: never found in a text */
    double *added;           /* by id: what an id that was put out adds to the sum */
    double unknown_score;
    double largest;          /* no piece takes more than this off a sum */
    int single;              /* sums are floats */
    int whole;               /* sums go over the whole text, not over a word */
};

struct unigram_node {
    double score;
    double second;  /* the best one that was not taken */
    uint32_t begin; /* of the last piece */
    uint32_t id;
};

void unigram_clear(struct unigram *unigram);

/* How sure it is that a word's pieces do not depend on the text before it. */
enum unigram_trust {
    UNIGRAM_ALWAYS, /* up to UNIGRAM_FAR */
    UNIGRAM_OFTEN,  /* up to UNIGRAM_NEAR */
    UNIGRAM_NEVER,
};
#define UNIGRAM_NEAR 16000.0  /* the sum, without its sign */
#define UNIGRAM_FAR  400000.0

/* The ids of a word after a text with the sum 'score', into 'ids', which has room for 3 * length.
 * Returns their number, or SIZE_MAX when memory is out. */
size_t unigram_encode(const struct unigram *unigram, struct bpe_scratch *scratch,
                      const uint8_t *word, size_t length, double score, uint32_t *ids,
                      enum unigram_trust *trust);

/* Add ids to a sum. */
double unigram_add(const struct unigram *unigram, double score, uint32_t id);

#endif
