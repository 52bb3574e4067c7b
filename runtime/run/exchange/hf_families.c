/* SPDX-License-Identifier: Apache-2.0 */
/* The decoders of transformers that this program has. A family is a row of the last table: its
 * tensors are a table with overrides, its settings in config.json are a table with what absent keys
 * mean, and the functions above it read and write what no table can. What a family cannot have is
 * decided by its features; settings that no family has are in hf_keys.c. */
#include "hf_families.h"

#include <math.h>
#include <string.h>

/* --- Tensors ---------------------------------------------------------------------------------- */

/* Rows are in the order of transformers' modules, which decides which tensor goes to which file.
 * A network need not have all tensors of a table. */

#define ROW(ours, theirs)           \
    {                               \
        ours, theirs, PART_WHOLE, 0 \
    }
/* Weight and bias. */
#define BOTH(ours, theirs) ROW(ours ".weight", theirs ".weight"), ROW(ours ".bias", theirs ".bias")
#define ATTENTION          "layers.%d.attention."
/* Weights or biases of query, key and value in one tensor. */
#define FUSED(kind, theirs, how)                                  \
    {ATTENTION "query." kind, theirs "." kind, PART_QUERY, how},  \
        {ATTENTION "key." kind, theirs "." kind, PART_KEY, how},  \
    {                                                             \
        ATTENTION "value." kind, theirs "." kind, PART_VALUE, how \
    }
#define TRANSPOSED(ours, theirs)                                                                   \
    {ours ".weight", theirs ".weight", PART_WHOLE, HF_TRANSPOSED}, ROW(ours ".bias", theirs ".bia" \
                                                                                            "s")

#define H "transformer.h.%d."
static const struct hf_name gpt2_names[] = {
    ROW("embedding.word.weight", "transformer.wte.weight"),
    ROW("embedding.position.weight", "transformer.wpe.weight"),
    BOTH("layers.%d.norm1", H "ln_1"),
    FUSED("weight", H "attn.c_attn", HF_TRANSPOSED),
    FUSED("bias", H "attn.c_attn", 0),
    TRANSPOSED(ATTENTION "projection", H "attn.c_proj"),
    BOTH("layers.%d.norm2", H "ln_2"),
    TRANSPOSED("layers.%d.mlp.up", H "mlp.c_fc"),
    TRANSPOSED("layers.%d.mlp.down", H "mlp.c_proj"),
    BOTH("final_norm", "transformer.ln_f"),
    {0},
};

#define N "gpt_neox.layers.%d."
static const struct hf_name neox_names[] = {
    ROW("embedding.word.weight", "gpt_neox.embed_in.weight"),
    BOTH("layers.%d.norm1", N "input_layernorm"),
    BOTH("layers.%d.norm2", N "post_attention_layernorm"),
    FUSED("weight", N "attention.query_key_value", HF_INTERLEAVED),
    FUSED("bias", N "attention.query_key_value", HF_INTERLEAVED),
    BOTH(ATTENTION "projection", N "attention.dense"),
    BOTH("layers.%d.mlp.up", N "mlp.dense_h_to_4h"),
    BOTH("layers.%d.mlp.down", N "mlp.dense_4h_to_h"),
    BOTH("final_norm", "gpt_neox.final_layer_norm"),
    ROW("head.weight", "embed_out.weight"),
    {0},
};

/* All others. Output norms and norms of queries and keys are here as well: a network without them
 * has no such tensors. */
#define L "model.layers.%d."
static const struct hf_name llama_names[] = {
    ROW("embedding.word.weight", "model.embed_tokens.weight"),
    BOTH(ATTENTION "query", L "self_attn.q_proj"),
    BOTH(ATTENTION "key", L "self_attn.k_proj"),
    BOTH(ATTENTION "value", L "self_attn.v_proj"),
    ROW(ATTENTION "projection.weight", L "self_attn.o_proj.weight"),
    ROW(ATTENTION "query_norm.weight", L "self_attn.q_norm.weight"),
    ROW(ATTENTION "key_norm.weight", L "self_attn.k_norm.weight"),
    ROW("layers.%d.mlp.gate.weight", L "mlp.gate_proj.weight"),
    ROW("layers.%d.mlp.up.weight", L "mlp.up_proj.weight"),
    ROW("layers.%d.mlp.down.weight", L "mlp.down_proj.weight"),
    ROW("layers.%d.norm1.weight", L "input_layernorm.weight"),
    ROW("layers.%d.attention_norm.weight", L "post_attention_layernorm.weight"),
    ROW("layers.%d.norm2.weight", L "post_attention_layernorm.weight"),
    ROW("layers.%d.mlp_norm.weight", L "post_feedforward_layernorm.weight"),
    ROW("final_norm.weight", "model.norm.weight"),
    ROW("head.weight", "lm_head.weight"),
    {0},
};

static const struct hf_name phi3_overrides[] = {
    ROW(ATTENTION "projection.weight", L "self_attn.o_proj.weight"), /* it comes first */
    FUSED("weight", L "self_attn.qkv_proj", 0),
    {"layers.%d.mlp.gate.weight", L "mlp.gate_up_proj.weight", PART_GATE, 0},
    {"layers.%d.mlp.up.weight", L "mlp.gate_up_proj.weight", PART_UP, 0},
    {0},
};

/* Gemma 2 and 3. */
static const struct hf_name gemma_overrides[] = {
    ROW("layers.%d.norm2.weight", L "pre_feedforward_layernorm.weight"),
    {0},
};

/* --- Settings that are members of a network --------------------------------------------------- */

#define CONSTANT(name, value)                               \
    {                                                       \
        .key = (name), .kind = HF_CONSTANT, .text = (value) \
    }
#define READ_ONLY(name, type, what, value)                                                         \
    {                                                                                              \
        .key = (name), .kind = (type), .member = offsetof(struct network, what), .usual = (value), \
        .use = HF_READ_ONLY                                                                        \
    }
#define WRITTEN_ONLY(name, type, what)                                           \
    {                                                                            \
        .key = (name), .kind = (type), .member = offsetof(struct network, what), \
        .use = HF_WRITTEN_ONLY                                                   \
    }

static const struct hf_field gpt2_fields[] = {
    HF_FIELD("vocab_size", HF_SIZE, shape.vocabulary, HF_REQUIRED),
    HF_FIELD("n_positions", HF_SIZE, positions, HF_REQUIRED),
    WRITTEN_ONLY("n_ctx", HF_SIZE, positions),
    HF_FIELD("n_embd", HF_SIZE, shape.hidden, HF_REQUIRED),
    HF_FIELD("n_layer", HF_SIZE, shape.layers, HF_REQUIRED),
    HF_FIELD("n_head", HF_SIZE, shape.heads, HF_REQUIRED),
    HF_FIELD("n_inner", HF_SIZE, shape.ffn_hidden, 0),
    HF_FIELD("layer_norm_epsilon", HF_NUMBER, epsilon, 1e-5),
    WRITTEN_ONLY("embd_pdrop", HF_NUMBER, hidden_dropout),
    HF_FIELD("resid_pdrop", HF_NUMBER, hidden_dropout, 0.1),
    HF_FIELD("attn_pdrop", HF_NUMBER, attention_dropout, 0.1),
    {0},
};

#define SIZES                                                                  \
    HF_FIELD("vocab_size", HF_SIZE, shape.vocabulary, HF_REQUIRED),            \
        HF_FIELD("max_position_embeddings", HF_SIZE, positions, 2048),         \
        HF_FIELD("hidden_size", HF_SIZE, shape.hidden, HF_REQUIRED),           \
        HF_FIELD("intermediate_size", HF_SIZE, shape.ffn_hidden, HF_REQUIRED), \
        HF_FIELD("num_hidden_layers", HF_SIZE, shape.layers, HF_REQUIRED),     \
        HF_FIELD("num_attention_heads", HF_SIZE, shape.heads, HF_REQUIRED)

static const struct hf_field neox_fields[] = {
    SIZES,
    READ_ONLY("head_dim", HF_SIZE, shape.kv_channels, 0),
    HF_FIELD("layer_norm_eps", HF_REAL, epsilon, 1e-5),
    HF_FIELD("rotary_emb_base", HF_REAL, shape.rotary_base, 10000),
    HF_FIELD("rotary_pct", HF_REAL, rotary_percent, 0.25),
    HF_FIELD("hidden_dropout", HF_REAL, hidden_dropout, 0),
    HF_FIELD("attention_dropout", HF_REAL, attention_dropout, 0),
    CONSTANT("attention_bias", "true"),
    HF_FIELD("use_parallel_residual", HF_FLAG, parallel_residual, 1),
    READ_ONLY("tie_word_embeddings", HF_FLAG, tied, 0),
    {0},
};

static const struct hf_field llama_fields[] = {
    SIZES,
    HF_FIELD("num_key_value_heads", HF_SIZE_OR_NULL, shape.query_groups, 0),
    HF_FIELD("head_dim", HF_SIZE, shape.kv_channels, 0),
    HF_FIELD("rms_norm_eps", HF_REAL, epsilon, 1e-6),
    HF_FIELD("rope_theta", HF_REAL, shape.rotary_base, 10000),
    READ_ONLY("partial_rotary_factor", HF_REAL, rotary_percent, 1),
    HF_FIELD("attention_dropout", HF_REAL_OR_NULL, attention_dropout, 0),
    CONSTANT("attention_bias", "false"),
    CONSTANT("mlp_bias", "false"),
    READ_ONLY("tie_word_embeddings", HF_FLAG, tied, 0),
    {0},
};

/* What some of the others have in addition. */
static const struct hf_field mistral_fields[] = {
    HF_FIELD("sliding_window", HF_SIZE_OR_NULL, window, 0),
    {0},
};

static const struct hf_field phi3_fields[] = {
    WRITTEN_ONLY("partial_rotary_factor", HF_REAL, rotary_percent),
    CONSTANT("pad_token_id", "null"),
    HF_FIELD("sliding_window", HF_SIZE_OR_NULL, window, 0),
    {0},
};

static const struct hf_field olmo_fields[] = {
    CONSTANT("pad_token_id", "null"),
    HF_FIELD("clip_qkv", HF_CAP, qkv_clip, 0),
    {0},
};

/* OLMo 2 and Gemma. */
static const struct hf_field no_padding[] = {
    CONSTANT("pad_token_id", "null"),
    {0},
};

/* --- Other settings --------------------------------------------------------------------------- */

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

static int read_gpt2(const struct hf_family *family, struct json_value root, struct network *c,
                     struct error *err)
{
    struct model_shape *s = &c->shape;
    /* In transformers, these are other names of the same settings. */
    const struct {
        const char *name, *usual;
        int64_t value;
    } aliases[] = {{"num_hidden_layers", "n_layer", s->layers},
                   {"num_attention_heads", "n_head", s->heads},
                   {"hidden_size", "n_embd", s->hidden},
                   {"max_position_embeddings", "n_positions", c->positions}};
    const char *activation;
    double embedding;
    int64_t other;

    (void)family;
    if (hf_read_text(root, "activation_function", "gelu_new", &activation, err) < 0 ||
        hf_read_real(root, "embd_pdrop", 0.1, &embedding, err) < 0)
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
    for (size_t i = 0; i < sizeof(aliases) / sizeof(aliases[0]); i++) {
        if (hf_read_size(root, aliases[i].name, aliases[i].value, &other, err) < 0)
            return -1;
        if (other != aliases[i].value)
            return error_set(err, "%s differs from %s, which is another name for it",
                             aliases[i].name, aliases[i].usual);
    }
    return 0;
}

static int read_neox(const struct hf_family *family, struct json_value root, struct network *c,
                     struct error *err)
{
    struct model_shape *s = &c->shape;
    const char *activation;

    if (hf_read_text(root, "hidden_act", "gelu", &activation, err) < 0)
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
    return hf_read_rope(family, root, c, err);
}

static int read_llama(const struct hf_family *family, struct json_value root, struct network *c,
                      struct error *err)
{
    const char *activation;

    if (hf_read_text(root, "hidden_act", "silu", &activation, err) < 0)
        return -1;
    if (c->gate == GATE_SILU && function_of(activation) != FUNCTION_SILU)
        return error_set(err, "hidden_act %.40s is not supported, only silu is; use another model",
                         activation);
    if (c->shape.kv_channels % 2 != 0)
        return error_set(err,
                         "its head size of %lld is odd and cannot be used with rotary embeddings; "
                         "use another model",
                         (long long)c->shape.kv_channels);
    return hf_read_rope(family, root, c, err);
}

/* Mistral, Phi-3: transformers gives all layers the window, whatever layer_types has. */
static int read_mistral(const struct hf_family *family, struct json_value root, struct network *c,
                        struct error *err)
{
    int64_t window = c->window;

    if (read_llama(family, root, c, err) < 0 || hf_read_layer_types(root, c, err) < 0)
        return -1;
    return c->window == window && c->window_every == 0
               ? 0
               : error_set(err,
                           "layer_types differs from sliding_window, which %s has in all layers or "
                           "in none; use another model",
                           family->name);
}

/* Sliding windows of Qwen are off unless use_sliding_window; without layer_types, the first
 * max_window_layers layers have none. */
static int read_qwen(const struct hf_family *family, struct json_value root, struct network *c,
                     struct error *err)
{
    struct json_value value;
    int64_t first = 28;
    int used;

    if (read_llama(family, root, c, err) < 0 ||
        hf_read_flag(root, "use_sliding_window", 0, &used, err) < 0)
        return -1;
    if (json_member(root, "max_window_layers", &value) == 0 &&
        (json_integer(value, &first) < 0 || first < 0))
        return error_set(err, "max_window_layers must be a non-negative integer");
    if (!used)
        return hf_read_layer_types(root, c, err);
    if (hf_read_window(family, root, c, err) < 0)
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

static void write_qwen(const struct network *c, struct json_writer *json)
{
    json_put_bool(json, "use_sliding_window", c->window > 0);
    json_put_integer(json, "max_window_layers", c->window > 0 ? 0 : c->shape.layers);
    hf_fields_write(mistral_fields, c, json);
    if (c->window > 0)
        hf_write_layer_types(c, json);
}

static int read_olmo(const struct hf_family *family, struct json_value root, struct network *c,
                     struct error *err)
{
    struct json_value clip;

    if (read_llama(family, root, c, err) < 0)
        return -1;
    return c->qkv_clip > 0 || json_member(root, "clip_qkv", &clip) < 0 ||
                   json_type(clip) == JSON_NULL
               ? 0
               : error_set(err, "clip_qkv must be null or greater than 0");
}

static int read_olmo3(const struct hf_family *family, struct json_value root, struct network *c,
                      struct error *err)
{
    c->window_every = 4;
    return read_llama(family, root, c, err) < 0 ? -1 : hf_read_window(family, root, c, err);
}

static void write_olmo3(const struct network *c, struct json_writer *json)
{
    hf_write_rope_parameters(c, json);
    json_put_string(json, "pad_token_id", NULL);
    hf_write_window_and_layers(c, json);
}

static int read_gemma(const struct hf_family *family, struct json_value root, struct network *c,
                      struct error *err)
{
    static const char usual[] = "gelu_pytorch_tanh";
    const char *activation = usual, *old;
    double scalar = 0;
    int first = family->architecture == ARCHITECTURE_GEMMA;
    int third = family->architecture == ARCHITECTURE_GEMMA3;

    if (read_llama(family, root, c, err) < 0 ||
        hf_read_text(root, "hidden_act", usual, &old, err) < 0 ||
        (!hf_is_null(root, "hidden_activation") &&
         hf_read_text(root, "hidden_activation", usual, &activation, err) < 0))
        return -1;
    if (function_of(activation) != FUNCTION_GELU_TANH)
        return error_set(err,
                         "hidden_activation %.40s is not supported, only gelu_pytorch_tanh is; use "
                         "another model",
                         activation);
    /* The first release of Gemma says "gelu" and means the approximation. Gemma 2 and 3 do not use
     * this setting. */
    if (first && function_of(old) != FUNCTION_GELU_TANH && strcmp(old, "gelu") != 0)
        return error_set(err,
                         "hidden_act %.40s is not supported, only gelu_pytorch_tanh is; use "
                         "another model",
                         old);
    if (first)
        return 0;
    c->window_every = third ? 6 : 2;
    if ((third && hf_read_size(root, "sliding_window_pattern", c->window_every, &c->window_every,
                               err) < 0) ||
        hf_read_real(root, "query_pre_attn_scalar", 256, &scalar, err) < 0 ||
        /* transformers' Gemma 3 also has this setting, but does not use it. */
        (!third && hf_read_real_or_null(root, "attn_logit_softcapping", 50, &c->attention_softcap,
                                        err) < 0) ||
        hf_read_real_or_null(root, "final_logit_softcapping", third ? 0 : 30, &c->logit_softcap,
                             err) < 0)
        return -1;
    if (!(scalar > 0) || c->attention_softcap < 0 || c->logit_softcap < 0)
        return error_set(err, "query_pre_attn_scalar and soft caps must be positive");
    if (scalar != (double)c->shape.kv_channels)
        c->attention_scale = 1 / sqrt(scalar);
    return hf_read_window(family, root, c, err);
}

/* Gemma 2 and 3. */
static void write_gemma(const struct network *c, struct json_writer *json)
{
    int third = c->qk_norm == QK_NORM_HEADS;

    if (third)
        hf_write_real(json, "rope_local_base_freq", hf_local_base(c));
    json_put_number(json, "query_pre_attn_scalar",
                    c->attention_scale > 0 ? 1 / (c->attention_scale * c->attention_scale)
                                           : (double)c->shape.kv_channels,
                    9);
    if (!third)
        hf_write_cap(json, "attn_logit_softcapping", c->attention_softcap);
    hf_write_cap(json, "final_logit_softcapping", c->logit_softcap);
    json_put_string(json, "pad_token_id", NULL);
    hf_write_window_and_layers(c, json);
}

/* --- The families ----------------------------------------------------------------------------- */

/* Lists that end with a row without name. */
/* clang-format off */
#define LIST(...) (const struct hf_value[]){__VA_ARGS__, {0}}
/* clang-format on */
#define ANY_HEADS    "tied|num-query-groups|kv-channels|use-rope-scaling"
#define OLMO_EPSILON 1e-5 /* config.json does not have it */

/* A model that does not say which of them it is is exported as the first that fits. */
static const struct hf_family families[] = {
    {
        .architecture = ARCHITECTURE_GPT2,
        .name = "GPT-2",
        .model_type = "gpt2",
        .class = "GPT2LMHeadModel",
        .vocabulary = 50257,
        .has = LIST({"position-embedding-type", POSITION_LEARNED}, {"normalization", NORM_LAYER},
                    {"swiglu", 0}, {"bias", 1}, {"tied", 1}),
        .names = gpt2_names,
        .fields = gpt2_fields,
        .read = read_gpt2,
    },
    {
        .architecture = ARCHITECTURE_LLAMA,
        .name = "Llama",
        .model_type = "llama",
        .class = "LlamaForCausalLM",
        .vocabulary = 32000,
        .may_have = ANY_HEADS,
    },
    {
        .architecture = ARCHITECTURE_MISTRAL,
        .name = "Mistral",
        .model_type = "mistral",
        .class = "MistralForCausalLM",
        .vocabulary = 32000,
        .may_have = ANY_HEADS "|window",
        .usual = {{"num_key_value_heads", 8},
                  {"max_position_embeddings", 131072},
                  {"sliding_window", 4096}},
        .more = mistral_fields,
        .read = read_mistral,
    },
    {
        .architecture = ARCHITECTURE_QWEN2,
        .name = "Qwen2",
        .model_type = "qwen2",
        .class = "Qwen2ForCausalLM",
        .has = LIST({"add-qkv-bias", 1}),
        .may_have = ANY_HEADS "|window|window-attn-skip-freq",
        .usual = {{"num_key_value_heads", 32},
                  {"max_position_embeddings", 32768},
                  {"sliding_window", 4096}},
        .read = read_qwen,
        .write = write_qwen,
    },
    {
        .architecture = ARCHITECTURE_QWEN3,
        .name = "Qwen3",
        .model_type = "qwen3",
        .class = "Qwen3ForCausalLM",
        .has = LIST({"qk-layernorm", QK_NORM_HEADS}),
        .may_have = ANY_HEADS "|window|window-attn-skip-freq",
        .usual = {{"num_key_value_heads", 32},
                  {"head_dim", 128},
                  {"max_position_embeddings", 32768},
                  {"sliding_window", 4096}},
        .read = read_qwen,
        .write = write_qwen,
    },
    {
        .architecture = ARCHITECTURE_PHI3,
        .name = "Phi-3",
        .model_type = "phi3",
        .class = "Phi3ForCausalLM",
        .may_have = "tied|num-query-groups|kv-channels|window|rotary-percent",
        .overrides = phi3_overrides,
        .more = phi3_fields,
        .usual = {{"max_position_embeddings", 4096}, {"rms_norm_eps", 1e-5}},
        .read = read_mistral,
    },
    {
        .architecture = ARCHITECTURE_GPT_NEOX,
        .name = "GPT-NeoX",
        .model_type = "gpt_neox",
        .class = "GPTNeoXForCausalLM",
        .has = LIST({"normalization", NORM_LAYER}, {"swiglu", 0}, {"bias", 1}),
        .may_have = "tied|use-parallel-residual|exact-gelu|rotary-percent|use-rope-scaling",
        .names = neox_names,
        .fields = neox_fields,
        .read = read_neox,
    },
    {
        .architecture = ARCHITECTURE_OLMO,
        .name = "OLMo",
        .model_type = "olmo",
        .class = "OlmoForCausalLM",
        .vocabulary = 50304,
        .has = LIST({"normalization", NORM_LAYER}, {"norm-without-weights", 1},
                    {"norm-epsilon", OLMO_EPSILON}),
        .may_have = ANY_HEADS "|clip-qkv",
        .more = olmo_fields,
        .read = read_olmo,
    },
    {
        .architecture = ARCHITECTURE_OLMO2,
        .name = "OLMo2",
        .model_type = "olmo2",
        .class = "Olmo2ForCausalLM",
        .has = LIST({"norm-placement", BRANCH_NORM_OUTPUT}, {"qk-layernorm", QK_NORM_WHOLE}),
        .may_have = ANY_HEADS,
        .usual = {{"rms_norm_eps", 1e-5}},
        .more = no_padding,
    },
    {
        .architecture = ARCHITECTURE_OLMO3,
        .name = "OLMo3",
        .model_type = "olmo3",
        .class = "Olmo3ForCausalLM",
        .has = LIST({"norm-placement", BRANCH_NORM_OUTPUT}, {"qk-layernorm", QK_NORM_WHOLE}),
        .may_have = ANY_HEADS "|window|window-attn-skip-freq|rotary-base-local",
        .usual = {{"rms_norm_eps", 1e-5},
                  {"rope_theta", 500000},
                  {"rope_local_base_freq", 500000},
                  {"sliding_window", 4096}},
        .read = read_olmo3,
        .write = write_olmo3,
    },
    {
        .architecture = ARCHITECTURE_GEMMA,
        .name = "Gemma",
        .model_type = "gemma",
        .class = "GemmaForCausalLM",
        .has = LIST({"gate", GATE_GELU_TANH}, {"embedding-scale", HF_ROOT_OF_HIDDEN}),
        .may_have = ANY_HEADS,
        .minus_one = 1,
        .usual = {{"num_key_value_heads", 16},
                  {"head_dim", 256},
                  {"max_position_embeddings", 8192},
                  {"tie_word_embeddings", 1}},
        .read = read_gemma,
        .more = no_padding,
    },
    {
        .architecture = ARCHITECTURE_GEMMA2,
        .name = "Gemma 2",
        .model_type = "gemma2",
        .class = "Gemma2ForCausalLM",
        .has = LIST({"gate", GATE_GELU_TANH}, {"embedding-scale", HF_ROOT_OF_HIDDEN},
                    {"norm-placement", BRANCH_NORM_BOTH}),
        .may_have = ANY_HEADS "|attn-logit-softcapping|final-logit-softcapping|window|window-attn-"
                              "skip-freq|softmax-scale",
        .overrides = gemma_overrides,
        .minus_one = 1,
        .usual = {{"num_key_value_heads", 4},
                  {"head_dim", 256},
                  {"max_position_embeddings", 8192},
                  {"sliding_window", 4096},
                  {"tie_word_embeddings", 1}},
        .read = read_gemma,
        .write = write_gemma,
    },
    {
        .architecture = ARCHITECTURE_GEMMA3,
        .name = "Gemma 3",
        .model_type = "gemma3_text",
        .class = "Gemma3ForCausalLM",
        .has = LIST({"gate", GATE_GELU_TANH}, {"embedding-scale", HF_ROOT_OF_HIDDEN},
                    {"norm-placement", BRANCH_NORM_BOTH}, {"qk-layernorm", QK_NORM_HEADS}),
        .may_have = ANY_HEADS
        "|final-logit-softcapping|window|window-attn-skip-freq|softmax-scale|rotary-base-local",
        .overrides = gemma_overrides,
        .minus_one = 1,
        .usual = {{"num_key_value_heads", 4},
                  {"head_dim", 256},
                  {"max_position_embeddings", 131072},
                  {"rope_theta", 1000000},
                  {"rope_local_base_freq", 10000},
                  {"sliding_window", 4096},
                  {"tie_word_embeddings", 1}},
        .read = read_gemma,
        .write = write_gemma,
    },
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

const struct hf_name *hf_family_names(const struct hf_family *family)
{
    return family->names ? family->names : llama_names;
}

const struct hf_field *hf_family_fields(const struct hf_family *family)
{
    return family->fields ? family->fields : llama_fields;
}

/* The key of config.json that a property comes from. A family without a key for the size of a head
 * has hidden size / heads. */
static const char *key_of(const struct hf_family *family, const struct network_property *p)
{
    const struct hf_field *tables[] = {hf_family_fields(family), family->more};
    size_t member = p->offset == offsetof(struct network, shape.kv_channels)
                        ? offsetof(struct network, shape.heads)
                        : p->offset;
    const char *key = p->name;

    for (int i = 0; i < 2; i++)
        for (const struct hf_field *row = tables[i]; row && row->key; row++)
            if (row->kind != HF_CONSTANT && (row->member == p->offset || row->member == member))
                key = row->key;
    return key;
}

int hf_family_read(const struct hf_family *family, struct json_value root, struct network *c,
                   struct error *err)
{
    struct model_shape *s = &c->shape;
    const struct network_property *misfit;

    hf_plain(c);
    c->architecture = family->architecture;
    c->layernorm_1p = family->minus_one;
    if (hf_fields_read(hf_family_fields(family), family->usual, root, c, err) < 0 ||
        (family->more && hf_fields_read(family->more, family->usual, root, c, err) < 0))
        return -1;
    hf_family_set(family, c);
    if (s->query_groups == 0)
        s->query_groups = s->heads;
    if (s->kv_channels == 0)
        s->kv_channels = s->hidden / s->heads;
    if (s->ffn_hidden == 0)
        s->ffn_hidden = 4 * s->hidden;
    if ((family->read ? family->read : read_llama)(family, root, c, err) < 0)
        return -1;
    misfit = hf_family_misfit(family, c);
    return misfit ? error_set(err, "%s has a value that is not supported for %s; use another model",
                              key_of(family, misfit), family->name)
                  : 0;
}
