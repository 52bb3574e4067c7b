/* SPDX-License-Identifier: Apache-2.0 */
/* Which architectures of transformers this program knows, and which of them a model is. */
#include "hf_masked.h"
#include "hf_private.h"

#include <math.h>
#include <string.h>

/* How a model differs from Llama: rotary positions, RMSNorm before each branch, SwiGLU, no biases,
 * untied embeddings. */
enum feature {
    LEARNED_POSITIONS = 1 << 0,
    LAYER_NORM = 1 << 1,
    NO_GATE = 1 << 2,
    BIASES = 1 << 3,
    TIED = 1 << 4,
    GROUPED = 1 << 5, /* fewer key heads than query heads */
    WIDE = 1 << 6,    /* all heads together are not as wide as the residual stream */
    QKV_BIAS = 1 << 7,
    QK_NORM = 1 << 8,
    QK_NORM_ALL = 1 << 9, /* of all heads together */
    WINDOW = 1 << 10,
    SOME_WINDOWS = 1 << 11, /* not in all layers */
    LOCAL_BASE = 1 << 12,
    SCORES_CAPPED = 1 << 13,
    SCALED_EMBEDDING = 1 << 14,
    OUTPUT_NORM = 1 << 15,
    BOTH_NORMS = 1 << 16,
    PARALLEL = 1 << 17,
    GEGLU = 1 << 18,
    GELU_ERF = 1 << 19,
    PARTIAL_ROTARY = 1 << 20,
    SCORES_SCALED = 1 << 21,
    UNKNOWN = 1 << 22, /* in no architecture */
    PLAIN_NORM = 1 << 23,
    CLIPPED = 1 << 24,
    LOGITS_CAPPED = 1 << 25,
    SCALED = 1 << 26,         /* rotations */
    SCALED_WINDOWS = 1 << 27, /* those of layers with a window, too */
    PLAIN_WINDOWS = 1 << 28,  /* or not */
};

#define ANY_HEADS (TIED | GROUPED | WIDE | SCALED)

static const struct hf_family families[] = {
    {ARCHITECTURE_GPT2, "GPT-2", "gpt2", "GPT2LMHeadModel", hf_gpt2_names, 50257,
     LEARNED_POSITIONS | LAYER_NORM | NO_GATE | BIASES | TIED, 0},
    {ARCHITECTURE_LLAMA, "Llama", "llama", "LlamaForCausalLM", hf_llama_names, 32000, 0, ANY_HEADS},
    {ARCHITECTURE_MISTRAL, "Mistral", "mistral", "MistralForCausalLM", hf_llama_names, 32000, 0,
     ANY_HEADS | WINDOW | SCALED_WINDOWS},
    {ARCHITECTURE_QWEN2, "Qwen2", "qwen2", "Qwen2ForCausalLM", hf_llama_names, 0, QKV_BIAS,
     ANY_HEADS | WINDOW | SCALED_WINDOWS | SOME_WINDOWS},
    {ARCHITECTURE_QWEN3, "Qwen3", "qwen3", "Qwen3ForCausalLM", hf_llama_names, 0, QK_NORM,
     ANY_HEADS | WINDOW | SCALED_WINDOWS | SOME_WINDOWS},
    {ARCHITECTURE_PHI3, "Phi-3", "phi3", "Phi3ForCausalLM", hf_phi3_names, 0, 0,
     TIED | GROUPED | WIDE | WINDOW | PARTIAL_ROTARY},
    {ARCHITECTURE_GPT_NEOX, "GPT-NeoX", "gpt_neox", "GPTNeoXForCausalLM", hf_neox_names, 0,
     LAYER_NORM | NO_GATE | BIASES, TIED | PARALLEL | GELU_ERF | PARTIAL_ROTARY | SCALED},
    {ARCHITECTURE_OLMO, "OLMo", "olmo", "OlmoForCausalLM", hf_llama_names, 50304,
     LAYER_NORM | PLAIN_NORM, ANY_HEADS | CLIPPED},
    {ARCHITECTURE_OLMO2, "OLMo2", "olmo2", "Olmo2ForCausalLM", hf_olmo_names, 0,
     OUTPUT_NORM | QK_NORM_ALL, ANY_HEADS},
    {ARCHITECTURE_OLMO3, "OLMo3", "olmo3", "Olmo3ForCausalLM", hf_olmo_names, 0,
     OUTPUT_NORM | QK_NORM_ALL, ANY_HEADS | WINDOW | SOME_WINDOWS | LOCAL_BASE | PLAIN_WINDOWS},
    {ARCHITECTURE_GEMMA, "Gemma", "gemma", "GemmaForCausalLM", hf_gemma_names, 0,
     GEGLU | SCALED_EMBEDDING, ANY_HEADS},
    {ARCHITECTURE_GEMMA2, "Gemma 2", "gemma2", "Gemma2ForCausalLM", hf_gemma2_names, 0,
     GEGLU | SCALED_EMBEDDING | BOTH_NORMS,
     ANY_HEADS | SCALED_WINDOWS | SCORES_CAPPED | LOGITS_CAPPED | WINDOW | SOME_WINDOWS |
         SCORES_SCALED},
    {ARCHITECTURE_GEMMA3, "Gemma 3", "gemma3_text", "Gemma3ForCausalLM", hf_gemma2_names, 0,
     GEGLU | SCALED_EMBEDDING | BOTH_NORMS | QK_NORM,
     ANY_HEADS | PLAIN_WINDOWS | LOGITS_CAPPED | WINDOW | SOME_WINDOWS | SCORES_SCALED |
         LOCAL_BASE},
};

enum { FAMILIES = sizeof(families) / sizeof(families[0]) };

const struct hf_family *hf_family_at(size_t index)
{
    return index < FAMILIES ? &families[index] : NULL;
}

const struct hf_family *hf_family_of_type(const char *model_type)
{
    for (size_t i = 0; i < FAMILIES; i++)
        if (strcmp(families[i].model_type, model_type) == 0)
            return &families[i];
    return NULL;
}

static unsigned rotations_of(const struct network *c)
{
    int local = c->local_rotary_base > 0;
    unsigned scaled = c->window == 0 ? 0 : local ? PLAIN_WINDOWS : SCALED_WINDOWS;

    return (local && c->local_rotary_base != c->shape.rotary_base ? LOCAL_BASE : 0) |
           (c->rope_scaling.kind != ROPE_PLAIN ? SCALED | scaled : 0);
}

static unsigned positions_and_norms(const struct network *c)
{
    return (c->position == POSITION_LEARNED ? LEARNED_POSITIONS : 0) |
           (c->position == POSITION_NONE ? UNKNOWN : 0) |
           (c->position == POSITION_ROPE && c->rotary_percent < 1 ? PARTIAL_ROTARY : 0) |
           rotations_of(c) | (c->norm == NORM_LAYER ? LAYER_NORM : 0) |
           (!c->plain_norm                  ? 0
            : c->epsilon == HF_OLMO_EPSILON ? PLAIN_NORM
                                            : UNKNOWN) |
           (c->branch_norm == BRANCH_NORM_OUTPUT ? OUTPUT_NORM : 0) |
           (c->branch_norm == BRANCH_NORM_BOTH ? BOTH_NORMS : 0) |
           (c->parallel_residual ? PARALLEL : 0);
}

static unsigned attention_features(const struct network *c)
{
    const struct model_shape *s = &c->shape;

    return (s->heads != s->query_groups ? GROUPED : 0) |
           (s->heads * s->kv_channels != s->hidden ? WIDE : 0) |
           (c->qkv_bias && !c->linear_bias ? QKV_BIAS : 0) |
           (c->qk_norm == QK_NORM_HEADS ? QK_NORM : 0) |
           (c->qk_norm == QK_NORM_WHOLE ? QK_NORM_ALL : 0) | (c->window > 0 ? WINDOW : 0) |
           (c->window > 0 && c->window_every > 0 ? SOME_WINDOWS : 0) |
           (c->attention_softcap > 0 ? SCORES_CAPPED : 0) |
           (c->logit_softcap > 0 ? LOGITS_CAPPED : 0) |
           (c->attention_scale > 0 ? SCORES_SCALED : 0) | (c->qkv_clip > 0 ? CLIPPED : 0);
}

static unsigned mlp_features(const struct network *c)
{
    if (c->swiglu)
        return c->gate == GATE_SILU ? 0 : c->gate == GATE_GELU_TANH ? GEGLU : UNKNOWN;
    return NO_GATE | (c->activation != ACTIVATION_NONE ? UNKNOWN : c->gelu_erf ? GELU_ERF : 0);
}

static unsigned features_of(const struct network *c)
{
    unsigned scaled = c->embedding_scale == sqrt((double)c->shape.hidden) ? SCALED_EMBEDDING
                      : c->embedding_scale > 0                            ? UNKNOWN
                                                                          : 0;

    return positions_and_norms(c) | attention_features(c) | mlp_features(c) | scaled |
           (c->linear_bias ? BIASES : 0) | (c->tied ? TIED : 0);
}

static int fits(const struct hf_family *family, unsigned features)
{
    return (features & family->required) == family->required &&
           (features & ~(family->required | family->allowed)) == 0;
}

/* The setting of config.json that a feature comes from, as far as the readers do not check it. */
static const char *setting_of(const struct hf_family *family, unsigned feature)
{
    static const struct {
        unsigned feature;
        const char *setting;
    } rows[] = {
        {TIED, "tie_word_embeddings"},
        {GROUPED, "num_key_value_heads"},
        {WINDOW, "sliding_window"},
        {SOME_WINDOWS, "layer_types"},
        {LOCAL_BASE, "rope_local_base_freq"},
        {SCORES_CAPPED, "attn_logit_softcapping"},
        {LOGITS_CAPPED, "final_logit_softcapping"},
        {SCORES_SCALED, "query_pre_attn_scalar"},
        {PARALLEL, "use_parallel_residual"},
        {GELU_ERF, "hidden_act"},
        {PARTIAL_ROTARY, "partial_rotary_factor"},
        {CLIPPED, "clip_qkv"},
        {SCALED | SCALED_WINDOWS | PLAIN_WINDOWS, "rope_scaling"},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
        if (feature & rows[i].feature)
            return rows[i].setting;
    if (feature & WIDE)
        return family->architecture == ARCHITECTURE_GPT2       ? "n_head"
               : family->architecture == ARCHITECTURE_GPT_NEOX ? "num_attention_heads"
                                                               : "head_dim";
    return "a setting";
}

int hf_family_check(const struct network *c, struct error *err)
{
    unsigned features = features_of(c);

    for (size_t i = 0; i < FAMILIES; i++) {
        unsigned wrong = (families[i].required & ~features) |
                         (features & ~(families[i].required | families[i].allowed));

        if (families[i].architecture == c->architecture && wrong)
            return error_set(err, "%s has a value that is not supported for %s; use another model",
                             setting_of(&families[i], wrong), families[i].name);
    }
    return 0;
}

int hf_map_of(const struct network *c, struct hf_map *map, struct error *err)
{
    const struct model_shape *s = &c->shape;
    unsigned features = features_of(c);
    const struct hf_family *found = NULL;

    if (c->masked) {
        const struct hf_name *names = hf_masked_names(c, err);

        *map = (struct hf_map){.names = names,
                               .name = names ? hf_masked_architecture(names) : NULL,
                               .query = s->heads * s->kv_channels,
                               .key = s->query_groups * s->kv_channels,
                               .ffn = s->ffn_hidden,
                               .head = s->kv_channels};
        return names ? 0 : -1;
    }
    for (size_t i = 0; i < FAMILIES; i++)
        if (fits(&families[i], features) && (!found || families[i].architecture == c->architecture))
            found = &families[i];
    if (!found)
        return error_set(
            err, "Hugging Face has no such model: only GPT-2, Llama, Mistral, Qwen 2 and 3, Phi-3, "
                 "GPT-NeoX, OLMo 1, 2 and 3, Gemma 1, 2 and 3, RoBERTa and BERT with their usual "
                 "layers are supported");
    *map = (struct hf_map){found,
                           found->names,
                           found->name,
                           s->heads * s->kv_channels,
                           s->query_groups * s->kv_channels,
                           s->ffn_hidden,
                           s->kv_channels,
                           c->layernorm_1p};
    return 0;
}
