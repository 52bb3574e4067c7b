/* SPDX-License-Identifier: Apache-2.0 */
/* Forward and backward passes of a chunk: a walk along its blocks. */
#include "model_private.h"

void model_on_use(struct model *m, void (*use)(void *context, int chunk, int64_t layer),
                  void *context)
{
    m->use = use;
    m->use_context = context;
}

/* Does a layer after the first of its chunk begin with this block? */
static int begins_layer(const struct block *block)
{
    return block->layer > 0 && block->position == 0;
}

void model_forward(struct model *m, int number, int slot, int evaluate, int accumulate)
{
    struct chunk *chunk = &m->chunks[number];
    struct pass p = {.m = m,
                     .slot = &chunk->slots[slot],
                     .mode = evaluate ? MODE_EVALUATE : MODE_TRAIN,
                     .accumulate = accumulate};

    /* Weights do not change between the micro-batches of a step. */
    m->fp8.fresh = evaluate || !accumulate;
    m->fp8.records = !evaluate;
    if (m->use)
        m->use(m->use_context, number, 0);
    for (int i = 0; i < chunk->block_count; i++) {
        struct block *block = &chunk->blocks[i];

        if (m->use && begins_layer(block))
            m->use(m->use_context, number, block->layer);
        block->kind->forward(&p, block);
    }
}

static int is_recomputed(const struct model *m, int64_t layer)
{
    return m->config.recompute != RECOMPUTE_NONE && layer >= 0 &&
           layer < m->config.recompute_layers;
}

/* All of the layer that 'last' is the last block of. */
static void recompute_layer(struct pass *p, struct block *last)
{
    for (struct block *block = last - last->position; block <= last; block++)
        if (block->kind->recompute)
            block->kind->recompute(p, block);
}

static int ends_layer(const struct chunk *chunk, const struct block *block)
{
    return block->index + 1 == chunk->block_count || block[1].layer != block->layer;
}

void model_backward(struct model *m, int number, int slot, int accumulate,
                    void (*ready)(void *context, int chunk, int64_t layer), void *context)
{
    struct chunk *chunk = &m->chunks[number];
    struct pass p = {.m = m,
                     .slot = &chunk->slots[slot],
                     .mode = MODE_TRAIN,
                     .accumulate = accumulate,
                     .dsum = m->scratch.arrived_gradient};

    m->fp8.fresh = 0;
    m->fp8.records = 1;
    for (int i = chunk->block_count - 1; i >= 0; i--) {
        struct block *block = &chunk->blocks[i];

        if (is_recomputed(m, block->layer) && ends_layer(chunk, block))
            recompute_layer(&p, block);
        block->kind->backward(&p, block);
        if (ready && begins_layer(block))
            ready(context, number, block->layer);
    }
    if (ready)
        ready(context, number, 0);
}
