/* Attention of one layer. Context parallelism divides each sample into 2 * cp pieces of its
 * sequence; rank r has pieces r and 2*cp-1-r, so that all ranks have the same share of a causal
 * mask. Keys and values of all ranks are gathered, put in order of position, and each of the two
 * query pieces attends to the keys up to its own end. Without context parallelism there is one
 * piece, and keys and values stay where they are. */
#include "model_private.h"
#include "rng.h"

static void *at(struct model *m, void *base, int64_t elements)
{
    return (char *)base + (size_t)elements * type_size(m->config.type);
}

/* Keys and values of the whole sequences in scratch.kv: (batch, sequence, 2 * groups * size). */
static void gather_kv(struct model *m, void *qkv)
{
    const struct model_sizes *z = &m->sizes;
    struct scratch *s = &m->scratch;

    run_gather_rows(
        m->kv_pack, m->compute,
        &(struct gather_rows_operands){at(m, qkv, z->attention), m->kv_identity, s->kv_part});
    side_follows(m);
    comm_all_gather(m->parallel->context, m->side, s->kv_part, s->kv_ranks,
                    (size_t)(z->rows * z->kv), m->config.type);
    compute_follows(m);
    run_gather_rows(m->kv_order, m->compute,
                    &(struct gather_rows_operands){s->kv_ranks, m->kv_by_position, s->kv});
}

/* Gradients of keys and values of both pieces -> this rank's columns of scratch.dqkv. */
static void scatter_dkv(struct model *m)
{
    const struct model_sizes *z = &m->sizes;
    struct scratch *s = &m->scratch;

    run_add(m->dkv_add, m->compute, &(struct add_operands){s->dkv[0], s->dkv[1]});
    run_gather_rows(m->kv_order, m->compute,
                    &(struct gather_rows_operands){s->dkv[1], m->kv_by_rank, s->kv_ranks});
    side_follows(m);
    comm_reduce_scatter(m->parallel->context, m->side, s->kv_ranks, s->kv_part,
                        (size_t)(z->rows * z->kv), m->config.type);
    compute_follows(m);
    run_gather_rows(
        m->kv_unpack, m->compute,
        &(struct gather_rows_operands){s->kv_part, m->kv_identity, at(m, s->dqkv, z->attention)});
}

/* Operands of one piece; those of the backward pass are added by its caller. */
static struct attention_operands piece(struct model *m, struct slot *slot, int64_t global,
                                       struct layer_memory *a, int64_t i)
{
    const struct model_sizes *z = &m->sizes;
    int64_t rows = m->config.micro_batch * z->slice_rows * i;
    void *k = z->slices == 1 ? at(m, a->qkv, z->attention) : m->scratch.kv;

    return (struct attention_operands){
        .q = at(m, a->qkv, i * z->slice_rows * z->qkv),
        .k = k,
        .v = at(m, k, z->kv / 2),
        .out = at(m, a->attention, i * z->slice_rows * z->attention),
        .lse = a->lse + z->heads * rows,
        .document_start = slot->batch.slice_document_start + rows,
        .row_index = slot->batch.slice_row_index + rows,
        .state = m->state,
        .purpose = (uint32_t)(RNG_ATTENTION_DROPOUT + global),
    };
}

/* Keys and values of these tokens go to the layer's part of the cache; attention is on that. */
static void attention_cached(struct model *m, struct slot *slot, int64_t layer,
                             struct layer_memory *a)
{
    const struct model_sizes *z = &m->sizes;
    void *k = at(m, m->cache, layer * z->samples * z->cache * z->kv);

    run_gather_rows(
        m->cache_put, m->compute,
        &(struct gather_rows_operands){at(m, a->qkv, z->attention), slot->batch.place, k});
    run_attention(m->cached[m->reached], m->compute,
                  &(struct attention_operands){
                      .q = a->qkv,
                      .k = k,
                      .v = at(m, k, z->kv / 2),
                      .out = a->attention,
                      .lse = a->lse,
                      .state = m->state,
                      .positions = slot->batch.positions,
                  });
}

void attention_forward(struct model *m, struct slot *slot, int64_t tensors, int64_t global,
                       struct layer_memory *a, int evaluate)
{
    struct device_plan **plans = evaluate ? m->attention_evaluate : m->attention[PASS_FORWARD];

    if (m->config.cache > 0) {
        attention_cached(m, slot, tensors, a);
        return;
    }
    if (m->sizes.slices > 1)
        gather_kv(m, a->qkv);
    for (int64_t i = 0; i < m->sizes.slices; i++) {
        struct attention_operands operands = piece(m, slot, global, a, i);

        run_attention(plans[i], m->compute, &operands);
    }
}

void attention_backward(struct model *m, struct slot *slot, int64_t global, struct layer_memory *a)
{
    const struct model_sizes *z = &m->sizes;
    struct scratch *s = &m->scratch;

    if (z->slices > 1) {
        gather_kv(m, a->qkv);
        /* A piece gives no gradient to the keys behind its end. */
        run_fill(m->dkv_clear, m->compute, &(struct fill_operands){s->dkv[0]});
        run_fill(m->dkv_clear, m->compute, &(struct fill_operands){s->dkv[1]});
    }
    for (int64_t i = 0; i < z->slices; i++) {
        struct attention_operands o = piece(m, slot, global, a, i);
        void *dk = z->slices == 1 ? at(m, s->dqkv, z->attention) : s->dkv[i];

        run_attention_backward(m->attention[PASS_BACKWARD][i], m->compute,
                               &(struct attention_backward_operands){
                                   .q = o.q,
                                   .k = o.k,
                                   .v = o.v,
                                   .out = o.out,
                                   .dout = at(m, s->dattention, i * z->slice_rows * z->attention),
                                   .lse = o.lse,
                                   .dq = at(m, s->dqkv, i * z->slice_rows * z->qkv),
                                   .dk = dk,
                                   .dv = at(m, dk, z->kv / 2),
                                   .document_start = o.document_start,
                                   .row_index = o.row_index,
                                   .state = m->state,
                                   .purpose = o.purpose,
                               });
    }
    if (z->slices > 1)
        scatter_dkv(m);
}
