/* SPDX-License-Identifier: Apache-2.0 */
/* Softmax attention of a training or evaluation pass. With context parallelism a rank holds two
 * slices of each sequence (see zigzag_split): keys and values of all ranks are gathered and put in
 * order of position, and each slice of queries attends to the keys up to its own end, in a masked
 * language model to all. Without it there is one slice, and keys and values stay in the packed
 * projection. */
#include "attention.h"
#include "base/core/rng.h"
#include "base/core/xmalloc.h"

#include <stdlib.h>

void attention_softmax_lay_out(struct model *m, struct attention_common *common,
                               struct arena *arena)
{
    const struct model_sizes *z = &m->sizes;
    struct attention_context *c = &common->context;
    size_t size = type_size(m->config.numerics.type);
    int64_t all = z->rows * m->parallel->layout.cp;

    if (z->slices == 1)
        return;
    c->part = arena_take(arena, z->rows * z->kv, size);
    c->ranks = arena_take(arena, all * z->kv, size);
    c->kv = arena_take(arena, all * z->kv, size);
    c->dkv[0] = arena_take(arena, all * z->kv, size);
    c->dkv[1] = arena_take(arena, all * z->kv, size);
    c->identity = arena_take(arena, z->rows, sizeof(int32_t));
    c->by_position = arena_take(arena, all, sizeof(int32_t));
    c->by_rank = arena_take(arena, all, sizeof(int32_t));
}

static void upload_orders(struct planner *p, struct model *m, const struct attention_context *c)
{
    const struct model_sizes *z = &m->sizes;
    int64_t all = z->rows * m->parallel->layout.cp, sequence = m->config.network.shape.sequence;
    struct zigzag split = zigzag_split(sequence, m->parallel->layout.cp);
    int32_t *order = xcalloc((size_t)all * 3, sizeof(*order));

    for (int64_t i = 0; i < all; i++) {
        int64_t sample = i % z->rows / z->sequence;
        int64_t position = zigzag_position(&split, i / z->rows, i % z->sequence);

        order[i] = (int32_t)i;
        order[all + sample * sequence + position] = (int32_t)i;
        order[2 * all + i] = (int32_t)(sample * sequence + position);
    }
    model_upload(p, m, c->identity, order, (size_t)z->rows * sizeof(*order));
    model_upload(p, m, c->by_position, order + all, (size_t)all * sizeof(*order));
    model_upload(p, m, c->by_rank, order + 2 * all, (size_t)all * sizeof(*order));
    free(order);
}

static void prepare_context(struct planner *p, struct model *m, struct attention_context *c)
{
    const struct model_sizes *z = &m->sizes;
    enum device_type type = m->config.numerics.type;
    int64_t all = z->rows * m->parallel->layout.cp;
    struct operation pack = {.kind = OPERATION_GATHER_ROWS,
                             .gather_rows = {z->rows, z->kv, type, z->qkv, 0, 0}};
    struct operation unpack = {.kind = OPERATION_GATHER_ROWS,
                               .gather_rows = {z->rows, z->kv, type, 0, z->qkv, 0}};
    struct operation order = {.kind = OPERATION_GATHER_ROWS,
                              .gather_rows = {all, z->kv, type, 0, 0, 0}};
    struct operation add = {.kind = OPERATION_ADD, .add = {all * z->kv, type}};
    struct operation clear = {.kind = OPERATION_FILL, .fill = {all * z->kv, type, 0}};

    if (z->slices == 1)
        return;
    c->pack = plan_make(p, &pack);
    c->unpack = plan_make(p, &unpack);
    c->order = plan_make(p, &order);
    c->add = plan_make(p, &add);
    c->clear = plan_make(p, &clear);
    upload_orders(p, m, c);
}

/* The attention of slice 'i' of this rank. */
static struct attention_shape shape_of(const struct model *m, int window, int64_t i)
{
    const struct model_config *c = &m->config;
    const struct model_sizes *z = &m->sizes;
    const struct parallel *parallel = m->parallel;
    struct zigzag split = zigzag_split(c->network.shape.sequence, parallel->layout.cp);
    struct range rows = zigzag_slice(&split, parallel->at.cp, i);
    int64_t kv_width = z->slices == 1 ? z->qkv : z->kv;

    return (struct attention_shape){
        .batch = c->micro_batch,
        .q_rows = rows.count,
        /* causal: the keys up to the last query */
        .kv_rows = c->network.masked ? c->network.shape.sequence : rows.first + rows.count,
        .heads = z->heads,
        .kv_heads = z->groups,
        .head_size = z->head_size,
        .type = c->numerics.type,
        .q = {z->sequence * z->qkv, z->qkv, z->head_size},
        .kv = {c->network.shape.sequence * kv_width, kv_width, z->head_size},
        .out = {z->sequence * z->attention, z->attention, z->head_size},
        .scale = attention_scale(c),
        .causal = !c->network.masked,
        .documents = c->documents || window, /* a window is a document that moves */
        .ends = c->network.masked,
        .dropout = c->network.attention_dropout,
        .all_heads = c->network.shape.heads,
        .first_head = range_tensor(&parallel->layout, &parallel->at, c->network.shape.heads).first,
        .sequence = c->network.shape.sequence,
        .softcap = c->network.attention_softcap,
    };
}

/* Keys and values of whole sequences to context.kv: (sample, position, kv). */
static void gather_kv(struct model *m, const struct attention_context *c, void *qkv)
{
    const struct model_sizes *z = &m->sizes;

    run_gather_rows(
        c->pack, compute(m),
        &(struct gather_rows_operands){element(m, qkv, z->attention), c->identity, c->part});
    overlap_begin(&m->overlap);
    comm_all_gather(m->parallel->context, m->overlap.side, c->part, c->ranks,
                    (size_t)(z->rows * z->kv), m->config.numerics.type);
    overlap_end(&m->overlap);
    run_gather_rows(c->order, compute(m),
                    &(struct gather_rows_operands){c->ranks, c->by_position, c->kv});
}

/* Gradients of keys and values of both slices to this rank's columns of dqkv. */
static void scatter_dkv(struct model *m, const struct attention_common *common)
{
    const struct model_sizes *z = &m->sizes;
    const struct attention_context *c = &common->context;

    run_add(c->add, compute(m), &(struct add_operands){c->dkv[0], c->dkv[1]});
    run_gather_rows(c->order, compute(m),
                    &(struct gather_rows_operands){c->dkv[1], c->by_rank, c->ranks});
    overlap_begin(&m->overlap);
    comm_reduce_scatter(m->parallel->context, m->overlap.side, c->ranks, c->part,
                        (size_t)(z->rows * z->kv), m->config.numerics.type);
    overlap_end(&m->overlap);
    run_gather_rows(c->unpack, compute(m),
                    &(struct gather_rows_operands){c->part, c->identity,
                                                   element(m, common->dqkv, z->attention)});
}

static struct attention_operands operands_of(struct pass *p, const struct block *block, int64_t i)
{
    struct model *m = p->m;
    const struct model_sizes *z = &m->sizes;
    const struct attention_common *common = block->common;
    const struct model_batch *batch = &p->slot->batch;
    struct attention_memory *a = memory_of(p, block);
    int64_t rows = m->config.micro_batch * z->slice_rows * i;
    void *k = z->slices == 1 ? element(m, a->qkv, z->attention) : common->context.kv;

    return (struct attention_operands){
        .q = element(m, a->qkv, i * z->slice_rows * z->qkv),
        .k = k,
        .v = element(m, k, z->kv / 2),
        .out = element(m, a->out, i * z->slice_rows * z->attention),
        .lse = a->lse + z->heads * rows,
        .document_start =
            (common->window ? batch->window_start : batch->slice_document_start) + rows,
        .document_end = m->config.network.masked ? batch->slice_document_end + rows : NULL,
        .row_index = p->slot->batch.slice_row_index + rows,
        .state = m->state,
        .purpose = (uint32_t)(RNG_ATTENTION_DROPOUT + block->number),
    };
}

static void attend(struct pass *p, struct block *block)
{
    struct model *m = p->m;
    const struct attention_common *common = block->common;
    struct attention_memory *a = memory_of(p, block);

    if (m->sizes.slices > 1)
        gather_kv(m, &common->context, a->qkv);
    for (int64_t i = 0; i < m->sizes.slices; i++) {
        struct attention_operands operands = operands_of(p, block, i);

        run_attention(common->softmax[p->mode][i], compute(m), &operands);
    }
}

void attention_softmax_backward(struct pass *p, struct block *block)
{
    struct model *m = p->m;
    const struct model_sizes *z = &m->sizes;
    struct attention_common *common = block->common;
    const struct attention_context *c = &common->context;
    struct attention_memory *a = memory_of(p, block);

    if (z->slices > 1) {
        gather_kv(m, c, a->qkv);
        /* A slice gives no gradient to the keys after its end. */
        run_fill(c->clear, compute(m), &(struct fill_operands){c->dkv[0]});
        run_fill(c->clear, compute(m), &(struct fill_operands){c->dkv[1]});
    }
    for (int64_t i = 0; i < z->slices; i++) {
        struct attention_operands o = operands_of(p, block, i);
        void *dk = z->slices == 1 ? element(m, common->dqkv, z->attention) : c->dkv[i];

        run_attention_backward(
            common->softmax_backward[i], compute(m),
            &(struct attention_backward_operands){
                .q = o.q,
                .k = o.k,
                .v = o.v,
                .out = o.out,
                .dout = element(m, common->dout, i * z->slice_rows * z->attention),
                .lse = o.lse,
                .dq = element(m, common->dqkv, i * z->slice_rows * z->qkv),
                .dk = dk,
                .dv = element(m, dk, z->kv / 2),
                .document_start = o.document_start,
                .document_end = o.document_end,
                .row_index = o.row_index,
                .state = m->state,
                .purpose = o.purpose,
            });
    }
    if (z->slices > 1)
        scatter_dkv(m, common);
}

void attention_softmax_prepare(struct planner *p, struct model *m, struct attention_common *common)
{
    common->attend = attend;
    for (int64_t i = 0; i < m->sizes.slices; i++) {
        struct operation op = {.kind = OPERATION_ATTENTION,
                               .attention = shape_of(m, common->window, i)};

        common->softmax[MODE_TRAIN][i] = plan_make(p, &op);
        op.kind = OPERATION_ATTENTION_BACKWARD;
        common->softmax_backward[i] = plan_make(p, &op);
        op.kind = OPERATION_ATTENTION;
        if (op.attention.dropout > 0) {
            op.attention.dropout = 0;
            common->softmax[MODE_EVALUATE][i] = plan_make(p, &op);
        } else { /* an equal plan: making one takes cuDNN a tenth of a second */
            common->softmax[MODE_EVALUATE][i] = common->softmax[MODE_TRAIN][i];
        }
    }
    prepare_context(p, m, &common->context);
}
