/* SPDX-License-Identifier: Apache-2.0 */
#include "hf_config.h"
#include "directory.h"
#include "hf_masked.h"
#include "json.h"

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

/* A required positive number. */
static int needed(struct json_value object, const char *name, double *out, struct error *err)
{
    if (real(object, name, 0, out, err) < 0)
        return -1;
    return *out > 0 ? 0 : error_set(err, "rope_scaling: %s is missing or not greater than 0", name);
}

static int read_gpt2(struct json_value root, struct model_config *c, struct error *err)
{
    struct model_shape *s = &c->shape;
    const char *activation;
    int tied, scaled, by_layer;

    if (whole(root, "n_layer", -1, &s->layers, err) < 0 ||
        whole(root, "n_head", -1, &s->heads, err) < 0 ||
        whole(root, "n_embd", -1, &s->hidden, err) < 0 ||
        whole(root, "n_inner", 4 * s->hidden, &s->ffn_hidden, err) < 0 ||
        whole(root, "vocab_size", -1, &s->vocabulary, err) < 0 ||
        whole(root, "n_positions", -1, &c->positions, err) < 0 ||
        text(root, "activation_function", "gelu_new", &activation, err) < 0 ||
        flag(root, "tie_word_embeddings", 1, &tied, err) < 0 ||
        flag(root, "scale_attn_weights", 1, &scaled, err) < 0 ||
        flag(root, "scale_attn_by_inverse_layer_idx", 0, &by_layer, err) < 0 ||
        real(root, "layer_norm_epsilon", 1e-5, &c->epsilon, err) < 0 ||
        real(root, "resid_pdrop", 0.1, &c->hidden_dropout, err) < 0 ||
        real(root, "attn_pdrop", 0.1, &c->attention_dropout, err) < 0)
        return -1;
    if (strcmp(activation, "gelu_new") != 0 && strcmp(activation, "gelu_pytorch_tanh") != 0)
        return error_set(err, "activation_function %.40s is not supported; only gelu_new is",
                         activation);
    if (!tied || !scaled || by_layer)
        return error_set(
            err, "GPT-2 with untied embeddings or other attention scaling is not supported");
    s->family = MODEL_GPT;
    s->query_groups = s->heads;
    s->kv_channels = s->hidden / s->heads;
    c->position = POSITION_LEARNED;
    c->norm = NORM_LAYER;
    c->tied = c->linear_bias = 1;
    return 0;
}

/* Only full rotary embeddings are supported. */
static int check_partial(struct json_value object, struct error *err)
{
    double partial;

    if (real(object, "partial_rotary_factor", 1, &partial, err) < 0)
        return -1;
    return partial == 1 ? 0 : error_set(err, "partial_rotary_factor %g is not supported", partial);
}

/* RoPE scaling of Llama 3.1; under "rope_scaling", or in newer folders under "rope_parameters"
 * together with the base. */
static int read_rope(struct json_value root, struct model_config *c, struct error *err)
{
    struct rope_scaling *scaling = &c->rope_scaling;
    struct json_value object;
    const char *type;

    if (real(root, "rope_theta", 10000, &c->shape.rotary_base, err) < 0 ||
        check_partial(root, err) < 0)
        return -1;
    if ((json_member(root, "rope_scaling", &object) < 0 || json_type(object) != JSON_OBJECT) &&
        (json_member(root, "rope_parameters", &object) < 0 || json_type(object) != JSON_OBJECT))
        return 0;
    if (real(object, "rope_theta", c->shape.rotary_base, &c->shape.rotary_base, err) < 0 ||
        check_partial(object, err) < 0 || text(object, "type", "default", &type, err) < 0 ||
        text(object, "rope_type", type, &type, err) < 0)
        return -1;
    if (strcmp(type, "default") == 0)
        return 0;
    if (strcmp(type, "llama3") != 0)
        return error_set(err, "rope_scaling of type %.40s is not supported; only llama3 is", type);
    scaling->used = 1;
    return needed(object, "factor", &scaling->factor, err) < 0 ||
                   needed(object, "low_freq_factor", &scaling->low, err) < 0 ||
                   needed(object, "high_freq_factor", &scaling->high, err) < 0
               ? -1
               : needed(object, "original_max_position_embeddings", &scaling->original, err);
}

static int read_llama(struct json_value root, struct model_config *c, struct error *err)
{
    struct model_shape *s = &c->shape;
    const char *activation;
    int attention_bias, mlp_bias;

    if (whole(root, "num_hidden_layers", -1, &s->layers, err) < 0 ||
        whole(root, "num_attention_heads", -1, &s->heads, err) < 0 ||
        whole(root, "num_key_value_heads", s->heads, &s->query_groups, err) < 0 ||
        whole(root, "hidden_size", -1, &s->hidden, err) < 0 ||
        whole(root, "head_dim", s->hidden / s->heads, &s->kv_channels, err) < 0 ||
        whole(root, "intermediate_size", -1, &s->ffn_hidden, err) < 0 ||
        whole(root, "vocab_size", -1, &s->vocabulary, err) < 0 ||
        whole(root, "max_position_embeddings", 2048, &c->positions, err) < 0 ||
        text(root, "hidden_act", "silu", &activation, err) < 0 ||
        flag(root, "attention_bias", 0, &attention_bias, err) < 0 ||
        flag(root, "mlp_bias", 0, &mlp_bias, err) < 0 ||
        flag(root, "tie_word_embeddings", 0, &c->tied, err) < 0 ||
        real(root, "rms_norm_eps", 1e-6, &c->epsilon, err) < 0)
        return -1;
    if (strcmp(activation, "silu") != 0)
        return error_set(err, "hidden_act other than silu is not supported");
    if (attention_bias || mlp_bias)
        return error_set(err, "Llama with biases is not supported");
    if (s->kv_channels % 2 != 0)
        return error_set(err,
                         "its head size of %lld is odd and cannot be used with rotary embeddings",
                         (long long)s->kv_channels);
    s->family = MODEL_LLAMA;
    c->position = POSITION_ROPE;
    c->norm = NORM_RMS;
    c->swiglu = 1;
    return read_rope(root, c, err);
}

static int read_any(struct json_value root, struct model_config *c, struct error *err)
{
    struct json_value quantized;
    const char *type;
    int rc;

    if (text(root, "model_type", "(none)", &type, err) < 0)
        return -1;
    if (json_member(root, "quantization_config", &quantized) == 0 &&
        json_type(quantized) != JSON_NULL)
        return error_set(err, "quantized weights (quantization_config) are not supported");
    if (strcmp(type, "gpt2") == 0)
        rc = read_gpt2(root, c, err);
    else if (strcmp(type, "llama") == 0)
        rc = read_llama(root, c, err);
    else if (hf_masked_is_type(type))
        rc = hf_masked_read(root, type, c, err);
    else
        rc = error_set(err,
                       "model_type %.40s is not supported; only gpt2, llama, roberta, bert and "
                       "megatron-bert are",
                       type);
    if (rc == 0 && (c->shape.heads == 0 || c->shape.heads % c->shape.query_groups != 0))
        rc = error_set(
            err,
            "its number of attention heads is not a multiple of its number of key-value heads");
    if (rc == 0 && (!(c->shape.rotary_base > 0) || !(c->epsilon >= 0)))
        rc = error_set(
            err, "rope_theta must be greater than 0, and the norm epsilon must not be negative");
    return rc < 0 ? -1 : real(root, "initializer_range", 0.02, &c->init_std, err);
}

int hf_config_read(const char *directory, struct model_config *c, struct error *err)
{
    char path[PATH_MAX];
    struct json *json;
    int rc;

    memset(c, 0, sizeof(*c));
    /* Options that do not apply to a model are set as `megatron train` sets them. */
    c->shape.rotary_base = 10000;
    c->rotary_percent = 1;
    c->rope_scaling = (struct rope_scaling){0, 8, 1, 4, 8192};
    if (directory_path(path, err, "%s/config.json", directory) < 0)
        return -1;
    json = json_read_file(path, CONFIG_LIMIT, err);
    if (!json)
        return -1;
    rc = read_any(json_root(json), c, err);
    json_destroy(json);
    c->shape.name = "the model";
    c->shape.sequence = c->positions - c->position_offset;
    c->padded_vocabulary = c->shape.vocabulary;
    c->chunks = c->micro_batch = 1;
    return rc < 0 ? error_prefix(err, "%s", path) : 0;
}

/* --- Writing --------------------------------------------------------------------------------- */

static const char *type_name(const struct model_config *c)
{
    return c->type == TYPE_FP32 ? "float32" : c->type == TYPE_BF16 ? "bfloat16" : "float16";
}

/* If these tokens are not set, transformers uses those of the family's original vocabulary. In
 * another vocabulary they are arbitrary tokens, and texts would end there. */
static const char *no_ends(const struct model_config *c, int64_t usual)
{
    return c->shape.vocabulary == usual ? ""
                                        : "  \"bos_token_id\": null,\n  \"eos_token_id\": null,\n";
}

static void print_gpt2(const struct model_config *c, FILE *f)
{
    const struct model_shape *s = &c->shape;

    fprintf(f,
            "{\n  \"architectures\": [\"GPT2LMHeadModel\"],\n  \"model_type\": \"gpt2\",\n"
            "  \"activation_function\": \"gelu_new\",\n  \"vocab_size\": %lld,\n"
            "  \"n_positions\": %lld,\n  \"n_ctx\": %lld,\n  \"n_embd\": %lld,\n"
            "  \"n_layer\": %lld,\n  \"n_head\": %lld,\n  \"n_inner\": %lld,\n"
            "  \"layer_norm_epsilon\": %.9g,\n  \"embd_pdrop\": %.9g,\n  \"resid_pdrop\": %.9g,\n"
            "  \"attn_pdrop\": %.9g,\n  \"initializer_range\": %.9g,\n"
            "  \"tie_word_embeddings\": true,\n%s  \"torch_dtype\": \"%s\"\n}\n",
            (long long)s->vocabulary, (long long)c->positions, (long long)c->positions,
            (long long)s->hidden, (long long)s->layers, (long long)s->heads,
            (long long)s->ffn_hidden, c->epsilon, c->hidden_dropout, c->hidden_dropout,
            c->attention_dropout, c->init_std, no_ends(c, 50257), type_name(c));
}

static void print_llama(const struct model_config *c, FILE *f)
{
    const struct model_shape *s = &c->shape;

    fprintf(f,
            "{\n  \"architectures\": [\"LlamaForCausalLM\"],\n  \"model_type\": \"llama\",\n"
            "  \"hidden_act\": \"silu\",\n  \"vocab_size\": %lld,\n"
            "  \"max_position_embeddings\": %lld,\n  \"hidden_size\": %lld,\n"
            "  \"intermediate_size\": %lld,\n  \"num_hidden_layers\": %lld,\n"
            "  \"num_attention_heads\": %lld,\n  \"num_key_value_heads\": %lld,\n"
            "  \"head_dim\": %lld,\n  \"rms_norm_eps\": %.9g,\n  \"rope_theta\": %.9g,\n"
            "  \"attention_bias\": false,\n  \"mlp_bias\": false,\n  \"initializer_range\": %.9g,\n"
            "  \"tie_word_embeddings\": %s,\n%s",
            (long long)s->vocabulary, (long long)c->positions, (long long)s->hidden,
            (long long)s->ffn_hidden, (long long)s->layers, (long long)s->heads,
            (long long)s->query_groups, (long long)s->kv_channels, c->epsilon, s->rotary_base,
            c->init_std, c->tied ? "true" : "false", no_ends(c, 32000));
    if (c->rope_scaling.used)
        fprintf(f,
                "  \"rope_scaling\": {\"rope_type\": \"llama3\", \"factor\": %.9g, "
                "\"low_freq_factor\": %.9g, \"high_freq_factor\": %.9g, "
                "\"original_max_position_embeddings\": %.15g},\n",
                c->rope_scaling.factor, c->rope_scaling.low, c->rope_scaling.high,
                c->rope_scaling.original);
    fprintf(f, "  \"torch_dtype\": \"%s\"\n}\n", type_name(c));
}

int hf_config_write(const char *directory, const struct model_config *config, struct error *err)
{
    char *text = NULL;
    size_t size;
    FILE *f = open_memstream(&text, &size);
    int rc;

    if (!f)
        return error_set(err, "out of memory");
    if (config->masked)
        hf_masked_print(config, type_name(config), f);
    else if (config->swiglu)
        print_llama(config, f);
    else
        print_gpt2(config, f);
    rc = fclose(f) == 0 ? directory_write(directory, "config.json", text, size, err)
                        : error_set(err, "out of memory");
    free(text);
    return rc;
}
