/* SPDX-License-Identifier: Apache-2.0 */
/* Masking for masked language models: which tokens of a sample a model has to predict, and what it
 * sees in their place. Everything is drawn from (seed, epoch, number of the sample), so masks
 * depend neither on the layout of ranks nor on what was read before. */
#ifndef MEGATRON_MASKED_TOKENS_H
#define MEGATRON_MASKED_TOKENS_H

#include <stddef.h>
#include <stdint.h>
#include "dataset.h"

enum mask_rule {
    MASK_FAIRSEQ,      /* fairseq 0.12: numpy's RandomState */
    MASK_FAIRSEQ_MAIN, /* fairseq's main branch: numpy's default_rng */
    MASK_COLLATOR,     /* Hugging Face's collator: PyTorch's numbers, each token by itself, special
                          tokens never */
};

struct mask_config {
    enum mask_rule rule;
    int64_t vocabulary; /* ids, with the mask token */
    int32_t mask;       /* id of the mask token */
    int32_t
        first_random; /* ids below this are special: fairseq never draws them as a replacement */
    /* For MASK_COLLATOR: the special tokens, which it never masks (-1: none; without a count, those
     * below 'first_random'), and the ids of the tokenizer, which it draws replacements from; 0:
     * as 'vocabulary', which is the model's. */
    int32_t specials[5];
    size_t special_count;
    int64_t tokenizer_ids;
    double probability;                  /* share of the tokens that are predicted */
    double leave_unmasked, random_token; /* shares of these that stay, or become another token */
    /* By id, or NULL. Counts that make frequent tokens likelier replacements (not with
     * MASK_COLLATOR); 1 for a token that begins a word: whole words are masked. */
    const double *counts;
    const uint8_t *begins;
};

struct masking;

/* Check 'config' and prepare what all samples share; 'begins' must stay, 'counts' not. Returns NULL
 * with 'err' set. Caller must destroy. */
struct masking *masking_create(const struct mask_config *config, struct error *err);
void masking_destroy(struct masking *masking);

/* The seed of sample 'index': Python's hash((seed, epoch, index)) % 1e6. */
uint32_t masking_seed(int64_t seed, int64_t epoch, int64_t index);

/* Mask the 'count' tokens in place; 'labels' (as many) become the original token where one is
 * predicted, else BATCH_IGNORE. Returns the number of predicted tokens, or -1: the tokens contain
 * the mask token or one outside the vocabulary, or memory ran out. Callable from any thread. */
int64_t masking_apply(const struct masking *masking, uint32_t seed, int32_t *tokens, int64_t count,
                      int32_t *labels, struct error *err);

/* The number that masking_apply would return for 'count' tokens, if it does not depend on them;
 * otherwise -1. */
int64_t masking_count(const struct masking *masking, uint32_t seed, int64_t count);

/* The most tokens that are ever predicted out of 'count'. */
int64_t masking_limit(const struct mask_config *config, int64_t count);

/* Mask the 'count' tokens in place, as masking_apply. With 'begins', whole words. Returns the
 * number of predicted tokens. */
int64_t collator_apply(const struct mask_config *config, uint32_t seed, int32_t *tokens,
                       int64_t count, int32_t *labels);

#endif
