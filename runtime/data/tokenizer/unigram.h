/* SPDX-License-Identifier: Apache-2.0 */
/* Unigram, the model of T5, ALBERT and XLNet: of all ways to write a text as pieces, the one with
 * the highest sum of scores (Viterbi). Sums are rounded as in the reference: sentencepiece adds in
 * float over the whole text, Hugging Face in double over the whole text or from a space to the
 * next.
 *
 * Words are encoded one by one although the sum extends over the text, so its size decides how
 * scores are rounded. Nearly always a word has the same pieces after any text ("sure"): its best
 * path leads by more than all roundings together. Otherwise it is searched with the sum of the text
 * before it. */
#ifndef MEGATRON_UNIGRAM_H
#define MEGATRON_UNIGRAM_H

#include <stddef.h>
#include <stdint.h>
#include "bpe.h"
#include "double_array.h"

struct unigram {
    const struct bpe *bpe; /* decides what an unknown character becomes */
    struct double_array pieces;
    double *scores; /* by id; NAN: never matched in a text */
    double *added;  /* by id: what an emitted id adds to the sum */
    float *scores_single, *added_single;
    /* For unigram_encode_short: */
    int64_t *scores_short; /* by id + 1, then that of an unknown character; NULL: not to be used */
    int64_t lead_short;    /* as 'lead', in their unit */
    int64_t singles[256];  /* by byte of ASCII: its score, or that of an unknown character */
    uint64_t *pairs;       /* by first byte + 256 * second byte: number and base in 'pieces' */
    double unknown_score;
    double largest; /* no piece changes a sum by more than this */
    double lead;    /* of each path, for each rounding, that makes a word sure */
    int single;     /* sums are floats */
    int whole;      /* sums extend beyond a word */
    int from_space; /* they begin anew with each piece that begins with a space */
    int positive;   /* there are scores above 0 */
};

void unigram_clear(struct unigram *unigram);

/* Build what encoding needs, when 'bpe' is finished and the scores are set. Returns 0, or -1
 * with 'err'. */
int unigram_finish(struct unigram *unigram, struct error *err);

/* Does a sum begin with this id? */
static inline int unigram_begins(const struct unigram *unigram, uint32_t id)
{
    size_t length;
    const uint8_t *text;

    if (!unigram->from_space || id >= unigram->bpe->token_count)
        return 0;
    text = bpe_text(unigram->bpe, id, &length);
    return length > 0 && text[0] == ' ';
}

/* sentencepiece subtracts the sum from all sums at the first character where it is further from 0
 * than this. */
#define UNIGRAM_RESET 100000.0F

/* No sum up to there changes by more than this when it is rounded. */
#define UNIGRAM_ROUNDING 0.00390625

/* The longest word that can be sure. */
#define UNIGRAM_SURE 31

/* Write the ids of a word to 'ids', which has room for 3 * length. '*sure': are they the same after
 * any text? Returns their number. */
size_t unigram_encode(const struct unigram *unigram, struct bpe_scratch *scratch,
                      const uint8_t *word, size_t length, uint32_t *ids, int *sure);

/* Encode a word after a text with the sum '*score', which becomes the sum after the word. */
size_t unigram_encode_after(const struct unigram *unigram, struct bpe_scratch *scratch,
                            const uint8_t *word, size_t length, double *score, uint32_t *ids);

/* Within unigram*.c: a word of 1 to UNIGRAM_SURE bytes, whose ids are the same after any text.
 * Returns 0 if that is not known in this way. */
size_t unigram_encode_short(const struct unigram *unigram, const uint8_t *word, size_t length,
                            uint32_t *ids);

/* Prepare for it. */
void unigram_prepare_short(struct unigram *unigram);

/* Paths are followed from their ends. */
void unigram_reverse(uint32_t *ids, size_t count);

/* How far from 'score' the sums within a word can be. */
static inline double unigram_reach(const struct unigram *unigram, size_t length)
{
    return (double)(length + 1) * unigram->largest;
}

/* May sums be reset in a word of this length after a text with this sum? */
static inline int unigram_resets(const struct unigram *unigram, double score, size_t length)
{
    return unigram->single && unigram->whole &&
           (score < 0 ? -score : score) + unigram_reach(unigram, length) >= UNIGRAM_RESET;
}

/* May they be reset there after 'count' more ids? Each changes the sum, and that is rounded. */
static inline int unigram_may_reset(const struct unigram *unigram, double score, size_t count,
                                    size_t length)
{
    double most = (double)count * (unigram->largest + UNIGRAM_ROUNDING);

    return unigram_resets(unigram, (score < 0 ? -score : score) + most, length);
}

#endif
