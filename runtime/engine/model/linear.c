/* SPDX-License-Identifier: Apache-2.0 */
#include "linear.h"
#include "fp8_layers.h"

/* --- Decisions about fp8 -----------------------------------------------------------------------
 */

/* There are casts that compute GELU by tanh and SwiGLU. */
enum activation_at linear_activation_at(const struct model *m, const struct block *block)
{
    const struct model_config *c = &m->config;
    const int all = PRODUCT_FORWARD | PRODUCT_DGRAD | PRODUCT_WGRAD;
    bool gelu = c->network.activation == ACTIVATION_NONE && !c->network.gelu_erf;

    if (!block->fp8)
        return ACTIVATION_IN_PRODUCT;
    if (fp8_products(c, &m->sizes, LINEAR_FC1) == all &&
        fp8_products(c, &m->sizes, LINEAR_FC2) == all &&
        (c->network.swiglu ? c->network.gate == GATE_SILU : gelu))
        return ACTIVATION_IN_CAST;
    return c->network.swiglu ? ACTIVATION_APART : ACTIVATION_IN_PRODUCT;
}

/* A norm whose output only one linear layer takes, in both of its products in fp8, casts it. With
 * tensor parallelism the output is gathered first; a model that generates has no wgrad. Blockwise
 * scales of wgrad are those of other blocks: the layer makes both casts at once and keeps the
 * transposed one. Recomputation needs the output itself. */
void linear_choose_cast(struct block *norm, const struct model_config *config,
                        const struct layout *layout)
{
    const struct model_sizes sizes = model_sizes(config, layout);
    const int both = PRODUCT_FORWARD | PRODUCT_WGRAD;
    const struct block_kind *next = norm[1].kind;
    bool alone = norm->fp8 && norm->kind == &norm_block && norm->place == NORM_INPUT &&
                 norm->name && next->linear_count > 0 && layout->tp == 1 &&
                 config->decoding.cache == 0 &&
                 (fp8_products(config, &sizes, next->first_linear) & both) == both;
    bool blockwise = config->numerics.fp8.recipe == FP8_BLOCKWISE;

    norm->casts = alone && !blockwise;
    norm->defers_cast = alone && blockwise && config->recompute == RECOMPUTE_NONE;
}

/* For wgrad the transposed cast is kept where that makes the values themselves superfluous: the
 * output of a norm that defers its cast, and without a gate the activated values and those of
 * attention. With the value before the activation these are 3 bytes of each, where bf16 keeps 4.
 * With a gate they would cost memory that bf16 does not need: only its two inputs are kept. */
void linear_lay_out(struct model *m, const struct block *block, enum linear_kind kind,
                    struct fp8_input *kept, struct arena *arena, enum keep keep)
{
    bool keeps = !m->config.network.swiglu;

    if (kind == LINEAR_QKV || kind == LINEAR_FC1)
        keeps = block->before && block->before->defers_cast;
    else if (kind == LINEAR_FC2)
        keeps = keeps && linear_activation_at(m, block) == ACTIVATION_IN_CAST;
    if (keeps && keep == KEEP_ALL)
        fp8_input_keep(m, block, kind, kept, arena);
}

/* --- Plans ------------------------------------------------------------------------------------ */

/* The gate of a gated activation, otherwise any. */
static enum gate gate_of(enum activation activation)
{
    return is_gated(activation) ? activation_gate(activation) : GATE_SILU;
}

/* With the activation in the casts, the first layer's gradient and the second layer's input are
 * computed when they are cast. */
static void plan_casts(struct planner *planner, struct model *m, struct linear *linear,
                       const struct linear_spec *spec, bool in_cast)
{
    const struct scaling_rules *rules = &m->fp8.rules;
    enum activation activation =
        spec->activation != ACTIVATION_NONE ? spec->activation : spec->before;
    bool gated = is_gated(activation);
    struct operation op = {.kind = OPERATION_QUANTIZE,
                           .quantize = {.rows = spec->out,
                                        .cols = spec->in,
                                        .from = m->config.numerics.type,
                                        .to = TYPE_E4M3,
                                        .margin = rules->margin,
                                        .part = rules->blocks ? SCALED_SQUARES : SCALED_WHOLE}};

    if (m->config.numerics.fp8.gather &&
        linear->fp8 & PRODUCT_FORWARD) { /* it is only transposed */
        op.quantize.from = TYPE_E4M3;
        op.quantize.part = SCALED_WHOLE;
    }
    linear->cast_weight = plan_make(planner, &op);
    op.quantize.from = linear->input_cast ? TYPE_E4M3 : m->config.numerics.type;
    op.quantize.rows = spec->rows;
    op.quantize.part = rules->blocks ? SCALED_VECTORS : SCALED_WHOLE;
    if (in_cast) {
        op.quantize.activation = gated ? ACTIVATION_NONE : activation;
        op.quantize.gate = gate_of(activation);
    }
    if (in_cast && spec->kind == LINEAR_FC2)
        op.quantize.source = gated ? QUANTIZE_GATE : QUANTIZE_ACTIVATION;
    if (in_cast && spec->kind == LINEAR_FC1)
        linear->gradient = gated ? QUANTIZE_GATE_GRADIENT : QUANTIZE_ACTIVATION_GRADIENT;
    linear->cast_input = plan_make(planner, &op);
    op.quantize.from = m->config.numerics.type;
    op.quantize.cols = spec->out;
    op.quantize.to = rules->hybrid ? TYPE_E5M2 : TYPE_E4M3;
    op.quantize.source = linear->gradient;
    op.quantize.bias = linear->wgrad_bias && linear->fp8 & PRODUCT_WGRAD;
    linear->cast_gradient = plan_make(planner, &op);
}

/* The types of a product, whose factors may be fp8. */
static struct linear_types types_of(const struct model *m, const struct linear *linear, int product)
{
    struct linear_types types = linear_types(m->config.numerics.type);

    types.gradient = m->config.numerics.gradient_type;
    if (!(linear->fp8 & product))
        return types;
    if (product != PRODUCT_DGRAD)
        types.x = TYPE_E4M3;
    if (product != PRODUCT_WGRAD)
        types.weight = TYPE_E4M3;
    if (product != PRODUCT_FORWARD)
        types.y = m->fp8.rules.hybrid ? TYPE_E5M2 : TYPE_E4M3;
    return types;
}

static struct device_plan *plan_product(struct planner *planner, const struct model *m,
                                        const struct linear *linear, struct operation op,
                                        int product)
{
    op.linear.types = types_of(m, linear, product);
    op.linear.blocks = m->fp8.rules.blocks && linear->fp8 & product;
    return plan_make(planner, &op);
}

void linear_plan(struct planner *planner, struct model *m, struct linear *linear,
                 const struct linear_spec *given)
{
    struct linear_spec s = *given;
    enum activation_at at = s.block ? linear_activation_at(m, s.block) : ACTIVATION_IN_PRODUCT;
    bool in_product = at == ACTIVATION_IN_PRODUCT;
    enum activation activation = in_product ? s.activation : ACTIVATION_NONE;
    struct operation op = {.head = s.head, .linear = {0}};

    if (s.block) {
        s.rows = m->sizes.rows;
        linear_kind_sizes(&m->sizes, s.kind, &s.in, &s.out);
        linear->fp8 = s.block->fp8 ? fp8_products(&m->config, &m->sizes, s.kind) : 0;
    }
    linear->input_cast =
        s.block && (s.kind == LINEAR_QKV || s.kind == LINEAR_FC1) && s.block->before->casts;
    /* Otherwise dgrad of the second layer of the MLP does it. */
    linear->wgrad_bias =
        s.bias && (!s.block || activation == ACTIVATION_NONE || is_gated(activation));
    if (linear->fp8)
        plan_casts(planner, m, linear, &s, at == ACTIVATION_IN_CAST);

    op.linear.rows = s.rows;
    op.linear.in = s.in;
    op.linear.out = s.out;
    op.kind = OPERATION_LINEAR_FORWARD;
    op.linear.bias = s.bias;
    op.linear.activation = activation;
    op.linear.save_pre = activation != ACTIVATION_NONE && trains(m);
    linear->forward = plan_product(planner, m, linear, op, PRODUCT_FORWARD);
    if (!trains(m))
        return;
    op.kind = OPERATION_LINEAR_DGRAD;
    op.linear.activation = in_product ? s.before : ACTIVATION_NONE;
    op.linear.bias = s.before_bias && in_product && !is_gated(s.before);
    op.linear.save_pre = 0;
    linear->dgrad = plan_product(planner, m, linear, op, PRODUCT_DGRAD);
    op.kind = OPERATION_LINEAR_WGRAD;
    op.linear.activation = ACTIVATION_NONE;
    op.linear.bias = linear->wgrad_bias && !(linear->fp8 & PRODUCT_WGRAD);
    linear->wgrad = plan_product(planner, m, linear, op, PRODUCT_WGRAD);
}

/* --- Products, with factors that are cast if they are fp8 --------------------------------------
 */

static void forward_product(struct model *m, const struct linear *linear, int tensor,
                            const struct fp8_input *input, struct linear_forward_operands *o)
{
    o->weight = weight(m, tensor);
    fp8_forward(m, linear, tensor, input, o);
    run_linear_forward(linear->forward, compute(m), o);
}

/* 'dbias' is the gradient of the layer's own bias. */
static void dgrad_product(struct model *m, const struct linear *linear, int tensor,
                          struct linear_dgrad_operands *o, float *dbias, int accumulate)
{
    o->weight = weight(m, tensor);
    fp8_dgrad(m, linear, tensor, o, dbias, accumulate);
    run_linear_dgrad(linear->dgrad, compute(m), o);
}

static void wgrad_product(struct model *m, const struct linear *linear, int tensor,
                          const struct fp8_input *input, struct linear_wgrad_operands *o)
{
    o->dweight = gradient(m, tensor);
    fp8_wgrad(m, linear, tensor, input, o);
    run_linear_wgrad(linear->wgrad, compute(m), o);
}

/* --- Layers ------------------------------------------------------------------------------------
 */

struct sequence_rows stream_rows(const struct model *m)
{
    return (struct sequence_rows){m->sizes.part_rows, m->sizes.hidden, m->config.numerics.type};
}

void column_parallel_forward(struct pass *p, const struct linear *linear,
                             const struct column_parallel *layer, void *y, void *pre)
{
    struct model *m = p->m;
    struct sequence_rows rows = stream_rows(m);
    void *part = norm_output(p, layer->norm);
    void *x = sequence_gather(&m->overlap, &rows, part, m->scratch.whole1);

    overlap_end(&m->overlap);
    forward_product(m, linear, layer->weight, norm_cast(p, layer->norm, layer->kept),
                    &(struct linear_forward_operands){
                        .x = x, .bias = weight(m, layer->bias), .y = y, .pre = pre});
}

/* The rows are gathered again under the product that does not need them, and the gradients reduced
 * under the one that does. */
void column_parallel_backward(struct pass *p, const struct linear *linear,
                              const struct column_parallel *layer, void *dy)
{
    struct model *m = p->m;
    struct sequence_rows rows = stream_rows(m);
    void *part = norm_output(p, layer->norm);
    void *x = sequence_gather(&m->overlap, &rows, part, m->scratch.whole1);
    void *dx = sequence_unreduced(&m->overlap, m->scratch.dy, m->scratch.whole2);
    float *dbias = linear->wgrad_bias ? gradient(m, layer->bias) : NULL;

    dgrad_product(m, linear, layer->weight,
                  &(struct linear_dgrad_operands){.dy = dy, .pre = layer->pre, .dx = dx}, dbias,
                  p->accumulate);
    overlap_end(&m->overlap);
    sequence_scatter(&m->overlap, &rows, dx, m->scratch.dy);
    wgrad_product(m, linear, layer->weight, norm_cast(p, layer->norm, layer->kept),
                  &(struct linear_wgrad_operands){
                      .dy = dy, .x = x, .dbias = dbias, .accumulate = p->accumulate});
    overlap_end(&m->overlap);
}

void row_parallel_forward(struct pass *p, const struct linear *linear, int w, void *x,
                          const struct fp8_input *kept)
{
    struct model *m = p->m;
    struct sequence_rows rows = stream_rows(m);
    void *y = sequence_unreduced(&m->overlap, m->scratch.x, m->scratch.whole2);

    forward_product(m, linear, w, kept, &(struct linear_forward_operands){.x = x, .y = y});
    sequence_scatter(&m->overlap, &rows, y, m->scratch.x);
    overlap_end(&m->overlap);
}

void row_parallel_backward(struct pass *p, const struct linear *linear,
                           const struct row_parallel_gradient *layer)
{
    struct model *m = p->m;
    struct sequence_rows rows = stream_rows(m);
    void *dy = sequence_gather(&m->overlap, &rows, layer->dpart, m->scratch.whole2);

    overlap_end(&m->overlap);
    dgrad_product(m, linear, layer->weight,
                  &(struct linear_dgrad_operands){.dy = dy,
                                                  .pre = layer->pre,
                                                  .dx = layer->dx,
                                                  .product = layer->product,
                                                  .dbias = layer->dbias,
                                                  .accumulate = p->accumulate},
                  NULL, 0);
    wgrad_product(
        m, linear, layer->weight, layer->kept,
        &(struct linear_wgrad_operands){.dy = dy, .x = layer->x, .accumulate = p->accumulate});
}
