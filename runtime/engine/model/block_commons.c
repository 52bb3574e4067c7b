/* SPDX-License-Identifier: Apache-2.0 */
/* What blocks of a model share: plans and scratch memory of those of one kind and variant, and the
 * memory of layers that do not keep theirs. */
#include "model_private.h"
#include "base/core/xmalloc.h"

#include <stdlib.h>

static struct common *find_common(const struct model *m, const struct block_kind *kind, int variant)
{
    for (int i = 0; i < m->common_count; i++)
        if (m->commons[i].block->kind == kind && m->commons[i].block->variant == variant)
            return &m->commons[i];
    return NULL;
}

void *model_common(const struct model *m, const struct block_kind *kind, int variant)
{
    const struct common *common = find_common(m, kind, variant);

    return common ? common->shared : NULL;
}

static void share(struct model *m, struct block *block)
{
    struct common *common;

    block->variant = block->kind->variant ? block->kind->variant(&m->config.network, block) : 0;
    common = find_common(m, block->kind, block->variant);
    if (!common) {
        common = &m->commons[m->common_count];
        common->block = block;
        common->shared = xcalloc(1, block->kind->common_size);
        m->common_count++;
    }
    block->common = common->shared;
}

struct shared_memory *model_shared_memory(const struct model *m, const struct block *block)
{
    for (int i = 0; i < m->shared_count; i++)
        if (m->shared[i].like.kind == block->kind && m->shared[i].like.position == block->position)
            return &m->shared[i];
    return NULL;
}

static void share_memory(struct model *m, const struct block *block)
{
    struct shared_memory *shared = &m->shared[m->shared_count];

    if (block->layer < 0 || block->kind->memory_size == 0 || model_shared_memory(m, block))
        return;
    shared->like = (struct block){
        .kind = block->kind, .name = "", .place = block->place, .position = block->position};
    shared->memory = xcalloc(1, block->kind->memory_size);
    m->shared_count++;
}

void model_create_commons(struct model *m)
{
    struct block_list *n = m->parameters.blocks;

    m->commons = xcalloc((size_t)n->count, sizeof(*m->commons));
    m->shared = xcalloc((size_t)n->count, sizeof(*m->shared));
    for (int i = 0; i < n->count; i++) {
        share(m, &n->blocks[i]);
        share_memory(m, &n->blocks[i]);
    }
}

int model_prepare_blocks(struct model *m, struct error *err)
{
    struct planner p = {.plans = &m->plans, .err = err};

    m->plans.device = m->device;
    for (int i = 0; i < m->common_count; i++) {
        struct block *block = m->commons[i].block;

        block->kind->prepare(&p, m, block);
        if (p.failed)
            return error_prefix(err, "%s", block->kind->name);
    }
    return 0;
}

void model_destroy_commons(struct model *m)
{
    plans_destroy(&m->plans);
    for (int i = 0; i < m->common_count; i++)
        free(m->commons[i].shared);
    for (int i = 0; i < m->shared_count; i++)
        free(m->shared[i].memory);
    free(m->commons);
    free(m->shared);
}
