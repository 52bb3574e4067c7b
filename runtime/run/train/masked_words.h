/* SPDX-License-Identifier: Apache-2.0 */
/* Properties of each token id that masking needs: its count, and whether it begins a word. */
#ifndef MEGATRON_MASKED_WORDS_H
#define MEGATRON_MASKED_WORDS_H

#include "arguments.h"

struct masked_words {
    double *counts;  /* NULL without --freq-weighted-replacement */
    uint8_t *begins; /* NULL without --mask-whole-words and --masked-data bert */
};

/* Returns 0 or -1; clear in both cases. */
int masked_words_load(struct masked_words *words, const struct arguments *a, struct error *err);
void masked_words_clear(struct masked_words *words);

#endif
