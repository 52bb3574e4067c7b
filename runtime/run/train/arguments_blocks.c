/* SPDX-License-Identifier: Apache-2.0 */
/* Options of single blocks: norms, activations, windows, rotary scaling. */
#include "arguments_private.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* "LEFT,0" or "(LEFT,0)", as Megatron takes it: tokens before and after each token. -1: all. */
static int parse_window(struct arguments *a, struct error *err)
{
    const char *text = a->window_size;
    char *end;
    long long left, right = 0;

    if (!text)
        return 0;
    text += *text == '(';
    left = strtoll(text, &end, 10);
    if (end != text && *end == ',')
        right = strtoll(end + 1, &end, 10);
    end += *end == ')';
    if (end == text || *end || left < -1 || left > INT32_MAX - 1)
        return error_set(err,
                         "--window-size=%.40s must be LEFT,0: the number of tokens that each "
                         "token sees before itself, and 0",
                         a->window_size);
    if (right != 0)
        return error_set(err,
                         "--window-size=%.40s: a window after the token is not supported; its "
                         "second number must be 0",
                         a->window_size);
    a->blocks.window = left < 0 ? 0 : left + 1;
    return 0;
}

int arguments_block_words(struct arguments *a, const struct options_result *given,
                          struct error *err)
{
    static const char *const names[] = {"swiglu",       "geglu",       "quick-geglu",
                                        "squared-relu", "openai-gelu", "exact-gelu"};
    const char *first = NULL;

    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        if (!options_given(given, names[i]))
            continue;
        if (first)
            return error_set(err, "--%s and --%s cannot be used together; drop one", first,
                             names[i]);
        first = names[i];
    }
    a->swiglu |= a->geglu | a->quick_geglu;
    return parse_window(a, err);
}

/* Channels are rotated in pairs. */
static int check_rotated(const struct arguments *a, struct error *err)
{
    int64_t rotated = (int64_t)((double)a->kv_channels * a->rotary_percent);

    if ((a->position_embedding != POSITION_ROPE && a->position_embedding != POSITION_YARN) ||
        (rotated > 0 && rotated % 2 == 0))
        return 0;
    return error_set(err,
                     "with --rotary-percent=%g, RoPE rotates %" PRId64 " of the %" PRId64
                     " channels of a head, and it needs an even number; change --rotary-percent or "
                     "--kv-channels",
                     a->rotary_percent, rotated, a->kv_channels);
}

static int derive_rope(struct arguments *a, struct model_config *m, struct error *err)
{
    struct rope_scaling *s = &m->network.rope_scaling;

    if (check_rotated(a, err) < 0)
        return -1;
    *s = a->scaling;
    s->kind = ROPE_PLAIN;
    s->factor = a->rope_scaling_factor;
    if (a->rotary_interpolation <= 0)
        return error_set(err, "--rotary-seq-len-interpolation-factor=%g must be greater than 0",
                         a->rotary_interpolation);
    if (a->rope_scaling_factor <= 0)
        return error_set(err, "--rope-scaling-factor=%g must be greater than 0",
                         a->rope_scaling_factor);
    if (a->rope_scaling && a->rotary_interpolation != 1)
        return error_set(err, "--use-rope-scaling and --rotary-seq-len-interpolation-factor cannot "
                              "be used together; drop one");
    if (a->rope_scaling) {
        s->kind = ROPE_LLAMA3;
    } else if (a->rotary_interpolation != 1) {
        s->kind = ROPE_LINEAR;
        s->factor = a->rotary_interpolation;
    }
    if (a->position_embedding != POSITION_YARN)
        return 0;
    if (s->kind != ROPE_PLAIN)
        return error_set(err, "--position-embedding-type yarn cannot be used with other scalings "
                              "of rotary embeddings; drop one");
    if (!(a->yarn_factor > 0))
        return error_set(err, "--position-embedding-type yarn requires "
                              "--yarn-rotary-scaling-factor; give one greater than 0");
    if (a->yarn_beta_fast <= 0 || a->yarn_beta_slow <= 0)
        return error_set(err, "--yarn-beta-fast=%g and --yarn-beta-slow=%g must be greater than 0",
                         a->yarn_beta_fast, a->yarn_beta_slow);
    if (a->yarn_original < 0)
        return error_set(err,
                         "--yarn-original-max-position-embeddings must not be negative; raise it");
    s->kind = ROPE_YARN;
    s->factor = a->yarn_factor;
    s->low = a->yarn_beta_slow;
    s->high = a->yarn_beta_fast;
    s->original =
        a->yarn_original > 0 ? a->yarn_original : (double)m->network.positions / a->yarn_factor;
    return 0;
}

static int check_blocks(const struct arguments *a, const struct model_config *m, struct error *err)
{
    if (m->network.parallel_residual && m->network.branch_norm != BRANCH_NORM_INPUT)
        return error_set(
            err, "--use-parallel-residual requires --norm-placement input; change one of them");
    if (m->network.plain_norm &&
        (m->network.parallel_residual || m->network.branch_norm != BRANCH_NORM_INPUT || a->masked))
        return error_set(err, "--norm-without-weights requires --norm-placement input, without "
                              "--use-parallel-residual and --masked-lm; change or drop the others");
    if (m->network.layernorm_1p && (m->network.plain_norm || a->masked))
        return error_set(err, "--apply-layernorm-1p cannot be used with %s; drop one",
                         a->masked ? "--masked-lm" : "--norm-without-weights");
    if (m->network.qkv_clip > 0 && m->network.qk_norm != QK_NORM_NONE)
        return error_set(err, "--clip-qkv and --qk-layernorm cannot be used together; drop one");
    if (m->network.qk_norm == QK_NORM_WHOLE && a->layout.tp > 1)
        return error_set(err,
                         "norms of all query heads together (--qk-layernorm-whole, OLMo 2) need "
                         "all heads on one rank; use --tensor-model-parallel-size 1 instead of "
                         "%" PRId64 ", with data, pipeline or context parallelism",
                         a->layout.tp);
    if (m->network.window == 0 && (m->network.window_every > 0 || m->network.local_rotary_base > 0))
        return error_set(err, "--window-attn-skip-freq and --rotary-base-local require "
                              "--window-size; add it, or drop them");
    if (m->network.attention_softcap < 0 || m->network.logit_softcap < 0 ||
        m->network.attention_scale < 0 || m->network.embedding_scale < 0 ||
        m->network.local_rotary_base < 0 || m->network.qkv_clip < 0)
        return error_set(err, "--attn-logit-softcapping, --final-logit-softcapping, "
                              "--softmax-scale, --embedding-scale, --clip-qkv and "
                              "--rotary-base-local must not be negative; correct the one that is");
    return 0;
}

int arguments_blocks(struct arguments *a, struct model_config *m, struct error *err)
{
    const struct network *b = &a->blocks;

    m->network.qk_norm = a->qk_norm_whole ? QK_NORM_WHOLE : b->qk_norm;
    m->network.branch_norm = b->branch_norm;
    m->network.parallel_residual = b->parallel_residual;
    m->network.activation = a->squared_relu ? ACTIVATION_SQUARED_RELU : ACTIVATION_NONE;
    m->network.gate = a->geglu ? GATE_GELU_TANH : a->quick_geglu ? GATE_QUICK_GELU : GATE_SILU;
    m->network.window = b->window;
    m->network.window_every = b->window_every;
    m->network.local_rotary_base = b->local_rotary_base;
    m->network.attention_scale = b->attention_scale;
    m->network.attention_softcap = b->attention_softcap;
    m->network.logit_softcap = b->logit_softcap;
    m->network.embedding_scale = b->embedding_scale;
    m->network.plain_norm = b->plain_norm;
    m->network.layernorm_1p = b->layernorm_1p;
    m->network.qkv_clip = b->qkv_clip;
    m->network.architecture = b->architecture;
    return derive_rope(a, m, err) < 0 ? -1 : check_blocks(a, m, err);
}
