/* SPDX-License-Identifier: Apache-2.0 */
/* Attention of a model that generates: keys and values of the tokens of a pass go to the KV cache,
 * and the queries attend to that. */
#include "attention.h"

static void attend(struct pass *p, struct block *block)
{
    struct model *m = p->m;
    const struct model_sizes *z = &m->sizes;
    const struct attention_common *common = block->common;
    const struct attention_cache *cache = &common->cache;
    struct attention_memory *a = memory_of(p, block);
    void *k = element(m, m->cache, block->local * z->samples * z->cache * z->kv);
    int plan = 0;

    while (plan < cache->count - 1 && cache->reach[plan] < m->longest)
        plan++;
    run_gather_rows(cache->put, compute(m),
                    &(struct gather_rows_operands){element(m, a->qkv, z->attention),
                                                   p->slot->batch.cache_row, k});
    run_attention(cache->plans[plan], compute(m),
                  &(struct attention_operands){
                      .q = a->qkv,
                      .k = k,
                      .v = element(m, k, z->kv / 2),
                      .out = a->out,
                      .lse = a->lse,
                      .document_start = p->slot->batch.window_start,
                      .state = m->state,
                      .positions = p->slot->batch.positions,
                  });
}

void attention_cache_prepare(struct planner *p, struct model *m, struct attention_common *common)
{
    const struct model_config *c = &m->config;
    const struct model_sizes *z = &m->sizes;
    const struct parallel *parallel = m->parallel;
    struct attention_cache *cache = &common->cache;
    struct operation put = {.kind = OPERATION_GATHER_ROWS,
                            .gather_rows = {z->rows, z->kv, c->numerics.type, z->qkv, 0, 1}};
    struct operation op = {
        .kind = OPERATION_ATTENTION,
        .attention = {
            .batch = z->samples,
            .q_rows = z->sequence,
            .heads = z->heads,
            .kv_heads = z->groups,
            .head_size = z->head_size,
            .type = c->numerics.type,
            .q = {z->sequence * z->qkv, z->qkv, z->head_size},
            .kv = {z->cache * z->kv, z->kv, z->head_size},
            .out = {z->sequence * z->attention, z->attention, z->head_size},
            .scale = attention_scale(c),
            .causal = 1,
            .documents = common->window,
            .cached = 1,
            .all_heads = c->network.shape.heads,
            .first_head =
                range_tensor(&parallel->layout, &parallel->at, c->network.shape.heads).first,
            .sequence = z->cache,
            .softcap = c->network.attention_softcap,
        }};
    int64_t reach = FIRST_REACH;

    common->attend = attend;
    cache->put = plan_make(p, &put);
    while (reach < z->sequence)
        reach *= 2;
    for (; cache->count < REACHES; reach *= 2) {
        op.attention.kv_rows = cache->reach[cache->count] = reach < z->cache ? reach : z->cache;
        cache->plans[cache->count++] = plan_make(p, &op);
        if (reach >= z->cache)
            break;
    }
}
