/* SPDX-License-Identifier: Apache-2.0 */
/* From logits to the next token. The logits of a text may be divided over ranks by vocabulary: each
 * rank offers its best candidates, and any rank that has all offers picks the same token, on any
 * layout. Sampling uses the Gumbel-max trick: every token's logit gets noise that depends only on
 * (seed, text, position, token), and the highest of those that pass top-k and top-p is picked,
 * which samples by probability. */
#ifndef MEGATRON_SAMPLER_H
#define MEGATRON_SAMPLER_H

#include <stdint.h>

struct sampling {
    double temperature; /* 0: always the most likely token */
    int64_t top_k;      /* only the k most likely tokens; 0: all */
    double top_p;       /* only the smallest set with this total probability; 0: all */
    uint64_t seed;
};

/* Two numbers of the same type, so that one collective can transfer them. */
struct candidate {
    double key; /* a logit, or a score of the Gumbel-max trick */
    double id;  /* negative: no candidate */
};

/* Number of candidates that a rank with 'columns' columns of the logits offers. */
int64_t sampler_width(const struct sampling *sampling, int64_t columns);

/* The candidates among tokens 'first' .. 'first' + 'count' - 1, which have these 'logits', for the
 * token at 'position' of text number 'text'; 'out' has space for 'width' of them. */
void sampler_offer(const struct sampling *sampling, const float *logits, int64_t count,
                   int64_t first, uint64_t text, int64_t position, struct candidate *out,
                   int64_t width);

/* Pick a token from the candidates of all ranks in the order of their tokens; they are reordered.
 * -1 if no logit is a number. */
int64_t sampler_pick(const struct sampling *sampling, struct candidate *candidates, int64_t count,
                     uint64_t text, int64_t position);

#endif
