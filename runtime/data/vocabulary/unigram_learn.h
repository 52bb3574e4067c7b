/* SPDX-License-Identifier: Apache-2.0 */
/* Learn the pieces of a Unigram vocabulary, as SentencePiece does: start with all frequent parts of
 * words, fit their probabilities to the corpus by expectation maximization, and drop those whose
 * loss costs least, until the wanted number is left. */
#ifndef MEGATRON_UNIGRAM_LEARN_H
#define MEGATRON_UNIGRAM_LEARN_H

#include "lib/error.h"
#include "lexicon.h"
#include "tokens.h"

struct unigram_rules {
    int64_t vocab_size;     /* pieces */
    int64_t limit_alphabet; /* most characters; 0: as many as cover 99.95 % of the corpus */
    int threads;
    /* Called from time to time with the number of pieces left; NULL: not. */
    void (*moved)(void *context, int64_t pieces);
    void *context;
};

/* Pieces with the logarithm of their probability, the most probable first. */
struct unigram_learned {
    struct tokens pieces;
    double *scores;
};

/* Returns 0, or -1 with 'err' set. The caller clears 'learned' in both cases. */
int unigram_learn(const struct lexicon *lexicon, const struct unigram_rules *rules,
                  struct unigram_learned *learned, struct error *err);
void unigram_learned_clear(struct unigram_learned *learned);

/* --- Within unigram*.c ------------------------------------------------------------------------ */

/* Candidate pieces. The first 'required' ones are the characters, which are never pruned. */
struct unigram_pieces {
    struct tokens tokens;
    double *scores;
    size_t required;
};

void unigram_pieces_clear(struct unigram_pieces *pieces);

/* unigram_seed.c: the characters, and the parts of words that save most; scores are logarithms of
 * their shares. Words are cut where a character is not among the pieces, into 'spans'. */
void unigram_seed(const struct lexicon *lexicon, const struct unigram_rules *rules,
                  struct unigram_pieces *pieces, struct lexicon *spans);

#endif
