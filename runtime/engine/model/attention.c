/* SPDX-License-Identifier: Apache-2.0 */
/* The attention block: the column-parallel projection to queries, keys and values, norms of queries
 * and keys or a limit of their size, rotary positions, softmax attention of this rank's heads, and
 * the row-parallel output projection. */
#include "attention.h"
#include "builder.h"
#include "base/core/rng.h"
#include "base/core/xmalloc.h"
#include "block.h"
#include "base/core/option.h"

#include <math.h>
#include <stdlib.h>

/* The norms of queries come before those of keys. */
enum { QKV, QKV_BIAS, PROJECTION, PROJECTION_BIAS, HEAD_NORMS, HEAD_NORM_BIASES = HEAD_NORMS + 2 };

/* Norms of queries and keys are vectors that all tensor-parallel ranks hold: each adds the gradient
 * of its own heads. */
static void add_head_norms(struct builder *b, struct block *block)
{
    static const char *const names[] = {"query_norm.weight", "key_norm.weight", "query_norm.bias",
                                        "key_norm.bias"};
    const struct model_config *c = b->config;
    const int64_t heads[] = {c->network.shape.heads, c->network.shape.query_groups};

    for (int i = 0;
         i < (c->network.norm == NORM_LAYER ? 4 : 2) && c->network.qk_norm != QK_NORM_NONE; i++)
        block->tensors[HEAD_NORMS + i] = builder_vector(
            b, block, names[i],
            (c->network.qk_norm == QK_NORM_WHOLE ? heads[i % 2] : 1) * c->network.shape.kv_channels,
            i < 2 && !c->network.layernorm_1p ? 1 : 0);
}

static void add_parameters(struct builder *b, struct block *block)
{
    const struct model_config *c = b->config;
    int64_t h = c->network.shape.hidden, d = c->network.shape.kv_channels;
    int64_t q = c->network.shape.heads * d, kv = c->network.shape.query_groups * d;
    const struct parameter_spec weights[] = {
        {"query.weight", q, h, SPLIT_ROWS, 0, c->network.init_std, 0},
        {"key.weight", kv, h, SPLIT_ROWS, 1, c->network.init_std, 0},
        {"value.weight", kv, h, SPLIT_ROWS, 2, c->network.init_std, 0},
    };
    const struct parameter_spec biases[] = {
        {"query.bias", 1, q, SPLIT_COLS, 0, 0, 0},
        {"key.bias", 1, kv, SPLIT_COLS, 0, 0, 0},
        {"value.bias", 1, kv, SPLIT_COLS, 0, 0, 0},
    };
    const struct parameter_spec projection = {"projection.weight",         h, q, SPLIT_COLS, 3,
                                              builder_output_deviation(b), 0};
    int *t = block->tensors;

    t[QKV] = builder_tensor(b, CLASS_DIVIDED);
    for (int i = 0; i < 3; i++)
        builder_add(b, block, &weights[i]);
    if (c->network.linear_bias || c->network.qkv_bias) {
        t[QKV_BIAS] = builder_tensor(b, CLASS_RAW);
        for (int i = 0; i < 3; i++)
            builder_add(b, block, &biases[i]);
    }
    add_head_norms(b, block);
    t[PROJECTION] = builder_matrix(b, block, &projection);
    if (c->network.linear_bias)
        t[PROJECTION_BIAS] = builder_vector(b, block, "projection.bias", h, 0);
    block->bias = t[PROJECTION_BIAS];
    block->dropout_purpose = (uint32_t)(RNG_PROJECTION_DROPOUT + block->number);
}

static int has_rope(const struct network *network, const struct block *block)
{
    return network->position == POSITION_ROPE && !option_has_layer(network->no_rope, block->number);
}

static int variant(const struct network *network, const struct block *block)
{
    return block->window + 2 * block->fp8 + 4 * has_rope(network, block);
}

static void lay_out(struct model *m, const struct block *block, void *memory, struct arena *arena,
                    enum keep keep)
{
    const struct model_sizes *z = &m->sizes;
    struct attention_memory *a = memory;
    size_t size = type_size(m->config.numerics.type);

    if (keep == KEEP_INPUT || keep == KEEP_NOTHING)
        return;
    a->qkv = arena_take(arena, z->rows * z->qkv, size);
    if (m->config.network.qk_norm != QK_NORM_NONE || m->config.network.qkv_clip > 0)
        a->projected = arena_take(arena, z->rows * z->qkv, size);
    if (m->config.network.qk_norm != QK_NORM_NONE) {
        a->head_mean = arena_take(arena, z->rows * (z->heads + z->groups), sizeof(float));
        a->head_rstd = arena_take(arena, z->rows * (z->heads + z->groups), sizeof(float));
    }
    a->out = arena_take(arena, z->rows * z->attention, size);
    a->lse = arena_take(arena, z->rows * z->heads, sizeof(float));
    linear_lay_out(m, block, LINEAR_QKV, &a->qkv_input, arena, keep);
    linear_lay_out(m, block, LINEAR_PROJECTION, &a->projection_input, arena, keep);
}

static void lay_out_common(struct model *m, struct block *block, struct arena *arena)
{
    const struct model_sizes *z = &m->sizes;
    const struct model_config *c = &m->config;
    struct attention_common *common = block->common;
    const struct attention_common *base =
        m->base ? model_common(m->base, &attention_block, block->variant) : NULL;

    if (trains(m)) {
        common->dqkv = arena_take(arena, z->rows * z->qkv, type_size(c->numerics.type));
        common->dout = arena_take(arena, z->rows * z->attention, type_size(c->numerics.type));
    }
    attention_softmax_lay_out(m, common, arena);
    if (!has_rope(&c->network, block))
        return;
    common->cosine = base ? base->cosine
                          : arena_take(arena, c->network.positions * z->rotary / 2, sizeof(float));
    common->sine =
        base ? base->sine : arena_take(arena, c->network.positions * z->rotary / 2, sizeof(float));
}

double attention_scale(const struct model_config *config)
{
    return config->network.attention_scale > 0
               ? config->network.attention_scale
               : 1 / sqrt((double)config->network.shape.kv_channels);
}

static void upload_rotations(struct planner *p, struct model *m,
                             const struct attention_common *common)
{
    int64_t half = m->sizes.rotary / 2, count = m->config.network.positions * half;
    double magnitude = rotary_magnitude(&m->config.network, common->window), *turn;
    float *table;

    if (!common->rope || m->base)
        return;
    table = xcalloc((size_t)count, sizeof(*table));
    turn = xcalloc((size_t)half, sizeof(*turn));
    for (int64_t i = 0; i < half; i++)
        turn[i] = rotary_rotation(&m->config.network, common->window, m->sizes.rotary, i);
    for (int which = 0; which < 2; which++) {
        for (int64_t i = 0; i < count; i++) {
            double angle = (double)(i / half) * turn[i % half];

            table[i] = (float)(magnitude * (which ? sin(angle) : cos(angle)));
        }
        model_upload(p, m, which ? common->sine : common->cosine, table,
                     (size_t)count * sizeof(*table));
    }
    free(table);
    free(turn);
}

static void plan_head_norm(struct planner *p, struct model *m, struct attention_common *common)
{
    const struct model_config *c = &m->config;
    const struct model_sizes *z = &m->sizes;
    int whole = c->network.qk_norm == QK_NORM_WHOLE;
    struct operation op = {.kind = OPERATION_HEAD_NORM,
                           .head_norm = {.rows = z->rows,
                                         .counts = {whole ? 1 : z->heads, whole ? 1 : z->groups},
                                         .widths = {(whole ? z->heads : 1) * z->head_size,
                                                    (whole ? z->groups : 1) * z->head_size},
                                         .rest = z->kv / 2,
                                         .type = c->numerics.type,
                                         .norm = c->network.norm,
                                         .epsilon = c->network.epsilon,
                                         .add_one = c->network.layernorm_1p}};

    if (c->network.qk_norm == QK_NORM_NONE)
        return;
    common->head_norm = plan_make(p, &op);
    op.kind = OPERATION_HEAD_NORM_BACKWARD;
    if (trains(m))
        common->head_norm_backward = plan_make(p, &op);
}

static void plan_clip(struct planner *p, struct model *m, struct attention_common *common)
{
    const struct model_config *c = &m->config;
    struct operation op = {
        .kind = OPERATION_CLIP,
        .clip = {m->sizes.rows * m->sizes.qkv, c->numerics.type, c->network.qkv_clip, 0}};

    if (!(c->network.qkv_clip > 0))
        return;
    common->clip = plan_make(p, &op);
    op.clip.backward = 1;
    if (trains(m))
        common->clip_backward = plan_make(p, &op);
}

static void prepare(struct planner *p, struct model *m, struct block *block)
{
    const struct model_config *c = &m->config;
    const struct model_sizes *z = &m->sizes;
    struct attention_common *common = block->common;
    const struct linear_spec qkv = {
        .block = block, .kind = LINEAR_QKV, .bias = c->network.linear_bias || c->network.qkv_bias};
    const struct linear_spec projection = {.block = block, .kind = LINEAR_PROJECTION};
    struct operation rope = {.kind = OPERATION_ROPE,
                             .rope = {z->rows, z->heads + z->groups, z->head_size, z->rotary,
                                      z->qkv, c->numerics.type, 0}};

    common->window = block->window;
    /* First, because a device may make these plans while it makes the others. */
    (trains(m) ? attention_softmax_prepare : attention_cache_prepare)(p, m, common);
    linear_plan(p, m, &common->qkv, &qkv);
    plan_head_norm(p, m, common);
    plan_clip(p, m, common);
    linear_plan(p, m, &common->projection, &projection);
    if (has_rope(&c->network, block))
        common->rope = plan_make(p, &rope);
    rope.rope.backward = 1;
    if (common->rope && trains(m))
        common->rope_backward = plan_make(p, &rope);
    upload_rotations(p, m, common);
}

static struct column_parallel qkv_of(struct pass *p, struct block *block)
{
    const struct attention_memory *a = memory_of(p, block);

    return (struct column_parallel){.norm = block->before,
                                    .weight = block->tensors[QKV],
                                    .bias = block->tensors[QKV_BIAS],
                                    .kept = &a->qkv_input};
}

/* qkv = projected with normalized queries and keys. */
static void normalize_heads(struct pass *p, struct block *block)
{
    struct model *m = p->m;
    const struct attention_common *common = block->common;
    struct attention_memory *a = memory_of(p, block);
    const int *t = block->tensors;

    run_head_norm(common->head_norm, compute(m),
                  &(struct head_norm_operands){
                      .x = a->projected,
                      .y = a->qkv,
                      .weight = {weight(m, t[HEAD_NORMS]), weight(m, t[HEAD_NORMS + 1])},
                      .bias = {weight(m, t[HEAD_NORM_BIASES]), weight(m, t[HEAD_NORM_BIASES + 1])},
                      .mean = a->head_mean,
                      .rstd = a->head_rstd,
                  });
}

/* dqkv: of the normalized queries and keys, then of the projection. */
static void normalize_heads_backward(struct pass *p, struct block *block)
{
    struct model *m = p->m;
    const struct attention_common *common = block->common;
    const struct attention_memory *a = memory_of(p, block);
    const int *t = block->tensors;

    run_head_norm_backward(
        common->head_norm_backward, compute(m),
        &(struct head_norm_backward_operands){
            .d = common->dqkv,
            .x = a->projected,
            .weight = {weight(m, t[HEAD_NORMS]), weight(m, t[HEAD_NORMS + 1])},
            .mean = a->head_mean,
            .rstd = a->head_rstd,
            .dweight = {gradient(m, t[HEAD_NORMS]), gradient(m, t[HEAD_NORMS + 1])},
            .dbias = {gradient(m, t[HEAD_NORM_BIASES]), gradient(m, t[HEAD_NORM_BIASES + 1])},
            .accumulate = p->accumulate,
        });
}

static void forward(struct pass *p, struct block *block)
{
    struct model *m = p->m;
    const struct attention_common *common = block->common;
    struct attention_memory *a = memory_of(p, block);
    struct column_parallel qkv = qkv_of(p, block);

    column_parallel_forward(p, &common->qkv, &qkv, a->projected ? a->projected : a->qkv, NULL);
    if (common->head_norm)
        normalize_heads(p, block);
    if (common->clip)
        run_clip(common->clip, compute(m), &(struct clip_operands){a->projected, a->qkv});
    if (common->rope)
        run_rope(common->rope, compute(m),
                 &(struct rope_operands){a->qkv, p->slot->batch.positions, common->cosine,
                                         common->sine});
    common->attend(p, block);
    row_parallel_forward(p, &common->projection, block->tensors[PROJECTION], a->out,
                         &a->projection_input);
}

static void recompute(struct pass *p, struct block *block)
{
    if (p->m->config.recompute == RECOMPUTE_FULL)
        forward(p, block);
}

static void backward(struct pass *p, struct block *block)
{
    struct model *m = p->m;
    struct attention_common *common = block->common;
    struct attention_memory *a = memory_of(p, block);
    struct column_parallel qkv = qkv_of(p, block);
    const struct row_parallel_gradient projection = {.weight = block->tensors[PROJECTION],
                                                     .x = a->out,
                                                     .dpart = p->dx,
                                                     .dx = common->dout,
                                                     .kept = &a->projection_input};

    row_parallel_backward(p, &common->projection, &projection);
    attention_softmax_backward(p, block);
    if (common->rope)
        run_rope(common->rope_backward, compute(m),
                 &(struct rope_operands){common->dqkv, p->slot->batch.positions, common->cosine,
                                         common->sine});
    if (common->head_norm)
        normalize_heads_backward(p, block);
    if (common->clip)
        run_clip(common->clip_backward, compute(m),
                 &(struct clip_operands){a->projected, common->dqkv});
    column_parallel_backward(p, &common->qkv, &qkv, common->dqkv);
    p->dy = m->scratch.dy;
}

const struct block_kind attention_block = {
    .name = "attention",
    .memory_size = sizeof(struct attention_memory),
    .common_size = sizeof(struct attention_common),
    .linear_count = 2,
    .linears = {QKV, PROJECTION},
    .first_linear = LINEAR_QKV,
    .add_parameters = add_parameters,
    .variant = variant,
    .lay_out = lay_out,
    .lay_out_common = lay_out_common,
    .prepare = prepare,
    .forward = forward,
    .recompute = recompute,
    .backward = backward,
};
