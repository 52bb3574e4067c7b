/* SPDX-License-Identifier: Apache-2.0 */
#include "fairseq_source.h"
#include "base/core/xmalloc.h"
#include "torch_file.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { NAME = 160, FULL_NAME = NAME + 32, LAYERS_MOST = 4096 };

struct fairseq_source {
    struct torch_file *file;
    const struct pickle_value *tensors; /* by name */
    const char *prefix;                 /* "encoder" or, in old files, "decoder" */
    struct model_config model;
};

/* Our name without ".weight" and ".bias", and fairseq's after "PREFIX."; "%d" is the layer. A
 * second name is that of old files. */
static const struct name {
    const char *ours, *theirs, *old;
} names[] = {
    {"embedding.word", "sentence_encoder.embed_tokens", NULL},
    {"embedding.position", "sentence_encoder.embed_positions", NULL},
    {"embedding_norm", "sentence_encoder.layernorm_embedding", "sentence_encoder.emb_layer_norm"},
    {"layers.%d.attention.query", "sentence_encoder.layers.%d.self_attn.q_proj", NULL},
    {"layers.%d.attention.key", "sentence_encoder.layers.%d.self_attn.k_proj", NULL},
    {"layers.%d.attention.value", "sentence_encoder.layers.%d.self_attn.v_proj", NULL},
    {"layers.%d.attention.projection", "sentence_encoder.layers.%d.self_attn.out_proj", NULL},
    {"layers.%d.norm1", "sentence_encoder.layers.%d.self_attn_layer_norm", NULL},
    {"layers.%d.mlp.up", "sentence_encoder.layers.%d.fc1", NULL},
    {"layers.%d.mlp.down", "sentence_encoder.layers.%d.fc2", NULL},
    {"layers.%d.norm2", "sentence_encoder.layers.%d.final_layer_norm", NULL},
    {"head.dense", "lm_head.dense", NULL},
    {"head.norm", "lm_head.layer_norm", NULL},
    {"head", "lm_head", NULL},
};

static void full_name(const struct fairseq_source *s, const char *format, int layer,
                      const char *kind, char full[FULL_NAME])
{
    char name[NAME];

    snprintf(name, sizeof(name), format, layer);
    snprintf(full, FULL_NAME, "%s.%s.%s", s->prefix, name, kind);
}

static const struct pickle_value *find(const struct fairseq_source *s, const char *format,
                                       int layer, const char *kind)
{
    char full[FULL_NAME];

    full_name(s, format, layer, kind, full);
    return pickle_member(s->tensors, full);
}

/* --- The model ------------------------------------------------------------------------------- */

/* The shape of a matrix of the first layer or outside the layers. */
static int matrix(struct fairseq_source *s, const char *name, int64_t shape[2], struct error *err)
{
    const struct pickle_value *value = find(s, name, 0, "weight");
    struct torch_tensor t;
    char full[FULL_NAME];

    full_name(s, name, 0, "weight", full);
    if (!value)
        return error_set(err, "tensor %s is missing; copy the checkpoint again", full);
    if (torch_file_tensor(s->file, value, &t, err) < 0)
        return -1;
    if (t.dimensions != 2 || t.shape[0] < 1 || t.shape[1] < 1)
        return error_set(err, "tensor %s is not a matrix; copy the checkpoint again", full);
    shape[0] = t.shape[0];
    shape[1] = t.shape[1];
    return 0;
}

/* An argument of the run: in "cfg" as a dictionary or, in old files, in "args" as a namespace. */
static const struct pickle_value *argument(const struct fairseq_source *s, const char *name)
{
    const struct pickle_value *root = torch_file_root(s->file), *value = NULL, *found;

    value = pickle_member(root, "cfg");
    value = value ? pickle_member(value, "model") : NULL;
    found = value ? pickle_member(value, name) : NULL;
    if (found)
        return found;
    value = pickle_member(root, "args");
    return value && value->type != PICKLE_NONE ? pickle_member(value, name) : NULL;
}

static int check_arguments(const struct fairseq_source *s, struct error *err)
{
    const struct pickle_value *activation = argument(s, "activation_fn");
    const struct pickle_value *before = argument(s, "encoder_normalize_before");

    if (activation && !pickle_is_text(activation, "gelu")) {
        char value[64];

        pickle_show(activation, value);
        return error_set(
            err, "activation_fn \"%s\" is not supported, only gelu is; use a checkpoint with gelu",
            value);
    }
    if (before && before->type == PICKLE_BOOL && before->integer)
        return error_set(
            err, "encoder_normalize_before=True is not supported; use a checkpoint without it");
    return 0;
}

static int read_heads(struct fairseq_source *s, int64_t hint, struct error *err)
{
    struct model_shape *m = &s->model.network.shape;
    const struct pickle_value *heads = argument(s, "encoder_attention_heads");

    m->heads = hint > 0 ? hint : heads && heads->type == PICKLE_INTEGER ? heads->integer : 0;
    if (m->heads < 1) {
        error_set(err, "the file does not contain the number of attention heads");
        return error_append(err, "; add --num-attention-heads N");
    }
    if (m->hidden % m->heads != 0) {
        error_set(err, "%lld attention heads do not divide the hidden size %lld",
                  (long long)m->heads, (long long)m->hidden);
        return error_append(err, "; add --num-attention-heads N");
    }
    m->query_groups = m->heads;
    m->kv_channels = m->hidden / m->heads;
    return 0;
}

static int read_model(struct fairseq_source *s, int64_t heads, struct error *err)
{
    struct network *c = &s->model.network;
    int64_t words[2], positions[2], fc1[2];

    if (matrix(s, "sentence_encoder.embed_tokens", words, err) < 0 ||
        matrix(s, "sentence_encoder.embed_positions", positions, err) < 0 ||
        matrix(s, "sentence_encoder.layers.0.fc1", fc1, err) < 0)
        return -1;
    network_default(c);
    while (c->shape.layers < LAYERS_MOST &&
           find(s, "sentence_encoder.layers.%d.fc1", (int)c->shape.layers, "weight"))
        c->shape.layers++;
    c->shape.name = "the model";
    c->shape.hidden = words[1];
    c->shape.vocabulary = words[0];
    c->shape.ffn_hidden = fc1[0];
    c->positions = positions[0];
    c->position_offset = 2; /* after those of <s> and <pad>, which is token 1 */
    c->shape.sequence = c->positions - c->position_offset;
    c->masked = c->post_norm = c->gelu_erf = 1;
    model_config_whole(&s->model);
    c->shape.family = network_family(c);
    if (c->shape.sequence < 1)
        return error_set(
            err,
            "embed_positions has %lld rows, but fairseq's models have at least 3; copy "
            "the checkpoint again",
            (long long)positions[0]);
    if (positions[1] != c->shape.hidden)
        return error_set(err,
                         "embed_positions is %lld x %lld, but the hidden size is %lld; copy the "
                         "checkpoint again",
                         (long long)positions[0], (long long)positions[1],
                         (long long)c->shape.hidden);
    return check_arguments(s, err) < 0 ? -1 : read_heads(s, heads, err);
}

static int find_tensors(struct fairseq_source *s, struct error *err)
{
    static const char *const prefixes[] = {"encoder", "decoder"};

    s->tensors = pickle_member(torch_file_root(s->file), "model");
    for (int i = 0; i < 2 && s->tensors; i++) {
        s->prefix = prefixes[i];
        if (find(s, "sentence_encoder.embed_tokens", 0, "weight"))
            return 0;
    }
    return error_set_code(
        err, ERROR_USAGE,
        "it is not a RoBERTa model of fairseq: it has no tensor "
        "model.encoder.sentence_encoder.embed_tokens.weight; name a checkpoint that fairseq saved "
        "when it trained RoBERTa, for example checkpoint_best.pt");
}

struct fairseq_source *fairseq_source_open(const char *path, int64_t heads, struct error *err)
{
    struct fairseq_source *s = xcalloc(1, sizeof(*s));

    s->file = torch_file_open(path, err);
    if (!s->file || find_tensors(s, err) < 0 || read_model(s, heads, err) < 0) {
        error_prefix(err, "%s", path);
        fairseq_source_destroy(s);
        return NULL;
    }
    return s;
}

void fairseq_source_destroy(struct fairseq_source *s)
{
    if (!s)
        return;
    torch_file_destroy(s->file);
    free(s);
}

const struct model_config *fairseq_source_model(const struct fairseq_source *source)
{
    return &source->model;
}

/* --- Tensors --------------------------------------------------------------------------------- */

/* Old files have one matrix of queries, keys and values: our part of it. */
static const struct pickle_value *find_fused(const struct fairseq_source *s, const char *ours,
                                             int layer, const char *kind, int64_t *part)
{
    static const char *const parts[] = {"query", "key", "value"};
    char name[NAME];

    for (int i = 0; i < 3; i++)
        if (strstr(ours, parts[i])) {
            *part = i;
            snprintf(name, sizeof(name), "%s.sentence_encoder.layers.%d.self_attn.in_proj_%s",
                     s->prefix, layer, kind);
            return pickle_member(s->tensors, name);
        }
    return NULL;
}

/* 'expected' gets the name in the file. */
static const struct pickle_value *find_ours(const struct fairseq_source *s, const char *ours,
                                            int64_t *part, char expected[FULL_NAME])
{
    const char *kind = strrchr(ours, '.');
    const struct pickle_value *value = NULL;
    char text[NAME];
    int layer = 0;

    *part = 0;
    snprintf(expected, FULL_NAME, "?");
    sscanf(ours, "layers.%d.", &layer);
    for (size_t i = 0; kind && i < sizeof(names) / sizeof(names[0]) && !value; i++) {
        int length = snprintf(text, sizeof(text), names[i].ours, layer);

        if (length != (int)(kind - ours) || strncmp(text, ours, (size_t)length) != 0)
            continue;
        full_name(s, names[i].theirs, layer, kind + 1, expected);
        value = find(s, names[i].theirs, layer, kind + 1);
        if (!value && names[i].old)
            value = find(s, names[i].old, layer, kind + 1);
        if (!value)
            value = find_fused(s, ours, layer, kind + 1, part);
    }
    return value;
}

/* The tensor may be part of a larger one, in which it begins at row or element 'first'. */
static int reject_shape(const struct torch_tensor *t, const struct parameter *p, int64_t first,
                        struct error *err)
{
    int matrix = p->all_rows > 1 && p->all_cols > 1;

    error_set(err, "the tensor of %s has shape ", p->name);
    for (int i = 0; i < t->dimensions; i++)
        error_append(err, "%s%lld", i > 0 ? "x" : "", (long long)t->shape[i]);
    error_append(err, "%s, expected ", t->dimensions < 1 ? "()" : "");
    if (matrix)
        return error_append(err, "%lldx%lld; copy the checkpoint again",
                            (long long)(first + p->all_rows), (long long)p->all_cols);
    return error_append(err, "%lld; copy the checkpoint again",
                        (long long)(first + p->all_rows * p->all_cols));
}

int fairseq_source_load(struct fairseq_source *s, const struct parameter *p, float *out,
                        struct error *err)
{
    int64_t part, rows, first;
    char expected[FULL_NAME];
    const struct pickle_value *value = find_ours(s, p->name, &part, expected);
    struct torch_tensor t;

    if (!value)
        return error_set(err, "tensor %s is missing (expected as %s); copy the checkpoint again",
                         p->name, expected);
    if (torch_file_tensor(s->file, value, &t, err) < 0)
        return error_prefix(err, "%s", p->name);
    /* A vector has one row here, or one column. */
    rows = t.dimensions == 1 ? 1 : t.shape[0];
    first = part * (t.dimensions == 1 ? p->all_cols : p->all_rows);
    if (t.dimensions < 1 || t.dimensions > 2 ||
        (t.dimensions == 2 ? t.shape[1] != p->all_cols || first + p->all_rows > rows
                           : first + p->all_rows * p->all_cols > t.shape[0]) ||
        (t.dimensions == 2) != (p->all_rows > 1 && p->all_cols > 1))
        return reject_shape(&t, p, first, err);
    if (t.dimensions == 1) {
        torch_tensor_read(&t, 0, first, p->all_rows * p->all_cols, out);
        return 0;
    }
    for (int64_t r = 0; r < p->all_rows; r++)
        torch_tensor_read(&t, first + r, 0, p->all_cols, out + r * p->all_cols);
    return 0;
}
