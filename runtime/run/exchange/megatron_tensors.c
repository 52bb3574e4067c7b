/* SPDX-License-Identifier: Apache-2.0 */
#include "megatron_private.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* --- Names ----------------------------------------------------------------------------------- */

static const struct megatron_name outer_names[] = {
    {"embedding.word.weight",
     CUT_ROWS,
     0,
     {"language_model/embedding/word_embeddings/weight", "embedding.word_embeddings.weight"}},
    {"embedding.position.weight",
     CUT_NONE,
     0,
     {"language_model/embedding/position_embeddings/weight",
      "embedding.position_embeddings.weight"}},
    {"final_norm.weight",
     CUT_NONE,
     0,
     {"language_model/transformer/final_layernorm.weight",
      "language_model/encoder/final_layernorm.weight", "language_model/encoder/final_norm.weight",
      "decoder.final_layernorm.weight"}},
    {"final_norm.bias",
     CUT_NONE,
     0,
     {"language_model/transformer/final_layernorm.bias",
      "language_model/encoder/final_layernorm.bias", "language_model/encoder/final_norm.bias",
      "decoder.final_layernorm.bias"}},
    {"head.weight", CUT_ROWS, 0, {"language_model/output_layer/weight", "output_layer.weight"}},
    {0},
};

/* Tensors of a layer, after one of the prefixes below and the layer number. */
static const struct megatron_name layer_names[] = {
    {"norm1.weight",
     CUT_NONE,
     0,
     {"input_layernorm.weight", "input_norm.weight",
      "self_attention.linear_qkv.layer_norm_weight"}},
    {"norm1.bias",
     CUT_NONE,
     0,
     {"input_layernorm.bias", "input_norm.bias", "self_attention.linear_qkv.layer_norm_bias"}},
#define QKV(ours, part, kind)                                                          \
    {                                                                                  \
        ours, CUT_QKV, part,                                                           \
        {                                                                              \
            "attention.query_key_value." kind, "self_attention.query_key_value." kind, \
                "self_attention.linear_qkv." kind                                      \
        }                                                                              \
    }
    QKV("attention.query.weight", 0, "weight"),
    QKV("attention.key.weight", 1, "weight"),
    QKV("attention.value.weight", 2, "weight"),
    QKV("attention.query.bias", 0, "bias"),
    QKV("attention.key.bias", 1, "bias"),
    QKV("attention.value.bias", 2, "bias"),
    {"attention.projection.weight",
     CUT_COLS,
     0,
     {"attention.dense.weight", "self_attention.dense.weight",
      "self_attention.linear_proj.weight"}},
    {"attention.projection.bias",
     CUT_NONE,
     0,
     {"attention.dense.bias", "self_attention.dense.bias", "self_attention.linear_proj.bias"}},
    {"norm2.weight",
     CUT_NONE,
     0,
     {"post_attention_layernorm.weight", "post_attention_norm.weight",
      "mlp.linear_fc1.layer_norm_weight", "pre_mlp_layernorm.weight"}},
    {"norm2.bias",
     CUT_NONE,
     0,
     {"post_attention_layernorm.bias", "post_attention_norm.bias", "mlp.linear_fc1.layer_norm_bias",
      "pre_mlp_layernorm.bias"}},
    {"mlp.gate.weight", CUT_FC1, 0, {"mlp.dense_h_to_4h.weight", "mlp.linear_fc1.weight"}},
    {"mlp.up.weight", CUT_FC1, 1, {"mlp.dense_h_to_4h.weight", "mlp.linear_fc1.weight"}},
    {"mlp.gate.bias", CUT_FC1, 0, {"mlp.dense_h_to_4h.bias", "mlp.linear_fc1.bias"}},
    {"mlp.up.bias", CUT_FC1, 1, {"mlp.dense_h_to_4h.bias", "mlp.linear_fc1.bias"}},
    {"mlp.down.weight", CUT_COLS, 0, {"mlp.dense_4h_to_h.weight", "mlp.linear_fc2.weight"}},
    {"mlp.down.bias", CUT_NONE, 0, {"mlp.dense_4h_to_h.bias", "mlp.linear_fc2.bias"}},
    {0},
};

static const char *const layer_prefixes[] = {
    "language_model/transformer/layers",
    "language_model/encoder/layers",
    "decoder.layers",
};

static const struct megatron_name *find_row(const struct megatron_name *table, const char *ours)
{
    for (; table->ours; table++)
        if (strcmp(table->ours, ours) == 0)
            return table;
    return NULL;
}

const struct megatron_name *megatron_name_of(const char *ours, int64_t *layer)
{
    int end = 0;

    *layer = -1;
    if (sscanf(ours, "layers.%" SCNd64 ".%n", layer, &end) == 1 && end > 0)
        return find_row(layer_names, ours + end);
    return find_row(outer_names, ours);
}

/* Descend into a dict, name by name. */
static const struct pickle_value *walk(const struct pickle_value *value, const char *path)
{
    while (value && *path) {
        size_t length = strcspn(path, "/");
        char name[128];

        snprintf(name, sizeof(name), "%.*s", (int)length, path);
        value = pickle_member(value, name);
        path += length + (path[length] == '/');
    }
    return value;
}

static const struct pickle_value *model_of(const struct megatron_source *s, int64_t tp, int64_t pp,
                                           int64_t chunk)
{
    char name[32] = "model";

    if (s->chunks > 1)
        snprintf(name, sizeof(name), "model%" PRId64, chunk);
    return pickle_member(torch_file_root(s->shards[pp * s->tp + tp].file), name);
}

/* The value for a row, or NULL. */
static const struct pickle_value *find_value(const struct megatron_source *s,
                                             const struct megatron_name *name,
                                             const struct megatron_location *location)
{
    const struct pickle_value *model = model_of(s, location->tp, location->pp, location->chunk);
    const struct pickle_value *found = NULL;
    int prefixes =
        location->local < 0 ? 1 : (int)(sizeof(layer_prefixes) / sizeof(layer_prefixes[0]));
    char path[160];

    for (int i = 0; i < 4 && name->theirs[i] && !found; i++)
        for (int k = 0; k < prefixes && !found; k++) {
            if (location->local < 0)
                snprintf(path, sizeof(path), "%s", name->theirs[i]);
            else
                snprintf(path, sizeof(path), "%s.%" PRId64 ".%s", layer_prefixes[k],
                         location->local, name->theirs[i]);
            found = walk(model, path);
        }
    return found;
}

int megatron_find(const struct megatron_source *s, const struct megatron_name *name,
                  const struct megatron_location *location, struct torch_tensor *tensor,
                  struct error *err)
{
    const struct pickle_value *value;

    if (s->dist)
        return megatron_dist_find(s, name, location->local, tensor);
    value = find_value(s, name, location);
    if (!value)
        return 0;
    return torch_file_tensor(s->shards[location->pp * s->tp + location->tp].file, value, tensor,
                             err) < 0
               ? -1
               : 1;
}

int megatron_missing(const char *ours, const struct megatron_name *name, struct error *err)
{
    error_set(err, "tensor %s is missing (expected as %s", ours, name->theirs[0]);
    for (int i = 1; i < 4 && name->theirs[i]; i++)
        error_append(err, " or %s", name->theirs[i]);
    return error_append(err, "); copy the checkpoint again");
}

int megatron_has(const struct megatron_source *s, const struct megatron_name *name,
                 const struct megatron_location *location)
{
    struct torch_tensor ignored;

    return s->dist ? megatron_dist_find(s, name, location->local, &ignored)
                   : find_value(s, name, location) != NULL;
}

/* The row for our tensor, and where it is: of the first layer, if it is one of a layer. */
static const struct megatron_name *first_location(const struct megatron_source *s, const char *ours,
                                                  int last_stage,
                                                  struct megatron_location *location)
{
    const struct megatron_name *name = find_row(outer_names, ours);

    *location = (struct megatron_location){0, 0, 0, name ? -1 : 0};
    if (name && last_stage) {
        location->pp = s->pp - 1;
        location->chunk = s->chunks - 1;
    }
    return name ? name : find_row(layer_names, ours);
}

int megatron_find_ours(const struct megatron_source *s, const char *ours, int last_stage,
                       struct torch_tensor *tensor, struct error *err)
{
    struct megatron_location location;
    const struct megatron_name *name = first_location(s, ours, last_stage, &location);
    int found = megatron_find(s, name, &location, tensor, err);

    if (found == 0)
        megatron_missing(ours, name, err);
    return found;
}

int megatron_has_ours(const struct megatron_source *s, const char *ours, int last_stage)
{
    struct megatron_location location;
    const struct megatron_name *name = first_location(s, ours, last_stage, &location);

    return megatron_has(s, name, &location);
}

/* --- Unexpected tensors ---------------------------------------------------------------------- */

enum { DEPTH_MOST = 4, NAMES_MOST = 1 << 20, PATH_ROOM = 256 };

/* Walks through a model, which is a dict of dicts or of tensors. */
struct walking {
    const struct megatron_source *source;
    const char *shard;
    int64_t seen;
};

static int is_theirs(const struct megatron_name *table, const char *name)
{
    for (; table->ours; table++)
        for (int i = 0; i < 4 && table->theirs[i]; i++)
            if (strcmp(table->theirs[i], name) == 0)
                return 1;
    return 0;
}

int megatron_is_theirs(const char *name, int of_layer)
{
    return is_theirs(of_layer ? layer_names : outer_names, name);
}

/* A tensor that is read, a copy of one, or one that does not affect the result. */
static int is_known(const struct megatron_source *s, const char *path)
{
    static const char *const idle[] = {"_extra_state", ".inv_freq"};
    size_t length = strlen(path);

    for (size_t i = 0; i < sizeof(idle) / sizeof(idle[0]); i++)
        if (length >= strlen(idle[i]) && strcmp(path + length - strlen(idle[i]), idle[i]) == 0)
            return 1;
    if (is_theirs(outer_names, path) || strcmp(path, "word_embeddings_for_head/weight") == 0)
        return 1;
    for (size_t i = 0; i < sizeof(layer_prefixes) / sizeof(layer_prefixes[0]); i++) {
        size_t head = strlen(layer_prefixes[i]);
        int64_t number;
        int end = 0;

        if (strncmp(path, layer_prefixes[i], head) == 0 &&
            sscanf(path + head, ".%" SCNd64 ".%n", &number, &end) == 1 && end > 0 && number >= 0 &&
            number < s->chunk_layers && is_theirs(layer_names, path + head + end))
            return 1;
    }
    return 0;
}

/* Values may refer to each other in cycles: limit the depth and the number. */
static int check_dict(struct walking *w, const struct pickle_value *dict, const char *path,
                      int depth, struct error *err)
{
    char name[PATH_ROOM];

    for (size_t i = 0; i + 1 < dict->count; i += 2) {
        const struct pickle_value *key = dict->items[i], *value = dict->items[i + 1];

        if (key->type != PICKLE_STRING || ++w->seen > NAMES_MOST)
            return error_set(
                err, "%s: its model is not a dict of tensors; save it with Megatron-LM again",
                w->shard);
        snprintf(name, sizeof(name), "%s%s%.*s", path, *path ? "/" : "",
                 (int)(key->text.length < 128 ? key->text.length : 128), key->text.at);
        if (value->type == PICKLE_DICT) {
            if (depth < DEPTH_MOST && check_dict(w, value, name, depth + 1, err) < 0)
                return -1;
        } else if (torch_is_tensor(value) && !is_known(w->source, name)) {
            return error_set(err,
                             "%s: unknown tensor %s; only GPT and Llama models can be imported",
                             w->shard, name);
        }
    }
    return 0;
}

int megatron_check_tensors(const struct megatron_source *s, struct error *err)
{
    if (s->dist)
        return megatron_dist_check(s, err);
    for (int64_t rank = 0; rank < s->tp * s->pp; rank++)
        for (int64_t chunk = 0; chunk < s->chunks; chunk++) {
            const struct pickle_value *model = model_of(s, rank % s->tp, rank / s->tp, chunk);
            struct walking w = {s, s->shards[rank].name, 0};

            if (model && model->type == PICKLE_OBJECT)
                model = model->state;
            if (!model || model->type != PICKLE_DICT)
                return error_set(err,
                                 "%s contains no weights of a model; name the directory of a GPT "
                                 "or Llama checkpoint",
                                 w.shard);
            if (check_dict(&w, model, "", 1, err) < 0)
                return -1;
        }
    return 0;
}

/* --- Rows ------------------------------------------------------------------------------------ */

/* Where a channel of a query or key is within its head. */
static int64_t channel_of(const struct megatron_split *split, const struct megatron_name *name,
                          int64_t channel)
{
    if (name->part == 2 || channel >= 2 * split->pairs)
        return channel;
    return 2 * (channel % split->pairs) + channel / split->pairs;
}

int64_t megatron_rank_of_row(const struct megatron_split *split, const struct megatron_name *name,
                             int64_t rows, int64_t row, int64_t *local)
{
    const struct model_shape *m = &split->model->network.shape;
    int64_t part = rows / split->tp, d = m->kv_channels;
    int64_t heads, head, group, queries, slot, channel;

    if (name->cut == CUT_NONE || name->cut == CUT_COLS) {
        *local = row;
        return 0;
    }
    *local = row % part;
    if (name->cut == CUT_FC1 && split->model->network.swiglu)
        *local += name->part * part;
    if (name->cut != CUT_QKV)
        return row / part;
    heads = part / d;
    head = row / d % heads;
    channel = channel_of(split, name, row % d);
    if (split->version == 0) { /* (3, heads, d) */
        *local = (name->part * heads + head) * d + channel;
    } else if (split->version == 1) { /* (heads, d, 3) */
        *local = (head * d + channel) * 3 + name->part;
    } else { /* (groups, queries of a group + 2, d) */
        queries = m->heads / m->query_groups;
        group = name->part == 0 ? head / queries : head;
        slot = name->part == 0 ? head % queries : queries + name->part - 1;
        *local = (group * (queries + 2) + slot) * d + channel;
    }
    return row / part;
}

void megatron_part_shape(const struct megatron_split *split, const struct megatron_name *name,
                         int64_t rows, int64_t cols, int64_t *part_rows, int64_t *part_cols)
{
    const struct model_shape *m = &split->model->network.shape;

    *part_rows = rows;
    *part_cols = cols;
    if (name->cut == CUT_QKV)
        *part_rows = (m->heads + 2 * m->query_groups) * m->kv_channels / split->tp;
    else if (name->cut == CUT_FC1)
        *part_rows = rows / split->tp * (split->model->network.swiglu ? 2 : 1);
    else if (name->cut == CUT_ROWS)
        *part_rows = (rows + split->tp - 1) / split->tp;
    else if (name->cut == CUT_COLS)
        *part_cols = cols / split->tp;
}

/* --- One parameter --------------------------------------------------------------------------- */

struct loading {
    struct megatron_source *source;
    struct megatron_split split;
    const struct megatron_name *name;
    const struct parameter *parameter;
    int vector;
    int64_t rows, cols; /* of our whole tensor, a vector as one column */
    struct torch_tensor *parts;
};

static int find_part(struct loading *l, int64_t tp, int64_t layer, struct error *err)
{
    struct megatron_source *s = l->source;
    struct torch_tensor *t = &l->parts[tp];
    struct megatron_location location = {tp, 0, 0, -1};
    int64_t rows, cols, got_cols, number;
    const char *shard;
    int found;

    if (layer >= 0) {
        number = layer / s->chunk_layers;
        location =
            (struct megatron_location){tp, number % s->pp, number / s->pp, layer % s->chunk_layers};
    } else if (strncmp(l->parameter->name, "embedding.", 10) != 0) {
        location.pp = s->pp - 1;
        location.chunk = s->chunks - 1;
    }
    shard = s->shards[location.pp * s->tp + tp].name;
    found = megatron_find(s, l->name, &location, t, err);
    if (found < 0)
        return error_prefix(err, "%s: %s", shard, l->parameter->name);
    if (found == 0) {
        megatron_missing(l->parameter->name, l->name, err);
        return error_prefix(err, "%s", shard);
    }
    megatron_part_shape(&l->split, l->name, l->rows, l->cols, &rows, &cols);
    got_cols = t->dimensions == 2 ? t->shape[1] : 1;
    /* A vocabulary may be padded, equally on all ranks. */
    if (l->name->cut == CUT_ROWS && t->dimensions == 2) {
        if (tp > 0)
            rows = l->parts[0].shape[0];
        else if (t->shape[0] > rows && t->shape[0] <= INT32_MAX)
            rows = t->shape[0];
    }
    if (t->dimensions != (l->vector ? 1 : 2) || got_cols != cols || t->shape[0] != rows)
        return error_set(err,
                         "%s: the tensor for %s is %" PRId64 " x %" PRId64 ", but %" PRId64
                         " x %" PRId64 " is expected",
                         shard, l->parameter->name, t->dimensions ? t->shape[0] : 0, got_cols, rows,
                         cols);
    return s->dist ? megatron_dist_load(s, l->name, location.local, t, err) : 0;
}

static void copy_rows(const struct loading *l, float *out)
{
    const struct megatron_source *s = l->source;
    /* Rows of a vocabulary continue into its padding. */
    int64_t rows = l->name->cut == CUT_ROWS ? l->parts[0].shape[0] * s->tp : l->rows;
    int64_t part = l->name->cut == CUT_COLS ? l->cols / s->tp : l->cols;

    for (int64_t r = 0; r < l->rows; r++) {
        int64_t local, rank = megatron_rank_of_row(&l->split, l->name, rows, r, &local);

        for (int64_t at = 0; at < l->cols; at += part)
            torch_tensor_read(&l->parts[rank + at / part], l->vector ? 0 : local,
                              l->vector ? local : 0, part, out + r * l->cols + at);
    }
}

int megatron_source_load(struct megatron_source *s, const struct parameter *p, float *out,
                         struct error *err)
{
    struct loading l = {.source = s,
                        .split = {&s->model, s->tp, s->version, s->pairs},
                        .parameter = p,
                        .vector = p->all_rows == 1};
    int64_t layer;
    int rc = 0;

    l.name = megatron_name_of(p->name, &layer);
    if (!l.name)
        return error_set(
            err, "Megatron-LM has no tensor for %s; import the model in the Hugging Face format",
            p->name);
    if (p->rows != p->all_rows || p->cols != p->all_cols)
        return error_bug(err, "%s must be read as a whole", p->name);
    l.rows = l.vector ? p->cols : p->true_rows < p->rows ? p->true_rows : p->rows;
    l.cols = l.vector ? 1 : p->cols;
    l.parts = calloc((size_t)s->tp, sizeof(*l.parts));
    if (!l.parts)
        return error_set(err, "out of memory");
    for (int64_t tp = 0; tp < s->tp && rc == 0; tp++)
        rc = find_part(&l, tp, layer, err);
    if (rc == 0)
        copy_rows(&l, out);
    free(l.parts);
    return rc;
}
