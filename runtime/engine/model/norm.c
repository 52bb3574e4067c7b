/* SPDX-License-Identifier: Apache-2.0 */
/* The norm block, a step of the residual stream: it adds the branch before it (bias, dropout,
 * residual) and normalizes the sum for the branch after it. Without a name it only adds: the last
 * step of a chunk that another chunk follows, or in networks that normalize the output of branches
 * only. The first block of a later chunk has nothing to add. */
#include "norm.h"

/* What a variant has, as bits. */
enum { HAS_INPUT = 1, HAS_BIAS = 2, HAS_RESIDUAL = 4, HAS_NORM = 8, HAS_CAST = 16 };

/* One operation of the residual stream; 'cast' leaves y as e4m3, for a norm that casts its output.
 */
struct stream_plans {
    struct device_plan *plain, *cast;
};

struct norm_common {
    struct stream_plans forward[MODES];
    struct stream_plans again; /* y from the sum alone; for recomputation */
    struct device_plan *backward;
    struct device_plan *cast; /* of y, for a step without scales */
    struct device_plan *add;  /* gradients of the branch that took the sum itself */
    /* Of norms without weights: constants (hidden) in their place, and memory for their gradients,
     * which nobody reads. */
    struct device_plan *fill[2];
    void *zeros, *ones;
    float *unused[2];
};

void *norm_output(const struct pass *p, const struct block *norm)
{
    const struct norm_memory *a = memory_of(p, norm);

    if (norm->passes)
        return p->m->scratch.x;
    return norm->kind == &norm_block && !norm->name ? a->sum : a->y;
}

const struct fp8_input *norm_cast(const struct pass *p, const struct block *norm,
                                  const struct fp8_input *own)
{
    if (norm && norm->casts)
        return &((struct norm_memory *)memory_of(p, norm))->cast;
    return norm && norm->passes ? own : NULL;
}

void *norm_stream(const struct pass *p, const struct block *norm)
{
    return ((struct norm_memory *)memory_of(p, norm))->stream;
}

const struct block *norm_before(const struct block *block)
{
    const struct block *norm = block->before;

    while (norm && !norm->kind->is_norm)
        norm = norm->before;
    return norm;
}

void norm_add_parameters(struct builder *b, struct block *block)
{
    int64_t h = b->config->network.shape.hidden;

    if (!block->name)
        return;
    if (b->config->network.plain_norm)
        return;
    block->tensors[NORM_WEIGHT] =
        builder_vector(b, block, "weight", h, b->config->network.layernorm_1p ? 0 : 1);
    if (b->config->network.norm == NORM_LAYER)
        block->tensors[NORM_BIAS] = builder_vector(b, block, "bias", h, 0);
}

static int variant(const struct block *block)
{
    const struct block *branch = block->before;

    return (branch ? HAS_INPUT : 0) | (branch && branch->bias >= 0 ? HAS_BIAS : 0) |
           (!branch || norm_before(branch) ? HAS_RESIDUAL : 0) | (block->name ? HAS_NORM : 0) |
           (block->casts ? HAS_CAST : 0);
}

/* The residual stream into a layer is kept even if all else is recomputed. */
void norm_lay_out(struct model *m, const struct block *block, void *memory, struct arena *arena,
                  enum keep keep)
{
    struct norm_memory *a = memory;
    size_t size = type_size(m->config.numerics.type);
    int64_t rows = m->sizes.part_rows, part = rows * m->sizes.hidden;

    if (block->casts)
        fp8_input_lay_out(m, &a->cast, m->sizes.hidden, arena);
    if (keep == KEEP_NOTHING || (keep == KEEP_INPUT && block->position > 0))
        return;
    a->sum = a->stream = arena_take(arena, part, size);
    if (keep == KEEP_INPUT || !block->name)
        return;
    a->mean = arena_take(arena, rows, sizeof(float));
    a->rstd = arena_take(arena, rows, sizeof(float));
    if (keep == KEEP_ALL && !block->passes)
        a->y = arena_take(arena, part, block->casts ? 1 : size);
}

static int has_constants(const struct model *m, const struct block *block)
{
    return m->config.network.plain_norm && block->variant & HAS_NORM;
}

static void lay_out_constants(struct model *m, struct block *block, struct arena *arena)
{
    struct norm_common *common = block->common;
    int64_t h = m->sizes.hidden;

    if (!has_constants(m, block))
        return;
    common->zeros = arena_take(arena, h, type_size(m->config.numerics.type));
    common->ones = arena_take(arena, h, type_size(m->config.numerics.type));
    for (int i = 0; i < 2 && trains(m); i++)
        common->unused[i] = arena_take(arena, h, sizeof(float));
}

static void fill_constants(struct planner *p, struct model *m, struct norm_common *common)
{
    for (int value = 0; value < 2; value++) {
        struct operation op = {.kind = OPERATION_FILL,
                               .fill = {m->sizes.hidden, m->config.numerics.type, value}};

        planner_make(p, &common->fill[value], &op);
        if (!p->failed)
            run_fill(common->fill[value], compute(m),
                     &(struct fill_operands){value ? common->ones : common->zeros});
    }
}

static const void *norm_weight(struct model *m, const struct block *block)
{
    const struct norm_common *common = block->common;

    return has_constants(m, block) ? common->ones : weight(m, block->tensors[NORM_WEIGHT]);
}

static const void *norm_bias(struct model *m, const struct block *block)
{
    const struct norm_common *common = block->common;

    return has_constants(m, block) ? common->zeros : weight(m, block->tensors[NORM_BIAS]);
}

/* Of the weight or of the bias. */
static float *norm_gradient(struct model *m, const struct block *block, int tensor)
{
    const struct norm_common *common = block->common;

    return has_constants(m, block) ? common->unused[tensor == NORM_BIAS]
                                   : gradient(m, block->tensors[tensor]);
}

static void plan_stream(struct planner *p, struct stream_plans *plans, struct operation op,
                        const struct block *block)
{
    planner_make(p, &plans->plain, &op);
    op.residual_norm.y_type = TYPE_E4M3;
    if (block->variant & HAS_CAST)
        planner_make(p, &plans->cast, &op);
}

static int prepare(struct model *m, struct block *block, struct error *err)
{
    const struct model_config *c = &m->config;
    struct norm_common *common = block->common;
    struct planner p = {m->device, err, 0};
    struct operation op = {
        .kind = OPERATION_RESIDUAL_NORM,
        .residual_norm = {
            .rows = m->sizes.part_rows,
            .cols = m->sizes.hidden,
            .type = c->numerics.type,
            .y_type = c->numerics.type,
            .norm = block->variant & HAS_NORM ? c->network.norm : NORM_NONE,
            .epsilon = c->network.epsilon,
            .add_one = c->network.layernorm_1p,
            .input = (block->variant & HAS_INPUT) != 0,
            .bias = (block->variant & HAS_BIAS) != 0,
            .residual = (block->variant & HAS_RESIDUAL) != 0,
            .dropout = block->variant & HAS_INPUT ? c->network.hidden_dropout : 0,
        }};
    struct operation add = {.kind = OPERATION_ADD,
                            .add = {m->sizes.part_rows * m->sizes.hidden, c->numerics.type}};
    struct operation cast = {.kind = OPERATION_QUANTIZE,
                             .quantize = {.rows = m->sizes.part_rows,
                                          .cols = m->sizes.hidden,
                                          .from = c->numerics.type,
                                          .to = TYPE_E4M3,
                                          .margin = m->fp8.rules.margin}};

    if (has_constants(m, block))
        fill_constants(&p, m, common);
    if (block->variant & HAS_CAST)
        planner_make(&p, &common->cast, &cast);
    if (trains(m)) {
        plan_stream(&p, &common->forward[MODE_TRAIN], op, block);
        op.kind = OPERATION_RESIDUAL_NORM_BACKWARD;
        planner_make(&p, &common->backward, &op);
        op.kind = OPERATION_RESIDUAL_NORM;
    }
    op.residual_norm.dropout = 0;
    plan_stream(&p, &common->forward[MODE_EVALUATE], op, block);
    if (!(block->variant & HAS_NORM) && trains(m))
        planner_make(&p, &common->add, &add);
    if (c->recompute == RECOMPUTE_NONE || !(block->variant & HAS_NORM))
        return p.failed ? -1 : 0;
    op.residual_norm.input = op.residual_norm.bias = 0;
    op.residual_norm.residual = 1;
    plan_stream(&p, &common->again, op, block);
    return p.failed ? -1 : 0;
}

static void release(void *shared)
{
    struct norm_common *common = shared;

    for (int mode = 0; mode < MODES; mode++) {
        plan_destroy(common->forward[mode].plain);
        plan_destroy(common->forward[mode].cast);
    }
    plan_destroy(common->again.plain);
    plan_destroy(common->again.cast);
    plan_destroy(common->backward);
    plan_destroy(common->cast);
    plan_destroy(common->add);
    plan_destroy(common->fill[0]);
    plan_destroy(common->fill[1]);
}

/* y is left where and as the branch after it reads it. A norm that passes its output leaves it in
 * scratch.x, whose values are no longer needed. Without scales y is computed there, too, and cast.
 */
static void run_stream(struct pass *p, const struct block *block, const struct stream_plans *plans,
                       struct residual_norm_operands *o)
{
    struct model *m = p->m;
    const struct norm_common *common = block->common;
    const struct norm_memory *a = memory_of(p, block);
    int tensor = block->casts ? block[1].tensors[block[1].kind->linears[0]] : -1;

    if (block->casts && m->fp8.settled) {
        o->y_scale = fp8_input_scale(m, tensor, &a->cast);
        run_residual_norm(plans->cast, compute(m), o);
        return;
    }
    if (block->casts)
        o->y = m->scratch.x;
    run_residual_norm(plans->plain, compute(m), o);
    if (block->casts)
        fp8_cast_input(m, common->cast, tensor, &a->cast, m->scratch.x, a->y);
}

static void forward(struct pass *p, struct block *block)
{
    struct model *m = p->m;
    const struct norm_common *common = block->common;
    const struct block *branch = block->before, *residual = branch ? norm_before(branch) : NULL;
    struct norm_memory *a = memory_of(p, block);

    if (!branch) /* of a later chunk */
        device_copy(compute(m), a->sum, m->scratch.arrived,
                    (size_t)(m->sizes.part_rows * m->sizes.hidden) *
                        type_size(m->config.numerics.type),
                    COPY_ON_DEVICE);
    if (!branch && !block->name)
        return;
    run_stream(p, block, &common->forward[p->mode],
               &(struct residual_norm_operands){
                   .x = m->scratch.x,
                   .bias = branch ? weight(m, branch->bias) : NULL,
                   .residual = residual ? norm_stream(p, residual) : a->sum,
                   .sum = a->sum,
                   .weight = norm_weight(m, block),
                   .norm_bias = norm_bias(m, block),
                   .y = block->passes ? m->scratch.x : a->y,
                   .mean = a->mean,
                   .rstd = a->rstd,
                   .row_index = p->slot->batch.row_index + first_row(m),
                   .state = m->state,
                   .purpose = branch ? branch->dropout_purpose : 0,
               });
}

/* The sum is there, or was computed from the branch again; so is y with full recomputation. */
static void recompute(struct pass *p, struct block *block)
{
    struct model *m = p->m;
    const struct norm_common *common = block->common;
    struct norm_memory *a = memory_of(p, block);

    if (m->config.recompute == RECOMPUTE_FULL && block->position > 0) {
        forward(p, block);
        return;
    }
    if (!block->name)
        return;
    run_stream(p, block, &common->again,
               &(struct residual_norm_operands){
                   .residual = a->sum,
                   .weight = norm_weight(m, block),
                   .norm_bias = norm_bias(m, block),
                   .y = a->y,
                   .mean = a->mean,
                   .rstd = a->rstd,
                   .state = m->state,
               });
}

static void backward(struct pass *p, struct block *block)
{
    struct model *m = p->m;
    const struct norm_common *common = block->common;
    const struct block *branch = block->before;
    struct norm_memory *a = memory_of(p, block);
    void *d = branch ? m->scratch.d : p->slot->gradient;

    if (!block->name && p->dy)
        run_add(common->add, compute(m), &(struct add_operands){p->dy, p->dsum});
    run_residual_norm_backward(common->backward, compute(m),
                               &(struct residual_norm_backward_operands){
                                   .dy = p->dy,
                                   .dsum = p->dsum,
                                   .sum = a->sum,
                                   .weight = norm_weight(m, block),
                                   .mean = a->mean,
                                   .rstd = a->rstd,
                                   .dresidual = d,
                                   .dx = m->scratch.dx,
                                   .dweight = norm_gradient(m, block, NORM_WEIGHT),
                                   .dnorm_bias = norm_gradient(m, block, NORM_BIAS),
                                   .dbias = branch ? gradient(m, branch->bias) : NULL,
                                   .accumulate = p->accumulate,
                                   .row_index = p->slot->batch.row_index + first_row(m),
                                   .state = m->state,
                                   .purpose = branch ? branch->dropout_purpose : 0,
                               });
    p->dsum = d;
    p->dx = m->config.network.hidden_dropout > 0 ? m->scratch.dx : d;
}

const struct block_kind norm_block = {
    .name = "norm",
    .memory_size = sizeof(struct norm_memory),
    .common_size = sizeof(struct norm_common),
    .is_norm = 1,
    .add_parameters = norm_add_parameters,
    .variant = variant,
    .lay_out = norm_lay_out,
    .lay_out_common = lay_out_constants,
    .prepare = prepare,
    .release = release,
    .forward = forward,
    .recompute = recompute,
    .backward = backward,
};
