/* SPDX-License-Identifier: Apache-2.0 */
/* Blocks of networks with the norm after each branch (BERT, RoBERTa), where the residual stream is
 * the output of the last norm:
 * - post_norm: adds the branch before it (bias, dropout, residual) and normalizes the sum;
 * - embedding_norm: normalizes the embeddings, then drops some of them;
 * - input: takes what arrives from the chunk before. */
#include "norm.h"

/* Within a layer: the norm at its end. Its output is the input of the next layer. */
enum { LAST_POSITION = 3 };

struct post_norm_common {
    struct device_plan *forward[MODES], *backward;
    struct device_plan *again;                      /* y from the sum alone; for recomputation */
    struct device_plan *dropout, *dropout_backward; /* of the embeddings; NULL: none */
    struct device_plan *add; /* gradients of the two readers of y; of other blocks than norms */
};

static void add_parameters(struct builder *b, struct block *block)
{
    int64_t h = b->config->network.shape.hidden;

    block->tensors[NORM_WEIGHT] = builder_vector(b, block, "weight", h, 1);
    block->tensors[NORM_BIAS] = builder_vector(b, block, "bias", h, 0);
}

/* The output of a layer is kept even if all else is recomputed. */
static void lay_out(struct model *m, const struct block *block, void *memory, struct arena *arena,
                    enum keep keep)
{
    struct norm_memory *a = memory;
    size_t size = type_size(m->config.numerics.type);
    int64_t rows = m->sizes.part_rows, part = rows * m->sizes.hidden;

    if (keep == KEEP_ALL || keep == KEEP_COSTLY) {
        a->sum = arena_take(arena, part, size);
        a->mean = arena_take(arena, rows, sizeof(float));
        a->rstd = arena_take(arena, rows, sizeof(float));
    }
    if (keep == KEEP_ALL || block->position == LAST_POSITION)
        a->y = a->stream = arena_take(arena, part, size);
}

static struct operation step_of(const struct model *m, int bias, int residual, double dropout)
{
    const struct model_config *c = &m->config;

    return (struct operation){.kind = OPERATION_RESIDUAL_NORM,
                              .residual_norm = {
                                  .rows = m->sizes.part_rows,
                                  .cols = m->sizes.hidden,
                                  .type = c->numerics.type,
                                  .y_type = c->numerics.type,
                                  .norm = c->network.norm,
                                  .epsilon = c->network.epsilon,
                                  .input = 1,
                                  .bias = bias,
                                  .residual = residual,
                                  .dropout = dropout,
                              }};
}

static void plan_add(struct planner *p, struct model *m, struct device_plan **plan)
{
    struct operation op = {.kind = OPERATION_ADD,
                           .add = {m->sizes.part_rows * m->sizes.hidden, m->config.numerics.type}};

    planner_make(p, plan, &op);
}

static int prepare(struct model *m, struct block *block, struct error *err)
{
    const struct model_config *c = &m->config;
    struct post_norm_common *common = block->common;
    struct planner p = {m->device, err, 0};
    struct operation op = step_of(m, c->network.linear_bias, 1, c->network.hidden_dropout);

    planner_make(&p, &common->forward[MODE_TRAIN], &op);
    op.kind = OPERATION_RESIDUAL_NORM_BACKWARD;
    planner_make(&p, &common->backward, &op);
    op.kind = OPERATION_RESIDUAL_NORM;
    op.residual_norm.dropout = 0;
    planner_make(&p, &common->forward[MODE_EVALUATE], &op);
    op.residual_norm.input = op.residual_norm.bias = 0;
    planner_make(&p, &common->again, &op);
    return p.failed ? -1 : 0;
}

static int prepare_embedding(struct model *m, struct block *block, struct error *err)
{
    double dropout = m->config.network.hidden_dropout;
    struct post_norm_common *common = block->common;
    struct planner p = {m->device, err, 0};
    struct operation op = step_of(m, 0, 0, 0);

    planner_make(&p, &common->forward[MODE_TRAIN], &op);
    planner_make(&p, &common->forward[MODE_EVALUATE], &op);
    op.kind = OPERATION_RESIDUAL_NORM_BACKWARD;
    planner_make(&p, &common->backward, &op);
    plan_add(&p, m, &common->add);
    if (dropout == 0)
        return p.failed ? -1 : 0;
    op = step_of(m, 0, 0, dropout);
    op.residual_norm.norm = NORM_NONE;
    planner_make(&p, &common->dropout, &op);
    op.kind = OPERATION_RESIDUAL_NORM_BACKWARD;
    planner_make(&p, &common->dropout_backward, &op);
    return p.failed ? -1 : 0;
}

static void release(void *shared)
{
    struct post_norm_common *common = shared;

    for (int mode = 0; mode < MODES; mode++)
        plan_destroy(common->forward[mode]);
    plan_destroy(common->backward);
    plan_destroy(common->again);
    plan_destroy(common->dropout);
    plan_destroy(common->dropout_backward);
    plan_destroy(common->add);
}

/* y = norm(residual + dropout(branch + bias)), or without residual and dropout norm(branch). */
static void normalize(struct pass *p, struct block *block, const void *residual)
{
    struct model *m = p->m;
    const struct post_norm_common *common = block->common;
    const struct block *branch = block->before;
    struct norm_memory *a = memory_of(p, block);

    run_residual_norm(common->forward[p->mode], compute(m),
                      &(struct residual_norm_operands){
                          .x = m->scratch.x,
                          .bias = weight(m, branch->bias),
                          .residual = residual,
                          .sum = a->sum,
                          .weight = weight(m, block->tensors[NORM_WEIGHT]),
                          .norm_bias = weight(m, block->tensors[NORM_BIAS]),
                          .y = a->y,
                          .mean = a->mean,
                          .rstd = a->rstd,
                          .row_index = p->slot->batch.row_index + first_row(m),
                          .state = m->state,
                          .purpose = branch->dropout_purpose,
                      });
}

static void forward(struct pass *p, struct block *block)
{
    normalize(p, block, norm_stream(p, block->before->before));
}

static void forward_embedding(struct pass *p, struct block *block)
{
    struct model *m = p->m;
    const struct post_norm_common *common = block->common;
    struct norm_memory *a = memory_of(p, block);

    normalize(p, block, NULL);
    if (p->mode == MODE_TRAIN && common->dropout)
        run_residual_norm(common->dropout, compute(m),
                          &(struct residual_norm_operands){
                              .x = a->y,
                              .sum = a->y,
                              .row_index = p->slot->batch.row_index + first_row(m),
                              .state = m->state,
                              .purpose = block->before->dropout_purpose,
                          });
}

/* With selective recomputation the sum was kept, and so was the output of the layer. */
static void recompute(struct pass *p, struct block *block)
{
    struct model *m = p->m;
    const struct post_norm_common *common = block->common;
    struct norm_memory *a = memory_of(p, block);

    if (m->config.recompute == RECOMPUTE_FULL)
        forward(p, block);
    else if (block->position != LAST_POSITION)
        run_residual_norm(common->again, compute(m),
                          &(struct residual_norm_operands){
                              .residual = a->sum,
                              .weight = weight(m, block->tensors[NORM_WEIGHT]),
                              .norm_bias = weight(m, block->tensors[NORM_BIAS]),
                              .y = a->y,
                              .mean = a->mean,
                              .rstd = a->rstd,
                              .state = m->state,
                          });
}

/* The gradient of a block's output: by the next branch and, as the residual, by the next norm; or
 * only one of them, at the end of a chunk. */
static void *output_gradient(struct pass *p, const struct post_norm_common *common)
{
    if (!p->dy || !p->dsum)
        return p->dy ? p->dy : p->dsum;
    run_add(common->add, compute(p->m), &(struct add_operands){p->dsum, p->dy});
    return p->dy;
}

/* From dy, and 'more' unless it is NULL: scratch.d, the gradient of the sum, and with dropout
 * scratch.dx, that of the branch. */
static void differentiate(struct pass *p, struct block *block, void *dy, void *more)
{
    struct model *m = p->m;
    const struct post_norm_common *common = block->common;
    const struct block *branch = block->before;
    struct norm_memory *a = memory_of(p, block);

    run_residual_norm_backward(common->backward, compute(m),
                               &(struct residual_norm_backward_operands){
                                   .dy = dy,
                                   .dy_more = more,
                                   .sum = a->sum,
                                   .weight = weight(m, block->tensors[NORM_WEIGHT]),
                                   .mean = a->mean,
                                   .rstd = a->rstd,
                                   .dresidual = m->scratch.d,
                                   .dx = m->scratch.dx,
                                   .dweight = gradient(m, block->tensors[NORM_WEIGHT]),
                                   .dnorm_bias = gradient(m, block->tensors[NORM_BIAS]),
                                   .dbias = gradient(m, branch->bias),
                                   .accumulate = p->accumulate,
                                   .row_index = p->slot->batch.row_index + first_row(m),
                                   .state = m->state,
                                   .purpose = branch->dropout_purpose,
                               });
}

static void backward(struct pass *p, struct block *block)
{
    struct model *m = p->m;

    differentiate(p, block, p->dy ? p->dy : p->dsum, p->dy ? p->dsum : NULL);
    p->dsum = m->scratch.d;
    p->dx = m->config.network.hidden_dropout > 0 ? m->scratch.dx : m->scratch.d;
}

static void backward_embedding(struct pass *p, struct block *block)
{
    struct model *m = p->m;
    const struct post_norm_common *common = block->common;
    void *dy = output_gradient(p, common);

    if (common->dropout_backward) {
        run_residual_norm_backward(common->dropout_backward, compute(m),
                                   &(struct residual_norm_backward_operands){
                                       .dsum = dy,
                                       .dresidual = m->scratch.d,
                                       .dx = m->scratch.dx,
                                       .row_index = p->slot->batch.row_index + first_row(m),
                                       .state = m->state,
                                       .purpose = block->before->dropout_purpose,
                                   });
        dy = m->scratch.dx;
    }
    differentiate(p, block, dy, NULL);
    p->dx = m->scratch.d;
}

/* --- The first block of a later chunk ----------------------------------------------------------
 */

static void add_no_parameters(struct builder *b, struct block *block)
{
    (void)b;
    (void)block;
}

static int prepare_input(struct model *m, struct block *block, struct error *err)
{
    struct post_norm_common *common = block->common;
    struct planner p = {m->device, err, 0};

    plan_add(&p, m, &common->add);
    return p.failed ? -1 : 0;
}

static void lay_out_input(struct model *m, const struct block *block, void *memory,
                          struct arena *arena, enum keep keep)
{
    struct norm_memory *a = memory;

    (void)block;
    (void)keep;
    a->y = a->stream =
        arena_take(arena, m->sizes.part_rows * m->sizes.hidden, type_size(m->config.numerics.type));
}

static size_t stream_bytes(const struct model *m)
{
    return (size_t)(m->sizes.part_rows * m->sizes.hidden) * type_size(m->config.numerics.type);
}

static void forward_input(struct pass *p, struct block *block)
{
    struct norm_memory *a = memory_of(p, block);

    device_copy(compute(p->m), a->y, p->m->scratch.arrived, stream_bytes(p->m), COPY_ON_DEVICE);
}

static void backward_input(struct pass *p, struct block *block)
{
    device_copy(compute(p->m), p->slot->gradient, output_gradient(p, block->common),
                stream_bytes(p->m), COPY_ON_DEVICE);
}

const struct block_kind post_norm_block = {
    .name = "norm",
    .memory_size = sizeof(struct norm_memory),
    .common_size = sizeof(struct post_norm_common),
    .add_parameters = add_parameters,
    .lay_out = lay_out,
    .prepare = prepare,
    .release = release,
    .forward = forward,
    .recompute = recompute,
    .backward = backward,
};

const struct block_kind embedding_norm_block = {
    .name = "norm of the embedding",
    .memory_size = sizeof(struct norm_memory),
    .common_size = sizeof(struct post_norm_common),
    .add_parameters = add_parameters,
    .lay_out = lay_out,
    .prepare = prepare_embedding,
    .release = release,
    .forward = forward_embedding,
    .backward = backward_embedding,
};

const struct block_kind input_block = {
    .name = "input",
    .memory_size = sizeof(struct norm_memory),
    .common_size = sizeof(struct post_norm_common),
    .add_parameters = add_no_parameters,
    .lay_out = lay_out_input,
    .prepare = prepare_input,
    .release = release,
    .forward = forward_input,
    .backward = backward_input,
};
