/* SPDX-License-Identifier: Apache-2.0 */
#include "fp8_layers.h"
#include "engine/device/cpu_workspace.h"
#include "linear.h"
#include "base/core/xmalloc.h"

#include <stdlib.h>

enum { UNIT = 16 }; /* of a product with scales of whole factors */

/* --- Which layers ----------------------------------------------------------------------------- */

const char *linear_kind_name(enum linear_kind kind)
{
    static const char *const names[LINEAR_KINDS] = {"qkv", "projection", "fc1", "fc2"};

    return names[kind];
}

void linear_kind_sizes(const struct model_sizes *z, enum linear_kind kind, int64_t *in,
                       int64_t *out)
{
    *in = kind == LINEAR_PROJECTION ? z->attention : kind == LINEAR_FC2 ? z->ffn : z->hidden;
    *out = kind == LINEAR_QKV ? z->qkv : kind == LINEAR_FC1 ? z->fc1 : z->hidden;
}

int fp8_in_layer(const struct model_config *config, int64_t number)
{
    return config->numerics.fp8.format != FP8_NONE && number >= config->numerics.fp8.first_bf16 &&
           number < config->network.shape.layers - config->numerics.fp8.last_bf16;
}

int64_t fp8_unit(const struct model_config *config)
{
    return config->numerics.fp8.recipe == FP8_BLOCKWISE ? SCALING_BLOCK : UNIT;
}

int fp8_products(const struct model_config *config, const struct model_sizes *sizes,
                 enum linear_kind kind)
{
    int products = PRODUCT_FORWARD | PRODUCT_DGRAD | PRODUCT_WGRAD;
    int64_t in, out, unit = fp8_unit(config);

    linear_kind_sizes(sizes, kind, &in, &out);
    if (in % unit || out % unit || sizes->rows % unit)
        return 0;
    if (config->numerics.fp8.bf16_wgrad)
        products &= ~PRODUCT_WGRAD;
    /* dgrad does not read fc2's input. */
    if (kind == LINEAR_FC2 && config->numerics.fp8.bf16_fc2_input)
        products &= PRODUCT_DGRAD;
    return products;
}

size_t fp8_cpu_workspace(const struct model_config *config, const struct layout *layout)
{
    struct model_sizes sizes = model_sizes(config, layout);
    size_t most = 0;

    for (int kind = 0; kind < LINEAR_KINDS && config->numerics.fp8.format != FP8_NONE; kind++) {
        int products = fp8_products(config, &sizes, (enum linear_kind)kind);
        int64_t in, out, rows = sizes.rows;
        size_t each[3] = {0};

        linear_kind_sizes(&sizes, (enum linear_kind)kind, &in, &out);
        if (products & PRODUCT_FORWARD)
            each[0] = cpu_factor_bytes(rows, out, in);
        if (products & PRODUCT_DGRAD)
            each[1] = cpu_factor_bytes(rows, in, out);
        if (products & PRODUCT_WGRAD)
            each[2] = cpu_factor_bytes(out, in, rows);
        for (int i = 0; i < 3; i++)
            most = each[i] > most ? each[i] : most;
    }
    return most;
}

int fp8_gathers(const struct model_config *config, const struct model_sizes *sizes,
                enum linear_kind kind)
{
    return config->numerics.fp8.gather && fp8_products(config, sizes, kind) & PRODUCT_FORWARD;
}

/* --- Memory ----------------------------------------------------------------------------------- */

struct scaling_rules fp8_rules(const struct model_config *config)
{
    const struct fp8_config *f = &config->numerics.fp8;
    int delayed = f->recipe == FP8_DELAYED;

    return (struct scaling_rules){.count =
                                      config->network.shape.layers * LINEAR_KINDS * SCALED_TENSORS,
                                  .length = delayed ? f->history : 1,
                                  .delayed = delayed,
                                  .most_recent = f->most_recent,
                                  .margin = delayed ? (int)f->margin : 0,
                                  .hybrid = f->format == FP8_HYBRID,
                                  .blocks = f->recipe == FP8_BLOCKWISE};
}

static void add_weights(struct model *m, const struct block *block)
{
    const struct block_kind *kind = block->kind;

    for (int i = 0; i < kind->linear_count && block->fp8; i++) {
        enum linear_kind linear = (enum linear_kind)(kind->first_linear + i);
        struct fp8_weight *weight = &m->fp8.weights[block->tensors[kind->linears[i]]];

        weight->products = fp8_products(&m->config, &m->sizes, linear);
        linear_kind_sizes(&m->sizes, linear, &weight->in, &weight->out);
        weight->gathered = fp8_gathers(&m->config, &m->sizes, linear);
        if (weight->products)
            weight->entry = (block->number * LINEAR_KINDS + linear) * SCALED_TENSORS;
    }
}

void fp8_layers_create(struct model *m)
{
    const struct block_list *n = m->parameters.blocks;

    if (m->config.numerics.fp8.format == FP8_NONE)
        return;
    m->fp8.rules = fp8_rules(&m->config);
    m->fp8.weights = xcalloc((size_t)m->parameters.tensor_count, sizeof(*m->fp8.weights));
    for (int i = 0; i < m->parameters.tensor_count; i++)
        m->fp8.weights[i].entry = -1;
    for (int i = 0; i < n->count; i++)
        add_weights(m, &n->blocks[i]);
}

/* The widest input or gradient of a linear layer. */
static int64_t widest(const struct model *m)
{
    int64_t most = 0;

    for (int kind = 0; kind < LINEAR_KINDS; kind++) {
        int64_t in, out;

        linear_kind_sizes(&m->sizes, (enum linear_kind)kind, &in, &out);
        most = in > most ? in : most;
        most = out > most ? out : most;
    }
    return most;
}

static void lay_out_weight(const struct fp8_layers *f, struct fp8_weight *w, struct arena *arena)
{
    if (w->products & PRODUCT_FORWARD && !w->gathered)
        w->rows = arena_take(arena, w->out * w->in, 1);
    if (w->products & PRODUCT_DGRAD)
        w->columns = arena_take(arena, w->out * w->in, 1);
    if (!f->rules.blocks || !w->products)
        return;
    w->rows_inverse =
        arena_take(arena, scaling_count(SCALED_SQUARES, w->out, w->in), sizeof(float));
    w->columns_inverse =
        arena_take(arena, scaling_count(SCALED_SQUARES, w->in, w->out), sizeof(float));
}

void fp8_layers_lay_out(struct model *m, struct arena *arena)
{
    struct fp8_layers *f = &m->fp8;

    if (!f->weights)
        return;
    f->kept = arena_take(arena, fp8_layers_kept(&f->rules), sizeof(float));
    f->amax = arena_take(arena, f->rules.count, sizeof(float));
    f->inverse = arena_take(arena, f->rules.count * INVERSE_STRIDE, sizeof(float));
    fp8_gather_lay_out(m, arena);
    for (int i = 0; i < 2; i++)
        f->scratch[i] = arena_take(arena, m->sizes.rows * widest(m), 1);
    for (int i = 0; i < 2 && f->rules.blocks; i++)
        f->block_inverse[i] = arena_take(
            arena, scaling_count(SCALED_VECTORS, widest(m), m->sizes.rows), sizeof(float));
    for (int i = 0; i < m->parameters.tensor_count; i++)
        lay_out_weight(f, &f->weights[i], arena);
}

int fp8_layers_prepare(struct model *m, struct error *err)
{
    struct planner p = {.plans = &m->plans, .err = err};
    struct fp8_layers *f = &m->fp8;
    struct operation op = {.kind = OPERATION_SCALING, .scaling = {f->rules}};

    if (!f->weights)
        return 0;
    f->end = plan_make(&p, &op);
    fp8_gather_prepare(&p, m);
    return p.failed || model_clear(m, f->used, f->rules.count, TYPE_FP32, err) < 0 ||
                   model_clear(m, f->kept, fp8_layers_kept(&f->rules), TYPE_FP32, err) < 0
               ? -1
               : model_clear(m, f->amax, f->rules.count, TYPE_FP32, err);
}

/* --- Casts ------------------------------------------------------------------------------------ */

static float *inverse_of(const struct fp8_layers *f, int tensor, enum scaled_tensor which)
{
    return f->inverse + (f->weights[tensor].entry + which) * INVERSE_STRIDE;
}

static struct operand_scale scale_of(struct model *m, int tensor, enum scaled_tensor which)
{
    struct fp8_layers *f = &m->fp8;
    int64_t entry = f->weights[tensor].entry + which;

    return (struct operand_scale){.scale = fp8_scales(f) + entry,
                                  .amax = f->records ? f->amax + entry : NULL,
                                  .inverse = inverse_of(f, tensor, which)};
}

static void cast(struct model *m, struct device_plan *plan, const struct operand_scale *scale,
                 struct quantize_operands *o)
{
    o->scale = scale->scale;
    o->amax = scale->amax;
    o->inverse = scale->inverse;
    o->scaled = m->fp8.settled;
    run_quantize(plan, compute(m), o);
}

void fp8_input_lay_out(struct model *m, struct fp8_input *input, int64_t in, struct arena *arena)
{
    input->inverse = arena_take(
        arena,
        m->fp8.rules.blocks ? scaling_count(SCALED_VECTORS, in, m->sizes.rows) : INVERSE_STRIDE,
        sizeof(float));
}

void fp8_input_keep(struct model *m, const struct block *block, enum linear_kind kind,
                    struct fp8_input *input, struct arena *arena)
{
    const int both = PRODUCT_FORWARD | PRODUCT_WGRAD;
    int64_t in, out;

    if (!block->fp8 || !trains(m) || (fp8_products(&m->config, &m->sizes, kind) & both) != both)
        return;
    linear_kind_sizes(&m->sizes, kind, &in, &out);
    fp8_input_lay_out(m, input, in, arena);
    input->columns = arena_take(arena, m->sizes.rows * in, 1);
}

struct operand_scale fp8_input_scale(struct model *m, int tensor, const struct fp8_input *input)
{
    struct operand_scale scale = scale_of(m, tensor, SCALED_INPUT);

    if (m->fp8.rules.blocks)
        scale.inverse = m->fp8.block_inverse[0];
    else if (input && input->inverse)
        scale.inverse = input->inverse;
    return scale;
}

void fp8_cast_input(struct model *m, struct device_plan *plan, int tensor,
                    const struct fp8_input *input, const void *x, void *rows)
{
    const struct operand_scale scale = fp8_input_scale(m, tensor, input);

    cast(m, plan, &scale,
         &(struct quantize_operands){.x = x,
                                     .rows = rows,
                                     .columns = input ? input->columns : NULL,
                                     .columns_inverse = input ? input->inverse : NULL});
}

/* The scale of a weight in the layout (out, in), or with 'turned' (in, out). */
static struct operand_scale weight_scale(struct model *m, int tensor, int turned)
{
    const struct fp8_weight *w = &m->fp8.weights[tensor];
    struct operand_scale scale = scale_of(m, tensor, SCALED_WEIGHT);

    if (m->fp8.rules.blocks)
        scale.inverse = turned ? w->columns_inverse : w->rows_inverse;
    return scale;
}

/* The scale of a gradient in scratch[0], or with 'turned' in scratch[1]. */
static struct operand_scale gradient_scale(struct model *m, int tensor, int turned)
{
    struct operand_scale scale = scale_of(m, tensor, SCALED_GRADIENT);

    if (m->fp8.rules.blocks)
        scale.inverse = m->fp8.block_inverse[turned];
    return scale;
}

void fp8_forward(struct model *m, const struct linear *linear, int tensor,
                 const struct fp8_input *input, struct linear_forward_operands *o)
{
    struct fp8_layers *f = &m->fp8;

    if (!linear->fp8)
        return;
    o->weight_scale = weight_scale(m, tensor, 0);
    /* One that is gathered is only transposed, for dgrad: that cast ignores scales. */
    if (f->fresh && (f->records || !f->weights[tensor].gathered))
        cast(m, linear->cast_weight, &o->weight_scale,
             &(struct quantize_operands){.x = weight(m, tensor),
                                         .rows = f->weights[tensor].rows,
                                         .columns = f->weights[tensor].columns,
                                         .columns_inverse = f->weights[tensor].columns_inverse});
    if (!(linear->fp8 & PRODUCT_FORWARD))
        return;
    if (!linear->input_cast) {
        fp8_cast_input(m, linear->cast_input, tensor, input, o->x, f->scratch[0]);
        o->x = f->scratch[0];
    }
    if (!f->weights[tensor].gathered)
        o->weight = f->weights[tensor].rows;
    o->x_scale = fp8_input_scale(m, tensor, input);
}

void fp8_dgrad(struct model *m, const struct linear *linear, int tensor,
               struct linear_dgrad_operands *o, float *dbias, int accumulate)
{
    struct fp8_layers *f = &m->fp8;

    if (!linear->fp8)
        return;
    o->dy_scale = gradient_scale(m, tensor, 0);
    o->weight_scale = weight_scale(m, tensor, 1);
    cast(m, linear->cast_gradient, &o->dy_scale,
         &(struct quantize_operands){.x = linear->gradient ? o->pre : o->dy,
                                     .dy = o->dy,
                                     .rows = f->scratch[0],
                                     .columns = linear->fp8 & PRODUCT_WGRAD ? f->scratch[1] : NULL,
                                     .columns_inverse = f->block_inverse[1],
                                     .dbias = dbias,
                                     .accumulate = accumulate});
    o->dy = f->scratch[0];
    o->weight = f->weights[tensor].columns;
}

/* An input that the norm cast is only transposed: that cast ignores scales. */
void fp8_wgrad(struct model *m, const struct linear *linear, int tensor,
               const struct fp8_input *input, struct linear_wgrad_operands *o)
{
    struct fp8_layers *f = &m->fp8;

    if (!(linear->fp8 & PRODUCT_WGRAD))
        return;
    o->x_scale = fp8_input_scale(m, tensor, input);
    if (input && input->columns) {
        o->x = input->columns;
        o->x_scale.inverse = input->inverse;
    } else {
        cast(m, linear->cast_input, &o->x_scale,
             &(struct quantize_operands){
                 .x = o->x, .columns = f->scratch[0], .columns_inverse = f->block_inverse[0]});
        o->x = f->scratch[0];
    }
    o->dy = f->scratch[1];
    o->dy_scale = gradient_scale(m, tensor, 1);
}

/* --- The end of a step -------------------------------------------------------------------------
 */

/* Bits of numbers that are not negative are ordered as the numbers are, NaN last: as integers their
 * maximum is the same in any order. */
void model_scaling_end(struct model *m)
{
    struct fp8_layers *f = &m->fp8;

    if (!f->weights)
        return;
    if (m->parallel->world->size > 1)
        comm_all_reduce(m->parallel->world, compute(m), f->amax, (size_t)f->rules.count, TYPE_INT32,
                        COMM_MAX);
    run_scaling(f->end, compute(m),
                &(struct scaling_operands){.scale = fp8_scales(f),
                                           .amax = f->amax,
                                           .history = fp8_scales(f) + f->rules.count,
                                           .position = (int32_t *)(void *)f->kept,
                                           .state = m->state});
    if (f->clear_squares)
        run_fill(f->clear_squares, compute(m), &(struct fill_operands){f->squares});
    f->settled = f->rules.delayed;
}

int model_is_settled(const struct model *m)
{
    return !m->fp8.weights || !m->fp8.rules.delayed || m->fp8.settled;
}
