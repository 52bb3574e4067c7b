/* SPDX-License-Identifier: Apache-2.0 */
/* `megatron fill-mask`: what a masked language model puts in place of masked tokens, and how well
 * it predicts a text. */
#ifndef MEGATRON_FILL_MASK_H
#define MEGATRON_FILL_MASK_H

#include "generate.h"

struct fill_mask_options {
    struct generate_options base; /* weights, prompts, tokenizer, device; top_k tokens are shown */
    int64_t mask_id;              /* -1: the tokenizer's */
    int pseudo_perplexity;
};

/* Print the most likely tokens of each masked position, or the pseudo-perplexity of each text.
 * Returns 0 or -1. */
int fill_mask_run(const struct fill_mask_options *options, const struct world *world,
                  struct error *err);

#endif
