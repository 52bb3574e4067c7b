/* SPDX-License-Identifier: Apache-2.0 */
#include "hf_config.h"
#include "run/checkpoint/directory.h"
#include "lib/file.h"
#include "hf_masked.h"
#include "hf_private.h"
#include "base/core/json.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CONFIG_LIMIT ((size_t)16 << 20)

/* Read an integer; 'other' if it is absent or null, an error if 'other' is negative. */
static int whole(struct json_value object, const char *name, int64_t other, int64_t *out,
                 struct error *err)
{
    struct json_value value;

    if (json_member(object, name, &value) < 0 || json_type(value) == JSON_NULL) {
        *out = other;
        return other < 0 ? error_set(err, "%s is missing", name) : 0;
    }
    if (json_integer(value, out) < 0 || *out < 1 || *out > INT32_MAX)
        return error_set(err, "%s must be a positive integer", name);
    return 0;
}

/* The others return the value, or 'other' if it is absent; a value of the wrong type is an error.
 */
static int real(struct json_value object, const char *name, double other, double *out,
                struct error *err)
{
    struct json_value value;

    *out = other;
    return json_member(object, name, &value) < 0 || json_real(value, out) == 0
               ? 0
               : error_set(err, "%s must be a number", name);
}

static int flag(struct json_value object, const char *name, int other, int *out, struct error *err)
{
    struct json_value value;

    *out = other;
    return json_member(object, name, &value) < 0 || json_bool(value, out) == 0
               ? 0
               : error_set(err, "%s must be true or false", name);
}

static int text(struct json_value object, const char *name, const char *other, const char **out,
                struct error *err)
{
    struct json_value value;
    size_t length;

    *out = other;
    return json_member(object, name, &value) < 0 || json_string(value, out, &length) == 0
               ? 0
               : error_set(err, "%s must be a string", name);
}

static int is_null(struct json_value object, const char *name)
{
    struct json_value value;

    return json_member(object, name, &value) == 0 && json_type(value) == JSON_NULL;
}

/* A number that may be null, which means none: 0. */
static int optional(struct json_value object, const char *name, double other, double *out,
                    struct error *err)
{
    *out = 0;
    return is_null(object, name) ? 0 : real(object, name, other, out, err);
}

/* A required positive number. */
static int needed(struct json_value object, const char *name, double *out, struct error *err)
{
    if (real(object, name, 0, out, err) < 0)
        return -1;
    return *out > 0 ? 0 : error_set(err, "rope_scaling: %s is missing or not greater than 0", name);
}

/* What transformers takes if a key is absent; 0: as many as there are attention heads, their share
 * of hidden_size, no window. */
static const struct absent {
    int64_t groups, head, positions, window;
    double epsilon;
} absent[ARCHITECTURES] = {
    [ARCHITECTURE_LLAMA] = {0, 0, 2048, 0, 1e-6},
    [ARCHITECTURE_MISTRAL] = {8, 0, 131072, 4096, 1e-6},
    [ARCHITECTURE_QWEN2] = {32, 0, 32768, 4096, 1e-6},
    [ARCHITECTURE_QWEN3] = {32, 128, 32768, 4096, 1e-6},
    [ARCHITECTURE_PHI3] = {0, 0, 4096, 0, 1e-5},
    [ARCHITECTURE_OLMO] = {0, 0, 2048, 0, HF_OLMO_EPSILON},
    [ARCHITECTURE_OLMO2] = {0, 0, 2048, 0, 1e-5},
    [ARCHITECTURE_OLMO3] = {0, 0, 2048, 4096, 1e-5},
    [ARCHITECTURE_GEMMA] = {16, 256, 8192, 0, 1e-6},
    [ARCHITECTURE_GEMMA2] = {4, 256, 8192, 4096, 1e-6},
    [ARCHITECTURE_GEMMA3] = {4, 256, 131072, 4096, 1e-6},
};

/* transformers' names of activation functions; several have more than one. */
enum function { FUNCTION_SILU, FUNCTION_GELU, FUNCTION_GELU_TANH, FUNCTION_OTHER };

static enum function function_of(const char *name)
{
    static const struct {
        const char *name;
        enum function function;
    } rows[] = {
        {"silu", FUNCTION_SILU},
        {"swish", FUNCTION_SILU},
        {"gelu", FUNCTION_GELU},
        {"gelu_python", FUNCTION_GELU},
        {"gelu_new", FUNCTION_GELU_TANH},
        {"gelu_fast", FUNCTION_GELU_TANH},
        {"gelu_accurate", FUNCTION_GELU_TANH},
        {"gelu_pytorch_tanh", FUNCTION_GELU_TANH},
        {"gelu_python_tanh", FUNCTION_GELU_TANH},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
        if (strcmp(rows[i].name, name) == 0)
            return rows[i].function;
    return FUNCTION_OTHER;
}

static int read_gpt2(struct json_value root, struct network *c, struct error *err)
{
    struct model_shape *s = &c->shape;
    static const char *const names[][2] = {{"num_hidden_layers", "n_layer"},
                                           {"num_attention_heads", "n_head"},
                                           {"hidden_size", "n_embd"},
                                           {"max_position_embeddings", "n_positions"}};
    const int64_t *values[] = {&s->layers, &s->heads, &s->hidden, &c->positions};
    const char *activation;
    double embedding;

    if (whole(root, "n_layer", -1, &s->layers, err) < 0 ||
        whole(root, "n_head", -1, &s->heads, err) < 0 ||
        whole(root, "n_embd", -1, &s->hidden, err) < 0 ||
        whole(root, "n_inner", 4 * s->hidden, &s->ffn_hidden, err) < 0 ||
        whole(root, "vocab_size", -1, &s->vocabulary, err) < 0 ||
        whole(root, "n_positions", -1, &c->positions, err) < 0 ||
        text(root, "activation_function", "gelu_new", &activation, err) < 0 ||
        real(root, "layer_norm_epsilon", 1e-5, &c->epsilon, err) < 0 ||
        real(root, "resid_pdrop", 0.1, &c->hidden_dropout, err) < 0 ||
        real(root, "embd_pdrop", 0.1, &embedding, err) < 0 ||
        real(root, "attn_pdrop", 0.1, &c->attention_dropout, err) < 0)
        return -1;
    if (function_of(activation) != FUNCTION_GELU_TANH)
        return error_set(
            err, "activation_function %.40s is not supported, only gelu_new is; use another model",
            activation);
    if (embedding != c->hidden_dropout)
        return error_set(err,
                         "embd_pdrop %g differs from resid_pdrop %g, and only one dropout for both "
                         "is supported; it is used in training only: give both the same value",
                         embedding, c->hidden_dropout);
    /* In transformers, these are other names of the same settings. */
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        int64_t other;

        if (whole(root, names[i][0], *values[i], &other, err) < 0)
            return -1;
        if (other != *values[i])
            return error_set(err, "%s differs from %s, which is another name for it", names[i][0],
                             names[i][1]);
    }
    s->family = MODEL_GPT;
    s->query_groups = s->heads;
    s->kv_channels = s->hidden / s->heads;
    c->position = POSITION_LEARNED;
    c->norm = NORM_LAYER;
    c->tied = c->linear_bias = 1;
    return 0;
}

/* YaRN scales from beta_slow to beta_fast turns within the original sequence. */
static int read_yarn(struct json_value object, double positions, struct rope_scaling *s,
                     struct error *err)
{
    double mscale, all;
    int truncate;

    if (real(object, "beta_slow", 1, &s->low, err) < 0 ||
        real(object, "beta_fast", 32, &s->high, err) < 0 ||
        real(object, "original_max_position_embeddings", positions, &s->original, err) < 0 ||
        optional(object, "attention_factor", 0, &s->attention, err) < 0 ||
        optional(object, "mscale", 0, &mscale, err) < 0 ||
        optional(object, "mscale_all_dim", 0, &all, err) < 0 ||
        flag(object, "truncate", 1, &truncate, err) < 0)
        return -1;
    if (!truncate || mscale != all)
        return error_set(err, "yarn with truncate false, or with mscale different from "
                              "mscale_all_dim, is not supported; use another model");
    if (mscale != 0 && s->attention == 0)
        s->attention = 1;
    return s->low > 0 && s->high > 0 && s->original > 0 && s->attention >= 0
               ? 0
               : error_set(err, "yarn: beta_slow, beta_fast and "
                                "original_max_position_embeddings must be greater than 0");
}

/* RoPE scaling: "rope_scaling", or in newer folders "rope_parameters" together with the base. */
static int read_scaling(struct json_value object, struct network *c, struct error *err)
{
    struct rope_scaling *scaling = &c->rope_scaling;
    double original = (double)c->positions;
    const char *type;

    if (real(object, "rope_theta", c->shape.rotary_base, &c->shape.rotary_base, err) < 0 ||
        real(object, "partial_rotary_factor", c->rotary_percent, &c->rotary_percent, err) < 0 ||
        text(object, "type", "default", &type, err) < 0 ||
        text(object, "rope_type", type, &type, err) < 0)
        return -1;
    if (strcmp(type, "default") == 0)
        return 0;
    if (c->architecture == ARCHITECTURE_PHI3)
        return error_set(
            err, "rope_scaling of type %.40s is not supported for Phi-3; use another model", type);
    if (strcmp(type, "linear") != 0 && strcmp(type, "yarn") != 0 && strcmp(type, "llama3") != 0)
        return error_set(err,
                         "rope_scaling of type %.40s is not supported, only linear, llama3 and "
                         "yarn are; use another model",
                         type);
    if (needed(object, "factor", &scaling->factor, err) < 0)
        return -1;
    if (strcmp(type, "linear") == 0) {
        scaling->kind = ROPE_LINEAR;
        return 0;
    }
    if (strcmp(type, "yarn") == 0) {
        scaling->kind = ROPE_YARN;
        return read_yarn(object, original, scaling, err);
    }
    scaling->kind = ROPE_LLAMA3;
    return needed(object, "low_freq_factor", &scaling->low, err) < 0 ||
                   needed(object, "high_freq_factor", &scaling->high, err) < 0
               ? -1
               : needed(object, "original_max_position_embeddings", &scaling->original, err);
}

static const char *name_of(const struct network *c)
{
    size_t i = 0;

    while (hf_family_at(i)->architecture != c->architecture)
        i++;
    return hf_family_at(i)->name;
}

/* Do layers with a sliding window have rotations of their own? */
static int has_local_base(const struct network *c)
{
    return c->architecture == ARCHITECTURE_OLMO3 || c->architecture == ARCHITECTURE_GEMMA3;
}

/* The base of layers with a window, whose rotations are not scaled. */
static int read_local(struct json_value root, struct json_value parameters, struct network *c,
                      struct error *err)
{
    int gemma = c->architecture == ARCHITECTURE_GEMMA3;
    double usual = gemma ? 10000 : 500000;
    struct json_value local, full;
    const char *type;

    if (gemma && real(root, "rope_local_base_freq", usual, &usual, err) < 0)
        return -1;
    if (json_member(parameters, "sliding_attention", &local) < 0) {
        c->local_rotary_base = usual;
        /* Releases of transformers disagree on which layers have this base. */
        return gemma || json_member(parameters, "full_attention", &full) == 0 ||
                       c->shape.rotary_base == usual
                   ? 0
                   : error_set(err,
                               "rope_theta %g must be in rope_parameters for OLMo3, once in "
                               "full_attention and once in sliding_attention",
                               c->shape.rotary_base);
    }
    if (text(local, "rope_type", "default", &type, err) < 0)
        return -1;
    if (strcmp(type, "default") != 0)
        return error_set(
            err,
            "rope scaling of layers with a sliding window is not supported; use another model");
    return real(local, "rope_theta", usual, &c->local_rotary_base, err);
}

/* A member that is an object with members. */
static int object_of(struct json_value root, const char *name, struct json_value *object)
{
    return json_member(root, name, object) == 0 && json_type(*object) == JSON_OBJECT &&
           json_count(*object) > 0;
}

/* Has it an object for each kind of layers? */
static int is_nested(struct json_value object)
{
    struct json_value inner;

    return json_member(object, "full_attention", &inner) == 0 ||
           json_member(object, "sliding_attention", &inner) == 0;
}

/* "rope_parameters" of newer folders have the base, too, and for models with rotations of their own
 * in layers with a window one object for each kind of layers. */
static int read_rope_objects(struct json_value root, struct network *c, struct error *err)
{
    struct json_value scaling, parameters = root, full;
    int local = has_local_base(c), scaled = object_of(root, "rope_scaling", &scaling);
    int given = object_of(root, "rope_parameters", &parameters);

    if ((scaled && is_nested(scaling)) || (given && is_nested(parameters) != local))
        return error_set(
            err, "rope_parameters %s full_attention and sliding_attention are not supported for %s",
            local && !(scaled && is_nested(scaling)) ? "without" : "or rope_scaling with",
            name_of(c));
    if (given && local && json_member(parameters, "full_attention", &full) == 0 &&
        read_scaling(full, c, err) < 0)
        return -1;
    if ((scaled || (given && !local)) && read_scaling(scaled ? scaling : parameters, c, err) < 0)
        return -1;
    return local ? read_local(root, given ? parameters : root, c, err) : 0;
}

static int read_rope(struct json_value root, struct network *c, struct error *err)
{
    int neox = c->architecture == ARCHITECTURE_GPT_NEOX;
    int64_t rotated;

    c->position = POSITION_ROPE;
    if (real(root, neox ? "rotary_emb_base" : "rope_theta", c->shape.rotary_base,
             &c->shape.rotary_base, err) < 0 ||
        real(root, neox ? "rotary_pct" : "partial_rotary_factor", c->rotary_percent,
             &c->rotary_percent, err) < 0 ||
        read_rope_objects(root, c, err) < 0)
        return -1;
    if (!(c->rotary_percent > 0) || c->rotary_percent > 1 ||
        (c->rotary_percent < 1 && c->architecture != ARCHITECTURE_PHI3 &&
         c->architecture != ARCHITECTURE_GPT_NEOX))
        return error_set(err,
                         "partial_rotary_factor %g is not supported, only 1 is (Phi-3, GPT-NeoX: "
                         "above 0, at most 1); use another model",
                         c->rotary_percent);
    rotated = (int64_t)((double)c->shape.kv_channels * c->rotary_percent);
    return rotated % 2 == 0
               ? 0
               : error_set(err,
                           "with partial_rotary_factor %g, RoPE rotates %lld of the %lld channels "
                           "of a head, and only an even number is supported; use another model",
                           c->rotary_percent, (long long)rotated, (long long)c->shape.kv_channels);
}

/* Which layers have the window. By default it is every layer but those whose number is a multiple
 * of window_every. */
static int read_layer_types(struct json_value root, struct network *c, struct error *err)
{
    struct json_value list, value;
    struct json_iterator i;
    int64_t layer = 0;
    const char *type;
    size_t length;
    int windows = 0, rc = 0;

    if (json_member(root, "layer_types", &list) < 0 || json_type(list) == JSON_NULL)
        return 0;
    if (json_type(list) != JSON_ARRAY || json_iterate(list, &i) < 0)
        return error_set(err, "layer_types must be a list");
    c->window_every = 0;
    for (; json_next(&i, NULL, NULL, &value); layer++) {
        int has;

        if (json_string(value, &type, &length) < 0)
            return error_set(err, "layer_types must be a list of strings");
        has = strcmp(type, "sliding_attention") == 0;
        if (!has && strcmp(type, "full_attention") != 0)
            return error_set(
                err,
                "layer_types has layers that are not supported (%.40s), only sliding_attention and "
                "full_attention are; use another model",
                type);
        if (!has && c->window_every == 0)
            c->window_every = layer + 1;
        windows |= has;
        if (has != (c->window_every == 0 || (layer + 1) % c->window_every != 0))
            rc = -1;
    }
    if (layer != c->shape.layers)
        return error_set(err, "layer_types has %lld entries, but num_hidden_layers is %lld",
                         (long long)layer, (long long)c->shape.layers);
    if (!windows) {
        c->window = c->window_every = 0;
        return 0;
    }
    if (rc < 0)
        return error_set(
            err, "the order of layer_types is not supported, only a repeated pattern of "
                 "sliding-window layers and then one with full attention is; use another model");
    return c->window > 0 ? 0
                         : error_set(err, "layer_types has layers with sliding_attention, but the "
                                          "model has no sliding_window");
}

/* "sliding_window"; null: none. Absent: transformers' default. */
static int read_width(struct json_value root, struct network *c, struct error *err)
{
    int64_t usual = is_null(root, "sliding_window") ? 0 : absent[c->architecture].window;

    return whole(root, "sliding_window", usual, &c->window, err);
}

static int read_window(struct json_value root, struct network *c, struct error *err)
{
    if (read_width(root, c, err) < 0 || read_layer_types(root, c, err) < 0)
        return -1;
    /* Nothing of its own that a layer would use. */
    if (c->window == 0 ||
        (c->rope_scaling.kind == ROPE_PLAIN && c->local_rotary_base == c->shape.rotary_base))
        c->local_rotary_base = 0;
    return 0;
}

/* What decoders with Llama's names have in common. */
static int read_decoder(struct json_value root, struct network *c, struct error *err)
{
    const struct absent *usual = &absent[c->architecture];
    struct model_shape *s = &c->shape;
    const char *activation;

    if (whole(root, "num_hidden_layers", -1, &s->layers, err) < 0 ||
        whole(root, "num_attention_heads", -1, &s->heads, err) < 0 ||
        whole(root, "num_key_value_heads",
              usual->groups > 0 && !is_null(root, "num_key_value_heads") ? usual->groups : s->heads,
              &s->query_groups, err) < 0 ||
        whole(root, "hidden_size", -1, &s->hidden, err) < 0 ||
        whole(root, "head_dim", usual->head > 0 ? usual->head : s->hidden / s->heads,
              &s->kv_channels, err) < 0 ||
        whole(root, "intermediate_size", -1, &s->ffn_hidden, err) < 0 ||
        whole(root, "vocab_size", -1, &s->vocabulary, err) < 0 ||
        whole(root, "max_position_embeddings", usual->positions, &c->positions, err) < 0 ||
        text(root, "hidden_act", "silu", &activation, err) < 0 ||
        optional(root, "attention_dropout", 0, &c->attention_dropout, err) < 0 ||
        flag(root, "tie_word_embeddings", c->tied, &c->tied, err) < 0 ||
        real(root, "rms_norm_eps", usual->epsilon, &c->epsilon, err) < 0)
        return -1;
    if (c->gate == GATE_SILU && function_of(activation) != FUNCTION_SILU)
        return error_set(err, "hidden_act %.40s is not supported, only silu is; use another model",
                         activation);
    if (s->kv_channels % 2 != 0)
        return error_set(err,
                         "its head size of %lld is odd and cannot be used with rotary embeddings; "
                         "use another model",
                         (long long)s->kv_channels);
    s->family = MODEL_LLAMA;
    c->norm = NORM_RMS;
    c->swiglu = 1;
    return 0;
}

static int read_llama(struct json_value root, struct network *c, struct error *err)
{
    return read_decoder(root, c, err) < 0 ? -1 : read_rope(root, c, err);
}

/* Mistral, Phi-3: transformers gives all layers the window, whatever layer_types has. */
static int read_mistral(struct json_value root, struct network *c, struct error *err)
{
    int64_t window;

    if (read_llama(root, c, err) < 0 || read_width(root, c, err) < 0)
        return -1;
    window = c->window;
    if (read_layer_types(root, c, err) < 0)
        return -1;
    return c->window == window && c->window_every == 0
               ? 0
               : error_set(err,
                           "layer_types differs from sliding_window, which %s has in all layers or "
                           "in none; use another model",
                           name_of(c));
}

/* Sliding windows of Qwen are off unless use_sliding_window; without layer_types, the first
 * max_window_layers layers have none. */
static int read_qwen(struct json_value root, struct network *c, struct error *err)
{
    struct json_value value;
    int64_t first = 28;
    int used;

    if (c->architecture == ARCHITECTURE_QWEN2)
        c->qkv_bias = 1;
    else
        c->qk_norm = QK_NORM_HEADS;
    if (read_llama(root, c, err) < 0 || flag(root, "use_sliding_window", 0, &used, err) < 0)
        return -1;
    if (json_member(root, "max_window_layers", &value) == 0 &&
        (json_integer(value, &first) < 0 || first < 0))
        return error_set(err, "max_window_layers must be a non-negative integer");
    if (!used)
        return read_layer_types(root, c, err);
    if (read_window(root, c, err) < 0)
        return -1;
    if (json_member(root, "layer_types", &value) == 0 && json_type(value) != JSON_NULL)
        return 0;
    if (first >= c->shape.layers)
        c->window = 0;
    else if (first > 0 && c->window > 0)
        return error_set(err,
                         "a sliding window that starts only at layer %lld "
                         "(max_window_layers) is not supported; use another model",
                         (long long)first);
    return 0;
}

static int read_neox(struct json_value root, struct network *c, struct error *err)
{
    struct model_shape *s = &c->shape;
    const char *activation;

    c->rotary_percent = 0.25;
    if (whole(root, "num_hidden_layers", -1, &s->layers, err) < 0 ||
        whole(root, "num_attention_heads", -1, &s->heads, err) < 0 ||
        whole(root, "hidden_size", -1, &s->hidden, err) < 0 ||
        whole(root, "intermediate_size", -1, &s->ffn_hidden, err) < 0 ||
        whole(root, "vocab_size", -1, &s->vocabulary, err) < 0 ||
        whole(root, "max_position_embeddings", 2048, &c->positions, err) < 0 ||
        text(root, "hidden_act", "gelu", &activation, err) < 0 ||
        whole(root, "head_dim", s->hidden / s->heads, &s->kv_channels, err) < 0 ||
        flag(root, "use_parallel_residual", 1, &c->parallel_residual, err) < 0 ||
        flag(root, "tie_word_embeddings", 0, &c->tied, err) < 0 ||
        real(root, "layer_norm_eps", 1e-5, &c->epsilon, err) < 0 ||
        real(root, "hidden_dropout", 0, &c->hidden_dropout, err) < 0 ||
        real(root, "attention_dropout", 0, &c->attention_dropout, err) < 0)
        return -1;
    if (s->kv_channels != s->hidden / s->heads)
        return error_set(err,
                         "head_dim %lld is not supported for GPT-NeoX, only hidden_size / "
                         "num_attention_heads is; use another model",
                         (long long)s->kv_channels);
    c->gelu_erf = function_of(activation) == FUNCTION_GELU;
    if (!c->gelu_erf && function_of(activation) != FUNCTION_GELU_TANH)
        return error_set(
            err, "hidden_act %.40s is not supported, only gelu and gelu_new are; use another model",
            activation);
    s->family = MODEL_GPT;
    s->query_groups = s->heads;
    c->linear_bias = 1;
    c->norm = NORM_LAYER;
    return read_rope(root, c, err);
}

/* OLMo 1: its LayerNorm has no weights and a fixed epsilon. */
static int read_first_olmo(struct json_value root, struct network *c, struct error *err)
{
    struct json_value clip;

    if (read_llama(root, c, err) < 0 || optional(root, "clip_qkv", 0, &c->qkv_clip, err) < 0)
        return -1;
    if (!(c->qkv_clip > 0) && json_member(root, "clip_qkv", &clip) == 0 &&
        json_type(clip) != JSON_NULL)
        return error_set(err, "clip_qkv must be null or greater than 0");
    c->norm = NORM_LAYER;
    c->plain_norm = 1;
    c->epsilon = HF_OLMO_EPSILON;
    return 0;
}

static int read_olmo(struct json_value root, struct network *c, struct error *err)
{
    int windows = c->architecture == ARCHITECTURE_OLMO3;

    c->branch_norm = BRANCH_NORM_OUTPUT;
    c->qk_norm = QK_NORM_WHOLE;
    if (windows) {
        c->shape.rotary_base = 500000;
        c->window_every = 4;
    }
    if (read_decoder(root, c, err) < 0 || read_rope(root, c, err) < 0)
        return -1;
    return windows ? read_window(root, c, err) : 0;
}

static int read_gemma(struct json_value root, struct network *c, struct error *err)
{
    const char *activation, *old;
    double scalar = 0;
    int first = c->architecture == ARCHITECTURE_GEMMA;
    int third = c->architecture == ARCHITECTURE_GEMMA3;

    c->gate = GATE_GELU_TANH;
    c->tied = c->layernorm_1p = 1;
    c->branch_norm = first ? BRANCH_NORM_INPUT : BRANCH_NORM_BOTH;
    c->qk_norm = third ? QK_NORM_HEADS : QK_NORM_NONE;
    if (third)
        c->shape.rotary_base = 1000000;
    /* The first release of Gemma says "gelu" and means the approximation. */
    activation = "gelu_pytorch_tanh";
    if (read_decoder(root, c, err) < 0 || read_rope(root, c, err) < 0 ||
        text(root, "hidden_act", activation, &old, err) < 0 ||
        (!is_null(root, "hidden_activation") &&
         text(root, "hidden_activation", activation, &activation, err) < 0))
        return -1;
    if (function_of(activation) != FUNCTION_GELU_TANH)
        return error_set(err,
                         "hidden_activation %.40s is not supported, only gelu_pytorch_tanh is; use "
                         "another model",
                         activation);
    /* Gemma 2 and 3 do not use it. */
    if (first && function_of(old) != FUNCTION_GELU_TANH && strcmp(old, "gelu") != 0)
        return error_set(err,
                         "hidden_act %.40s is not supported, only gelu_pytorch_tanh is; use "
                         "another model",
                         old);
    c->embedding_scale = sqrt((double)c->shape.hidden);
    if (first)
        return 0;
    c->window_every = third ? 6 : 2;
    if ((third &&
         whole(root, "sliding_window_pattern", c->window_every, &c->window_every, err) < 0) ||
        real(root, "query_pre_attn_scalar", 256, &scalar, err) < 0 ||
        /* transformers' Gemma 3 has this setting, too, and does not use it. */
        (!third && optional(root, "attn_logit_softcapping", 50, &c->attention_softcap, err) < 0) ||
        optional(root, "final_logit_softcapping", third ? 0 : 30, &c->logit_softcap, err) < 0)
        return -1;
    if (!(scalar > 0) || c->attention_softcap < 0 || c->logit_softcap < 0)
        return error_set(err, "query_pre_attn_scalar and soft caps must be positive");
    if (scalar != (double)c->shape.kv_channels)
        c->attention_scale = 1 / sqrt(scalar);
    return read_window(root, c, err);
}

static int (*const readers[ARCHITECTURES])(struct json_value root, struct network *c,
                                           struct error *err) = {
    [ARCHITECTURE_GPT2] = read_gpt2,       [ARCHITECTURE_LLAMA] = read_llama,
    [ARCHITECTURE_MISTRAL] = read_mistral, [ARCHITECTURE_QWEN2] = read_qwen,
    [ARCHITECTURE_QWEN3] = read_qwen,      [ARCHITECTURE_PHI3] = read_mistral,
    [ARCHITECTURE_GPT_NEOX] = read_neox,   [ARCHITECTURE_OLMO2] = read_olmo,
    [ARCHITECTURE_OLMO3] = read_olmo,      [ARCHITECTURE_GEMMA] = read_gemma,
    [ARCHITECTURE_GEMMA2] = read_gemma,    [ARCHITECTURE_GEMMA3] = read_gemma,
    [ARCHITECTURE_OLMO] = read_first_olmo,
};

static int refuse_type(const char *type, struct error *err)
{
    char known[256] = "";
    size_t used = 0;

    for (size_t i = 0; hf_family_at(i) && used < sizeof(known); i++)
        used += (size_t)snprintf(known + used, sizeof(known) - used, "%s%s", i ? ", " : "",
                                 hf_family_at(i)->model_type);
    if (strcmp(type, "gemma3") == 0)
        return error_set(err, "model_type gemma3 has a vision tower, which is not supported; use a "
                              "text model (gemma3_text)");
    return error_set(err,
                     "model_type %.40s is not supported; use a model of one of these types: %s, "
                     "roberta, bert, megatron-bert",
                     type, known);
}

static int read_any(struct json_value root, struct network *c, struct error *err)
{
    struct json_value quantized;
    const struct hf_family *family;
    const char *type;
    int rc;

    if (text(root, "model_type", "(none)", &type, err) < 0)
        return -1;
    family = hf_family_of_type(type);
    if (json_member(root, "quantization_config", &quantized) == 0 &&
        json_type(quantized) != JSON_NULL)
        return error_set(err, "quantized weights (quantization_config) are not supported; get the "
                              "unquantized weights");
    if (hf_keys_check(root, type, family ? family->name : type, err) < 0)
        return -1;
    if (hf_masked_is_type(type)) {
        rc = hf_masked_read(root, type, c, err);
    } else if (!family) {
        return refuse_type(type, err);
    } else {
        c->architecture = family->architecture;
        rc = readers[family->architecture](root, c, err);
        if (rc == 0)
            rc = hf_family_check(c, err);
    }
    if (rc == 0 && (c->shape.heads == 0 || c->shape.heads % c->shape.query_groups != 0))
        rc = error_set(
            err,
            "its number of attention heads is not a multiple of its number of key-value heads");
    if (rc == 0 && (!(c->shape.rotary_base > 0) || !(c->epsilon >= 0)))
        rc = error_set(
            err, "rope_theta must be greater than 0, and the norm epsilon must not be negative");
    return rc < 0 ? -1 : real(root, "initializer_range", 0.02, &c->init_std, err);
}

int hf_config_read(const char *directory, struct model_config *config, struct error *err)
{
    struct network *c = &config->network;
    char path[PATH_MAX];
    struct json *json;
    int rc;

    memset(config, 0, sizeof(*config));
    /* Options that do not apply to a model are set as `megatron train` sets them. */
    c->shape.rotary_base = 10000;
    c->rotary_percent = 1;
    c->rope_scaling = (struct rope_scaling){ROPE_PLAIN, 8, 1, 4, 8192, 0};
    if (directory_path(path, err, "%s/config.json", directory) < 0)
        return -1;
    errno = 0;
    json = json_read_file(path, CONFIG_LIMIT, err);
    if (!json)
        return file_path_error(err);
    rc = read_any(json_root(json), c, err);
    json_destroy(json);
    c->shape.name = "the model";
    c->shape.sequence = c->positions - c->position_offset;
    model_config_whole(config);
    if (rc < 0) {
        err->code = ERROR_USAGE;
        error_prefix(err, "%s", path);
        error_advise(err, "correct config.json, or copy the folder again from its source");
    }
    return rc;
}
