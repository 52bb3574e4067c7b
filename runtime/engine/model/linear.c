/* SPDX-License-Identifier: Apache-2.0 */
#include "linear.h"
#include "fp8_layers.h"

static void plan_casts(struct planner *planner, struct model *m, struct linear *linear,
                       const struct linear_spec *spec)
{
    const struct scaling_rules *rules = &m->fp8.rules;
    struct operation op = {.kind = OPERATION_QUANTIZE,
                           .quantize = {.rows = spec->out,
                                        .cols = spec->in,
                                        .from = m->config.numerics.type,
                                        .to = TYPE_E4M3,
                                        .margin = rules->margin,
                                        .part = rules->blocks ? SCALED_SQUARES : SCALED_WHOLE}};

    if (m->config.numerics.fp8.gather && spec->fp8 & PRODUCT_FORWARD) { /* it is only transposed */
        op.quantize.from = TYPE_E4M3;
        op.quantize.part = SCALED_WHOLE;
    }
    planner_make(planner, &linear->cast_weight, &op);
    op.quantize.from = m->config.numerics.type;
    op.quantize.rows = spec->rows;
    op.quantize.part = rules->blocks ? SCALED_VECTORS : SCALED_WHOLE;
    if (spec->input_cast)
        op.quantize.from = TYPE_E4M3;
    op.quantize.source = spec->input;
    op.quantize.activation = spec->source_activation;
    op.quantize.gate = spec->source_gate;
    planner_make(planner, &linear->cast_input, &op);
    op.quantize.from = m->config.numerics.type;
    op.quantize.cols = spec->out;
    op.quantize.to = rules->hybrid ? TYPE_E5M2 : TYPE_E4M3;
    op.quantize.source = linear->gradient = spec->gradient;
    op.quantize.bias = spec->wgrad_bias && spec->fp8 & PRODUCT_WGRAD;
    planner_make(planner, &linear->cast_gradient, &op);
}

/* The types of a product, whose factors may be fp8. */
static struct linear_types types_of(const struct model *m, const struct linear_spec *spec,
                                    int product)
{
    struct linear_types types = linear_types(m->config.numerics.type);

    types.gradient = m->config.numerics.gradient_type;
    if (!(spec->fp8 & product))
        return types;
    if (product != PRODUCT_DGRAD)
        types.x = TYPE_E4M3;
    if (product != PRODUCT_WGRAD)
        types.weight = TYPE_E4M3;
    if (product != PRODUCT_FORWARD)
        types.y = m->fp8.rules.hybrid ? TYPE_E5M2 : TYPE_E4M3;
    return types;
}

static void choose_types(const struct model *m, const struct linear_spec *spec, int product,
                         struct linear_shape *shape)
{
    shape->types = types_of(m, spec, product);
    shape->blocks = m->fp8.rules.blocks && spec->fp8 & product;
}

void linear_plan(struct planner *planner, struct model *m, struct linear *linear,
                 const struct linear_spec *spec)
{
    struct operation op = {.kind = OPERATION_LINEAR_FORWARD,
                           .head = spec->head,
                           .linear = {
                               .rows = spec->rows,
                               .in = spec->in,
                               .out = spec->out,
                               .bias = spec->bias,
                               .activation = spec->activation,
                               .save_pre = spec->activation != ACTIVATION_NONE && trains(m),
                           }};

    linear->fp8 = spec->fp8;
    linear->input_cast = spec->input_cast;
    if (spec->fp8)
        plan_casts(planner, m, linear, spec);
    choose_types(m, spec, PRODUCT_FORWARD, &op.linear);
    planner_make(planner, &linear->forward, &op);
    if (!trains(m))
        return;
    op.kind = OPERATION_LINEAR_DGRAD;
    choose_types(m, spec, PRODUCT_DGRAD, &op.linear);
    op.linear.activation = spec->before;
    op.linear.bias = spec->before_bias;
    op.linear.save_pre = 0;
    planner_make(planner, &linear->dgrad, &op);
    op.kind = OPERATION_LINEAR_WGRAD;
    choose_types(m, spec, PRODUCT_WGRAD, &op.linear);
    op.linear.activation = ACTIVATION_NONE;
    op.linear.bias = spec->wgrad_bias && !(spec->fp8 & PRODUCT_WGRAD);
    planner_make(planner, &linear->wgrad, &op);
}

void linear_release(struct linear *linear)
{
    plan_destroy(linear->forward);
    plan_destroy(linear->dgrad);
    plan_destroy(linear->wgrad);
    plan_destroy(linear->cast_input);
    plan_destroy(linear->cast_weight);
    plan_destroy(linear->cast_gradient);
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

void column_parallel_forward(struct model *m, const struct linear *linear,
                             const struct column_parallel *layer, void *y, void *pre)
{
    struct sequence_rows rows = stream_rows(m);
    void *x = sequence_gather(&m->overlap, &rows, layer->part, m->scratch.whole1);

    overlap_end(&m->overlap);
    forward_product(m, linear, layer->weight, layer->input,
                    &(struct linear_forward_operands){
                        .x = x, .bias = weight(m, layer->bias), .y = y, .pre = pre});
}

/* The rows are gathered again under the product that does not need them, and the gradients reduced
 * under the one that does. */
void column_parallel_backward(struct model *m, const struct linear *linear,
                              const struct column_parallel *layer, void *dy, float *dbias,
                              int accumulate)
{
    struct sequence_rows rows = stream_rows(m);
    void *x = sequence_gather(&m->overlap, &rows, layer->part, m->scratch.whole1);
    void *dx = sequence_unreduced(&m->overlap, m->scratch.dy, m->scratch.whole2);

    dgrad_product(m, linear, layer->weight,
                  &(struct linear_dgrad_operands){.dy = dy, .pre = layer->pre, .dx = dx}, dbias,
                  accumulate);
    overlap_end(&m->overlap);
    sequence_scatter(&m->overlap, &rows, dx, m->scratch.dy);
    wgrad_product(m, linear, layer->weight, layer->input,
                  &(struct linear_wgrad_operands){
                      .dy = dy, .x = x, .dbias = dbias, .accumulate = accumulate});
    overlap_end(&m->overlap);
}

void row_parallel_forward(struct model *m, const struct linear *linear, int w, void *x,
                          const struct fp8_input *input)
{
    struct sequence_rows rows = stream_rows(m);
    void *y = sequence_unreduced(&m->overlap, m->scratch.x, m->scratch.whole2);

    forward_product(m, linear, w, input, &(struct linear_forward_operands){.x = x, .y = y});
    sequence_scatter(&m->overlap, &rows, y, m->scratch.x);
    overlap_end(&m->overlap);
}

void row_parallel_backward(struct model *m, const struct linear *linear,
                           const struct row_parallel_gradient *layer, int accumulate)
{
    struct sequence_rows rows = stream_rows(m);
    void *dy = sequence_gather(&m->overlap, &rows, layer->dpart, m->scratch.whole2);

    overlap_end(&m->overlap);
    dgrad_product(m, linear, layer->weight,
                  &(struct linear_dgrad_operands){.dy = dy,
                                                  .pre = layer->pre,
                                                  .dx = layer->dx,
                                                  .product = layer->product,
                                                  .dbias = layer->dbias,
                                                  .accumulate = accumulate},
                  NULL, 0);
    wgrad_product(
        m, linear, layer->weight, layer->input,
        &(struct linear_wgrad_operands){.dy = dy, .x = layer->x, .accumulate = accumulate});
}
