/* SPDX-License-Identifier: Apache-2.0 */
/* The network, its type, and how a step is split. */
#ifndef MEGATRON_MODEL_CONFIG_H
#define MEGATRON_MODEL_CONFIG_H

#include "engine/device/device.h"
#include "lib/layout.h"
#include "lib/preset.h"

enum position_kind { POSITION_LEARNED, POSITION_ROPE, POSITION_NONE };
enum recompute { RECOMPUTE_NONE, RECOMPUTE_SELECTIVE, RECOMPUTE_FULL };

/* How rotations are scaled for longer sequences than a model was trained on. */
enum rope_kind {
    ROPE_PLAIN,
    ROPE_LLAMA3, /* low frequencies are divided by 'factor', with a transition */
    ROPE_LINEAR, /* all frequencies are divided by 'factor': position interpolation */
    ROPE_YARN,   /* low frequencies are divided by 'factor', with another transition */
};

struct rope_scaling {
    enum rope_kind kind;
    double factor;
    double low, high; /* ends of the transition; YaRN's beta_slow and beta_fast */
    double original;  /* sequence length that the model was trained on */
    double attention; /* YaRN: factor of sines and cosines; 0: derived from 'factor' */
};

/* Norms of queries and keys: of each head, or of all heads of a token together (OLMo 2). */
enum qk_norm { QK_NORM_NONE, QK_NORM_HEADS, QK_NORM_WHOLE };

/* Which side of attention and MLP has a norm: their input, their output before it is added to the
 * residual stream (OLMo 2), or both (Gemma 2 and 3). */
enum branch_norm { BRANCH_NORM_INPUT, BRANCH_NORM_OUTPUT, BRANCH_NORM_BOTH };

/* The Hugging Face architecture that weights came from: it names their tensors when they are
 * exported. Any: whichever fits. */
enum architecture {
    ARCHITECTURE_ANY,
    ARCHITECTURE_GPT2,
    ARCHITECTURE_LLAMA,
    ARCHITECTURE_MISTRAL,
    ARCHITECTURE_QWEN2,
    ARCHITECTURE_QWEN3,
    ARCHITECTURE_PHI3,
    ARCHITECTURE_GPT_NEOX,
    ARCHITECTURE_OLMO2,
    ARCHITECTURE_OLMO3,
    ARCHITECTURE_GEMMA,
    ARCHITECTURE_GEMMA2,
    ARCHITECTURE_GEMMA3,
    ARCHITECTURE_OLMO,
    ARCHITECTURES,
};

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

struct model_config {
    struct model_shape shape; /* sequence is the length trained on */
    int64_t padded_vocabulary;
    int64_t positions; /* of a learned table, or the longest sequence of rotary positions */
    enum position_kind position;
    double rotary_percent;
    struct rope_scaling rope_scaling;
    enum norm norm;
    int plain_norm;   /* norms have neither weights nor biases (OLMo 1); with BRANCH_NORM_INPUT only
                       */
    int layernorm_1p; /* weights of norms are stored minus 1 (Gemma); not of masked models */
    double epsilon;
    int swiglu, tied;
    int linear_bias; /* of all linear layers */
    int qkv_bias;    /* of the QKV projection even without linear_bias */
    enum qk_norm qk_norm;
    enum branch_norm branch_norm;
    int parallel_residual;      /* attention and MLP take the same residual stream */
    enum activation activation; /* of an MLP without gate; ACTIVATION_NONE: GELU */
    enum gate gate;             /* of an MLP with gate: 'swiglu' */
    /* Each token sees the last 'window' tokens, itself included; 0: all. Layers window_every,
     * 2 * window_every, ..., counted from 1, see all tokens; 0: none does. */
    int64_t window, window_every;
    double local_rotary_base; /* of layers with a window, without scaling; 0: as in all layers */
    double attention_scale;   /* of the scores; 0: 1 / sqrt(head size) */
    double attention_softcap, logit_softcap; /* 0: none */
    double embedding_scale;                  /* of word embeddings; 0: none */
    double qkv_clip; /* queries, keys and values are at most this large; 0: no limit */
    enum architecture architecture;
    double hidden_dropout, attention_dropout;
    double init_std;
    enum device_type type;
    enum device_type gradient_type; /* of the main gradients: fp32, or bf16 */
    int half; /* type is fp32, but the weights are fp16 numbers: fp16 weights on CPUs */
    struct fp8_config fp8;
    int64_t micro_batch;
    enum recompute recompute;
    int64_t recompute_layers; /* the first of each chunk; the others keep everything */
    int documents;            /* attention is limited to the token's document */
    int64_t chunks;           /* virtual stages on each rank */
    /* Stages of a pipeline that are not equal: layers of the first and of the last stage (0: like
     * the others), or embedding and loss count as a layer each. */
    int64_t first_stage, last_stage;
    int embedding_counts, loss_counts;
    int64_t bucket_elements; /* of gradients that are reduced together, at least */
    uint64_t seed;
    /* Of a model that generates: positions of each sample in the KV cache; shape.sequence is then
     * the number of tokens of each sample per pass. 0: the model trains. */
    int64_t cache;
    /* Of a masked language model (RoBERTa, BERT): attention is bidirectional, limited to the
     * token's document or sample, and the head predicts selected tokens only. */
    int masked;
    int64_t masked_max; /* the most selected tokens of one sample: memory and plans are for these */
    int post_norm;      /* LayerNorm after each branch and after the embedding, none at the end */
    int gelu_erf;       /* exact GELU in the MLP, not the approximation by tanh */
    int64_t token_types;     /* rows of the table of token types; 0: none */
    int64_t position_offset; /* the position of a sample's first token in the learned table */
    int binary_head;         /* pooler and classifier of sentence pairs (NSP, SOP) */
};

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
    int64_t cache;       /* config's */
    int64_t window;      /* config's */
    int64_t masked;      /* selected tokens of a micro-batch at most; 0: not a masked model */
    int64_t masked_part; /* of these, this rank's part in the head's dense layer */
    int token_types, binary; /* the model has a table of token types, a binary head */
};

/* The family that a network belongs to, as far as its blocks tell: checkpoints and options do not
 * name it. */
static inline enum model_family model_family(const struct model_config *config)
{
    if (config->masked)
        return !config->post_norm            ? MODEL_MEGATRON_BERT
               : config->position_offset > 0 ? MODEL_ROBERTA
                                             : MODEL_BERT;
    return config->swiglu ? MODEL_LLAMA : MODEL_GPT;
}

struct model_sizes model_sizes(const struct model_config *config, const struct layout *layout);

/* Do tokens in layer 'number' of the model see only a window? */
static inline int model_has_window(const struct model_config *config, int64_t number)
{
    return config->window > 0 &&
           (config->window_every == 0 || (number + 1) % config->window_every != 0);
}

/* Layers of a chunk of the stage. */
static inline int64_t model_chunk_layers(const struct model_config *c, const struct layout *layout,
                                         int64_t stage, int64_t chunk)
{
    int64_t last = layout->pp - 1, layers = c->shape.layers;

    if (last == 0) /* also the whole model of another layout, as checkpoints list it */
        return layers / c->chunks;
    if (c->first_stage > 0 && stage == 0)
        return c->first_stage / c->chunks;
    if (c->last_stage > 0 && stage == last)
        return c->last_stage / c->chunks;
    if (c->first_stage > 0 || c->last_stage > 0)
        return (layers - c->first_stage - c->last_stage) /
               (layout->pp - (c->first_stage > 0) - (c->last_stage > 0)) / c->chunks;
    layers = (layers + c->embedding_counts + c->loss_counts) / (layout->pp * c->chunks);
    if (c->embedding_counts && stage == 0 && chunk == 0)
        layers--;
    if (c->loss_counts && stage == last && chunk == c->chunks - 1)
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
    return stage == layout->pp - 1 && chunk == config->chunks - 1;
}

#endif
