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

void vocabulary_loss_plan(struct planner *p, struct model *m, struct vocabulary_loss *loss)
{
    const struct model_config *c = &m->config;
    const struct parallel *parallel = m->parallel;
    int64_t first = range_tensor(&parallel->layout, &parallel->at, c->padded_vocabulary).first;
    struct operation op = {.kind = OPERATION_CROSS_ENTROPY_PARTIAL,
                           .cross_entropy = {.rows = m->sizes.head_rows,
                                             .cols = m->sizes.vocabulary,
                                             .first = first,
                                             .vocabulary = c->network.shape.vocabulary,
                                             .type = c->numerics.type,
                                             .parts = (int)parallel->layout.tp,
                                             .backward = 1,
                                             .softcap = c->network.logit_softcap}};

    loss->partial = plan_make(p, &op);
    op.kind = OPERATION_CROSS_ENTROPY_FINISH;
    loss->finish[MODE_TRAIN] = plan_make(p, &op);
    op.cross_entropy.backward = 0;
    loss->finish[MODE_EVALUATE] = plan_make(p, &op);
}

void vocabulary_loss_run(struct pass *p, const struct vocabulary_loss *loss, int64_t first)
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
