/* SPDX-License-Identifier: Apache-2.0 */
#include "hf_masked.h"
#include "hf_families.h"
#include "base/core/log.h"

#include <stdlib.h>
#include <string.h>

#define ROW(ours, theirs)           \
    {                               \
        ours, theirs, PART_WHOLE, 0 \
    }
/* Weight and bias. */
#define BOTH(ours, theirs) ROW(ours ".weight", theirs ".weight"), ROW(ours ".bias", theirs ".bias")
#define TABLES(prefix)                                                                     \
    ROW("embedding.word.weight", prefix ".embeddings.word_embeddings.weight"),             \
        ROW("embedding.position.weight", prefix ".embeddings.position_embeddings.weight"), \
        ROW("embedding.token_type.weight", prefix ".embeddings.token_type_embeddings.weight")
#define SELF(prefix)                                                                        \
    BOTH("layers.%d.attention.query", prefix ".encoder.layer.%d.attention.self.query"),     \
        BOTH("layers.%d.attention.key", prefix ".encoder.layer.%d.attention.self.key"),     \
        BOTH("layers.%d.attention.value", prefix ".encoder.layer.%d.attention.self.value"), \
        BOTH("layers.%d.attention.projection", prefix ".encoder.layer.%d.attention.output.dense")
#define MLP(prefix)                                                          \
    BOTH("layers.%d.mlp.up", prefix ".encoder.layer.%d.intermediate.dense"), \
        BOTH("layers.%d.mlp.down", prefix ".encoder.layer.%d.output.dense")
#define POST_NORM(prefix)                                                                 \
    TABLES(prefix), BOTH("embedding_norm", prefix ".embeddings.LayerNorm"), SELF(prefix), \
        BOTH("layers.%d.norm1", prefix ".encoder.layer.%d.attention.output.LayerNorm"),   \
        MLP(prefix), BOTH("layers.%d.norm2", prefix ".encoder.layer.%d.output.LayerNorm")
#define BERT_HEAD                                                                       \
    BOTH("head.pooler", "bert.pooler.dense"), ROW("head.bias", "cls.predictions.bias"), \
        BOTH("head.dense", "cls.predictions.transform.dense"),                          \
        BOTH("head.norm", "cls.predictions.transform.LayerNorm"),                       \
        BOTH("head.binary", "cls.seq_relationship")

static const struct hf_name roberta_names[] = {
    POST_NORM("roberta"),
    ROW("head.bias", "lm_head.bias"),
    BOTH("head.dense", "lm_head.dense"),
    BOTH("head.norm", "lm_head.layer_norm"),
    {0, 0, 0, 0},
};

static const struct hf_name bert_names[] = {
    POST_NORM("bert"),
    BERT_HEAD,
    {0, 0, 0, 0},
};

static const struct hf_name megatron_names[] = {
    TABLES("bert"), BOTH("layers.%d.norm1", "bert.encoder.layer.%d.attention.ln"),
    SELF("bert"),   BOTH("layers.%d.norm2", "bert.encoder.layer.%d.ln"),
    MLP("bert"),    BOTH("final_norm", "bert.encoder.ln"),
    BERT_HEAD,      {0, 0, 0, 0},
};

/* The architectures. */
static const struct kind {
    const char *type, *name, *one,
        *two; /* model_type, name, classes without and with binary head */
    const struct hf_name *table;
    enum model_family family;
    int64_t pad;
} kinds[] = {
    {"roberta", "RoBERTa", "RobertaForMaskedLM", NULL, roberta_names, MODEL_ROBERTA, 1},
    {"bert", "BERT", "BertForMaskedLM", "BertForPreTraining", bert_names, MODEL_BERT, 0},
    {"megatron-bert", "MegatronBert", "MegatronBertForMaskedLM", "MegatronBertForPreTraining",
     megatron_names, MODEL_MEGATRON_BERT, 0},
};

enum { KINDS = sizeof(kinds) / sizeof(kinds[0]) };

static const struct kind *kind_of_type(const char *type)
{
    for (int i = 0; i < KINDS; i++)
        if (strcmp(kinds[i].type, type) == 0)
            return &kinds[i];
    return NULL;
}

static const struct kind *kind_of(const struct network *c)
{
    for (int i = 0; i < KINDS; i++)
        if (kinds[i].family == network_family(c))
            return &kinds[i];
    return NULL;
}

int hf_masked_is_type(const char *type)
{
    return kind_of_type(type) != NULL;
}

/* --- config.json ----------------------------------------------------------------------------- */

/* A string member must have this value, or be absent. */
static int expect(struct json_value root, const char *name, const char *expected, struct error *err)
{
    struct json_value value;
    const char *text;
    size_t length;

    if (json_member(root, name, &value) < 0)
        return 0;
    if (json_string(value, &text, &length) < 0)
        return error_set(err, "%s must be a string", name);
    return strcmp(text, expected) == 0
               ? 0
               : error_set(err, "%s %.40s is not supported, only %s is; use another model", name,
                           text, expected);
}

/* Is the class one with a binary head? */
static int has_class(struct json_value root, const char *class)
{
    struct json_value list, value;
    struct json_iterator i;
    const char *text;
    size_t length;

    if (!class || json_member(root, "architectures", &list) < 0 || json_type(list) != JSON_ARRAY ||
        json_iterate(list, &i) < 0)
        return 0;
    while (json_next(&i, NULL, NULL, &value))
        if (json_string(value, &text, &length) == 0 && strcmp(text, class) == 0)
            return 1;
    return 0;
}

static const struct hf_field fields[] = {
    HF_FIELD("vocab_size", HF_SIZE, shape.vocabulary, HF_REQUIRED),
    HF_FIELD("max_position_embeddings", HF_SIZE, positions, 512),
    HF_FIELD("type_vocab_size", HF_COUNT, token_types, 2),
    HF_FIELD("hidden_size", HF_SIZE, shape.hidden, HF_REQUIRED),
    HF_FIELD("intermediate_size", HF_SIZE, shape.ffn_hidden, HF_REQUIRED),
    HF_FIELD("num_hidden_layers", HF_SIZE, shape.layers, HF_REQUIRED),
    HF_FIELD("num_attention_heads", HF_SIZE, shape.heads, HF_REQUIRED),
    HF_FIELD("layer_norm_eps", HF_NUMBER, epsilon, 1e-12),
    HF_FIELD("hidden_dropout_prob", HF_NUMBER, hidden_dropout, 0.1),
    HF_FIELD("attention_probs_dropout_prob", HF_NUMBER, attention_dropout, 0.1),
    HF_FIELD("initializer_range", HF_NUMBER, init_std, 0.02),
    {0},
};

int hf_masked_read(struct json_value root, const char *type, struct network *c, struct error *err)
{
    const struct kind *kind = kind_of_type(type);
    struct model_shape *s = &c->shape;
    int64_t pad;

    network_default(c);
    if (hf_fields_read(fields, NULL, root, c, err) < 0 ||
        expect(root, "hidden_act", "gelu", err) < 0 ||
        hf_read_count(root, "pad_token_id", kind->pad, &pad, err) < 0)
        return -1;
    if (s->hidden % s->heads != 0)
        return error_set(err, "hidden_size %lld must be a multiple of num_attention_heads %lld",
                         (long long)s->hidden, (long long)s->heads);
    s->query_groups = s->heads;
    s->kv_channels = s->hidden / s->heads;
    s->family = kind->family;
    c->position = POSITION_LEARNED;
    c->norm = NORM_LAYER;
    c->tied = c->linear_bias = c->masked = c->gelu_erf = 1;
    c->post_norm = kind->family != MODEL_MEGATRON_BERT;
    c->position_offset = kind->family == MODEL_ROBERTA ? pad + 1 : 0;
    c->binary_head = has_class(root, kind->two);
    if (c->positions <= c->position_offset)
        return error_set(err,
                         "max_position_embeddings %lld must be greater than %lld, the number of "
                         "positions before the first token",
                         (long long)c->positions, (long long)c->position_offset);
    return 0;
}

void hf_masked_write(const struct network *c, struct json_writer *json)
{
    const struct kind *kind = kind_of(c);
    struct network written = *c;

    if (!c->gelu_erf)
        log_note("the MLP of this model uses the tanh approximation of GELU and its head the exact "
                 "GELU; Hugging Face's %s has one hidden_act for both (gelu_new), so its logits "
                 "differ slightly from those of this model",
                 kind->name);
    if (written.token_types == 0)
        written.token_types = 1;
    json_open(json, "architectures", '[');
    json_put_string(json, NULL, c->binary_head ? kind->two : kind->one);
    json_close(json);
    json_put_string(json, "model_type", kind->type);
    json_put_string(json, "hidden_act", c->gelu_erf ? "gelu" : "gelu_new");
    hf_fields_write(fields, &written, json);
    json_put_bool(json, "tie_word_embeddings", true);
    if (kind->family != MODEL_ROBERTA) {
        json_put_integer(json, "pad_token_id", 0);
        return;
    }
    json_put_integer(json, "pad_token_id", c->position_offset - 1);
    json_put_integer(json, "bos_token_id", 0);
    json_put_integer(json, "eos_token_id", 2);
}

/* --- Tensors --------------------------------------------------------------------------------- */

const struct hf_name *hf_masked_names(const struct network *c, const char **architecture,
                                      struct error *err)
{
    const struct kind *kind = kind_of(c);
    static const struct hf_value exact[] = {{"exact-gelu", 1}, {0}};
    static const char may[] = "masked-lm|post-norm|num-token-types|position-offset|exact-gelu|"
                              "bert-binary-head";
    const struct network_property *misfit = hf_misfit(NULL, c->post_norm ? exact : NULL, may, c);

    if (misfit || !kind) {
        error_set(err,
                  "Hugging Face has no such model: its %s cannot have this value of --%s; export "
                  "it in the "
                  "Megatron-LM format",
                  kind ? kind->name : "models", misfit ? network_option(misfit) : "masked-lm");
        return NULL;
    }
    if (c->binary_head && !kind->two) {
        error_set(err, "the model has a binary head, which Hugging Face's RoBERTa does not have; "
                       "export it in the Megatron-LM format");
        return NULL;
    }
    *architecture = kind->name;
    return kind->table;
}

const struct safetensor *hf_masked_find_old(const struct safetensors *tensors, const char *name)
{
    static const char *const endings[][2] = {{"LayerNorm.weight", "LayerNorm.gamma"},
                                             {"LayerNorm.bias", "LayerNorm.beta"}};
    char old[HF_NAME];

    for (int i = 0; i < 2; i++)
        if (hf_ends(name, endings[i][0])) {
            snprintf(old, sizeof(old), "%.*s%s", (int)(strlen(name) - strlen(endings[i][0])), name,
                     endings[i][1]);
            return safetensors_find(tensors, old);
        }
    return NULL;
}

/* A model without token types may have a table of zeros. */
static int check_zeros(const struct safetensor *tensor, struct error *err)
{
    enum { PART = 4096 };
    float a[PART];

    for (int64_t at = 0; tensor->data && at < tensor->cols; at += PART) {
        int64_t count = tensor->cols - at < PART ? tensor->cols - at : PART;

        safetensor_read(tensor, at, 1, count, a);
        for (int64_t i = 0; i < count; i++)
            if (a[i] != 0) {
                error_set(err, "%s is not zero, so this model needs its token types", tensor->name);
                return error_append(err, "; drop --num-token-types");
            }
    }
    return 0;
}

int hf_masked_check(const struct hf_map *map, const struct safetensors *tensors,
                    const struct safetensor *tensor, const struct network *c, struct error *err)
{
    static const char *const parts[] = {"roberta.", "bert.", "lm_head.", "cls."};
    static const char *const idle[] = {".position_ids", "LayerNorm.gamma", "LayerNorm.beta"};
    static const char *const binary[] = {".pooler.dense.weight", ".pooler.dense.bias",
                                         "cls.seq_relationship.weight",
                                         "cls.seq_relationship.bias"};
    const char *name = tensor->name, *same = NULL;

    /* The output layer is the table of words, with a bias of its own. */
    if (hf_ends(name, ".decoder.weight"))
        same = map->names->theirs;
    else if (hf_ends(name, ".decoder.bias"))
        same = c->position_offset > 0 ? "lm_head.bias" : "cls.predictions.bias";
    if (same) {
        const struct safetensor *first = safetensors_find(tensors, same);

        return first && safetensor_equal(first, tensor)
                   ? 0
                   : error_set(err,
                               "%s differs from %s, but this model has one tensor for both; copy "
                               "the weights again from their source",
                               name, same);
    }
    if (c->token_types == 0 && hf_ends(name, ".token_type_embeddings.weight"))
        return check_zeros(tensor, err);
    for (size_t i = 0; i < sizeof(idle) / sizeof(idle[0]); i++)
        if (hf_ends(name, idle[i]))
            return 0;
    for (size_t i = 0; i < sizeof(binary) / sizeof(binary[0]) && !c->binary_head; i++)
        if (hf_ends(name, binary[i]))
            return 0;
    for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++)
        if (hf_begins(name, parts[i]))
            return 1;
    return 0;
}

const char *hf_masked_zeros(const struct network *c)
{
    if (!c->masked || c->token_types > 0)
        return NULL;
    return network_family(c) == MODEL_ROBERTA ? "roberta.embeddings.token_type_embeddings.weight"
                                              : "bert.embeddings.token_type_embeddings.weight";
}
