/* SPDX-License-Identifier: Apache-2.0 */
/* The last step of the blocks head and mlm_head: logits by the word table, and their cross entropy,
 * split by vocabulary over the tensor-parallel ranks. Logits are never kept: 'head_rows' rows are
 * computed at a time, in training with their gradients. */
#ifndef MEGATRON_VOCABULARY_LOSS_H
#define MEGATRON_VOCABULARY_LOSS_H

#include "linear.h"

struct vocabulary_loss {
    struct linear linear;
    struct device_plan *softcap; /* of the logits; NULL: none */
    struct device_plan *partial, *finish[MODES];
    void *logits;       /* (head_rows, vocabulary) */
    float *partials[2]; /* (3, head_rows) of this rank, and of all tensor-parallel ranks */
};

void vocabulary_loss_lay_out(struct model *m, struct vocabulary_loss *loss, struct arena *arena);
void vocabulary_loss_plan(struct planner *planner, struct model *m, struct vocabulary_loss *loss,
                          bool bias);

/* The logits of head_rows rows of x. 'table' and 'bias' (or -1) are tensors. */
void vocabulary_logits(struct model *m, const struct vocabulary_loss *loss, int table, int bias,
                       const void *x);

/* The loss of x (rows, h). In training also the gradients of table and bias, and this rank's share
 * of dx (rows, h). */
void vocabulary_loss_run(struct pass *pass, const struct vocabulary_loss *loss, int table, int bias,
                         int64_t rows, void *x, void *dx);

#endif
