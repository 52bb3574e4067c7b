/* SPDX-License-Identifier: Apache-2.0 */
/* The norm block. Between two branches it is a step of the residual stream, in one operation: it
 * adds the branch before it (bias, dropout, residual) and normalizes for the branch after it. Its
 * place (enum norm_place) decides what is normalized and which result is the residual stream:
 *
 *                    sum                              y                        residual stream
 *   NORM_INPUT       stream + dropout(branch + bias)  norm(sum)                sum
 *   NORM_PARALLEL    stream + dropout(branch + bias)  norm(stream)             sum
 *   NORM_STREAM      stream + dropout(branch + bias)  norm(sum)                y
 *   NORM_EMBEDDING   embeddings                       dropout(norm(sum))       y
 *   NORM_OUTPUT      branch + bias                    norm(sum), in scratch.x  unchanged
 *
 * A norm without a name only adds: the last step of a chunk that another chunk follows, or of
 * networks that normalize the output of branches only. The first block of a later chunk has no
 * branch to add; it takes what arrives from the chunk before. */
#include "builder.h"
#include "model_private.h"

#include <stdbool.h>

enum { NORM_WEIGHT, NORM_BIAS };

/* What a variant has, as bits; its place is above them. */
enum { HAS_INPUT = 1, HAS_BIAS = 2, HAS_RESIDUAL = 4, HAS_NORM = 8, HAS_CAST = 16, PLACE = 32 };

/* Within a layer with NORM_STREAM: the norm whose output is the input of the next layer. */
enum { LAST_POSITION = 3 };

struct norm_memory {
    void *sum, *y;         /* (P, h) */
    void *stream;          /* one of these two */
    float *mean, *rstd;    /* (P) */
    struct fp8_input cast; /* of y, if the norm casts it */
};

/* One operation of the residual stream; 'cast' leaves y as e4m3, for a norm that casts its output.
 */
struct stream_plans {
    struct device_plan *plain, *cast;
};

struct norm_common {
    struct stream_plans step[MODES];
    struct stream_plans normalize; /* y from a stream alone: NORM_PARALLEL, and recomputation */
    struct device_plan *backward;  /* of the operation that normalizes, or of one that only adds */
    struct device_plan *add_backward;               /* NORM_PARALLEL: of the other one */
    struct device_plan *dropout, *dropout_backward; /* NORM_EMBEDDING; NULL: none */
    struct device_plan *cast;                       /* of y, for a step without scales */
    struct device_plan *add;                        /* gradients of the two readers of an output */
    void *d; /* (P, h) NORM_OUTPUT, NORM_PARALLEL: gradient of the output of the branch before */
    /* Of norms without weights: constants (hidden) in their place, and memory for their gradients,
     * which are not used. */
    struct device_plan *fill[2];
    void *zeros, *ones;
    float *unused[2];
};

void *norm_output(const struct pass *p, const struct block *norm)
{
    const struct norm_memory *a = memory_of(p, norm);

    if (norm->defers_cast)
        return p->m->scratch.x;
    return norm->name ? a->y : a->sum;
}

const struct fp8_input *norm_cast(const struct pass *p, const struct block *norm,
                                  const struct fp8_input *own)
{
    if (norm && norm->casts)
        return &((struct norm_memory *)memory_of(p, norm))->cast;
    return norm && norm->defers_cast ? own : NULL;
}

void *norm_stream(const struct pass *p, const struct block *norm)
{
    return ((struct norm_memory *)memory_of(p, norm))->stream;
}

/* The norm before 'block' whose residual stream it adds to, or NULL. */
static const struct block *norm_before(const struct block *block)
{
    const struct block *norm = block->before;

    while (norm && (norm->kind != &norm_block || norm->place == NORM_OUTPUT))
        norm = norm->before;
    return norm;
}

static void add_parameters(struct builder *b, struct block *block)
{
    int64_t h = b->config->network.shape.hidden;

    if (block->place == NORM_OUTPUT)
        block->dropout_purpose = block->before->dropout_purpose;
    if (!block->name || b->config->network.plain_norm)
        return;
    block->tensors[NORM_WEIGHT] =
        builder_vector(b, block, "weight", h, b->config->network.layernorm_1p ? 0 : 1);
    if (b->config->network.norm == NORM_LAYER)
        block->tensors[NORM_BIAS] = builder_vector(b, block, "bias", h, 0);
}

static int variant(const struct network *network, const struct block *block)
{
    (void)network;
    const struct block *branch = block->before;
    bool adds = block->place != NORM_OUTPUT && (!branch || norm_before(branch));

    return (branch ? HAS_INPUT : 0) | (branch && branch->bias >= 0 ? HAS_BIAS : 0) |
           (adds ? HAS_RESIDUAL : 0) | (block->name ? HAS_NORM : 0) |
           (block->casts ? HAS_CAST : 0) | PLACE * block->place;
}

/* Is the stream after it its output? */
static bool leaves_output(const struct block *block)
{
    return block->place == NORM_STREAM || block->place == NORM_EMBEDDING;
}

/* The residual stream into a layer is kept even if all else is recomputed. */
static void lay_out(struct model *m, const struct block *block, void *memory, struct arena *arena,
                    enum keep keep)
{
    struct norm_memory *a = memory;
    size_t size = type_size(m->config.numerics.type);
    int64_t rows = m->sizes.part_rows, part = rows * m->sizes.hidden;
    bool kept = keep == KEEP_ALL || keep == KEEP_COSTLY;
    bool first = keep == KEEP_INPUT && block->position == 0;
    bool last = block->place == NORM_STREAM && block->position == LAST_POSITION;
    bool output = keep == KEEP_ALL && block->place != NORM_OUTPUT && !block->defers_cast;

    if (block->casts)
        fp8_input_lay_out(m, &a->cast, m->sizes.hidden, arena);
    if (kept || first)
        a->sum = arena_take(arena, part, size);
    if (kept && block->name) {
        a->mean = arena_take(arena, rows, sizeof(float));
        a->rstd = arena_take(arena, rows, sizeof(float));
    }
    if ((output && block->name) || last)
        a->y = arena_take(arena, part, block->casts ? 1 : size);
    a->stream = leaves_output(block) ? a->y : a->sum;
}

static bool has_constants(const struct model *m, const struct block *block)
{
    return m->config.network.plain_norm && block->variant & HAS_NORM;
}

static void lay_out_common(struct model *m, struct block *block, struct arena *arena)
{
    struct norm_common *common = block->common;
    size_t size = type_size(m->config.numerics.type);
    int64_t h = m->sizes.hidden;

    if (trains(m) && (block->place == NORM_OUTPUT || block->place == NORM_PARALLEL))
        common->d = arena_take(arena, m->sizes.part_rows * h, size);
    if (!has_constants(m, block))
        return;
    common->zeros = arena_take(arena, h, size);
    common->ones = arena_take(arena, h, size);
    for (int i = 0; i < 2 && trains(m); i++)
        common->unused[i] = arena_take(arena, h, sizeof(float));
}

static void fill_constants(struct planner *p, struct model *m, struct norm_common *common)
{
    for (int value = 0; value < 2; value++) {
        struct operation op = {.kind = OPERATION_FILL,
                               .fill = {m->sizes.hidden, m->config.numerics.type, value}};

        common->fill[value] = plan_make(p, &op);
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

/* --- Plans ------------------------------------------------------------------------------------ */

static void plan_stream(struct planner *p, struct stream_plans *plans, struct operation op,
                        const struct block *block)
{
    plans->plain = plan_make(p, &op);
    op.residual_norm.y_type = TYPE_E4M3;
    if (block->variant & HAS_CAST)
        plans->cast = plan_make(p, &op);
}

static struct device_plan *plan_backward(struct planner *p, struct operation op)
{
    op.kind = OPERATION_RESIDUAL_NORM_BACKWARD;
    return plan_make(p, &op);
}

/* Plan the step, and the operations of some places that normalize or drop separately. */
static void plan_steps(struct planner *p, struct model *m, struct block *block)
{
    const struct model_config *c = &m->config;
    struct norm_common *common = block->common;
    bool parallel = block->place == NORM_PARALLEL, embedding = block->place == NORM_EMBEDDING;
    bool drops = block->variant & HAS_INPUT && block->place != NORM_OUTPUT && !embedding;
    bool normalizes = block->variant & HAS_NORM;
    struct operation step = {.kind = OPERATION_RESIDUAL_NORM,
                             .residual_norm = {
                                 .rows = m->sizes.part_rows,
                                 .cols = m->sizes.hidden,
                                 .type = c->numerics.type,
                                 .y_type = c->numerics.type,
                                 .norm = normalizes && !parallel ? c->network.norm : NORM_NONE,
                                 .epsilon = c->network.epsilon,
                                 .add_one = c->network.layernorm_1p,
                                 .input = (block->variant & HAS_INPUT) != 0,
                                 .bias = (block->variant & HAS_BIAS) != 0,
                                 .residual = (block->variant & HAS_RESIDUAL) != 0,
                                 .dropout = drops ? c->network.hidden_dropout : 0,
                             }};
    struct operation normalize = step, dropout = step;

    normalize.residual_norm.norm = c->network.norm;
    normalize.residual_norm.input = normalize.residual_norm.bias = 0;
    normalize.residual_norm.residual = 1;
    normalize.residual_norm.dropout = 0;
    dropout.residual_norm.norm = NORM_NONE;
    dropout.residual_norm.dropout = c->network.hidden_dropout;

    if (trains(m)) {
        plan_stream(p, &common->step[MODE_TRAIN], step, block);
        *(parallel ? &common->add_backward : &common->backward) = plan_backward(p, step);
    }
    step.residual_norm.dropout = 0;
    plan_stream(p, &common->step[MODE_EVALUATE], step, block);
    if (normalizes && (parallel || c->recompute != RECOMPUTE_NONE))
        plan_stream(p, &common->normalize, normalize, block);
    if (parallel && trains(m))
        common->backward = plan_backward(p, normalize);
    if (embedding && c->network.hidden_dropout > 0) {
        common->dropout = plan_make(p, &dropout);
        common->dropout_backward = plan_backward(p, dropout);
    }
}

static void prepare(struct planner *p, struct model *m, struct block *block)
{
    struct norm_common *common = block->common;
    struct operation add = {.kind = OPERATION_ADD,
                            .add = {m->sizes.part_rows * m->sizes.hidden, m->config.numerics.type}};
    struct operation cast = {.kind = OPERATION_QUANTIZE,
                             .quantize = {.rows = m->sizes.part_rows,
                                          .cols = m->sizes.hidden,
                                          .from = m->config.numerics.type,
                                          .to = TYPE_E4M3,
                                          .margin = m->fp8.rules.margin}};

    if (has_constants(m, block))
        fill_constants(p, m, common);
    if (block->variant & HAS_CAST)
        common->cast = plan_make(p, &cast);
    plan_steps(p, m, block);
    if (trains(m) && (!(block->variant & HAS_NORM) || block->place == NORM_EMBEDDING))
        common->add = plan_make(p, &add);
}

/* --- Passes ----------------------------------------------------------------------------------- */

/* Leave y where the next branch reads it, and in its type. A norm that defers its cast uses
 * scratch.x, whose values are no longer needed; so does a norm without scales yet, which then casts
 * it. */
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

static void normalize(struct pass *p, const struct block *block, const void *stream)
{
    struct model *m = p->m;
    const struct norm_common *common = block->common;
    const struct norm_memory *a = memory_of(p, block);

    run_stream(p, block, &common->normalize,
               &(struct residual_norm_operands){
                   .residual = stream,
                   .weight = norm_weight(m, block),
                   .norm_bias = norm_bias(m, block),
                   .y = a->y,
                   .mean = a->mean,
                   .rstd = a->rstd,
                   .state = m->state,
               });
}

static void forward(struct pass *p, struct block *block)
{
    struct model *m = p->m;
    const struct norm_common *common = block->common;
    const struct block *branch = block->before, *residual = branch ? norm_before(branch) : NULL;
    struct norm_memory *a = memory_of(p, block);
    const void *stream = residual ? norm_stream(p, residual) : a->sum;
    int64_t *row_index = p->slot->batch.row_index + first_row(m);
    bool leaves_scratch = block->defers_cast || block->place == NORM_OUTPUT;

    if (!branch) /* of a later chunk */
        device_copy(compute(m), a->sum, m->scratch.arrived,
                    (size_t)(m->sizes.part_rows * m->sizes.hidden) *
                        type_size(m->config.numerics.type),
                    COPY_ON_DEVICE);
    if (!branch && !block->name)
        return;
    run_stream(p, block, &common->step[p->mode],
               &(struct residual_norm_operands){
                   .x = m->scratch.x,
                   .bias = branch ? weight(m, branch->bias) : NULL,
                   .residual = stream,
                   .sum = a->sum,
                   .weight = norm_weight(m, block),
                   .norm_bias = norm_bias(m, block),
                   .y = leaves_scratch ? m->scratch.x : a->y,
                   .mean = a->mean,
                   .rstd = a->rstd,
                   .row_index = row_index,
                   .state = m->state,
                   .purpose = branch ? branch->dropout_purpose : 0,
               });
    if (block->place == NORM_PARALLEL)
        normalize(p, block, stream);
    if (common->dropout && p->mode == MODE_TRAIN)
        run_residual_norm(common->dropout, compute(m),
                          &(struct residual_norm_operands){.x = a->y,
                                                           .sum = a->y,
                                                           .row_index = row_index,
                                                           .state = m->state,
                                                           .purpose = branch->dropout_purpose});
}

/* With selective recomputation the sum is there; with full recomputation only the stream into the
 * layer. The output of the layer is kept if it is the stream. */
static void recompute(struct pass *p, struct block *block)
{
    const struct norm_memory *a = memory_of(p, block);
    bool last = block->position == LAST_POSITION;

    if (p->m->config.recompute == RECOMPUTE_FULL && block->position > 0)
        forward(p, block);
    else if (block->place == NORM_PARALLEL)
        normalize(p, block, norm_stream(p, norm_before(block->before)));
    else if ((block->place == NORM_INPUT && block->name) || (block->place == NORM_STREAM && !last))
        normalize(p, block, a->sum);
}

/* The gradient of an output by its two readers, the next branch and, as the residual, the next
 * norm; or by only one of them, at the end of a chunk. */
static void *output_gradient(struct pass *p, const struct norm_common *common)
{
    if (p->dy && p->dsum)
        run_add(common->add, compute(p->m), &(struct add_operands){p->dy, p->dsum});
    return p->dsum ? p->dsum : p->dy;
}

/* NORM_EMBEDDING: the gradient of the dropout's input. */
static void *drop_backward(struct pass *p, const struct block *block, void *dy)
{
    struct model *m = p->m;
    const struct norm_common *common = block->common;

    if (!common->dropout_backward)
        return dy;
    run_residual_norm_backward(common->dropout_backward, compute(m),
                               &(struct residual_norm_backward_operands){
                                   .dsum = dy,
                                   .dresidual = m->scratch.d,
                                   .dx = m->scratch.dx,
                                   .row_index = p->slot->batch.row_index + first_row(m),
                                   .state = m->state,
                                   .purpose = block->before->dropout_purpose,
                               });
    return m->scratch.dx;
}

/* From the gradients of the output and of the stream after it, dy and dsum: those of the branch
 * before it and of the stream before that, p->dx and p->dsum. */
static void backward(struct pass *p, struct block *block)
{
    struct model *m = p->m;
    const struct norm_common *common = block->common;
    const struct block *branch = block->before;
    struct norm_memory *a = memory_of(p, block);
    void *d = branch ? m->scratch.d : p->slot->gradient, *dbranch = d;
    struct residual_norm_backward_operands o = {
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
    };

    switch (block->place) {
    case NORM_INPUT:
        if (!block->name)
            o.dsum = output_gradient(p, common);
        break;
    case NORM_PARALLEL: {
        /* The attention's is that of the stream alone; the stream's gets the MLP's added. */
        struct residual_norm_backward_operands add = o;

        add.dresidual = dbranch = common->d;
        run_residual_norm_backward(common->add_backward, compute(m), &add);
        o.sum = norm_stream(p, norm_before(branch));
        break;
    }
    case NORM_STREAM: /* The output is the stream: both are gradients of it. */
        o.dy = p->dy ? p->dy : p->dsum;
        o.dy_more = p->dy ? p->dsum : NULL;
        o.dsum = NULL;
        break;
    case NORM_EMBEDDING:
        o.dy = drop_backward(p, block, output_gradient(p, common));
        o.dsum = NULL;
        break;
    case NORM_OUTPUT:
        o.dy = p->dx;
        o.dsum = NULL;
        o.dresidual = common->d;
        break;
    }
    run_residual_norm_backward(common->backward, compute(m), &o);
    if (block->place == NORM_OUTPUT) {
        p->dx = common->d;
        return;
    }
    p->dsum = d;
    p->dx = m->config.network.hidden_dropout > 0 && block->place != NORM_EMBEDDING ? m->scratch.dx
                                                                                   : dbranch;
}

const struct block_kind norm_block = {
    .name = "norm",
    .memory_size = sizeof(struct norm_memory),
    .common_size = sizeof(struct norm_common),
    .add_parameters = add_parameters,
    .variant = variant,
    .lay_out = lay_out,
    .lay_out_common = lay_out_common,
    .prepare = prepare,
    .forward = forward,
    .recompute = recompute,
    .backward = backward,
};
