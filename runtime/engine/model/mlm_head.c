/* SPDX-License-Identifier: Apache-2.0 */
/* The head of a masked language model: dense layer, exact GELU, norm, decoder tied to the word
 * table with a bias of its own, and cross entropy; pooler.c adds the binary head. Only the selected
 * tokens are computed, 'masked' rows (M) at most: the plans do not depend on how many a batch has.
 *
 * Each tensor-parallel rank has the selected rows of its part of the sequence. They are added up
 * and scattered, so that each rank computes the dense layer and the norm of its share (masked_part,
 * m) of the rows, and gathered for the decoder, which is split by vocabulary. A training pass
 * computes the loss and all gradients at once and keeps the gradient of the selected rows. */
#include "builder.h"
#include "pooler.h"
#include "vocabulary_loss.h"

enum { WORD, BIAS, DENSE, DENSE_BIAS, NORM, NORM_BIAS, POOLER };
_Static_assert(POOLER + POOLER_TENSORS <= BLOCK_TENSORS, "the head has more tensors than a block");

struct mlm_head_memory {
    void *gradient; /* (M, h) of the selected rows */
    void *pair;     /* see pooler.h */
};

struct mlm_head_common {
    struct linear dense;
    struct device_plan *select, *unselect, *clear; /* rows out of the stream and into it */
    struct device_plan *norm, *norm_backward, *gelu_backward;
    struct vocabulary_loss loss;
    void *whole;        /* (M, h) selected rows, then the gradient of 'all' */
    void *x;            /* (m, h) selected rows of this rank; then gradients */
    void *pre, *gelu;   /* (m, h) */
    void *y, *all;      /* (m, h) normalized; (M, h) of all tensor-parallel ranks */
    float *mean, *rstd; /* (m) */
    struct pooler pooler;
};

/* The table of words, or on another pipeline stage a copy of it. The bias has one entry per token
 * and is padded and split as the table. */
static void add_parameters(struct builder *b, struct block *block)
{
    const struct model_config *c = b->config;
    int64_t h = c->network.shape.hidden;
    int *t = block->tensors, word = b->p->word;

    t[WORD] =
        word >= 0 ? word : builder_vocabulary(b, block, "embedding.word.weight", 0, CLASS_TIED);
    b->p->head = t[WORD];
    t[BIAS] = builder_tensor(b, CLASS_RAW);
    builder_add(b, block,
                &(struct parameter_spec){"bias", c->padded_vocabulary, 1, SPLIT_ROWS, 0, 0, 0});
    b->p->list[b->p->count - 1].true_rows = c->network.shape.vocabulary;
    t[DENSE] = builder_tensor(b, CLASS_SHARED);
    builder_add(
        b, block,
        &(struct parameter_spec){"dense.weight", h, h, SPLIT_NONE, 4, c->network.init_std, 0});
    t[DENSE_BIAS] = builder_vector(b, block, "dense.bias", h, 0);
    t[NORM] = builder_vector(b, block, "norm.weight", h, 1);
    t[NORM_BIAS] = builder_vector(b, block, "norm.bias", h, 0);
    if (c->network.binary_head)
        pooler_add_parameters(b, block, &t[POOLER]);
}

static void lay_out(struct model *m, const struct block *block, void *memory, struct arena *arena,
                    enum keep keep)
{
    const struct model_sizes *z = &m->sizes;
    struct mlm_head_memory *a = memory;
    size_t size = type_size(m->config.numerics.type);

    (void)block;
    (void)keep;
    a->gradient = arena_take(arena, z->masked * z->hidden, size);
    if (z->binary)
        a->pair = arena_take(arena, z->samples * z->hidden, size);
}

static void lay_out_common(struct model *m, struct block *block, struct arena *arena)
{
    const struct model_sizes *z = &m->sizes;
    struct mlm_head_common *common = block->common;
    size_t size = type_size(m->config.numerics.type);
    int64_t part = z->masked_part * z->hidden, whole = z->masked * z->hidden;
    int several = m->parallel->layout.tp > 1;

    common->whole = arena_take(arena, whole, size);
    common->x = several ? arena_take(arena, part, size) : common->whole;
    common->pre = arena_take(arena, part, size);
    common->gelu = arena_take(arena, part, size);
    common->y = arena_take(arena, part, size);
    common->all = several ? arena_take(arena, whole, size) : common->y;
    common->mean = arena_take(arena, z->masked_part, sizeof(float));
    common->rstd = arena_take(arena, z->masked_part, sizeof(float));
    vocabulary_loss_lay_out(m, &common->loss, arena);
    if (z->binary)
        pooler_lay_out(m, &common->pooler, arena);
}

static void plan_rows(struct planner *p, struct model *m, struct mlm_head_common *common)
{
    const struct model_sizes *z = &m->sizes;
    enum device_type type = m->config.numerics.type;
    struct operation select = {.kind = OPERATION_GATHER_ROWS,
                               .gather_rows = {z->masked, z->hidden, type, 0, 0, 0}};
    struct operation clear = {.kind = OPERATION_FILL, .fill = {z->part_rows * z->hidden, type, 0}};

    common->select = plan_make(p, &select);
    select.gather_rows.scatter = 1;
    common->unselect = plan_make(p, &select);
    common->clear = plan_make(p, &clear);
}

static void plan_transform(struct planner *p, struct model *m, struct mlm_head_common *common)
{
    const struct model_config *c = &m->config;
    const struct model_sizes *z = &m->sizes;
    const struct linear_spec dense = {.rows = z->masked_part,
                                      .in = z->hidden,
                                      .out = z->hidden,
                                      .bias = 1,
                                      .activation = ACTIVATION_GELU_ERF,
                                      .head = 1};
    struct operation norm = {.kind = OPERATION_RESIDUAL_NORM,
                             .head = 1,
                             .residual_norm = {.rows = z->masked_part,
                                               .cols = z->hidden,
                                               .type = c->numerics.type,
                                               .y_type = c->numerics.type,
                                               .norm = NORM_LAYER,
                                               .epsilon = c->network.epsilon,
                                               .residual = 1}};
    struct operation gelu = {.kind = OPERATION_ACTIVATION,
                             .head = 1,
                             .activation = {z->masked_part * z->hidden, c->numerics.type,
                                            c->numerics.type, ACTIVATION_GELU_ERF, 1}};

    linear_plan(p, m, &common->dense, &dense);
    common->norm = plan_make(p, &norm);
    norm.kind = OPERATION_RESIDUAL_NORM_BACKWARD;
    common->norm_backward = plan_make(p, &norm);
    common->gelu_backward = plan_make(p, &gelu);
}

static void prepare(struct planner *p, struct model *m, struct block *block)
{
    struct mlm_head_common *common = block->common;

    plan_rows(p, m, common);
    plan_transform(p, m, common);
    vocabulary_loss_plan(p, m, &common->loss, true);
    if (m->sizes.binary)
        pooler_plan(p, m, &common->pooler);
}

/* The selected rows, for the sequence-parallel collectives. */
static struct sequence_rows selected_rows(const struct model *m)
{
    return (struct sequence_rows){m->sizes.masked_part, m->sizes.hidden, m->config.numerics.type};
}

/* The output of the network -> 'all' (M, h), what the decoder takes. */
static void transform(struct pass *p, struct block *block)
{
    struct model *m = p->m;
    const struct mlm_head_common *common = block->common;
    const int *t = block->tensors;
    struct sequence_rows rows = selected_rows(m);

    run_gather_rows(common->select, compute(m),
                    &(struct gather_rows_operands){norm_output(p, block->before),
                                                   p->slot->batch.selected, common->whole});
    sequence_scatter(&m->overlap, &rows, common->whole, common->x);
    overlap_end(&m->overlap);
    run_linear_forward(common->dense.forward, compute(m),
                       &(struct linear_forward_operands){.x = common->x,
                                                         .weight = weight(m, t[DENSE]),
                                                         .bias = weight(m, t[DENSE_BIAS]),
                                                         .y = common->gelu,
                                                         .pre = common->pre});
    run_residual_norm(common->norm, compute(m),
                      &(struct residual_norm_operands){.residual = common->gelu,
                                                       .weight = weight(m, t[NORM]),
                                                       .norm_bias = weight(m, t[NORM_BIAS]),
                                                       .y = common->y,
                                                       .mean = common->mean,
                                                       .rstd = common->rstd,
                                                       .state = m->state});
    sequence_gather(&m->overlap, &rows, common->y, common->all);
    overlap_end(&m->overlap);
}

/* From 'whole', the gradient of the decoder's input, back through the norm and the dense layer to
 * that of the selected rows, which the slot keeps. 'x' still has the rows themselves; with one
 * tensor-parallel rank they share memory with 'whole' and are selected again. */
static void differentiate(struct pass *p, struct block *block)
{
    struct model *m = p->m;
    const struct mlm_head_common *common = block->common;
    const struct mlm_head_memory *a = memory_of(p, block);
    const int *t = block->tensors;
    struct sequence_rows rows = selected_rows(m);
    int several = m->parallel->layout.tp > 1;
    void *d = common->y; /* (m, h); the output of the norm is in 'all' */
    void *dx = several ? common->gelu : a->gradient;

    if (several) {
        sequence_scatter(&m->overlap, &rows, common->whole, d);
        overlap_end(&m->overlap);
    }
    run_residual_norm_backward(
        common->norm_backward, compute(m),
        &(struct residual_norm_backward_operands){.dy = several ? d : common->whole,
                                                  .sum = common->gelu,
                                                  .weight = weight(m, t[NORM]),
                                                  .mean = common->mean,
                                                  .rstd = common->rstd,
                                                  .dresidual = d,
                                                  .dweight = gradient(m, t[NORM]),
                                                  .dnorm_bias = gradient(m, t[NORM_BIAS]),
                                                  .accumulate = p->accumulate,
                                                  .state = m->state});
    run_activation(common->gelu_backward, compute(m),
                   &(struct activation_operands){.x = common->pre, .y = d, .dy = d});
    if (!several)
        run_gather_rows(common->select, compute(m),
                        &(struct gather_rows_operands){norm_output(p, block->before),
                                                       p->slot->batch.selected, common->whole});
    run_linear_wgrad(common->dense.wgrad, compute(m),
                     &(struct linear_wgrad_operands){.dy = d,
                                                     .x = common->x,
                                                     .dweight = gradient(m, t[DENSE]),
                                                     .dbias = gradient(m, t[DENSE_BIAS]),
                                                     .accumulate = p->accumulate});
    run_linear_dgrad(
        common->dense.dgrad, compute(m),
        &(struct linear_dgrad_operands){.dy = d, .weight = weight(m, t[DENSE]), .dx = dx});
    sequence_gather(&m->overlap, &rows, dx, a->gradient);
    overlap_end(&m->overlap);
}

static void forward(struct pass *p, struct block *block)
{
    const struct mlm_head_common *common = block->common;
    const struct mlm_head_memory *a = memory_of(p, block);

    transform(p, block);
    vocabulary_loss_run(p, &common->loss, block->tensors[WORD], block->tensors[BIAS],
                        p->m->sizes.masked, common->all, common->whole);
    if (p->mode == MODE_TRAIN)
        differentiate(p, block);
    if (p->m->sizes.binary)
        pooler_forward(p, &common->pooler, &block->tensors[POOLER], norm_output(p, block->before),
                       a->pair);
}

/* The forward pass has computed the gradient of the selected rows; that of the others is 0. */
static void backward(struct pass *p, struct block *block)
{
    struct model *m = p->m;
    const struct mlm_head_common *common = block->common;
    const struct mlm_head_memory *a = memory_of(p, block);

    run_fill(common->clear, compute(m), &(struct fill_operands){m->scratch.dy});
    run_gather_rows(
        common->unselect, compute(m),
        &(struct gather_rows_operands){a->gradient, p->slot->batch.selected, m->scratch.dy});
    if (m->sizes.binary)
        pooler_backward(p, &common->pooler, a->pair, m->scratch.dy);
    p->dy = m->scratch.dy;
    p->dsum = NULL;
}

const struct block_kind mlm_head_block = {
    .name = "head",
    .memory_size = sizeof(struct mlm_head_memory),
    .common_size = sizeof(struct mlm_head_common),
    .add_parameters = add_parameters,
    .lay_out = lay_out,
    .lay_out_common = lay_out_common,
    .prepare = prepare,
    .forward = forward,
    .backward = backward,
};
