/* SPDX-License-Identifier: Apache-2.0 */
/* Private to linear.c, which has the passes of a linear layer, and linear_choice.c, which times
 * their variants. */
#ifndef MEGATRON_CUDA_LINEAR_PRIVATE_H
#define MEGATRON_CUDA_LINEAR_PRIVATE_H

#include "cuda.h"

/* How the work around the product is done. */
enum variant {
    SPLIT,      /* all of it in our own kernels */
    FUSED,      /* all of it in the product's epilogue */
    FUSED_PART, /* the activation's gradient in the epilogue, the column sums in our kernel */
    OWN,        /* the product, too, in our kernel */
    VARIANTS,
};

struct linear {
    struct gemm *gemm; /* NULL: OWN */
    enum variant variant;
    enum device_type sum_type; /* type of the sums that an epilogue computes */
    int on_trial;              /* a product that fails then is not a failure of the device */
    int failed;                /* being timed */
};

/* Memory for timing: every operand of the layer. With a gate, 'x' of the gradient is the product,
 * and dx replaces 'pre'. */
struct scratch {
    void *x, *weight, *bias, *y, *pre, *workspace, *dweight;
    float *dbias;
    void *all;
};

static inline const struct linear_shape *shape_of(const struct cuda_plan *plan)
{
    return &plan->operation.linear;
}

static inline int gated(const struct linear_shape *s)
{
    return is_gated(s->activation);
}

/* linear.c */

/* Is a variant valid for this plan? */
int linear_is_possible(const struct cuda_plan *plan, enum variant variant);

/* Let the plan run this variant. */
void linear_set_work(struct cuda_plan *plan, const struct linear *linear);

/* Create the product of linear->variant and linear->sum_type. If 'scratch' is not NULL, its kernel
 * may be searched by timing. Returns 0, or -1 with 'err' filled (which may be NULL). */
int linear_make(struct cuda_plan *plan, struct linear *linear, const struct scratch *scratch,
                struct error *err);

/* Fill 'linear' and make it: sums in fp32 if the library supports it, else in the type of the
 * layer. */
int linear_make_variant(struct cuda_plan *plan, enum variant variant, struct linear *linear,
                        const struct scratch *scratch, struct error *err);

/* linear_choice.c */

/* Make the fastest variant: the one that the tuning file has, or else the one that trials find.
 * Returns 0, or -1 with 'err' filled; the caller destroys linear->gemm. */
int linear_choose(struct cuda_plan *plan, struct linear *linear, struct error *err);

#endif
