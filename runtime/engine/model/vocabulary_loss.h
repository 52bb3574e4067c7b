/* SPDX-License-Identifier: Apache-2.0 */
/* Cross entropy of logits that are split by vocabulary over the tensor-parallel ranks, 'head_rows'
 * rows at a time; a part of the blocks head and mlm_head. */
#ifndef MEGATRON_VOCABULARY_LOSS_H
#define MEGATRON_VOCABULARY_LOSS_H

#include "model_private.h"

struct vocabulary_loss {
    struct device_plan *partial, *finish[MODES];
    void *logits;       /* (head_rows, vocabulary) */
    float *partials[2]; /* (3, head_rows) of this rank, and of all tensor-parallel ranks */
};

void vocabulary_loss_lay_out(struct model *m, struct vocabulary_loss *loss, struct arena *arena);
void vocabulary_loss_plan(struct planner *planner, struct model *m, struct vocabulary_loss *loss);

/* Loss of the rows from 'first' on; in training the logits become their gradient. */
void vocabulary_loss_run(struct pass *pass, const struct vocabulary_loss *loss, int64_t first);

#endif
