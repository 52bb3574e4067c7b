/* The embedding and the head, both divided by vocabulary over the tensor-parallel ranks. */
#include "model_private.h"

/* scratch.x (P, h) = word (+ position) embeddings of this rank's rows. */
void embedding_forward(struct model *m, struct slot *slot)
{
    const struct parameters *p = &m->parameters;
    const struct model_batch *batch = &slot->batch;
    void *out = unscattered(m, m->scratch.x);
    int64_t first = first_row(m);

    run_embedding(m->embedding, m->compute,
                  &(struct embedding_operands){batch->tokens, weight(m, p->word), batch->positions,
                                               weight(m, p->position), out});
    if (m->parallel->layout.tp == 1)
        return;
    scatter_rows_begin(m, out, m->scratch.x);
    compute_follows(m);
    if (p->position >= 0)
        run_embedding(m->embedding_position, m->compute,
                      &(struct embedding_operands){batch->positions + first, weight(m, p->position),
                                                   NULL, NULL, m->scratch.x});
}

void embedding_backward(struct model *m, struct slot *slot, void *dx, int accumulate)
{
    const struct parameters *p = &m->parameters;
    const struct model_batch *batch = &slot->batch;
    void *whole = gather_rows_begin(m, dx, m->scratch.whole2);
    int64_t first = first_row(m);

    if (p->position >= 0)
        run_embedding_backward(m->position_backward, m->compute,
                               &(struct embedding_backward_operands){batch->positions + first, dx,
                                                                     gradient(m, p->position),
                                                                     accumulate});
    compute_follows(m);
    /* A tied head on this rank has written its gradient already. */
    run_embedding_backward(m->embedding_backward, m->compute,
                           &(struct embedding_backward_operands){batch->tokens, whole,
                                                                 gradient(m, p->word),
                                                                 accumulate || p->head == p->word});
}

/* Loss of 'rows' rows from 'first' on; unless 'evaluate' logits become their gradient. */
static void head_loss(struct model *m, struct slot *slot, int64_t first, int evaluate)
{
    struct scratch *s = &m->scratch;
    float *partials = NULL;

    if (m->parallel->layout.tp > 1) {
        run_cross_entropy_partial(m->loss_partial, m->compute,
                                  &(struct cross_entropy_partial_operands){
                                      s->logits, slot->batch.targets + first, s->partial});
        partials = s->partials;
        side_follows(m);
        comm_all_gather(m->parallel->tensor, m->side, s->partial, partials,
                        (size_t)(3 * m->sizes.head_rows), TYPE_FP32);
        compute_follows(m);
    }
    run_cross_entropy_finish(
        evaluate ? m->loss_finish_evaluate : m->loss_finish, m->compute,
        &(struct cross_entropy_finish_operands){s->logits, slot->batch.targets + first, partials,
                                                slot->batch.weight + first, NULL, m->state});
}

/* The loss of y_out, and unless 'evaluate' its gradient in y_out's place. */
void head_forward(struct model *m, struct slot *slot, int evaluate, int accumulate)
{
    const struct model_sizes *sizes = &m->sizes;
    struct scratch *s = &m->scratch;
    void *w = weight(m, m->parameters.head);
    size_t row = (size_t)sizes->hidden * type_size(m->config.type);
    char *x = gather_rows_begin(m, slot->y_out, s->whole1), *dx = unscattered(m, slot->y_out);

    compute_follows(m);
    for (int64_t first = 0; first < sizes->rows; first += sizes->head_rows) {
        run_linear_forward(m->head.forward, m->compute,
                           &(struct linear_forward_operands){
                               .x = x + (size_t)first * row, .weight = w, .y = s->logits});
        head_loss(m, slot, first, evaluate);
        if (evaluate)
            continue;
        run_linear_wgrad(m->head.wgrad, m->compute,
                         &(struct linear_wgrad_operands){.dy = s->logits,
                                                         .x = x + (size_t)first * row,
                                                         .dweight = gradient(m, m->parameters.head),
                                                         .accumulate = accumulate || first > 0});
        run_linear_dgrad(m->head.dgrad, m->compute,
                         &(struct linear_dgrad_operands){
                             .dy = s->logits, .weight = w, .dx = dx + (size_t)first * row});
    }
    if (!evaluate) {
        scatter_rows_begin(m, dx, slot->y_out);
        compute_follows(m);
    }
}

/* The logits of the tokens that the batch names. */
void head_logits(struct model *m, struct slot *slot)
{
    struct scratch *s = &m->scratch;
    void *x = gather_rows_begin(m, slot->y_out, s->whole1);

    compute_follows(m);
    run_gather_rows(m->head_gather, m->compute,
                    &(struct gather_rows_operands){x, slot->batch.last, s->head_x});
    run_linear_forward(m->head.forward, m->compute,
                       &(struct linear_forward_operands){.x = s->head_x,
                                                         .weight = weight(m, m->parameters.head),
                                                         .y = s->logits});
}
