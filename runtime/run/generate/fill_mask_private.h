/* SPDX-License-Identifier: Apache-2.0 */
/* The texts of fill-mask: between fill_mask.c and fill_mask_texts.c. */
#ifndef MEGATRON_FILL_MASK_PRIVATE_H
#define MEGATRON_FILL_MASK_PRIVATE_H

#include "fill_mask.h"
#include "base/core/list.h"

/* The special tokens of a vocabulary; -1: it has none. */
struct special_ids {
    int64_t mask, begin, end;
    const char *mask_text; /* how a prompt writes the mask */
};

/* One text as tokens, with those at its begin and end, and the positions of its masks. */
struct masked_text {
    const char *text;
    LIST(int32_t) ids;
    LIST(int32_t) masks;
};

/* Find the special tokens; tokenize 'text', which must outlive 'out'. Both return 0 or -1. */
int special_ids_find(struct special_ids *ids, const struct tokenizer *tokenizer, int64_t mask,
                     struct error *err);
int masked_text_make(struct masked_text *out, struct encoder *encoder,
                     const struct tokenizer *tokenizer, const struct special_ids *ids,
                     const char *text, struct error *err);
void masked_text_clear(struct masked_text *text);

#endif
