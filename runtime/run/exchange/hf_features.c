/* SPDX-License-Identifier: Apache-2.0 */
#include "hf_families.h"

#include <math.h>

static unsigned rotations_of(const struct network *c)
{
    int local = c->local_rotary_base > 0;
    unsigned scaled = c->window == 0 ? 0 : local ? HF_PLAIN_WINDOWS : HF_SCALED_WINDOWS;

    return (local && c->local_rotary_base != c->shape.rotary_base ? HF_LOCAL_BASE : 0) |
           (c->rope_scaling.kind != ROPE_PLAIN ? HF_SCALED | scaled : 0);
}

static unsigned positions_and_norms(const struct network *c)
{
    return (c->position == POSITION_LEARNED ? HF_LEARNED_POSITIONS : 0) |
           (c->position == POSITION_NONE ? HF_UNKNOWN : 0) |
           (c->position == POSITION_ROPE && c->rotary_percent < 1 ? HF_PARTIAL_ROTARY : 0) |
           rotations_of(c) | (c->norm == NORM_LAYER ? HF_LAYER_NORM : 0) |
           (!c->plain_norm                  ? 0
            : c->epsilon == HF_OLMO_EPSILON ? HF_PLAIN_NORM
                                            : HF_UNKNOWN) |
           (c->branch_norm == BRANCH_NORM_OUTPUT ? HF_OUTPUT_NORM : 0) |
           (c->branch_norm == BRANCH_NORM_BOTH ? HF_BOTH_NORMS : 0) |
           (c->parallel_residual ? HF_PARALLEL : 0);
}

static unsigned attention_features(const struct network *c)
{
    const struct model_shape *s = &c->shape;

    return (s->heads != s->query_groups ? HF_GROUPED : 0) |
           (s->heads * s->kv_channels != s->hidden ? HF_WIDE : 0) |
           (c->qkv_bias && !c->linear_bias ? HF_QKV_BIAS : 0) |
           (c->qk_norm == QK_NORM_HEADS ? HF_QK_NORM : 0) |
           (c->qk_norm == QK_NORM_WHOLE ? HF_QK_NORM_ALL : 0) | (c->window > 0 ? HF_WINDOW : 0) |
           (c->window > 0 && c->window_every > 0 ? HF_SOME_WINDOWS : 0) |
           (c->attention_softcap > 0 ? HF_SCORES_CAPPED : 0) |
           (c->logit_softcap > 0 ? HF_LOGITS_CAPPED : 0) |
           (c->attention_scale > 0 ? HF_SCORES_SCALED : 0) | (c->qkv_clip > 0 ? HF_CLIPPED : 0);
}

static unsigned mlp_features(const struct network *c)
{
    if (c->swiglu)
        return c->gate == GATE_SILU ? 0 : c->gate == GATE_GELU_TANH ? HF_GEGLU : HF_UNKNOWN;
    return HF_NO_GATE | (c->activation != ACTIVATION_NONE ? HF_UNKNOWN
                         : c->gelu_erf                    ? HF_GELU_ERF
                                                          : 0);
}

unsigned hf_features_of(const struct network *c)
{
    unsigned others = c->embedding_scale == sqrt((double)c->shape.hidden) ? HF_SCALED_EMBEDDING
                      : c->embedding_scale > 0                            ? HF_UNKNOWN
                                                                          : 0;

    for (const struct network_property *p = network_properties; p->name; p++)
        if (p->no_family && network_value(c, p) != p->fallback)
            others |= HF_UNKNOWN;
    return positions_and_norms(c) | attention_features(c) | mlp_features(c) | others |
           (c->linear_bias ? HF_BIASES : 0) | (c->tied ? HF_TIED : 0);
}

void hf_features_set(unsigned features, struct network *c)
{
    c->position = features & HF_LEARNED_POSITIONS ? POSITION_LEARNED : POSITION_ROPE;
    c->norm = features & HF_LAYER_NORM ? NORM_LAYER : NORM_RMS;
    c->swiglu = !(features & HF_NO_GATE);
    c->gate = features & HF_GEGLU ? GATE_GELU_TANH : GATE_SILU;
    c->shape.family = c->swiglu ? MODEL_LLAMA : MODEL_GPT;
    c->linear_bias = (features & HF_BIASES) != 0;
    c->qkv_bias = (features & HF_QKV_BIAS) != 0;
    c->qk_norm = features & HF_QK_NORM       ? QK_NORM_HEADS
                 : features & HF_QK_NORM_ALL ? QK_NORM_WHOLE
                                             : QK_NORM_NONE;
    c->branch_norm = features & HF_OUTPUT_NORM  ? BRANCH_NORM_OUTPUT
                     : features & HF_BOTH_NORMS ? BRANCH_NORM_BOTH
                                                : BRANCH_NORM_INPUT;
    if (features & HF_PLAIN_NORM) {
        c->plain_norm = 1;
        c->epsilon = HF_OLMO_EPSILON;
    }
    if (features & HF_TIED)
        c->tied = 1;
    if (features & HF_SCALED_EMBEDDING)
        c->embedding_scale = sqrt((double)c->shape.hidden);
}

/* The setting of config.json that a feature comes from, as far as the readers do not check it. */
static const char *setting_of(const struct hf_family *family, unsigned feature)
{
    static const struct {
        unsigned feature;
        const char *setting;
    } rows[] = {
        {HF_TIED, "tie_word_embeddings"},
        {HF_GROUPED, "num_key_value_heads"},
        {HF_WINDOW, "sliding_window"},
        {HF_SOME_WINDOWS, "layer_types"},
        {HF_LOCAL_BASE, "rope_local_base_freq"},
        {HF_SCORES_CAPPED, "attn_logit_softcapping"},
        {HF_LOGITS_CAPPED, "final_logit_softcapping"},
        {HF_SCORES_SCALED, "query_pre_attn_scalar"},
        {HF_PARALLEL, "use_parallel_residual"},
        {HF_GELU_ERF, "hidden_act"},
        {HF_PARTIAL_ROTARY, "partial_rotary_factor"},
        {HF_CLIPPED, "clip_qkv"},
        {HF_SCALED | HF_SCALED_WINDOWS | HF_PLAIN_WINDOWS, "rope_scaling"},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
        if (feature & rows[i].feature)
            return rows[i].setting;
    if (feature & HF_WIDE)
        return family->architecture == ARCHITECTURE_GPT2       ? "n_head"
               : family->architecture == ARCHITECTURE_GPT_NEOX ? "num_attention_heads"
                                                               : "head_dim";
    return "a setting";
}

int hf_family_check(const struct hf_family *family, const struct network *c, struct error *err)
{
    unsigned features = hf_features_of(c);
    unsigned wrong =
        (family->required & ~features) | (features & ~(family->required | family->allowed));

    return wrong ? error_set(err, "%s has a value that is not supported for %s; use another model",
                             setting_of(family, wrong), family->name)
                 : 0;
}
