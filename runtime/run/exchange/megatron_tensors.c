/* SPDX-License-Identifier: Apache-2.0 */
#include "megatron_private.h"
#include "base/core/xmalloc.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* --- Where they are -------------------------------------------------------------------------- */

static const char *const layer_prefixes[] = {
    "language_model/transformer/layers",
    "language_model/encoder/layers",
    "decoder.layers",
};

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

/* The tensor for a row at 'location'; of a distributed checkpoint only its shape. Returns 1, 0: it
 * is missing, or -1. */
static int find(const struct megatron_source *s, const struct megatron_name *name,
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
    const struct megatron_name *name = megatron_row(ours, 0);

    *location = (struct megatron_location){0, 0, 0, name ? -1 : 0};
    if (name && last_stage) {
        location->pp = s->pp - 1;
        location->chunk = s->chunks - 1;
    }
    return name ? name : megatron_row(ours, 1);
}

int megatron_find_ours(const struct megatron_source *s, const char *ours, int last_stage,
                       struct torch_tensor *tensor, struct error *err)
{
    struct megatron_location location;
    const struct megatron_name *name = first_location(s, ours, last_stage, &location);
    int found = find(s, name, &location, tensor, err);

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

/* A tensor that is read, a copy of one, or one that does not affect the result. */
static int is_known(const struct megatron_source *s, const char *path)
{
    static const char *const idle[] = {"_extra_state", ".inv_freq"};
    size_t length = strlen(path);

    for (size_t i = 0; i < sizeof(idle) / sizeof(idle[0]); i++)
        if (length >= strlen(idle[i]) && strcmp(path + length - strlen(idle[i]), idle[i]) == 0)
            return 1;
    if (megatron_is_theirs(path, 0) || strcmp(path, "word_embeddings_for_head/weight") == 0)
        return 1;
    for (size_t i = 0; i < sizeof(layer_prefixes) / sizeof(layer_prefixes[0]); i++) {
        size_t head = strlen(layer_prefixes[i]);
        int64_t number;
        int end = 0;

        if (strncmp(path, layer_prefixes[i], head) == 0 &&
            sscanf(path + head, ".%" SCNd64 ".%n", &number, &end) == 1 && end > 0 && number >= 0 &&
            number < s->chunk_layers && megatron_is_theirs(path + head + end, 1))
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
    found = find(s, l->name, &location, t, err);
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
    l.parts = xcalloc((size_t)s->tp, sizeof(*l.parts));
    for (int64_t tp = 0; tp < s->tp && rc == 0; tp++)
        rc = find_part(&l, tp, layer, err);
    if (rc == 0)
        copy_rows(&l, out);
    free(l.parts);
    return rc;
}
