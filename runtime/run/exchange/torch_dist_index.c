/* SPDX-License-Identifier: Apache-2.0 */
#include "torch_dist_private.h"
#include "base/core/xmalloc.h"

#include <stdlib.h>
#include <string.h>

/* Where a chunk is stored: an entry of the index' second table. */
struct stored {
    struct pickle_text name;
    int dimensions;
    int64_t offset[TORCH_DIMENSIONS];
    struct pickle_text file;
    int64_t at, length;
};

struct storage {
    struct stored *list;
    size_t count;
};

int torch_dist_compare(struct pickle_text a, struct pickle_text b)
{
    size_t common = a.length < b.length ? a.length : b.length;
    int order = common ? memcmp(a.at, b.at, common) : 0;

    return order ? order : a.length < b.length ? -1 : a.length > b.length;
}

static int by_entry(const void *a, const void *b)
{
    const struct stored *x = a, *y = b;
    int order = torch_dist_compare(x->name, y->name);

    if (order == 0)
        order = x->dimensions - y->dimensions;
    for (int i = 0; i < x->dimensions && order == 0; i++)
        order = (x->offset[i] > y->offset[i]) - (x->offset[i] < y->offset[i]);
    return order;
}

static int by_name(const void *a, const void *b)
{
    return torch_dist_compare(((const struct torch_dist_tensor *)a)->name,
                              ((const struct torch_dist_tensor *)b)->name);
}

/* The numbers of a torch.Size, or of a tuple; returns how many, or -1. */
static int read_size(const struct pickle_value *value, int64_t out[TORCH_DIMENSIONS])
{
    if (value && value->type == PICKLE_OBJECT)
        value = pickle_item(value->arguments, 0);
    if (!value || value->type != PICKLE_LIST || value->count > TORCH_DIMENSIONS)
        return -1;
    for (size_t i = 0; i < value->count; i++) {
        if (value->items[i]->type != PICKLE_INTEGER || value->items[i]->integer < 0)
            return -1;
        out[i] = value->items[i]->integer;
    }
    return (int)value->count;
}

static const struct pickle_value *dict_of(const struct pickle_value *root, const char *name)
{
    const struct pickle_value *value = pickle_member(root, name);

    return value && value->type == PICKLE_DICT ? value : NULL;
}

static int64_t whole(const struct pickle_value *value, const char *name)
{
    const struct pickle_value *member = pickle_member(value, name);

    return member && member->type == PICKLE_INTEGER ? member->integer : -1;
}

/* --- Where chunks are stored ------------------------------------------------------------------ */

/* Files are those of the directory itself. */
static int is_file_name(const struct pickle_value *value)
{
    return value && value->type == PICKLE_STRING && value->text.length > 0 &&
           value->text.length < 256 && !memchr(value->text.at, '/', value->text.length) &&
           !memchr(value->text.at, '\0', value->text.length) && value->text.at[0] != '.';
}

/* Objects other than tensors have no offset, and are not needed. */
static int read_stored(const struct pickle_value *key, const struct pickle_value *value,
                       struct storage *storage, struct error *err)
{
    struct stored *stored = &storage->list[storage->count];
    const struct pickle_value *name = pickle_member(key, "fqn");
    const struct pickle_value *offset = pickle_member(key, "offset");
    const struct pickle_value *path = pickle_member(value, "relative_path");
    const struct pickle_value *transforms = pickle_member(value, "transform_descriptors");

    if (!name || name->type != PICKLE_STRING)
        return error_set(err,
                         "entry %zu of storage_data has no tensor name; copy the checkpoint again",
                         storage->count);
    if (!offset || offset->type == PICKLE_NONE)
        return 0;
    if (transforms && transforms->type != PICKLE_NONE)
        return error_set(err,
                         "%.*s is compressed, which is not supported; save the checkpoint again "
                         "without compression",
                         (int)(name->text.length < 128 ? name->text.length : 128), name->text.at);
    stored->name = name->text;
    stored->dimensions = read_size(offset, stored->offset);
    stored->at = whole(value, "offset");
    stored->length = whole(value, "length");
    if (stored->dimensions < 0 || !is_file_name(path) || stored->at < 0 || stored->length < 0)
        return error_set(err,
                         "the storage_data of %.*s is invalid: its offset, relative_path or length "
                         "is missing or wrong",
                         (int)(name->text.length < 128 ? name->text.length : 128), name->text.at);
    stored->file = path->text;
    storage->count++;
    return 0;
}

static int read_storage(const struct pickle_value *root, struct storage *storage, struct error *err)
{
    const struct pickle_value *data = dict_of(root, "storage_data");

    if (!data)
        return error_set(err, "it has no storage_data, so it was not written by "
                              "torch.distributed.checkpoint; name another directory");
    storage->list = xcalloc(data->count / 2 + 1, sizeof(*storage->list));
    for (size_t i = 0; i + 1 < data->count; i += 2)
        if (read_stored(data->items[i], data->items[i + 1], storage, err) < 0)
            return -1;
    if (storage->count > 1)
        qsort(storage->list, storage->count, sizeof(*storage->list), by_entry);
    return 0;
}

/* --- Tensors and their chunks ----------------------------------------------------------------- */

static int read_chunk(struct torch_dist *d, const struct torch_dist_tensor *t,
                      const struct pickle_value *value, const struct storage *storage,
                      struct error *err)
{
    struct torch_dist_chunk *chunk = list_add(&d->chunks);
    struct stored wanted = {.name = t->name, .dimensions = t->dimensions}, *stored = NULL;

    *chunk = (struct torch_dist_chunk){0};
    if (read_size(pickle_member(value, "offsets"), chunk->offset) != t->dimensions ||
        read_size(pickle_member(value, "sizes"), chunk->size) != t->dimensions)
        return error_set(
            err,
            "a chunk does not have as many offsets and sizes as the tensor has dimensions (%d)",
            t->dimensions);
    for (int i = 0; i < t->dimensions; i++)
        if (chunk->offset[i] > t->shape[i] || chunk->size[i] > t->shape[i] - chunk->offset[i])
            return error_set(err, "a chunk is outside the tensor");
    memcpy(wanted.offset, chunk->offset, sizeof(wanted.offset));
    if (storage->count > 0)
        stored = bsearch(&wanted, storage->list, storage->count, sizeof(wanted), by_entry);
    if (!stored)
        return error_set(err, "a chunk is not stored anywhere");
    chunk->file = stored->file;
    chunk->at = stored->at;
    chunk->length = stored->length;
    return 0;
}

/* Does the number of elements fit into 63 bits? */
static int is_countable(const struct torch_dist_tensor *t)
{
    int64_t elements = 1;

    for (int i = 0; i < t->dimensions; i++)
        if (__builtin_mul_overflow(elements, t->shape[i], &elements))
            return 0;
    return 1;
}

/* Only tensors have chunks; what else is stored has none. */
static int read_tensor(struct torch_dist *d, const struct pickle_value *name,
                       const struct pickle_value *value, const struct storage *storage,
                       struct error *err)
{
    struct torch_dist_tensor *t = &d->tensors[d->tensor_count];
    const struct pickle_value *chunks = pickle_member(value, "chunks");

    if (!name || name->type != PICKLE_STRING)
        return error_set(err, "entry %zu of its state_dict_metadata has no name", d->tensor_count);
    if (!chunks)
        return 0;
    *t = (struct torch_dist_tensor){.name = name->text, .first = d->chunks.count};
    t->dimensions = read_size(pickle_member(value, "size"), t->shape);
    if (t->dimensions < 0 || chunks->type != PICKLE_LIST || !is_countable(t))
        return error_set(err, "its size or its list of chunks is invalid");
    for (size_t i = 0; i < chunks->count; i++)
        if (read_chunk(d, t, chunks->items[i], storage, err) < 0)
            return -1;
    t->chunks = chunks->count;
    d->tensor_count++;
    return 0;
}

static int read_tensors(struct torch_dist *d, const struct pickle_value *root,
                        const struct storage *storage, struct error *err)
{
    const struct pickle_value *data = dict_of(root, "state_dict_metadata");
    struct pickle_text name;

    if (!data)
        return error_set(err, "it has no state_dict_metadata, so it was not written by "
                              "torch.distributed.checkpoint; name another directory");
    d->tensors = xcalloc(data->count / 2 + 1, sizeof(*d->tensors));
    for (size_t i = 0; i + 1 < data->count; i += 2) {
        /* A list of chunks that many tensors refer to would outgrow the pickle. */
        if (d->chunks.count > storage->count)
            return error_set(err, "it lists more chunks than are stored");
        if (read_tensor(d, data->items[i], data->items[i + 1], storage, err) == 0)
            continue;
        name = data->items[i]->type == PICKLE_STRING ? data->items[i]->text
                                                     : (struct pickle_text){"a tensor", 8};
        return error_prefix(err, "%.*s", (int)(name.length < 128 ? name.length : 128), name.at);
    }
    if (d->tensor_count > 1)
        qsort(d->tensors, d->tensor_count, sizeof(*d->tensors), by_name);
    return 0;
}

int torch_dist_list(struct torch_dist *d, const struct pickle_value *root, struct error *err)
{
    struct storage storage = {0};
    int rc = read_storage(root, &storage, err);

    if (rc == 0)
        rc = read_tensors(d, root, &storage, err);
    free(storage.list);
    return rc;
}
