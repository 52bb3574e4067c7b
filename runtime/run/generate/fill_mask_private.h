/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by the files of fill-mask. */
#ifndef MEGATRON_FILL_MASK_PRIVATE_H
#define MEGATRON_FILL_MASK_PRIVATE_H

#include "fill_mask.h"
#include "run/exchange/origin.h"

#include <stdio.h>

/* The special tokens of a vocabulary; -1: it has none. */
struct special_ids {
    int64_t mask, begin, end;
    const char *mask_text; /* how a prompt writes the mask */
};

/* One text as tokens, with those at its begin and end, and the rows of its masks. */
struct masked_text {
    char *text; /* owned */
    int32_t *ids;
    int64_t count, capacity;
    int32_t *masks; /* positions */
    int64_t mask_count;
};

/* fill_mask_texts.c: find the special tokens; tokenize a text. Both return 0 or -1. */
int special_ids_find(struct special_ids *ids, const struct tokenizer *tokenizer, int64_t mask,
                     struct error *err);
int masked_text_make(struct masked_text *out, struct encoder *encoder,
                     const struct tokenizer *tokenizer, const struct special_ids *ids,
                     const char *text, struct error *err);
void masked_text_clear(struct masked_text *text);

/* The likely tokens of one mask, most likely first. */
struct guess {
    double score;
    int32_t token;
};

/* fill_mask_show.c: print the candidates of all masks, 'count' for each. */
struct fill_mask_show {
    const struct tokenizer *tokenizer;
    const struct special_ids *ids;
    FILE *stream;
    int json;
};
int fill_mask_show(const struct fill_mask_show *show, const struct masked_text *text,
                   const struct guess *guesses, int64_t count, struct error *err);

#endif
