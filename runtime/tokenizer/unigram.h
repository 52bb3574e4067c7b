/* SPDX-License-Identifier: Apache-2.0 */
/* Unigram, the model of T5, ALBERT and XLNet: of all ways to write a text as pieces, the one with
 * the highest sum of scores (Viterbi). Sums are rounded as in the reference: sentencepiece adds in
 * float over the whole text, Hugging Face in double over a word. */
#ifndef MEGATRON_UNIGRAM_H
#define MEGATRON_UNIGRAM_H

#include <stddef.h>
#include <stdint.h>
#include "bpe.h"

struct unigram {
    const struct bpe
        *bpe;       /* its trie has the pieces; it decides what an unknown character becomes */
    double *scores; /* by id; NAN: never matched in a text */
    double *added;  /* by id: what an emitted id adds to the sum */
    double unknown_score;
    double largest; /* no piece changes a sum by more than this */
    int single;     /* sums are floats */
    int whole;      /* sums extend over the whole text, not over a word */
};

struct unigram_node {
    double score;
    double second;  /* the best one that was not chosen */
    uint32_t begin; /* of the last piece */
    uint32_t id;
    uint32_t depth, second_depth; /* pieces up to here, for both */
};

void unigram_clear(struct unigram *unigram);

/* A sum whose roundings may change the pieces of nearly any word. */
#define UNIGRAM_FAR 4194304.0

/* Write the ids of a word after a text with the sum 'score' to 'ids', which has room for 3 *
 * length. They are the same for any sum that is not further from 0 than '*limit'. Returns their
 * number, or SIZE_MAX if out of memory. */
size_t unigram_encode(const struct unigram *unigram, struct bpe_scratch *scratch,
                      const uint8_t *word, size_t length, double score, uint32_t *ids,
                      double *limit);

/* Add ids to a sum. */
double unigram_add(const struct unigram *unigram, double score, uint32_t id);

#endif
