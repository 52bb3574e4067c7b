/* SPDX-License-Identifier: Apache-2.0 */
/* The norm at the end of a branch (OLMo 2, Gemma 2 and 3): it adds the branch's bias to scratch.x
 * and normalizes that in place. The norm after it adds the result to the residual stream. */
#include "norm.h"

struct output_norm_memory {
    void *x;            /* (P, h) the branch's output with its bias */
    float *mean, *rstd; /* (P) */
};

struct output_norm_common {
    struct device_plan *forward, *backward;
    void *d; /* (P, h) gradient of the branch's output */
};

static void add_parameters(struct builder *b, struct block *block)
{
    norm_add_parameters(b, block);
    block->dropout_purpose = block->before->dropout_purpose;
}

static int variant(const struct block *block)
{
    return block->before->bias >= 0;
}

static void lay_out(struct model *m, const struct block *block, void *memory, struct arena *arena,
                    enum keep keep)
{
    struct output_norm_memory *a = memory;
    int64_t rows = m->sizes.part_rows;

    (void)block;
    if (keep == KEEP_INPUT || keep == KEEP_NOTHING)
        return;
    a->x = arena_take(arena, rows * m->sizes.hidden, type_size(m->config.numerics.type));
    a->mean = arena_take(arena, rows, sizeof(float));
    a->rstd = arena_take(arena, rows, sizeof(float));
}

static void lay_out_common(struct model *m, struct block *block, struct arena *arena)
{
    struct output_norm_common *common = block->common;

    if (trains(m))
        common->d = arena_take(arena, m->sizes.part_rows * m->sizes.hidden,
                               type_size(m->config.numerics.type));
}

static int prepare(struct model *m, struct block *block, struct error *err)
{
    const struct model_config *c = &m->config;
    struct output_norm_common *common = block->common;
    struct planner p = {m->device, err, 0};
    struct operation op = {.kind = OPERATION_RESIDUAL_NORM,
                           .residual_norm = {.rows = m->sizes.part_rows,
                                             .cols = m->sizes.hidden,
                                             .type = c->numerics.type,
                                             .y_type = c->numerics.type,
                                             .norm = c->network.norm,
                                             .epsilon = c->network.epsilon,
                                             .add_one = c->network.layernorm_1p,
                                             .input = 1,
                                             .bias = block->variant}};

    planner_make(&p, &common->forward, &op);
    op.kind = OPERATION_RESIDUAL_NORM_BACKWARD;
    if (trains(m))
        planner_make(&p, &common->backward, &op);
    return p.failed ? -1 : 0;
}

static void release(void *shared)
{
    struct output_norm_common *common = shared;

    plan_destroy(common->forward);
    plan_destroy(common->backward);
}

static void forward(struct pass *p, struct block *block)
{
    struct model *m = p->m;
    const struct output_norm_common *common = block->common;
    struct output_norm_memory *a = memory_of(p, block);

    run_residual_norm(common->forward, compute(m),
                      &(struct residual_norm_operands){
                          .x = m->scratch.x,
                          .bias = weight(m, block->before->bias),
                          .sum = a->x,
                          .weight = weight(m, block->tensors[NORM_WEIGHT]),
                          .norm_bias = weight(m, block->tensors[NORM_BIAS]),
                          .y = m->scratch.x,
                          .mean = a->mean,
                          .rstd = a->rstd,
                          .state = m->state,
                      });
}

static void recompute(struct pass *p, struct block *block)
{
    if (p->m->config.recompute == RECOMPUTE_FULL)
        forward(p, block);
}

static void backward(struct pass *p, struct block *block)
{
    struct model *m = p->m;
    const struct output_norm_common *common = block->common;
    struct output_norm_memory *a = memory_of(p, block);

    run_residual_norm_backward(common->backward, compute(m),
                               &(struct residual_norm_backward_operands){
                                   .dy = p->dx,
                                   .sum = a->x,
                                   .weight = weight(m, block->tensors[NORM_WEIGHT]),
                                   .mean = a->mean,
                                   .rstd = a->rstd,
                                   .dresidual = common->d,
                                   .dweight = gradient(m, block->tensors[NORM_WEIGHT]),
                                   .dnorm_bias = gradient(m, block->tensors[NORM_BIAS]),
                                   .dbias = gradient(m, block->before->bias),
                                   .accumulate = p->accumulate,
                                   .state = m->state,
                               });
    p->dx = common->d;
}

const struct block_kind output_norm_block = {
    .name = "output norm",
    .memory_size = sizeof(struct output_norm_memory),
    .common_size = sizeof(struct output_norm_common),
    .add_parameters = add_parameters,
    .variant = variant,
    .lay_out = lay_out,
    .lay_out_common = lay_out_common,
    .prepare = prepare,
    .release = release,
    .forward = forward,
    .recompute = recompute,
    .backward = backward,
};
