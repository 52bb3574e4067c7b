/* SPDX-License-Identifier: Apache-2.0 */
/* Megatron-LM's distributed checkpoints (torch_dist). Tensors of layers are either those of all
 * layers, stacked along a first dimension, or have the number of the layer in their names. Tensors
 * are those of the whole model, in the order that a single rank would have. */
#include "megatron_private.h"
#include "base/core/xmalloc.h"
#include "run/checkpoint/directory.h"
#include "base/core/json.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define LAYERS "decoder.layers."

/* A tensor; the gate and the up projection of SwiGLU may be two. */
struct found {
    const struct torch_dist_tensor *parts[2];
    int64_t index; /* the layer of stacked ones, or -1 */
};

/* --- Opening ---------------------------------------------------------------------------------- */

int megatron_dist_is(const char *directory, struct error *err)
{
    struct json *json;
    struct json_value value;
    char path[PATH_MAX];
    const char *text = "";
    size_t length;
    int known = 0;

    if (!directory_has(directory, "metadata.json"))
        return directory_has(directory, TORCH_DIST_INDEX);
    if (directory_path(path, err, "%s/metadata.json", directory) < 0)
        return -1;
    json = json_read_file(path, 1 << 16, err);
    if (!json)
        return -1;
    if (json_member(json_root(json), "sharded_backend", &value) == 0 &&
        json_string(value, &text, &length) == 0)
        known = strcmp(text, "torch_dist") == 0;
    if (!known)
        error_set(err,
                  "%s contains a distributed checkpoint in the format \"%.40s\", which cannot be "
                  "imported; save it with Megatron-LM --ckpt-format torch_dist",
                  directory, text);
    json_destroy(json);
    return known ? 1 : -1;
}

int megatron_dist_open(struct megatron_source *s, const char *directory, struct error *err)
{
    char path[PATH_MAX];

    s->tp = s->pp = 1;
    s->shards = xcalloc(1, sizeof(*s->shards));
    snprintf(s->shards[0].name, sizeof(s->shards[0].name), TORCH_DIST_INDEX);
    if (directory_path(path, err, "%s/common.pt", directory) < 0)
        return -1;
    if (directory_has(directory, "common.pt")) {
        s->shards[0].file = torch_file_open(path, err);
        if (!s->shards[0].file)
            return error_prefix(err, "%s", path);
    }
    s->dist = torch_dist_open(directory, err);
    return s->dist ? 0 : -1;
}

/* --- Names ------------------------------------------------------------------------------------ */

/* The tensor called 'name' plus 'tail', of all layers or of this one. */
static const struct torch_dist_tensor *find_one(const struct megatron_source *s, const char *name,
                                                const char *tail, int64_t layer, int64_t *index)
{
    const struct torch_dist_tensor *t;
    char path[160];

    *index = -1;
    if (layer < 0) {
        snprintf(path, sizeof(path), "%s%s", name, tail);
        return torch_dist_find(s->dist, path);
    }
    snprintf(path, sizeof(path), LAYERS "%" PRId64 ".%s%s", layer, name, tail);
    t = torch_dist_find(s->dist, path);
    if (t)
        return t;
    snprintf(path, sizeof(path), LAYERS "%s%s", name, tail);
    t = torch_dist_find(s->dist, path);
    *index = layer;
    return t && t->dimensions > 1 && layer < t->shape[0] ? t : NULL;
}

static int find(const struct megatron_source *s, const struct megatron_name *name, int64_t layer,
                struct found *found)
{
    for (int i = 0; i < 4 && name->theirs[i]; i++) {
        if (strchr(name->theirs[i], '/'))
            continue;
        memset(found, 0, sizeof(*found));
        found->parts[0] = find_one(s, name->theirs[i], "", layer, &found->index);
        if (found->parts[0])
            return 1;
        if (name->cut != CUT_FC1)
            continue;
        found->parts[0] = find_one(s, name->theirs[i], "_w", layer, &found->index);
        found->parts[1] = find_one(s, name->theirs[i], "_v", layer, &found->index);
        if (found->parts[0] && found->parts[1])
            return 1;
    }
    return 0;
}

/* Is it the name of a tensor that is read, of one layer or of all layers stacked? */
static int is_known(const char *name)
{
    static const char *const tails[] = {"_w", "_v"};
    char path[160];
    int64_t layer;
    size_t length;
    int end = 0;

    if (strncmp(name, LAYERS, strlen(LAYERS)) != 0)
        return megatron_is_theirs(name, 0);
    name += strlen(LAYERS);
    if (sscanf(name, "%" SCNd64 ".%n", &layer, &end) == 1 && end > 0)
        name += end;
    if (megatron_is_theirs(name, 1))
        return 1;
    snprintf(path, sizeof(path), "%s", name);
    length = strlen(path);
    for (size_t i = 0; i < 2; i++)
        if (length > 2 && strcmp(path + length - 2, tails[i]) == 0) {
            path[length - 2] = '\0';
            return strncmp(path, "mlp.", 4) == 0 && megatron_is_theirs(path, 1);
        }
    return 0;
}

int megatron_dist_check(const struct megatron_source *s, struct error *err)
{
    const struct torch_dist_tensor *t;
    char name[160];

    for (size_t i = 0; (t = torch_dist_at(s->dist, i)); i++) {
        snprintf(name, sizeof(name), "%.*s", (int)(t->name.length < 159 ? t->name.length : 159),
                 t->name.at);
        /* The optimizer's state is not read. */
        if (strncmp(name, "optimizer.", strlen("optimizer.")) == 0 || is_known(name))
            continue;
        return error_set(err, "unknown tensor %s; only GPT and Llama models can be imported", name);
    }
    return 0;
}

/* --- Tensors ---------------------------------------------------------------------------------- */

int megatron_dist_find(const struct megatron_source *s, const struct megatron_name *name,
                       int64_t layer, struct torch_tensor *tensor)
{
    struct found found;
    const struct torch_dist_tensor *t, *rest;
    int skipped;

    if (!find(s, name, layer, &found))
        return 0;
    t = found.parts[0];
    rest = found.parts[1];
    skipped = found.index >= 0;
    memset(tensor, 0, sizeof(*tensor));
    tensor->dimensions = t->dimensions - skipped;
    for (int i = 0; i < tensor->dimensions; i++)
        tensor->shape[i] = t->shape[i + skipped];
    /* Halves must be equal; another shape is reported when the tensor is read. */
    if (rest && tensor->dimensions > 0)
        tensor->shape[0] = rest->dimensions == t->dimensions &&
                                   memcmp(rest->shape, t->shape, sizeof(t->shape)) == 0 &&
                                   tensor->shape[0] <= INT32_MAX
                               ? 2 * tensor->shape[0]
                               : 0;
    return 1;
}

int megatron_dist_load(struct megatron_source *s, const struct megatron_name *name, int64_t layer,
                       struct torch_tensor *tensor, struct error *err)
{
    struct found found;
    char key[sizeof(s->values_of)];
    int64_t elements = 1;
    int rc = 0;

    if (!find(s, name, layer, &found))
        return error_bug(err, "%s was found before and is missing now", name->ours);
    snprintf(key, sizeof(key), "%.*s %" PRId64,
             (int)(found.parts[0]->name.length < 120 ? found.parts[0]->name.length : 120),
             found.parts[0]->name.at, layer);
    for (int i = 0; i < tensor->dimensions; i++)
        elements *= tensor->shape[i];
    /* Query, key and value are in one tensor: read it once. */
    if (strcmp(key, s->values_of) != 0) {
        s->values_of[0] = '\0';
        free(s->values);
        s->values = calloc((size_t)elements + 1, sizeof(*s->values));
        if (!s->values)
            return error_set(err, "out of memory");
        rc = torch_dist_read(s->dist, found.parts[0], found.index, s->values, err);
        if (rc == 0 && found.parts[1])
            rc = torch_dist_read(s->dist, found.parts[1], found.index, s->values + elements / 2,
                                 err);
        if (rc < 0)
            return -1;
        memcpy(s->values_of, key, sizeof(key));
    }
    tensor->type = TORCH_FLOAT;
    tensor->data = (const unsigned char *)s->values;
    for (int i = tensor->dimensions - 1; i >= 0; i--)
        tensor->stride[i] =
            i + 1 < tensor->dimensions ? tensor->stride[i + 1] * tensor->shape[i + 1] : 1;
    return 0;
}
