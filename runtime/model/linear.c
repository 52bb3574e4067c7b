/* SPDX-License-Identifier: Apache-2.0 */
#include "linear.h"

void linear_plan(struct planner *planner, struct model *m, struct linear *linear,
                 const struct linear_spec *spec)
{
    struct operation op = {.kind = OPERATION_LINEAR_FORWARD,
                           .head = spec->head,
                           .linear = {
                               .rows = spec->rows,
                               .in = spec->in,
                               .out = spec->out,
                               .types = linear_types(m->config.type),
                               .bias = spec->bias,
                               .activation = spec->activation,
                               .save_pre = spec->activation != ACTIVATION_NONE && trains(m),
                           }};

    planner_make(planner, &linear->forward, &op);
    if (!trains(m))
        return;
    op.kind = OPERATION_LINEAR_DGRAD;
    op.linear.activation = spec->before;
    op.linear.bias = spec->before_bias;
    op.linear.save_pre = 0;
    planner_make(planner, &linear->dgrad, &op);
    op.kind = OPERATION_LINEAR_WGRAD;
    op.linear.activation = ACTIVATION_NONE;
    op.linear.bias = spec->wgrad_bias;
    planner_make(planner, &linear->wgrad, &op);
}

void linear_release(struct linear *linear)
{
    plan_destroy(linear->forward);
    plan_destroy(linear->dgrad);
    plan_destroy(linear->wgrad);
}

struct sequence_rows stream_rows(const struct model *m)
{
    return (struct sequence_rows){m->sizes.part_rows, m->sizes.hidden, m->config.type};
}

void column_parallel_forward(struct model *m, const struct linear *linear,
                             const struct column_parallel *layer, void *y, void *pre)
{
    struct sequence_rows rows = stream_rows(m);
    void *x = sequence_gather(&m->overlap, &rows, layer->part, m->scratch.whole1);

    overlap_end(&m->overlap);
    run_linear_forward(linear->forward, compute(m),
                       &(struct linear_forward_operands){.x = x,
                                                         .weight = weight(m, layer->weight),
                                                         .bias = weight(m, layer->bias),
                                                         .y = y,
                                                         .pre = pre});
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

    run_linear_dgrad(
        linear->dgrad, compute(m),
        &(struct linear_dgrad_operands){.dy = dy, .weight = weight(m, layer->weight), .dx = dx});
    overlap_end(&m->overlap);
    sequence_scatter(&m->overlap, &rows, dx, m->scratch.dy);
    run_linear_wgrad(linear->wgrad, compute(m),
                     &(struct linear_wgrad_operands){.dy = dy,
                                                     .x = x,
                                                     .dweight = gradient(m, layer->weight),
                                                     .dbias = dbias,
                                                     .accumulate = accumulate});
    overlap_end(&m->overlap);
}

void row_parallel_forward(struct model *m, const struct linear *linear, int w, void *x)
{
    struct sequence_rows rows = stream_rows(m);
    void *y = sequence_unreduced(&m->overlap, m->scratch.x, m->scratch.whole2);

    run_linear_forward(linear->forward, compute(m),
                       &(struct linear_forward_operands){.x = x, .weight = weight(m, w), .y = y});
    sequence_scatter(&m->overlap, &rows, y, m->scratch.x);
    overlap_end(&m->overlap);
}

void row_parallel_backward(struct model *m, const struct linear *linear,
                           const struct row_parallel_gradient *layer, int accumulate)
{
    struct sequence_rows rows = stream_rows(m);
    void *dy = sequence_gather(&m->overlap, &rows, layer->dpart, m->scratch.whole2);

    overlap_end(&m->overlap);
    run_linear_dgrad(linear->dgrad, compute(m),
                     &(struct linear_dgrad_operands){.dy = dy,
                                                     .weight = weight(m, layer->weight),
                                                     .pre = layer->pre,
                                                     .dx = layer->dx,
                                                     .dbias = layer->dbias,
                                                     .accumulate = accumulate});
    run_linear_wgrad(linear->wgrad, compute(m),
                     &(struct linear_wgrad_operands){.dy = dy,
                                                     .x = layer->x,
                                                     .dweight = gradient(m, layer->weight),
                                                     .accumulate = accumulate});
}
