/* SPDX-License-Identifier: Apache-2.0 */
#include "vocabulary_loss.h"

void vocabulary_loss_lay_out(struct model *m, struct vocabulary_loss *loss, struct arena *arena)
{
    const struct model_sizes *z = &m->sizes;

    loss->logits = m->logits =
        arena_take(arena, z->head_rows * z->vocabulary, type_size(m->config.numerics.type));
    loss->partials[0] = arena_take(arena, 3 * z->head_rows, sizeof(float));
    loss->partials[1] = arena_take(arena, 3 * z->head_rows * m->parallel->layout.tp, sizeof(float));
}

void vocabulary_loss_plan(struct planner *p, struct model *m, struct vocabulary_loss *loss,
                          bool bias)
{
    const struct model_config *c = &m->config;
    const struct model_sizes *z = &m->sizes;
    const struct parallel *parallel = m->parallel;
    const struct linear_spec linear = {
        .rows = z->head_rows, .in = z->hidden, .out = z->vocabulary, .bias = bias, .head = true};
    struct operation softcap = {
        .kind = OPERATION_SOFTCAP,
        .softcap = {z->head_rows * z->vocabulary, c->numerics.type, c->network.logit_softcap}};
    int64_t first = range_tensor(&parallel->layout, &parallel->at, c->padded_vocabulary).first;
    struct operation op = {.kind = OPERATION_CROSS_ENTROPY_PARTIAL,
                           .cross_entropy = {.rows = z->head_rows,
                                             .cols = z->vocabulary,
                                             .first = first,
                                             .vocabulary = c->network.shape.vocabulary,
                                             .type = c->numerics.type,
                                             .parts = (int)parallel->layout.tp,
                                             .backward = 1,
                                             .softcap = c->network.logit_softcap}};

    linear_plan(p, m, &loss->linear, &linear);
    if (c->network.logit_softcap > 0)
        loss->softcap = plan_make(p, &softcap);
    if (!trains(m))
        return;
    loss->partial = plan_make(p, &op);
    op.kind = OPERATION_CROSS_ENTROPY_FINISH;
    loss->finish[MODE_TRAIN] = plan_make(p, &op);
    op.cross_entropy.backward = 0;
    loss->finish[MODE_EVALUATE] = plan_make(p, &op);
}

void vocabulary_logits(struct model *m, const struct vocabulary_loss *loss, int table, int bias,
                       const void *x)
{
    run_linear_forward(
        loss->linear.forward, compute(m),
        &(struct linear_forward_operands){
            .x = x, .weight = weight(m, table), .bias = weight(m, bias), .y = loss->logits});
    if (loss->softcap)
        run_softcap(loss->softcap, compute(m), &(struct softcap_operands){loss->logits});
}

/* The loss of the rows from 'first' on; in training the logits become their gradient. */
static void cross_entropy(struct pass *p, const struct vocabulary_loss *loss, int64_t first)
{
    struct model *m = p->m;
    const struct model_batch *batch = &p->slot->batch;
    const float *partials = NULL;

    if (m->parallel->layout.tp > 1) {
        run_cross_entropy_partial(loss->partial, compute(m),
                                  &(struct cross_entropy_partial_operands){
                                      loss->logits, batch->targets + first, loss->partials[0]});
        partials = loss->partials[1];
        overlap_begin(&m->overlap);
        comm_all_gather(m->parallel->tensor, m->overlap.side, loss->partials[0], loss->partials[1],
                        (size_t)(3 * m->sizes.head_rows), TYPE_FP32);
        overlap_end(&m->overlap);
    }
    run_cross_entropy_finish(loss->finish[p->mode], compute(m),
                             &(struct cross_entropy_finish_operands){
                                 loss->logits, batch->targets + first, partials,
                                 batch->weight + first, NULL, m->state, batch->logged});
}

void vocabulary_loss_run(struct pass *p, const struct vocabulary_loss *loss, int table, int bias,
                         int64_t rows, void *x, void *dx)
{
    struct model *m = p->m;

    for (int64_t first = 0; first < rows; first += m->sizes.head_rows) {
        void *part = element(m, x, first * m->sizes.hidden);

        vocabulary_logits(m, loss, table, bias, part);
        cross_entropy(p, loss, first);
        if (p->mode != MODE_TRAIN)
            continue;
        run_linear_wgrad(loss->linear.wgrad, compute(m),
                         &(struct linear_wgrad_operands){.dy = loss->logits,
                                                         .x = part,
                                                         .dweight = gradient(m, table),
                                                         .dbias = gradient(m, bias),
                                                         .accumulate = p->accumulate || first > 0});
        run_linear_dgrad(
            loss->linear.dgrad, compute(m),
            &(struct linear_dgrad_operands){.dy = loss->logits,
                                            .weight = weight(m, table),
                                            .dx = element(m, dx, first * m->sizes.hidden)});
    }
}
