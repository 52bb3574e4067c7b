/* SPDX-License-Identifier: Apache-2.0 */
/* The head block: logits and cross entropy, split by vocabulary over the tensor-parallel ranks.
 * Logits are never kept: a training pass computes the loss and all gradients of the head at once,
 * some rows at a time. A model that generates computes the logits of one token per sample. */
#include "builder.h"
#include "linear.h"
#include "vocabulary_loss.h"

enum { HEAD };

struct head_common {
    struct vocabulary_loss loss;
    struct device_plan *gather; /* of the rows whose logits are wanted */
    void *wanted;               /* (head_rows, h) of a model that generates */
};

/* A tied head uses the word table of the embedding, or on another pipeline stage a copy of it. */
static void add_parameters(struct builder *b, struct block *block)
{
    int word = b->p->word;

    if (!b->config->network.tied)
        block->tensors[HEAD] = builder_vocabulary(b, block, "head.weight", 2, CLASS_DIVIDED);
    else if (word >= 0)
        block->tensors[HEAD] = word;
    else
        block->tensors[HEAD] = builder_vocabulary(b, block, "embedding.word.weight", 0, CLASS_TIED);
    b->p->head = block->tensors[HEAD];
}

static void lay_out_common(struct model *m, struct block *block, struct arena *arena)
{
    const struct model_sizes *z = &m->sizes;
    struct head_common *common = block->common;
    size_t size = type_size(m->config.numerics.type);

    vocabulary_loss_lay_out(m, &common->loss, arena);
    if (!trains(m))
        common->wanted = arena_take(arena, z->head_rows * z->hidden, size);
}

/* The loss of the norm's output, and in training its gradient in the same place. */
static void run_head(struct pass *p, struct block *block)
{
    struct model *m = p->m;
    const struct head_common *common = block->common;
    struct sequence_rows rows = stream_rows(m);
    void *y = norm_output(p, block->before);
    void *x = sequence_gather(&m->overlap, &rows, y, m->scratch.whole1);
    void *dx = sequence_unreduced(&m->overlap, y, m->scratch.whole2);

    overlap_end(&m->overlap);
    vocabulary_loss_run(p, &common->loss, block->tensors[HEAD], -1, m->sizes.rows, x, dx);
    if (p->mode == MODE_TRAIN) {
        sequence_scatter(&m->overlap, &rows, dx, y);
        overlap_end(&m->overlap);
    }
}

/* The logits of the tokens that the batch names. */
static void run_logits(struct pass *p, struct block *block)
{
    struct model *m = p->m;
    const struct head_common *common = block->common;
    struct sequence_rows rows = stream_rows(m);
    void *x = sequence_gather(&m->overlap, &rows, norm_output(p, block->before), m->scratch.whole1);

    overlap_end(&m->overlap);
    run_gather_rows(common->gather, compute(m),
                    &(struct gather_rows_operands){x, p->slot->batch.last, common->wanted});
    vocabulary_logits(m, &common->loss, block->tensors[HEAD], -1, common->wanted);
}

static void prepare(struct planner *p, struct model *m, struct block *block)
{
    const struct model_config *c = &m->config;
    const struct model_sizes *z = &m->sizes;
    struct head_common *common = block->common;
    struct operation gather = {.kind = OPERATION_GATHER_ROWS,
                               .gather_rows = {z->head_rows, z->hidden, c->numerics.type, 0, 0, 0}};

    vocabulary_loss_plan(p, m, &common->loss, false);
    if (!trains(m))
        common->gather = plan_make(p, &gather);
}

static void forward(struct pass *p, struct block *block)
{
    (trains(p->m) ? run_head : run_logits)(p, block);
}

/* The forward pass has computed it. */
static void backward(struct pass *p, struct block *block)
{
    p->dy = norm_output(p, block->before);
    p->dsum = NULL;
}

const struct block_kind head_block = {
    .name = "head",
    .common_size = sizeof(struct head_common),
    .add_parameters = add_parameters,
    .lay_out_common = lay_out_common,
    .prepare = prepare,
    .forward = forward,
    .backward = backward,
};
