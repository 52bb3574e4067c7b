/* SPDX-License-Identifier: Apache-2.0 */
/* A network: everything that decides what a model computes, and nothing about how it is computed
 * (see model_config.h). */
#ifndef MEGATRON_MODEL_NETWORK_H
#define MEGATRON_MODEL_NETWORK_H

#include "engine/device/device.h"
#include "lib/preset.h"

enum position_kind { POSITION_LEARNED, POSITION_ROPE, POSITION_NONE };

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

struct network {
    struct model_shape shape; /* sequence is the length trained on */
    int64_t positions;        /* of a learned table, or the longest sequence of rotary positions */
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
    /* Of a masked language model (RoBERTa, BERT): attention is bidirectional, limited to the
     * token's document or sample, and the head predicts selected tokens only. */
    int masked;
    int post_norm;       /* LayerNorm after each branch and after the embedding, none at the end */
    int gelu_erf;        /* exact GELU in the MLP, not the approximation by tanh */
    int64_t token_types; /* rows of the table of token types; 0: none */
    int64_t position_offset; /* the position of a sample's first token in the learned table */
    int binary_head;         /* pooler and classifier of sentence pairs (NSP, SOP) */
};

/* The family that a network belongs to, as far as its blocks tell: checkpoints and options do not
 * name it. */
static inline enum model_family network_family(const struct network *network)
{
    if (network->masked)
        return !network->post_norm            ? MODEL_MEGATRON_BERT
               : network->position_offset > 0 ? MODEL_ROBERTA
                                              : MODEL_BERT;
    return network->swiglu ? MODEL_LLAMA : MODEL_GPT;
}

/* Do tokens in layer 'number' of the model see only a window? */
static inline int network_has_window(const struct network *network, int64_t number)
{
    return network->window > 0 &&
           (network->window_every == 0 || (number + 1) % network->window_every != 0);
}

#endif
