/* SPDX-License-Identifier: Apache-2.0 */
/* The norm between the branches of a layer whose attention and MLP take the same residual stream
 * (GPT-NeoX): it adds the attention (bias, dropout, residual) to the stream, as any norm does, but
 * normalizes the stream before that for the MLP. */
#include "norm.h"

struct parallel_norm_common {
    struct device_plan *add[MODES], *add_backward;
    struct device_plan *normalize, *normalize_backward;
    void *branch; /* (P, h) gradient of the attention's output */
};

static int variant(const struct block *block)
{
    return block->before->bias >= 0;
}

static void lay_out_common(struct model *m, struct block *block, struct arena *arena)
{
    struct parallel_norm_common *common = block->common;

    if (trains(m))
        common->branch = arena_take(arena, m->sizes.part_rows * m->sizes.hidden,
                                    type_size(m->config.numerics.type));
}

static int prepare(struct model *m, struct block *block, struct error *err)
{
    const struct model_config *c = &m->config;
    struct parallel_norm_common *common = block->common;
    struct planner p = {m->device, err, 0};
    struct operation add = {.kind = OPERATION_RESIDUAL_NORM,
                            .residual_norm = {.rows = m->sizes.part_rows,
                                              .cols = m->sizes.hidden,
                                              .type = c->numerics.type,
                                              .y_type = c->numerics.type,
                                              .norm = NORM_NONE,
                                              .input = 1,
                                              .bias = block->variant,
                                              .residual = 1,
                                              .dropout = c->network.hidden_dropout}};
    struct operation normalize = {.kind = OPERATION_RESIDUAL_NORM,
                                  .residual_norm = {.rows = m->sizes.part_rows,
                                                    .cols = m->sizes.hidden,
                                                    .type = c->numerics.type,
                                                    .y_type = c->numerics.type,
                                                    .norm = c->network.norm,
                                                    .epsilon = c->network.epsilon,
                                                    .add_one = c->network.layernorm_1p,
                                                    .residual = 1}};

    planner_make(&p, &common->normalize, &normalize);
    if (trains(m)) {
        planner_make(&p, &common->add[MODE_TRAIN], &add);
        add.kind = normalize.kind = OPERATION_RESIDUAL_NORM_BACKWARD;
        planner_make(&p, &common->add_backward, &add);
        planner_make(&p, &common->normalize_backward, &normalize);
        add.kind = OPERATION_RESIDUAL_NORM;
    }
    add.residual_norm.dropout = 0;
    planner_make(&p, &common->add[MODE_EVALUATE], &add);
    return p.failed ? -1 : 0;
}

static void release(void *shared)
{
    struct parallel_norm_common *common = shared;

    for (int mode = 0; mode < MODES; mode++)
        plan_destroy(common->add[mode]);
    plan_destroy(common->add_backward);
    plan_destroy(common->normalize);
    plan_destroy(common->normalize_backward);
}

static void normalize(struct pass *p, struct block *block)
{
    struct model *m = p->m;
    const struct parallel_norm_common *common = block->common;
    struct norm_memory *a = memory_of(p, block);

    run_residual_norm(common->normalize, compute(m),
                      &(struct residual_norm_operands){
                          .residual = norm_stream(p, norm_before(block->before)),
                          .weight = weight(m, block->tensors[NORM_WEIGHT]),
                          .norm_bias = weight(m, block->tensors[NORM_BIAS]),
                          .y = a->y,
                          .mean = a->mean,
                          .rstd = a->rstd,
                          .state = m->state,
                      });
}

static void forward(struct pass *p, struct block *block)
{
    struct model *m = p->m;
    const struct parallel_norm_common *common = block->common;
    const struct block *branch = block->before;
    struct norm_memory *a = memory_of(p, block);

    run_residual_norm(common->add[p->mode], compute(m),
                      &(struct residual_norm_operands){
                          .x = m->scratch.x,
                          .bias = weight(m, branch->bias),
                          .residual = norm_stream(p, norm_before(branch)),
                          .sum = a->sum,
                          .row_index = p->slot->batch.row_index + first_row(m),
                          .state = m->state,
                          .purpose = branch->dropout_purpose,
                      });
    normalize(p, block);
}

static void recompute(struct pass *p, struct block *block)
{
    (p->m->config.recompute == RECOMPUTE_FULL ? forward : normalize)(p, block);
}

/* The gradient of the stream goes to the attention as it is, and on with that of the MLP's norm. */
static void backward(struct pass *p, struct block *block)
{
    struct model *m = p->m;
    const struct parallel_norm_common *common = block->common;
    const struct block *branch = block->before;
    struct norm_memory *a = memory_of(p, block);

    run_residual_norm_backward(common->add_backward, compute(m),
                               &(struct residual_norm_backward_operands){
                                   .dsum = p->dsum,
                                   .dresidual = common->branch,
                                   .dx = m->scratch.dx,
                                   .dbias = gradient(m, branch->bias),
                                   .accumulate = p->accumulate,
                                   .row_index = p->slot->batch.row_index + first_row(m),
                                   .state = m->state,
                                   .purpose = branch->dropout_purpose,
                               });
    run_residual_norm_backward(common->normalize_backward, compute(m),
                               &(struct residual_norm_backward_operands){
                                   .dy = p->dy,
                                   .dsum = p->dsum,
                                   .sum = norm_stream(p, norm_before(branch)),
                                   .weight = weight(m, block->tensors[NORM_WEIGHT]),
                                   .mean = a->mean,
                                   .rstd = a->rstd,
                                   .dresidual = m->scratch.d,
                                   .dweight = gradient(m, block->tensors[NORM_WEIGHT]),
                                   .dnorm_bias = gradient(m, block->tensors[NORM_BIAS]),
                                   .accumulate = p->accumulate,
                                   .state = m->state,
                               });
    p->dsum = m->scratch.d;
    p->dx = m->config.network.hidden_dropout > 0 ? m->scratch.dx : common->branch;
}

const struct block_kind parallel_norm_block = {
    .name = "norm",
    .memory_size = sizeof(struct norm_memory),
    .common_size = sizeof(struct parallel_norm_common),
    .is_norm = 1,
    .add_parameters = norm_add_parameters,
    .variant = variant,
    .lay_out = norm_lay_out,
    .lay_out_common = lay_out_common,
    .prepare = prepare,
    .release = release,
    .forward = forward,
    .recompute = recompute,
    .backward = backward,
};
