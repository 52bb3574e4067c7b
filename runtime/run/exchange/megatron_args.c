/* SPDX-License-Identifier: Apache-2.0 */
#include "megatron_private.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#define GPT2_VOCABULARY 50257

/* --- Arguments: a namespace that newer checkpoints contain ------------------------------------ */

static const struct pickle_value *arguments_of(const struct megatron_source *s)
{
    const struct torch_file *file = s->shards[0].file;

    return file ? pickle_member(torch_file_root(file), "args") : NULL;
}

static int64_t whole(const struct pickle_value *args, const char *name, int64_t other)
{
    const struct pickle_value *value = pickle_member(args, name);

    return value && value->type == PICKLE_INTEGER ? value->integer : other;
}

static double real(const struct pickle_value *args, const char *name, double other)
{
    const struct pickle_value *value = pickle_member(args, name);

    if (value && value->type == PICKLE_INTEGER)
        return (double)value->integer;
    return value && value->type == PICKLE_REAL ? value->real : other;
}

/* The properties whose arguments have the same values here and there. */
static void read_properties(const struct pickle_value *args, struct network *c)
{
    network_default(c);
    for (const struct network_property *p = network_properties; p->name; p++) {
        const struct pickle_value *value = pickle_member(args, p->megatron ? p->megatron : "");

        if (p->type == PROPERTY_REAL)
            network_set(c, p, real(args, p->megatron ? p->megatron : "", p->fallback));
        else if (value && value->type == (p->type == PROPERTY_INT ? PICKLE_BOOL : PICKLE_INTEGER) &&
                 value->integer >= 0 && value->integer <= INT32_MAX)
            network_set(c, p, (double)value->integer);
    }
}

static int flag(const struct pickle_value *args, const char *name, int other)
{
    const struct pickle_value *value = pickle_member(args, name);

    return value && value->type == PICKLE_BOOL ? (int)value->integer : other;
}

/* Is it present, and neither None, False, 0 nor empty? */
static int is_said(const struct pickle_value *args, const char *name)
{
    const struct pickle_value *value = pickle_member(args, name);

    switch (value ? value->type : PICKLE_NONE) {
    case PICKLE_NONE:
        return 0;
    case PICKLE_BOOL:
    case PICKLE_INTEGER:
        return value->integer != 0;
    case PICKLE_REAL:
        return value->real != 0;
    case PICKLE_STRING:
        return value->text.length > 0;
    case PICKLE_LIST:
    case PICKLE_DICT:
        return value->count > 0;
    default:
        return 1;
    }
}

/* Is it absent, None or this text? */
static int is_plain(const struct pickle_value *args, const char *name, const char *text)
{
    return !is_said(args, name) || pickle_is_text(pickle_member(args, name), text);
}

/* Sliding-window attention: the number of previous tokens; negative: all. */
static int has_window(const struct pickle_value *args)
{
    const struct pickle_value *first = pickle_item(pickle_member(args, "window_size"), 0);

    return is_said(args, "window_size") &&
           !(first && first->type == PICKLE_INTEGER && first->integer < 0);
}

/* The checkpoint has an argument that is not supported; 'note' explains it. */
static int reject(const struct pickle_value *args, const char *name, const char *note,
                  struct error *err)
{
    char value[64];

    pickle_show(pickle_member(args, name), value);
    return error_set(err,
                     "it was trained with %s%s%s%s, which is not supported; use a checkpoint of a "
                     "model without it",
                     name, value[0] ? "=" : "", value, note);
}

/* Reject models that would be computed differently. */
static int check_kind(const struct pickle_value *args, struct error *err)
{
    static const char *const refused[] = {
        "apply_residual_connection_post_layernorm",
        "squared_relu",
        "geglu",
        "quick_geglu",
        "qk_layernorm",
        "qk_l2_norm",
        "multi_latent_attention",
        "onnx_safe",
        "no_rope_freq",
        "softmax_scale",
        "attention_output_gate",
        "glu_linear_offset",
        "activation_func_clamp_value",
        "experimental_attention_variant",
        "linear_attention_freq",
        "enable_mhc_connections",
        "use_mup",
        "mtp_num_layers",
        "hybrid_override_pattern",
        "hybrid_layer_pattern",
        "heterogeneous_layers_config_path",
        "heterogeneous_layers_config_encoded_json",
    };

    for (size_t i = 0; i < sizeof(refused) / sizeof(refused[0]); i++)
        if (is_said(args, refused[i]))
            return reject(args, refused[i], "", err);
    if (has_window(args))
        return reject(args, "window_size", " (sliding-window attention)", err);
    if (!is_plain(args, "softmax_type", "vanilla"))
        return reject(args, "softmax_type", " (only vanilla is supported)", err);
    if (!is_plain(args, "position_embedding_type", "learned_absolute") &&
        !is_plain(args, "position_embedding_type", "rope") &&
        !is_plain(args, "position_embedding_type", "none"))
        return reject(args, "position_embedding_type",
                      " (only learned_absolute, rope and none are supported)", err);
    if (whole(args, "num_experts", 0) > 0)
        return reject(args, "num_experts", " (mixture of experts, MoE)", err);
    if (real(args, "rotary_seq_len_interpolation_factor", 1) != 1 &&
        (flag(args, "use_rope_scaling", 0) ||
         !(real(args, "rotary_seq_len_interpolation_factor", 1) > 0)))
        return reject(args, "rotary_seq_len_interpolation_factor",
                      " (a number above 0, without use_rope_scaling)", err);
    return 0;
}

/* --- Tensors --------------------------------------------------------------------------------- */

/* Shape of one rank's part; vectors have one row. */
static int shape_of(const struct megatron_source *s, const char *ours, int64_t *rows, int64_t *cols,
                    struct error *err)
{
    struct torch_tensor t;
    int found = megatron_find_ours(s, ours, 0, &t, err);

    if (found == 0)
        return -1;
    if (found < 0)
        return error_prefix(err, "%s", ours);
    if (t.dimensions != 1 && t.dimensions != 2)
        return error_set(err, "%s is neither a vector nor a matrix", ours);
    *rows = t.dimensions == 2 ? t.shape[0] : 1;
    *cols = t.shape[t.dimensions - 1];
    if (*rows > INT32_MAX || *cols > INT32_MAX)
        return error_set(err, "%s has a dimension above 2147483647", ours);
    return 0;
}

/* --- The model ------------------------------------------------------------------------------- */

/* The true vocabulary size, given the padded one: the user's value, that of the tokenizer in the
 * arguments, or GPT-2's if the padding matches; otherwise all rows count. */
static int64_t vocabulary_of(const struct megatron_source *s, const struct pickle_value *args,
                             const struct megatron_hints *hints, int64_t rows)
{
    const struct pickle_value *tokenizer = pickle_member(args, "tokenizer_type");
    int64_t said = whole(args, "vocab_size", 0);
    int64_t divisor = whole(args, "make_vocab_size_divisible_by", 128);

    if (hints->vocabulary > 0)
        return hints->vocabulary;
    if (said > 0 && said <= rows)
        return said;
    if ((!args || pickle_is_text(tokenizer, "GPT2BPETokenizer")) && divisor > 0 &&
        divisor <= INT32_MAX && rows == vocabulary_padded(GPT2_VOCABULARY, divisor, s->tp))
        return GPT2_VOCABULARY;
    return rows;
}

static int read_positions(struct megatron_source *s, const struct pickle_value *args,
                          struct error *err)
{
    struct network *c = &s->model.network;
    int64_t cols, rotated;

    if (megatron_has_ours(s, "embedding.position.weight", 0)) {
        c->position = POSITION_LEARNED;
        return shape_of(s, "embedding.position.weight", &c->positions, &cols, err);
    }
    c->position = pickle_is_text(pickle_member(args, "position_embedding_type"), "none")
                      ? POSITION_NONE
                      : POSITION_ROPE;
    c->positions = whole(args, "max_position_embeddings", whole(args, "seq_length", 0));
    if (c->positions < 1 || c->positions > INT32_MAX)
        return error_set(
            err,
            "its arguments contain no max_position_embeddings; save it with a newer Megatron-LM");
    c->shape.rotary_base = real(args, "rotary_base", 10000);
    rotated = c->position == POSITION_ROPE
                  ? (int64_t)((double)c->shape.kv_channels * c->rotary_percent)
                  : 0;
    /* Megatron-LM then rotates one more channel than specified. */
    if (rotated % 2 != 0)
        return error_set(
            err,
            "with its rotary_percent of %g, RoPE rotates %lld of the %lld channels of a head, and "
            "only an even number is supported; use a checkpoint of another model",
            c->rotary_percent, (long long)rotated, (long long)c->shape.kv_channels);
    if (flag(args, "rotary_interleaved", 0))
        s->pairs = rotated / 2;
    if (flag(args, "use_rope_scaling", 0)) {
        c->rope_scaling.kind = ROPE_LLAMA3;
        c->rope_scaling.factor = real(args, "rope_scaling_factor", 8);
    } else if (c->position == POSITION_ROPE &&
               real(args, "rotary_seq_len_interpolation_factor", 1) != 1) {
        c->rope_scaling.kind = ROPE_LINEAR;
        c->rope_scaling.factor = real(args, "rotary_seq_len_interpolation_factor", 1);
    }
    return 0;
}

/* The number of attention heads if the arguments contain it, otherwise 0: it cannot be derived from
 * the shapes of the tensors, and a wrong number would silently result in another model. */
static int64_t heads_of(const struct pickle_value *args, int64_t hidden)
{
    int64_t channels = whole(args, "kv_channels", 0);

    return whole(args, "num_attention_heads",
                 channels > 0 && hidden % channels == 0 ? hidden / channels : 0);
}

static int read_sizes(struct megatron_source *s, const struct pickle_value *args,
                      const struct megatron_hints *hints, struct error *err)
{
    struct model_shape *m = &s->model.network.shape;
    int64_t rows, cols, fc1;

    if (shape_of(s, "embedding.word.weight", &rows, &m->hidden, err) < 0 ||
        shape_of(s, "mlp.up.weight", &fc1, &cols, err) < 0)
        return -1;
    rows *= s->tp;
    m->layers = s->chunks * s->pp * s->chunk_layers;
    m->ffn_hidden = fc1 * s->tp / (s->model.network.swiglu ? 2 : 1);
    m->heads = heads_of(args, m->hidden);
    if (hints->heads > 0 && m->heads > 0 && m->heads != hints->heads) {
        error_set_code(err, ERROR_USAGE, "its arguments have %lld attention heads, not %lld",
                       (long long)m->heads, (long long)hints->heads);
        return error_append(err, "; drop --num-attention-heads");
    }
    if (hints->heads > 0)
        m->heads = hints->heads;
    if (m->heads < 1 || m->heads > INT32_MAX) {
        error_set_code(err, ERROR_USAGE,
                       "its number of attention heads is not stored in the checkpoint (hidden "
                       "size %lld)",
                       (long long)m->hidden);
        return error_append(err, "; add --num-attention-heads N");
    }
    m->query_groups =
        flag(args, "group_query_attention", 0) ? whole(args, "num_query_groups", 0) : m->heads;
    m->kv_channels = whole(args, "kv_channels", m->hidden / m->heads);
    m->vocabulary = vocabulary_of(s, args, hints, rows);
    if (m->hidden < 1 || m->ffn_hidden < 1 || m->kv_channels < 1 || m->kv_channels > INT32_MAX)
        return error_set(err,
                         "its hidden size %lld, MLP size %lld or head size %lld is out of range; "
                         "copy the checkpoint again",
                         (long long)m->hidden, (long long)m->ffn_hidden, (long long)m->kv_channels);
    if (m->query_groups < 1 || m->heads % m->query_groups != 0 || m->query_groups % s->tp != 0)
        return error_set(err,
                         "its %lld query groups must divide %lld heads and be a multiple of the "
                         "tensor-parallel size %d",
                         (long long)m->query_groups, (long long)m->heads, (int)s->tp);
    if (m->vocabulary > rows) {
        error_set_code(err, ERROR_USAGE,
                       "its vocabulary has %lld entries, fewer than the %lld requested",
                       (long long)rows, (long long)m->vocabulary);
        return error_append(err, "; correct --vocab-size");
    }
    if (whole(args, "num_layers", m->layers) != m->layers)
        return error_set(
            err, "it contains %lld of %lld layers: the files of some ranks are missing; copy them",
            (long long)m->layers, (long long)whole(args, "num_layers", 0));
    return 0;
}

static int read_version(struct megatron_source *s, struct error *err)
{
    s->version = s->dist ? 3 : real(torch_file_root(s->shards[0].file), "checkpoint_version", 0);
    if (s->version != 0 && s->version != 1 && s->version != 2 && s->version != 3)
        return error_set(err,
                         "its checkpoint_version is %g, but only 0, 1, 2 and 3 are supported; save "
                         "it with another release of Megatron-LM",
                         s->version);
    if (s->version < 2 && s->model.network.shape.query_groups != s->model.network.shape.heads)
        return error_set(
            err,
            "its checkpoint_version is %g, which is older than grouped-query attention, so its "
            "weights would be read in the wrong order; save it with a newer release of Megatron-LM",
            s->version);
    return 0;
}

static void describe(struct megatron_source *s, const struct pickle_value *args)
{
    const struct model_shape *m = &s->model.network.shape;
    char files[64] = "distributed checkpoint (torch_dist)";

    if (!s->dist)
        snprintf(files, sizeof(files), "checkpoint version %g", s->version);
    snprintf(s->description, sizeof(s->description),
             "%s %s arguments, tp %lld, pp %lld; %lld layers, hidden size %lld, %lld attention "
             "heads, vocabulary %lld",
             files, args ? "with" : "without",
             (long long)(s->dist ? whole(args, "tensor_model_parallel_size", 1) : s->tp),
             (long long)(s->dist ? whole(args, "pipeline_model_parallel_size", 1) : s->pp),
             (long long)m->layers, (long long)m->hidden, (long long)m->heads,
             (long long)m->vocabulary);
}

int megatron_read_model(struct megatron_source *s, const struct megatron_hints *hints,
                        struct error *err)
{
    const struct pickle_value *args = arguments_of(s);
    struct network *c = &s->model.network;

    read_properties(args, c);
    if (check_kind(args, err) < 0 || read_sizes(s, args, hints, err) < 0 ||
        read_positions(s, args, err) < 0 || read_version(s, err) < 0 ||
        megatron_check_tensors(s, err) < 0)
        return -1;
    c->shape.name = "the model";
    c->shape.family = network_family(c);
    c->shape.sequence = whole(args, "seq_length", c->positions);
    if (c->shape.sequence < 1 || c->shape.sequence > c->positions)
        c->shape.sequence = c->positions;
    c->norm =
        pickle_is_text(pickle_member(args, "normalization"), "RMSNorm") ? NORM_RMS : NORM_LAYER;
    c->epsilon = real(args, "norm_epsilon", real(args, "layernorm_epsilon", 1e-5));
    c->linear_bias = megatron_has_ours(s, "mlp.down.bias", 0);
    c->qkv_bias = megatron_has_ours(s, "attention.query.bias", 0) && !c->linear_bias;
    /* The last stage may contain a copy of tied embeddings under that name: it matters only if the
     * arguments do not say whether they are tied. */
    c->tied =
        !flag(args, "untie_embeddings_and_output_weights", megatron_has_ours(s, "head.weight", 1));
    model_config_whole(&s->model);
    describe(s, args);
    return 0;
}
