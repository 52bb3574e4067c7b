/* SPDX-License-Identifier: Apache-2.0 */
/* What the blocks between branches keep and share: norm.c has those before a branch, post_norm.c
 * those after one, parallel_norm.c that of networks whose attention and MLP take the same stream.
 */
#ifndef MEGATRON_MODEL_NORM_H
#define MEGATRON_MODEL_NORM_H

#include "builder.h"
#include "planner.h"

enum { NORM_WEIGHT, NORM_BIAS };

struct norm_memory {
    void *sum, *y;         /* (P, h) what is normalized, and the input of the next branch */
    void *stream;          /* (P, h) the residual stream: one of these two */
    float *mean, *rstd;    /* (P) */
    struct fp8_input cast; /* of y, if the norm casts it */
};

/* norm.c: weight and bias, and the memory of a slot. */
void norm_add_parameters(struct builder *builder, struct block *block);
void norm_lay_out(struct model *m, const struct block *block, void *memory, struct arena *arena,
                  enum keep keep);

#endif
