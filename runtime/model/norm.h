/* SPDX-License-Identifier: Apache-2.0 */
/* What the norms of the residual stream share: norm.c has the usual one, parallel_norm.c that of
 * networks whose attention and MLP take the same stream. */
#ifndef MEGATRON_MODEL_NORM_H
#define MEGATRON_MODEL_NORM_H

#include "builder.h"
#include "planner.h"

enum { NORM_WEIGHT, NORM_BIAS };

struct norm_memory {
    void *sum, *y;      /* (P, h) residual stream, and its norm */
    float *mean, *rstd; /* (P) */
};

/* norm.c: weight and bias, and the memory of a slot. */
void norm_add_parameters(struct builder *builder, struct block *block);
void norm_place(struct model *m, const struct block *block, void *memory, struct arena *arena,
                enum keep keep);

#endif
