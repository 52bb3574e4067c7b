/* SPDX-License-Identifier: Apache-2.0 */
/* Which blocks a network consists of: one table per arrangement of norms. */
#include "block.h"
#include "linear.h"
#include "base/core/xmalloc.h"

#include <stdlib.h>

enum { ROWS = 6 };

struct row {
    const struct block_kind *kind;
    const char *name;
    enum norm_place place;
};

#define BLOCK(its_kind, its_name)                   \
    {                                               \
        .kind = &its_kind##_block, .name = its_name \
    }
#define NORM(its_name, its_place)                                 \
    {                                                             \
        .kind = &norm_block, .name = its_name, .place = its_place \
    }

/* A row without kind ends each list. All lists but 'layer' are for one chunk each. */
struct table {
    struct row first[ROWS];   /* before the first layer of the model */
    struct row later[ROWS];   /* before the first layer of a chunk that follows another */
    struct row layer[ROWS];   /* of every layer */
    struct row between[ROWS]; /* after the last layer of a chunk that another chunk follows */
    struct row last[ROWS];    /* after the last layer of the model */
};

/* Decoders with the norm before each branch: GPT (learned positions, LayerNorm, GELU, biases) and
 * Llama (RoPE, RMSNorm, SwiGLU, no biases) consist of the same blocks, which model_config sets up.
 * So do Mistral, Qwen, Phi-3 and Gemma 1. */
static const struct table decoder = {
    .first = {BLOCK(embedding, "embedding")},
    .layer = {NORM("norm1", NORM_INPUT), BLOCK(attention, "attention"), NORM("norm2", NORM_INPUT),
              BLOCK(mlp, "mlp")},
    .between = {NORM(NULL, NORM_INPUT)}, /* adds the last branch to the residual stream */
    .last = {NORM("final_norm", NORM_INPUT), BLOCK(head, "head")},
};

/* Attention and MLP take the same residual stream: GPT-NeoX. */
static const struct table parallel_decoder = {
    .first = {BLOCK(embedding, "embedding")},
    .layer = {NORM("norm1", NORM_INPUT), BLOCK(attention, "attention"),
              NORM("norm2", NORM_PARALLEL), BLOCK(mlp, "mlp")},
    .between = {NORM(NULL, NORM_INPUT)},
    .last = {NORM("final_norm", NORM_INPUT), BLOCK(head, "head")},
};

/* Decoders with a norm on the output of each branch, instead of its input (OLMo 2) or on both
 * sides (Gemma 2 and 3). */
static const struct table output_decoder = {
    .first = {BLOCK(embedding, "embedding")},
    .layer = {NORM(NULL, NORM_INPUT), BLOCK(attention, "attention"),
              NORM("attention_norm", NORM_OUTPUT), NORM(NULL, NORM_INPUT), BLOCK(mlp, "mlp"),
              NORM("mlp_norm", NORM_OUTPUT)},
    .between = {NORM(NULL, NORM_INPUT)},
    .last = {NORM("final_norm", NORM_INPUT), BLOCK(head, "head")},
};
static const struct table both_decoder = {
    .first = {BLOCK(embedding, "embedding")},
    .layer = {NORM("norm1", NORM_INPUT), BLOCK(attention, "attention"),
              NORM("attention_norm", NORM_OUTPUT), NORM("norm2", NORM_INPUT), BLOCK(mlp, "mlp"),
              NORM("mlp_norm", NORM_OUTPUT)},
    .between = {NORM(NULL, NORM_INPUT)},
    .last = {NORM("final_norm", NORM_INPUT), BLOCK(head, "head")},
};

/* Megatron's BERT: the same with another head. */
static const struct table encoder = {
    .first = {BLOCK(embedding, "embedding")},
    .layer = {NORM("norm1", NORM_INPUT), BLOCK(attention, "attention"), NORM("norm2", NORM_INPUT),
              BLOCK(mlp, "mlp")},
    .between = {NORM(NULL, NORM_INPUT)},
    .last = {NORM("final_norm", NORM_INPUT), BLOCK(mlm_head, "head")},
};

/* BERT and RoBERTa: the norm after each branch. */
static const struct table post_norm_encoder = {
    .first = {BLOCK(embedding, "embedding"), NORM("embedding_norm", NORM_EMBEDDING)},
    .later = {NORM(NULL, NORM_INPUT)},
    .layer = {BLOCK(attention, "attention"), NORM("norm1", NORM_STREAM), BLOCK(mlp, "mlp"),
              NORM("norm2", NORM_STREAM)},
    .last = {BLOCK(mlm_head, "head")},
};

static const struct table *table_of(const struct model_config *config)
{
    if (config->network.masked)
        return config->network.post_norm ? &post_norm_encoder : &encoder;
    if (config->network.parallel_residual)
        return &parallel_decoder;
    return config->network.branch_norm == BRANCH_NORM_BOTH     ? &both_decoder
           : config->network.branch_norm == BRANCH_NORM_OUTPUT ? &output_decoder
                                                               : &decoder;
}

static int length(const struct row *rows)
{
    int count = 0;

    while (count < ROWS && rows[count].kind)
        count++;
    return count;
}

static void append(struct block_list *n, int chunk, const struct row *rows,
                   const struct block *like)
{
    for (int i = 0; i < length(rows); i++) {
        struct block *block = &n->blocks[n->count];
        int index = n->count - n->first[chunk];

        *block = *like;
        block->kind = rows[i].kind;
        block->name = rows[i].name;
        block->place = rows[i].place;
        block->index = index;
        block->position = i;
        block->before = index > 0 ? block - 1 : NULL;
        block->bias = -1;
        for (int t = 0; t < BLOCK_TENSORS; t++)
            block->tensors[t] = -1;
        n->count++;
    }
}

static void append_chunk(struct block_list *n, const struct model_config *config,
                         const struct layout *layout, int64_t stage, int64_t chunk)
{
    const struct table *table = table_of(config);
    int64_t layers = model_chunk_layers(config, layout, stage, chunk);
    int64_t before = model_layers_before(config, layout, stage, chunk);
    const struct block outside = {.layer = -1, .number = -1, .local = -1};

    n->first[chunk] = n->count;
    append(n, (int)chunk, model_chunk_first(stage, chunk) ? table->first : table->later, &outside);
    for (int64_t i = 0; i < layers; i++) {
        int64_t number = model_layer(config, layout, stage, chunk, i);
        const struct block like = {.layer = i,
                                   .number = number,
                                   .local = before + i,
                                   .window = network_has_window(&config->network, number),
                                   .fp8 = fp8_in_layer(config, number)};

        append(n, (int)chunk, table->layer, &like);
        for (int b = n->count - length(table->layer); b + 1 < n->count; b++)
            linear_choose_cast(&n->blocks[b], config, layout);
    }
    append(n, (int)chunk,
           model_chunk_last(config, layout, stage, chunk) ? table->last : table->between, &outside);
}

struct block_list *block_list_create(const struct model_config *config, const struct layout *layout,
                                     const struct layout_position *at)
{
    struct block_list *n = xcalloc(1, sizeof(*n));
    int64_t layers = model_layers_before(config, layout, at->pp, config->split.chunks);
    size_t room = (size_t)(layers + 2 * config->split.chunks) * ROWS;

    n->blocks = xcalloc(room, sizeof(*n->blocks));
    n->first = xcalloc((size_t)config->split.chunks + 1, sizeof(*n->first));
    for (int64_t chunk = 0; chunk < config->split.chunks; chunk++)
        append_chunk(n, config, layout, at->pp, chunk);
    n->first[config->split.chunks] = n->count;
    return n;
}

void block_list_destroy(struct block_list *n)
{
    if (!n)
        return;
    free(n->blocks);
    free(n->first);
    free(n);
}
