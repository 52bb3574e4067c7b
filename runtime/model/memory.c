/* Where every activation lies. One function lays everything out from a base address; run on no base
 * it only counts, so what --dry-run says is what a run takes. */
#include "model_private.h"

#include <stdlib.h>

struct arena {
    char *base;
    size_t used;
};

static void *take(struct arena *arena, int64_t elements, size_t size)
{
    size_t at = arena->used;

    arena->used +=
        ((size_t)elements * size + DEVICE_ALIGNMENT - 1) / DEVICE_ALIGNMENT * DEVICE_ALIGNMENT;
    return arena->base ? arena->base + at : NULL;
}

struct model_sizes model_sizes(const struct model_config *config, const struct layout *layout)
{
    const struct model_shape *shape = &config->shape;
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
        .rotary = (int64_t)((double)d * config->rotary_percent) / 2 * 2,
        .layers = shape->layers / (layout->pp * config->chunks),
        .samples = config->micro_batch,
        .cache = config->cache,
    };

    z.part_rows = z.rows / layout->tp;
    z.slices = split.slices;
    z.slice_rows = split.rows;
    z.attention = z.heads * d;
    z.kv = 2 * z.groups * d;
    z.qkv = z.attention + z.kv;
    z.fc1 = config->swiglu ? 2 * z.ffn : z.ffn;
    /* Logits of at most 1 GiB at a time, in equal parts of the rows: each part costs a pass over
     * the gradient of the head's weight, and small ones leave a GPU idle. */
    z.head_rows = config->cache > 0 ? z.samples : z.rows;
    while (z.head_rows % 2 == 0 &&
           z.head_rows * z.vocabulary * (int64_t)type_size(config->type) > (int64_t)1 << 30)
        z.head_rows /= 2;
    return z;
}

enum keep { KEEP_ALL, KEEP_INPUT, KEEP_COSTLY, KEEP_NOTHING };

/* What a layer keeps by itself; the rest it borrows from 'shared'. */
static void place_layer(const struct model *m, struct arena *arena, struct layer_memory *l,
                        const struct layer_memory *shared, enum keep keep)
{
    const struct model_sizes *z = &m->sizes;
    size_t size = type_size(m->config.type);
    int64_t part = z->part_rows * z->hidden;

    if (shared)
        *l = *shared;
    if (keep == KEEP_NOTHING)
        return;
    l->sum1 = take(arena, part, size);
    if (keep == KEEP_INPUT)
        return;
    l->mean1 = take(arena, z->part_rows, sizeof(float));
    l->rstd1 = take(arena, z->part_rows, sizeof(float));
    l->qkv = take(arena, z->rows * z->qkv, size);
    l->attention = take(arena, z->rows * z->attention, size);
    l->lse = take(arena, z->rows * z->heads, sizeof(float));
    l->sum2 = take(arena, part, size);
    l->mean2 = take(arena, z->part_rows, sizeof(float));
    l->rstd2 = take(arena, z->part_rows, sizeof(float));
    l->pre = take(arena, z->rows * z->fc1, size);
    if (keep == KEEP_COSTLY)
        return;
    l->y1 = take(arena, part, size);
    l->y2 = take(arena, part, size);
    l->activated = take(arena, z->rows * z->ffn, size);
}

/* All of a batch is one run of memory, copied to the device at once. */
static void place_batch(const struct model_sizes *sizes, struct arena *arena, struct model_batch *b)
{
    int64_t rows = sizes->rows;

    b->tokens = take(arena, rows, sizeof(int32_t));
    b->positions = take(arena, rows, sizeof(int32_t));
    if (sizes->cache > 0) {
        b->place = take(arena, rows, sizeof(int32_t));
        b->last = take(arena, sizes->samples, sizeof(int32_t));
        return;
    }
    b->targets = take(arena, rows, sizeof(int32_t));
    b->document_start = take(arena, rows, sizeof(int32_t));
    b->weight = take(arena, rows, sizeof(float));
    b->row_index = take(arena, rows, sizeof(int64_t));
    b->slice_row_index = b->row_index;
    b->slice_document_start = b->document_start;
    if (sizes->slices > 1) {
        b->slice_row_index = take(arena, rows, sizeof(int64_t));
        b->slice_document_start = take(arena, rows, sizeof(int32_t));
    }
}

size_t model_batch_place(const struct model_sizes *sizes, void *base, struct model_batch *batch)
{
    struct arena arena = {base, 0};

    place_batch(sizes, &arena, batch);
    return arena.used;
}

static void place_slot(const struct model *m, struct arena *arena, const struct chunk *chunk,
                       struct slot *slot)
{
    const struct model_sizes *z = &m->sizes;
    const struct model_config *c = &m->config;
    size_t size = type_size(c->type);

    place_batch(z, arena, &slot->batch);
    for (int64_t i = 0; i < z->layers; i++) {
        int again = c->recompute != RECOMPUTE_NONE && i < c->recompute_layers;
        enum keep keep = c->cache > 0                     ? KEEP_NOTHING
                         : !again                         ? KEEP_ALL
                         : c->recompute == RECOMPUTE_FULL ? KEEP_INPUT
                                                          : KEEP_COSTLY;

        place_layer(m, arena, &slot->layers[i], keep == KEEP_ALL ? NULL : &m->scratch.layer, keep);
    }
    slot->sum_out = take(arena, z->part_rows * z->hidden, size);
    if (!chunk->first && c->cache == 0)
        slot->gradient = take(arena, z->part_rows * z->hidden, size);
    if (chunk->last) {
        slot->y_out = take(arena, z->part_rows * z->hidden, size);
        slot->mean = take(arena, z->part_rows, sizeof(float));
        slot->rstd = take(arena, z->part_rows, sizeof(float));
    }
}

/* What only backward passes use. */
static void place_gradients(struct model *m, struct arena *arena)
{
    const struct model_sizes *z = &m->sizes;
    struct scratch *s = &m->scratch;
    size_t size = type_size(m->config.type);
    int64_t part = z->part_rows * z->hidden;

    s->d = take(arena, part, size);
    s->dy = take(arena, part, size);
    if (m->parallel->layout.pp > 1)
        s->arrived_gradient = take(arena, part, size);
    if (m->config.hidden_dropout > 0)
        s->dx = take(arena, part, size);
    s->dqkv = take(arena, z->rows * z->qkv, size);
    s->dattention = take(arena, z->rows * z->attention, size);
    s->dactivated = take(arena, z->rows * z->ffn, size);
}

static void place_scratch(struct model *m, struct arena *arena)
{
    const struct model_sizes *z = &m->sizes;
    const struct model_config *c = &m->config;
    const struct layout *layout = &m->parallel->layout;
    struct scratch *s = &m->scratch;
    size_t size = type_size(c->type);

    if (layout->tp > 1) {
        s->whole1 = take(arena, z->rows * z->hidden, size);
        s->whole2 = take(arena, z->rows * z->hidden, size);
    }
    s->x = take(arena, z->part_rows * z->hidden, size);
    if (layout->pp > 1)
        s->arrived = take(arena, z->part_rows * z->hidden, size);
    if (c->cache == 0)
        place_gradients(m, arena);
    if (m->parameters.head >= 0) {
        s->logits = take(arena, z->head_rows * z->vocabulary, size);
        s->partial = take(arena, 3 * z->head_rows, sizeof(float));
        s->partials = take(arena, 3 * z->head_rows * layout->tp, sizeof(float));
        if (c->cache > 0)
            s->head_x = take(arena, z->head_rows * z->hidden, size);
    }
    if (z->slices > 1) {
        int64_t all = z->rows * layout->cp;

        s->kv_part = take(arena, z->rows * z->kv, size);
        s->kv_ranks = take(arena, all * z->kv, size);
        s->kv = take(arena, all * z->kv, size);
        s->dkv[0] = take(arena, all * z->kv, size);
        s->dkv[1] = take(arena, all * z->kv, size);
        m->kv_identity = take(arena, z->rows, sizeof(int32_t));
        m->kv_by_position = take(arena, all, sizeof(int32_t));
        m->kv_by_rank = take(arena, all, sizeof(int32_t));
    }
    if (c->recompute != RECOMPUTE_NONE || c->cache > 0)
        place_layer(m, arena, &s->layer, NULL, KEEP_ALL);
    if (c->position == POSITION_ROPE && !m->base) {
        m->cosine = take(arena, c->positions * z->rotary / 2, sizeof(float));
        m->sine = take(arena, c->positions * z->rotary / 2, sizeof(float));
    }
    for (int i = 0; i < MODEL_STAGED && c->cache == 0; i++) {
        struct model_batch batch;

        place_batch(z, arena, &batch);
        m->staged[i] = batch.tokens;
    }
    m->state = take(arena, 1, sizeof(struct step_state));
}

size_t model_place(struct model *model, char *base)
{
    struct arena arena = {base, 0};

    place_scratch(model, &arena);
    for (int64_t c = 0; c < model->config.chunks; c++)
        for (int i = 0; i < model->chunks[c].slot_count; i++)
            place_slot(model, &arena, &model->chunks[c], &model->chunks[c].slots[i]);
    return arena.used;
}
