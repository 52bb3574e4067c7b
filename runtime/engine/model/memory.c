/* SPDX-License-Identifier: Apache-2.0 */
/* The layout of all activations. One function lays everything out from a base address; without one
 * it only counts, so a memory estimate equals what a run allocates. */
#include "model_private.h"

#include <string.h>

/* Selected rows of each tensor-parallel rank are a multiple of this, for matrix units. */
enum { MASKED_UNIT = 8 };

struct arena {
    char *base;
    size_t used;
};

void *arena_take(struct arena *arena, int64_t elements, size_t size)
{
    size_t at = arena->used;

    arena->used +=
        ((size_t)elements * size + DEVICE_ALIGNMENT - 1) / DEVICE_ALIGNMENT * DEVICE_ALIGNMENT;
    return arena->base ? arena->base + at : NULL;
}

struct model_sizes model_sizes(const struct model_config *config, const struct layout *layout)
{
    const struct model_shape *shape = &config->network.shape;
    int64_t d = shape->kv_channels;
    struct zigzag split = zigzag_split(shape->sequence, layout->cp);
    struct model_sizes z = {
        .rows = config->micro_batch * (shape->sequence / layout->cp),
        .sequence = shape->sequence / layout->cp,
        .hidden = shape->hidden,
        .heads = shape->heads / layout->tp,
        .groups = shape->query_groups / layout->tp,
        .head_size = d,
        .ffn = shape->ffn_hidden / layout->tp,
        .vocabulary = config->padded_vocabulary / layout->tp,
        .rotary = (int64_t)((double)d * config->network.rotary_percent) / 2 * 2,
        .layers = shape->layers / (layout->pp * config->split.chunks),
        .samples = config->micro_batch,
        .cache = config->decoding.cache,
        .window = config->network.window,
        .token_types = config->network.token_types > 0,
        .binary = config->network.binary_head,
    };
    int64_t unit = layout->tp * MASKED_UNIT, most = config->masked_max;

    z.part_rows = z.rows / layout->tp;
    z.slices = split.slices;
    z.slice_rows = split.rows;
    z.attention = z.heads * d;
    z.kv = 2 * z.groups * d;
    z.qkv = z.attention + z.kv;
    z.fc1 = config->network.swiglu ? 2 * z.ffn : z.ffn;
    /* Logits of at most 1 GiB at a time, in equal parts of the rows: each part costs a pass over
     * the gradient of the head's weight, and small parts do not fill a GPU. */
    if (most > z.sequence)
        most = z.sequence;
    if (config->network.masked)
        z.masked = (z.samples * most + unit - 1) / unit * unit;
    z.masked_part = z.masked / layout->tp;
    z.head_rows = config->decoding.cache > 0 ? z.samples
                  : config->network.masked   ? z.masked
                                             : z.rows;
    while (z.head_rows % 2 == 0 &&
           z.head_rows * z.vocabulary * (int64_t)type_size(config->numerics.type) > (int64_t)1
                                                                                        << 30)
        z.head_rows /= 2;
    return z;
}

/* The members of a batch that only masked models have. */
static void lay_out_masked(const struct model_sizes *sizes, struct arena *arena,
                           struct model_batch *b)
{
    b->selected = arena_take(arena, sizes->masked, sizeof(int32_t));
    b->document_end = arena_take(arena, sizes->rows, sizeof(int32_t));
    b->slice_document_end =
        sizes->slices > 1 ? arena_take(arena, sizes->rows, sizeof(int32_t)) : b->document_end;
    if (sizes->token_types)
        b->token_types = arena_take(arena, sizes->rows, sizeof(int32_t));
    if (sizes->binary) {
        b->pair_row = arena_take(arena, sizes->samples, sizeof(int32_t));
        b->pair_targets = arena_take(arena, sizes->samples, sizeof(int32_t));
        b->pair_weight = arena_take(arena, sizes->samples, sizeof(float));
    }
}

/* A batch is contiguous, so that one copy brings it to the device. */
static void lay_out_batch(const struct model_sizes *sizes, struct arena *arena,
                          struct model_batch *b)
{
    int64_t rows = sizes->rows, predicted = sizes->masked > 0 ? sizes->masked : rows;

    b->tokens = arena_take(arena, rows, sizeof(int32_t));
    b->positions = arena_take(arena, rows, sizeof(int32_t));
    if (sizes->cache > 0) {
        b->cache_row = arena_take(arena, rows, sizeof(int32_t));
        b->last = arena_take(arena, sizes->samples, sizeof(int32_t));
        if (sizes->window > 0)
            b->window_start = arena_take(arena, rows, sizeof(int32_t));
        return;
    }
    b->targets = arena_take(arena, predicted, sizeof(int32_t));
    b->document_start = arena_take(arena, rows, sizeof(int32_t));
    b->weight = arena_take(arena, predicted, sizeof(float));
    b->logged = arena_take(arena, 1, sizeof(float));
    b->row_index = arena_take(arena, rows, sizeof(int64_t));
    b->slice_row_index = b->row_index;
    b->slice_document_start = b->document_start;
    if (sizes->slices > 1) {
        b->slice_row_index = arena_take(arena, rows, sizeof(int64_t));
        b->slice_document_start = arena_take(arena, rows, sizeof(int32_t));
    }
    if (sizes->window > 0)
        b->window_start = arena_take(arena, rows, sizeof(int32_t));
    if (sizes->masked > 0)
        lay_out_masked(sizes, arena, b);
}

size_t model_batch_lay_out(const struct model_sizes *sizes, void *base, struct model_batch *batch)
{
    struct arena arena = {base, 0};

    lay_out_batch(sizes, &arena, batch);
    return arena.used;
}

/* What a block keeps between its passes. */
static enum keep keep_of(const struct model *m, const struct block *block)
{
    const struct model_config *c = &m->config;

    if (block->layer < 0)
        return KEEP_ALL;
    if (!trains(m))
        return KEEP_NOTHING;
    if (c->recompute == RECOMPUTE_NONE || block->layer >= c->recompute_layers)
        return KEEP_ALL;
    return c->recompute == RECOMPUTE_FULL ? KEEP_INPUT : KEEP_COSTLY;
}

/* The block keeps some memory by itself and shares the rest with other layers. */
static void lay_out_block(struct model *m, const struct block *block, void *memory,
                          struct arena *arena)
{
    enum keep keep = keep_of(m, block);

    if (keep != KEEP_ALL && block->kind->memory_size > 0)
        memcpy(memory, model_shared_memory(m, block)->memory, block->kind->memory_size);
    if (block->kind->lay_out)
        block->kind->lay_out(m, block, memory, arena, keep);
}

/* Slot 'number' of each chunk, all from the same address: it is as large as the largest. */
static void lay_out_slot(struct model *m, struct arena *arena, int number)
{
    const struct model_sizes *z = &m->sizes;
    int64_t chunks = m->config.split.chunks;
    struct arena begin = *arena;
    struct model_batch batch = {0};
    void *gradient = NULL;

    lay_out_batch(z, &begin, &batch);
    if (trains(m) && !m->chunks[chunks - 1].first)
        gradient = arena_take(&begin, z->part_rows * z->hidden, type_size(m->config.numerics.type));
    for (int64_t c = 0; c < chunks; c++) {
        struct chunk *chunk = &m->chunks[c];
        struct slot *slot = &chunk->slots[number];
        struct arena own = begin;

        slot->batch = batch;
        slot->gradient = chunk->first ? NULL : gradient;
        for (int i = 0; i < chunk->block_count; i++)
            lay_out_block(m, &chunk->blocks[i], slot->memory[i], &own);
        arena->used = own.used > arena->used ? own.used : arena->used;
    }
}

static void lay_out_scratch(struct model *m, struct arena *arena)
{
    const struct model_sizes *z = &m->sizes;
    const struct layout *layout = &m->parallel->layout;
    struct scratch *s = &m->scratch;
    size_t size = type_size(m->config.numerics.type);
    int64_t part = z->part_rows * z->hidden;

    if (layout->tp > 1) {
        s->whole1 = arena_take(arena, z->rows * z->hidden, size);
        s->whole2 = arena_take(arena, z->rows * z->hidden, size);
    }
    s->x = arena_take(arena, part, size);
    if (layout->pp > 1)
        s->arrived = arena_take(arena, part, size);
    if (!trains(m))
        return;
    s->d = arena_take(arena, part, size);
    s->dy = arena_take(arena, part, size);
    if (layout->pp > 1)
        s->arrived_gradient = arena_take(arena, part, size);
    if (m->config.network.hidden_dropout > 0)
        s->dx = arena_take(arena, part, size);
}

static void lay_out_commons(struct model *m, struct arena *arena)
{
    for (int i = 0; i < m->common_count; i++) {
        struct block *block = m->commons[i].block;

        if (block->kind->lay_out_common)
            block->kind->lay_out_common(m, block, arena);
    }
}

/* The memory of one whole layer, if layers do not keep theirs. */
static void lay_out_shared(struct model *m, struct arena *arena)
{
    if (m->config.recompute == RECOMPUTE_NONE && trains(m))
        return;
    for (int i = 0; i < m->shared_count; i++) {
        const struct block *like = &m->shared[i].like;

        like->kind->lay_out(m, like, m->shared[i].memory, arena, KEEP_ALL);
    }
}

static void lay_out_staged(struct model *m, struct arena *arena)
{
    for (int i = 0; i < MODEL_STAGED && trains(m); i++) {
        struct model_batch batch;

        lay_out_batch(&m->sizes, arena, &batch);
        m->staged[i] = batch.tokens;
    }
}

/* Gradients of another type than fp32, with the sums of vectors. The weights in fp32 are where they
 * and the slots will be: this returns where that memory must end. */
static size_t lay_out_narrow_gradients(struct model *m, struct arena *arena)
{
    struct arena start;

    if (m->config.numerics.gradient_type == TYPE_FP32)
        return 0;
    m->vectors = arena_take(arena, m->parameters.vector_elements, sizeof(float));
    start = *arena;
    m->start_weights = arena_take(&start, m->parameters.elements, sizeof(float));
    m->gradients =
        arena_take(arena, m->parameters.elements, type_size(m->config.numerics.gradient_type));
    return start.used;
}

size_t model_lay_out(struct model *m, char *base)
{
    struct arena arena = {base, 0};
    size_t start;

    lay_out_scratch(m, &arena);
    fp8_layers_lay_out(m, &arena);
    lay_out_commons(m, &arena);
    lay_out_shared(m, &arena);
    lay_out_staged(m, &arena);
    m->state = arena_take(&arena, 1, sizeof(struct step_state));
    start = lay_out_narrow_gradients(m, &arena);
    for (int i = 0; i < m->slots; i++)
        lay_out_slot(m, &arena, i);
    return arena.used > start ? arena.used : start;
}
