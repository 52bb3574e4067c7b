/* SPDX-License-Identifier: Apache-2.0 */
/* A network, the types it computes with, and how a step is split. */
#ifndef MEGATRON_MODEL_CONFIG_H
#define MEGATRON_MODEL_CONFIG_H

#include "lib/layout.h"
#include "network.h"

enum recompute { RECOMPUTE_NONE, RECOMPUTE_SELECTIVE, RECOMPUTE_FULL };

/* fp8 in the products of linear layers; see fp8_layers.h. hybrid: gradients are e5m2, all else is
 * e4m3. */
enum fp8_format { FP8_NONE, FP8_E4M3, FP8_HYBRID };
enum fp8_recipe { FP8_DELAYED, FP8_TENSORWISE, FP8_BLOCKWISE };

struct fp8_config {
    enum fp8_format format;
    enum fp8_recipe recipe;
    int64_t margin, history; /* of delayed scaling; history in steps */
    int most_recent;         /* see scaling.h */
    int bf16_wgrad;          /* gradients of weights are not computed in fp8 */
    int bf16_fc2_input;      /* nor are the products with the input of the MLP's second layer */
    int64_t first_bf16, last_bf16; /* layers at both ends of the model without fp8 */
    int gather;                    /* weights of fp8 layers are kept and gathered in fp8 */
};

/* The types that a model computes with. */
struct numerics {
    enum device_type type;
    enum device_type gradient_type; /* of the main gradients: fp32, or bf16 */
    int half; /* type is fp32, but the weights are fp16 numbers: fp16 weights on CPUs */
    struct fp8_config fp8;
};

/* Which layers a pipeline stage has. */
struct pipeline_split {
    int64_t chunks; /* virtual stages on each rank */
    /* Stages that are not equal: layers of the first and of the last stage (0: like the others),
     * or embedding and loss count as a layer each. */
    int64_t first_stage, last_stage;
    int embedding_counts, loss_counts;
};

/* Of a model that generates: positions of each sample in the KV cache; shape.sequence is then the
 * number of tokens of each sample per pass. 0: the model trains. */
struct decoding {
    int64_t cache;
};

struct model_config {
    struct network network;
    struct numerics numerics;
    struct pipeline_split split;
    struct decoding decoding;
    int64_t padded_vocabulary;
    int64_t micro_batch;
    int64_t masked_max; /* the most selected tokens of one sample: memory and plans are for these */
    int documents;      /* attention is limited to the token's document */
    enum recompute recompute;
    int64_t recompute_layers; /* the first of each chunk; the others keep everything */
    int64_t bucket_elements;  /* of gradients that are reduced together, at least */
    uint64_t seed;
};

/* The settings of a model that is not divided among ranks, as checkpoints describe it. */
static inline void model_config_whole(struct model_config *config)
{
    config->padded_vocabulary = config->network.shape.vocabulary;
    config->split.chunks = config->micro_batch = 1;
    config->masked_max = config->network.masked;
}

/* This rank's part of everything that tensor and context parallelism split. */
struct model_sizes {
    int64_t rows;      /* tokens of a micro-batch on this context-parallel rank */
    int64_t part_rows; /* of these, this rank's part under sequence parallelism */
    int64_t sequence;  /* positions of a sample on this context-parallel rank */
    int64_t hidden, heads, groups, head_size, ffn, vocabulary;
    int64_t qkv;         /* columns of the fused projection */
    int64_t kv;          /* of these, the columns of keys and values */
    int64_t slices;      /* of each sample's sequence on this rank: 2 with context parallelism */
    int64_t slice_rows;  /* positions of a slice */
    int64_t attention;   /* columns of the attention's output */
    int64_t fc1;         /* columns of the first layer of the MLP: ffn, or twice that with SwiGLU */
    int64_t rotary;      /* rotated channels of a head */
    int64_t layers;      /* of a chunk */
    int64_t head_rows;   /* tokens whose logits are computed at a time */
    int64_t samples;     /* of a micro-batch */
    int64_t cache;       /* decoding.cache */
    int64_t window;      /* network.window */
    int64_t masked;      /* selected tokens of a micro-batch at most; 0: not a masked model */
    int64_t masked_part; /* of these, this rank's part in the head's dense layer */
    int token_types, binary; /* the model has a table of token types, a binary head */
};

struct model_sizes model_sizes(const struct model_config *config, const struct layout *layout);

/* Layers of a chunk of the stage. */
static inline int64_t model_chunk_layers(const struct model_config *c, const struct layout *layout,
                                         int64_t stage, int64_t chunk)
{
    const struct pipeline_split *p = &c->split;
    int64_t last = layout->pp - 1, layers = c->network.shape.layers;

    if (last == 0) /* also the whole model of another layout, as checkpoints list it */
        return layers / p->chunks;
    if (p->first_stage > 0 && stage == 0)
        return p->first_stage / p->chunks;
    if (p->last_stage > 0 && stage == last)
        return p->last_stage / p->chunks;
    if (p->first_stage > 0 || p->last_stage > 0)
        return (layers - p->first_stage - p->last_stage) /
               (layout->pp - (p->first_stage > 0) - (p->last_stage > 0)) / p->chunks;
    layers = (layers + p->embedding_counts + p->loss_counts) / (layout->pp * p->chunks);
    if (p->embedding_counts && stage == 0 && chunk == 0)
        layers--;
    if (p->loss_counts && stage == last && chunk == p->chunks - 1)
        layers--;
    return layers;
}

/* Layers of all chunks of a stage, or of those before 'chunk'. */
static inline int64_t model_layers_before(const struct model_config *config,
                                          const struct layout *layout, int64_t stage, int64_t chunk)
{
    int64_t layers = 0;

    for (int64_t c = 0; c < chunk; c++)
        layers += model_chunk_layers(config, layout, stage, c);
    return layers;
}

/* Number of layer 'i' of chunk 'chunk' of the stage, counted over the whole model: all stages of a
 * chunk come before those of the next one. */
static inline int64_t model_layer(const struct model_config *config, const struct layout *layout,
                                  int64_t stage, int64_t chunk, int64_t i)
{
    for (int64_t s = 0; s < layout->pp; s++)
        i += model_layers_before(config, layout, s, chunk);
    for (int64_t s = 0; s < stage; s++)
        i += model_chunk_layers(config, layout, s, chunk);
    return i;
}

/* Does the chunk hold the embedding or the head? */
static inline int model_chunk_first(int64_t stage, int64_t chunk)
{
    return stage == 0 && chunk == 0;
}

static inline int model_chunk_last(const struct model_config *config, const struct layout *layout,
                                   int64_t stage, int64_t chunk)
{
    return stage == layout->pp - 1 && chunk == config->split.chunks - 1;
}

#endif
