/* One layer. Its first norm belongs to the step of the residual stream before it, so a layer begins
 * with y1 = norm1(sum1) made, and ends with the output of its MLP in scratch.x. */
#include "model_private.h"
#include "rng.h"

void *gather_rows_begin(struct model *m, void *part, void *whole)
{
    const struct model_sizes *s = &m->sizes;

    if (m->parallel->layout.tp == 1)
        return part;
    side_follows(m);
    comm_all_gather(m->parallel->tensor, m->side, part, whole, (size_t)(s->part_rows * s->hidden),
                    m->config.type);
    return whole;
}

void scatter_rows_begin(struct model *m, void *whole, void *part)
{
    const struct model_sizes *s = &m->sizes;

    if (m->parallel->layout.tp == 1)
        return;
    side_follows(m);
    comm_reduce_scatter(m->parallel->tensor, m->side, whole, part,
                        (size_t)(s->part_rows * s->hidden), m->config.type);
}

/* y1 -> qkv, rotated */
static void project_in(struct model *m, struct slot *slot, const struct layer_tensors *t,
                       struct layer_memory *a)
{
    void *x = gather_rows_begin(m, a->y1, m->scratch.whole1);

    compute_follows(m);
    run_linear_forward(
        m->qkv.forward, m->compute,
        &(struct linear_forward_operands){
            .x = x, .weight = weight(m, t->qkv), .bias = weight(m, t->qkv_bias), .y = a->qkv});
    if (m->config.position == POSITION_ROPE)
        run_rope(m->rope[PASS_FORWARD], m->compute,
                 &(struct rope_operands){a->qkv, slot->batch.positions, m->cosine, m->sine});
}

/* y2 -> pre, activated */
static void expand(struct model *m, const struct layer_tensors *t, struct layer_memory *a)
{
    void *x = gather_rows_begin(m, a->y2, m->scratch.whole1);
    void *out = m->config.swiglu ? a->pre : a->activated;

    compute_follows(m);
    run_linear_forward(m->fc1.forward, m->compute,
                       &(struct linear_forward_operands){.x = x,
                                                         .weight = weight(m, t->fc1),
                                                         .bias = weight(m, t->fc1_bias),
                                                         .y = out,
                                                         .pre = a->pre});
    if (m->config.swiglu)
        run_swiglu(m->swiglu[PASS_FORWARD], m->compute,
                   &(struct swiglu_operands){.x = a->pre, .y = a->activated});
}

/* A row-parallel layer: x (R, in) -> scratch.x (P, h), the sum over the tensor-parallel ranks. */
static void row_parallel(struct model *m, struct device_plan *plan, void *x, void *w)
{
    void *out = unscattered(m, m->scratch.x);

    run_linear_forward(plan, m->compute,
                       &(struct linear_forward_operands){.x = x, .weight = w, .y = out});
    scatter_rows_begin(m, out, m->scratch.x);
    compute_follows(m);
}

static void to_middle(struct model *m, struct slot *slot, const struct layer_tensors *t,
                      int64_t global, struct layer_memory *a, int evaluate)
{
    struct device_plan *plan =
        evaluate ? m->norms_evaluate[BOUNDARY_MIDDLE] : m->norms[BOUNDARY_MIDDLE][PASS_FORWARD];

    run_residual_norm(plan, m->compute,
                      &(struct residual_norm_operands){
                          .x = m->scratch.x,
                          .bias = weight(m, t->projection_bias),
                          .residual = a->sum1,
                          .sum = a->sum2,
                          .weight = weight(m, t->norm2),
                          .norm_bias = weight(m, t->norm2_bias),
                          .y = a->y2,
                          .mean = a->mean2,
                          .rstd = a->rstd2,
                          .row_index = slot->batch.row_index + first_row(m),
                          .state = m->state,
                          .purpose = (uint32_t)(RNG_PROJECTION_DROPOUT + global),
                      });
}

void layer_forward(struct model *m, struct slot *slot, int64_t tensors, int64_t global,
                   struct layer_memory *a, int evaluate)
{
    const struct layer_tensors *t = &m->parameters.layers[tensors];

    project_in(m, slot, t, a);
    attention_forward(m, slot, tensors, global, a, evaluate);
    row_parallel(m, m->projection.forward, a->attention, weight(m, t->projection));
    to_middle(m, slot, t, global, a, evaluate);
    expand(m, t, a);
    row_parallel(m, m->fc2.forward, a->activated, weight(m, t->fc2));
}

/* y = norm(sum) again, into memory that was given away. */
static void norm_again(struct model *m, int w, int bias, void *sum, void *y, float *mean,
                       float *rstd)
{
    run_residual_norm(m->norms[BOUNDARY_START][PASS_FORWARD], m->compute,
                      &(struct residual_norm_operands){
                          .residual = sum,
                          .weight = weight(m, w),
                          .norm_bias = weight(m, bias),
                          .y = y,
                          .mean = mean,
                          .rstd = rstd,
                          .state = m->state,
                      });
}

void layer_recompute(struct model *m, struct slot *slot, int64_t tensors, int64_t global,
                     struct layer_memory *a)
{
    const struct layer_tensors *t = &m->parameters.layers[tensors];

    norm_again(m, t->norm1, t->norm1_bias, a->sum1, a->y1, a->mean1, a->rstd1);
    if (m->config.recompute == RECOMPUTE_SELECTIVE) {
        /* What is cheap to make and large to keep: the norms and the activation. */
        norm_again(m, t->norm2, t->norm2_bias, a->sum2, a->y2, a->mean2, a->rstd2);
        if (m->config.swiglu)
            run_swiglu(m->swiglu[PASS_FORWARD], m->compute,
                       &(struct swiglu_operands){.x = a->pre, .y = a->activated});
        else
            run_activation(m->activation, m->compute,
                           &(struct activation_operands){.x = a->pre, .y = a->activated});
        return;
    }
    project_in(m, slot, t, a);
    attention_forward(m, slot, tensors, global, a, 0);
    row_parallel(m, m->projection.forward, a->attention, weight(m, t->projection));
    to_middle(m, slot, t, global, a, 0);
    expand(m, t, a);
}

/* Gradient of a column-parallel layer: dy (R, out) -> scratch.dy (P, h), and the weights'. */
static void column_parallel_backward(struct model *m, const struct linear_plans *plans, int w,
                                     float *dbias, void *dy, void *part, int accumulate)
{
    void *x = gather_rows_begin(m, part, m->scratch.whole1);
    void *dx = unscattered(m, m->scratch.dy);

    run_linear_dgrad(plans->dgrad, m->compute,
                     &(struct linear_dgrad_operands){.dy = dy, .weight = weight(m, w), .dx = dx});
    compute_follows(m);
    scatter_rows_begin(m, dx, m->scratch.dy);
    run_linear_wgrad(
        plans->wgrad, m->compute,
        &(struct linear_wgrad_operands){
            .dy = dy, .x = x, .dweight = gradient(m, w), .dbias = dbias, .accumulate = accumulate});
    compute_follows(m);
}

static void mlp_backward(struct model *m, const struct layer_tensors *t, struct layer_memory *a,
                         void *dx, int accumulate)
{
    struct scratch *s = &m->scratch;
    void *dy = gather_rows_begin(m, dx, s->whole2), *dpre = s->dactivated;

    compute_follows(m);
    run_linear_dgrad(m->fc2.dgrad, m->compute,
                     &(struct linear_dgrad_operands){.dy = dy,
                                                     .weight = weight(m, t->fc2),
                                                     .pre = a->pre,
                                                     .dx = s->dactivated,
                                                     .dbias = gradient(m, t->fc1_bias),
                                                     .accumulate = accumulate});
    run_linear_wgrad(
        m->fc2.wgrad, m->compute,
        &(struct linear_wgrad_operands){
            .dy = dy, .x = a->activated, .dweight = gradient(m, t->fc2), .accumulate = accumulate});
    if (m->config.swiglu) {
        dpre = a->pre; /* not needed any more */
        run_swiglu_backward(
            m->swiglu[PASS_BACKWARD], m->compute,
            &(struct swiglu_backward_operands){.dy = s->dactivated, .x = a->pre, .dx = dpre});
    }
    column_parallel_backward(m, &m->fc1, t->fc1, m->config.swiglu ? gradient(m, t->fc1_bias) : NULL,
                             dpre, a->y2, accumulate);
}

static void self_attention_backward(struct model *m, struct slot *slot,
                                    const struct layer_tensors *t, int64_t global,
                                    struct layer_memory *a, void *dx, int accumulate)
{
    struct scratch *s = &m->scratch;
    void *dy = gather_rows_begin(m, dx, s->whole2);

    compute_follows(m);
    run_linear_dgrad(m->projection.dgrad, m->compute,
                     &(struct linear_dgrad_operands){
                         .dy = dy, .weight = weight(m, t->projection), .dx = s->dattention});
    run_linear_wgrad(m->projection.wgrad, m->compute,
                     &(struct linear_wgrad_operands){.dy = dy,
                                                     .x = a->attention,
                                                     .dweight = gradient(m, t->projection),
                                                     .accumulate = accumulate});
    attention_backward(m, slot, global, a);
    if (m->config.position == POSITION_ROPE)
        run_rope(m->rope[PASS_BACKWARD], m->compute,
                 &(struct rope_operands){s->dqkv, slot->batch.positions, m->cosine, m->sine});
    column_parallel_backward(m, &m->qkv, t->qkv, gradient(m, t->qkv_bias), s->dqkv, a->y1,
                             accumulate);
}

/* On entry scratch.d is the gradient of the residual stream behind the layer and scratch.dx (or d,
 * without dropout) that of the MLP's output. On return scratch.d is the gradient of sum1 by all but
 * norm1, and scratch.dy that of y1. */
void layer_backward(struct model *m, struct slot *slot, int64_t tensors, int64_t global,
                    struct layer_memory *a, int accumulate)
{
    const struct layer_tensors *t = &m->parameters.layers[tensors];
    struct scratch *s = &m->scratch;
    void *dx = m->config.hidden_dropout > 0 ? s->dx : s->d;

    mlp_backward(m, t, a, dx, accumulate);
    run_residual_norm_backward(m->norms[BOUNDARY_MIDDLE][PASS_BACKWARD], m->compute,
                               &(struct residual_norm_backward_operands){
                                   .dy = s->dy,
                                   .dsum = s->d,
                                   .sum = a->sum2,
                                   .weight = weight(m, t->norm2),
                                   .mean = a->mean2,
                                   .rstd = a->rstd2,
                                   .dresidual = s->d,
                                   .dx = s->dx,
                                   .dweight = gradient(m, t->norm2),
                                   .dnorm_bias = gradient(m, t->norm2_bias),
                                   .dbias = gradient(m, t->projection_bias),
                                   .accumulate = accumulate,
                                   .row_index = slot->batch.row_index + first_row(m),
                                   .state = m->state,
                                   .purpose = (uint32_t)(RNG_PROJECTION_DROPOUT + global),
                               });
    self_attention_backward(m, slot, t, global, a, dx, accumulate);
}
