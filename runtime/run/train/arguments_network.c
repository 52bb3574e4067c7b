/* SPDX-License-Identifier: Apache-2.0 */
/* The network from its options. Options of a single property set it directly (network_fields.def);
 * this file has presets, sizes that follow from others, and options that decide several properties
 * together. */
#include "arguments_private.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* "LEFT,0" or "(LEFT,0)", as Megatron takes it: tokens before and after each token. -1: all. */
static int parse_window(struct network_arguments *m, struct error *err)
{
    const char *text = m->window_size;
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
                         m->window_size);
    if (right != 0)
        return error_set(err,
                         "--window-size=%.40s: a window after the token is not supported; its "
                         "second number must be 0",
                         m->window_size);
    m->network.window = left < 0 ? 0 : left + 1;
    return 0;
}

int arguments_network_words(struct network_arguments *m, struct error *err)
{
    if (m->use_rotary)
        m->position = POSITION_ROPE;
    return parse_window(m, err);
}

/* --- Presets --------------------------------------------------------------------------------- */

int arguments_network_preset(struct arguments *a, const struct options_result *given,
                             struct error *err)
{
    struct network_arguments *m = &a->model;
    struct network *n = &m->network;
    struct model_shape *s = &n->shape;
    const struct model_shape *preset;
    bool wider, headed;

    if (!m->preset)
        return 0;
    preset = preset_find("--megatron-model", m->preset, err);
    if (!preset || options_preset(given, a, preset->options, err) < 0)
        return -1;
    /* Sizes derived from others are derived again if those do not come from the preset. */
    wider = s->hidden >= 0 && s->hidden != preset->hidden;
    headed = s->heads >= 0 && s->heads != preset->heads;
#define TAKE(member, from) member = member < 0 ? preset->from : member
    TAKE(s->layers, layers);
    TAKE(s->hidden, hidden);
    TAKE(s->heads, heads);
    TAKE(s->query_groups, query_groups);
    TAKE(s->sequence, sequence);
    TAKE(s->vocabulary, vocabulary);
    if (!wider)
        TAKE(s->ffn_hidden, ffn_hidden);
    if (!wider && !headed)
        TAKE(s->kv_channels, kv_channels);
#undef TAKE
    m->group_query_attention |= preset->query_groups != preset->heads;
    /* Megatron's BERT has two token types for its pairs of sentences. */
    if (preset->family == MODEL_MEGATRON_BERT && n->token_types < 0)
        n->token_types = n->binary_head ? 2 : 0;
    if (n->positions < 0)
        n->positions = preset->sequence + (n->position_offset > 0 ? n->position_offset : 0);
    return 0;
}

/* --- Sizes that follow from others ----------------------------------------------------------- */

/* The default of --max-masked-tokens. fairseq and Megatron draw a fixed share of the tokens.
 * Hugging Face's collator draws every token independently: allow eight standard deviations more
 * than the mean of a micro-batch, and more for words, which have any length. */
static int64_t usual_masked(const struct arguments *a)
{
    int64_t sequence = a->model.network.shape.sequence;
    double share = a->mlm.data.mask.probability, tokens = (double)sequence;
    double deviation = sqrt(tokens * share * (1 - share) / (double)a->run.micro_batch_size);

    if (!(share > 0 && share < 1))
        return sequence;
    if (arguments_use_bert(a) || (a->mlm.data.mask.rule != MASK_COLLATOR && !a->mlm.whole_words))
        return (int64_t)ceil(tokens * share - 1e-6) + 1;
    /* A packed row may have all of its tokens selected. */
    if (a->mlm.data.pack)
        return sequence;
    return (int64_t)ceil(tokens * share + (a->mlm.whole_words ? 16 : 8) * deviation) + 1;
}

static int need(int64_t value, const char *name, struct error *err)
{
    return value > 0
               ? 0
               : error_set(err, "--%s is required (or --megatron-model, which selects a preset)",
                           name);
}

int arguments_network_sizes(struct arguments *a, struct error *err)
{
    struct network_arguments *m = &a->model;
    struct network *n = &m->network;
    struct model_shape *s = &n->shape;

    if (need(s->layers, "num-layers", err) < 0 || need(s->hidden, "hidden-size", err) < 0 ||
        need(s->heads, "num-attention-heads", err) < 0 || need(s->sequence, "seq-length", err) < 0)
        return -1;
    if (a->run.micro_batch_size < 0)
        return error_set(err,
                         "--micro-batch-size%s is required: the sequences that a rank processes at "
                         "a time%s",
                         a->mlm.recipe == RECIPE_FAIRSEQ ? " (or --max-sentences)" : "",
                         a->mlm.max_tokens > 0
                             ? "; memory is planned for it, --max-tokens alone is not enough"
                             : "");
    if (s->kv_channels < 0) {
        if (s->hidden % s->heads != 0)
            return error_set(err,
                             "--hidden-size=%" PRId64
                             " is not a multiple of --num-attention-heads=%" PRId64
                             "; change one of them or set --kv-channels",
                             s->hidden, s->heads);
        s->kv_channels = s->hidden / s->heads;
    }
    n->swiglu = m->gate != MLP_PLAIN;
    n->gate = n->swiglu ? (enum gate)(m->gate - MLP_SWIGLU) : GATE_SILU;
    if (s->ffn_hidden < 0)
        s->ffn_hidden =
            n->swiglu ? (int64_t)((double)(4 * s->hidden) * 2 / 3 / 64) * 64 : 4 * s->hidden;
    if (!m->group_query_attention)
        s->query_groups = s->heads;
    if (s->query_groups < 0)
        return error_set(err, "--group-query-attention needs --num-query-groups; add it");
    if (s->heads % s->query_groups != 0)
        return error_set(err,
                         "--num-query-groups=%" PRId64
                         " does not divide --num-attention-heads=%" PRId64 "; change one of them",
                         s->query_groups, s->heads);
    if (n->token_types < 0)
        n->token_types = 0;
    if (n->position_offset < 0)
        n->position_offset = 0;
    if (n->masked && m->masked_max < 0)
        m->masked_max = usual_masked(a);
    if (m->masked_max > s->sequence)
        m->masked_max = s->sequence;
    if (n->positions < 0)
        n->positions = s->sequence + n->position_offset;
    if (n->positions < s->sequence + n->position_offset)
        return error_set(
            err,
            "--seq-length=%" PRId64 " is greater than --max-position-embeddings=%" PRId64
            "%s; lower --seq-length%s, or raise --max-position-embeddings",
            s->sequence, n->positions, n->position_offset > 0 ? " less --position-offset" : "",
            n->masked ? " (--tokens-per-sample)" : "");
    if (s->vocabulary < 0)
        return error_set(err, "--vocab-size is required, or --megatron-model, or a tokenizer "
                              "(--vocab-file and --merge-file, or --tokenizer-model)");
    return 0;
}

/* --- Rotary positions ------------------------------------------------------------------------ */

static int derive_yarn(const struct network_arguments *m, struct rope_scaling *s, struct error *err)
{
    if (s->kind != ROPE_PLAIN)
        return error_set(err, "--position-embedding-type yarn cannot be used with other scalings "
                              "of rotary embeddings; drop one");
    if (!(m->yarn_factor > 0))
        return error_set(err, "--position-embedding-type yarn requires "
                              "--yarn-rotary-scaling-factor; give one greater than 0");
    s->kind = ROPE_YARN;
    s->factor = m->yarn_factor;
    s->low = m->yarn_beta_slow;
    s->high = m->yarn_beta_fast;
    s->original =
        m->yarn_original > 0 ? m->yarn_original : (double)m->network.positions / m->yarn_factor;
    return 0;
}

static int derive_rope(struct network_arguments *m, struct error *err)
{
    struct network *n = &m->network;
    struct rope_scaling *s = &n->rope_scaling;
    int64_t rotated = (int64_t)((double)n->shape.kv_channels * n->rotary_percent);

    n->position = m->position == POSITION_YARN ? POSITION_ROPE : (enum position_kind)m->position;
    /* Channels are rotated in pairs. */
    if (n->position == POSITION_ROPE && (rotated <= 0 || rotated % 2 != 0))
        return error_set(err,
                         "with --rotary-percent=%g, RoPE rotates %" PRId64 " of the %" PRId64
                         " channels of a head, and it needs an even number; change "
                         "--rotary-percent or --kv-channels",
                         n->rotary_percent, rotated, n->shape.kv_channels);
    if (m->rope_scaling && m->rotary_interpolation != 1)
        return error_set(err, "--use-rope-scaling and --rotary-seq-len-interpolation-factor cannot "
                              "be used together; drop one");
    s->kind = ROPE_PLAIN;
    s->factor = m->rope_scaling_factor;
    if (m->rope_scaling) {
        s->kind = ROPE_LLAMA3;
    } else if (m->rotary_interpolation != 1) {
        s->kind = ROPE_LINEAR;
        s->factor = m->rotary_interpolation;
    }
    return m->position == POSITION_YARN ? derive_yarn(m, s, err) : 0;
}

int arguments_network(struct network_arguments *m, const struct layout *layout, struct error *err)
{
    struct network *n = &m->network;

    if (derive_rope(m, err) < 0 || network_check(n, err) < 0)
        return -1;
    if (n->shape.ffn_hidden == 0)
        return error_set(err,
                         "--hidden-size=%" PRId64
                         " is too small for the default of --ffn-hidden-size with --swiglu, a "
                         "multiple of 64; set --ffn-hidden-size",
                         n->shape.hidden);
    if (n->post_norm && n->norm != NORM_LAYER)
        return error_set(err, "--post-norm requires --normalization LayerNorm; change one of them");
    if (n->position != POSITION_LEARNED && n->position_offset > 0)
        return error_set(err, "--position-offset requires --position-embedding-type "
                              "learned_absolute; change one of them");
    if (n->qk_norm == QK_NORM_WHOLE && layout->tp > 1)
        return error_set(err,
                         "norms of all query heads together (--qk-layernorm-whole, OLMo 2) need "
                         "all heads on one rank; use --tensor-model-parallel-size 1 instead of "
                         "%" PRId64 ", with data, pipeline or context parallelism",
                         layout->tp);
    n->shape.name = m->preset ? m->preset : "the model";
    n->shape.family = network_family(n);
    return 0;
}
