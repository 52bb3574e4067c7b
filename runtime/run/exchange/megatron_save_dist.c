/* SPDX-License-Identifier: Apache-2.0 */
/* Tensors of layers are stacked along a first dimension, a chunk per layer, as Megatron core does
 * without further metadata: every version can load them, with any layout. */
#include "megatron_save_private.h"
#include "run/checkpoint/directory.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define METADATA "torch.distributed.checkpoint.metadata"
enum { NAME = 160 };

/* The files that are being written, one after the other, and what they contain so far: the second
 * table of the index. */
struct dist {
    const struct saving *saving;
    int fd, file;
    char name[32], path[PATH_MAX];
    int64_t at;
    struct pickle_writer storage;
};

/* --- Files ------------------------------------------------------------------------------------ */

static int end_file(struct dist *d, struct error *err)
{
    int fd = d->fd;

    d->fd = -1;
    return fd < 0 ? 0 : saved_close(fd, d->path, err);
}

/* The file for the next archive. */
static int next_file(struct dist *d, struct error *err)
{
    if (d->fd >= 0 && d->at < d->saving->target->file_bytes)
        return 0;
    if (end_file(d, err) < 0)
        return -1;
    snprintf(d->name, sizeof(d->name), "__0_%d.distcp", d->file++);
    d->at = 0;
    d->fd = saved_open(d->saving, d->name, d->path, err);
    return d->fd < 0 ? -1 : 0;
}

static void put_size(struct pickle_writer *p, const char *name, const int64_t *numbers, int count)
{
    pickle_put_name(p, name);
    pickle_put_global(p, "torch", "Size");
    pickle_put_tuple(p, numbers, count);
    pickle_put(p, "\x85R");
}

/* Write one archive, of a tensor or, without 'bytes', of an object, and list it. */
static int write_archive(struct dist *d, const char *name, const int64_t *offset, int dimensions,
                         const struct pickle_writer *pickle, const void *bytes, size_t size,
                         struct error *err)
{
    struct torch_writer writer = {0};
    struct pickle_writer *p = &d->storage;
    int rc = next_file(d, err);

    if (rc < 0)
        return -1;
    rc = torch_writer_begin(&writer, d->fd, d->path, d->at, pickle, err);
    if (rc == 0 && bytes)
        rc = torch_writer_add(&writer, bytes, size, err);
    if (rc == 0)
        rc = torch_writer_end(&writer, err);
    pickle_begin_object(p, NULL, METADATA, "MetadataIndex");
    pickle_put_text(p, "fqn", name);
    pickle_put_text(p, "index", NULL);
    if (bytes) {
        put_size(p, "offset", offset, dimensions);
    }
    pickle_end_object(p);
    pickle_begin_object(p, NULL, "torch.distributed.checkpoint.filesystem", "_StorageInfo");
    pickle_put_text(p, "relative_path", d->name);
    pickle_put_integer(p, "offset", d->at);
    pickle_put_integer(p, "length", writer.at - d->at);
    pickle_end_object(p);
    d->at = writer.at;
    torch_writer_clear(&writer);
    return rc;
}

/* --- Tensors ---------------------------------------------------------------------------------- */

/* The name of a tensor, and the shape and offset of its chunk. Returns the number of dimensions. */
static int chunk_of(const struct saved *saved, char name[NAME], int64_t shape[3], int64_t offset[3])
{
    int n = 0;

    snprintf(name, NAME, "%s%s", saved->layer >= 0 ? "decoder.layers." : "", saved->name);
    memset(offset, 0, 3 * sizeof(*offset));
    if (saved->layer >= 0) {
        offset[n] = saved->layer;
        shape[n++] = 1;
    }
    shape[n++] = saved->rows;
    if (!saved->vector)
        shape[n++] = saved->cols;
    return n;
}

static int write_tensor(struct dist *d, const struct saved *saved, struct error *err)
{
    const struct saving *s = d->saving;
    struct pickle_writer pickle = {0};
    int64_t shape[3], offset[3];
    char name[NAME];
    int dimensions = chunk_of(saved, name, shape, offset), rc;
    void *bytes = saved_read(s, saved, err);

    if (!bytes)
        return -1;
    pickle_begin(&pickle);
    torch_put_tensor(&pickle, 0, s->target->type, shape, dimensions);
    pickle_end(&pickle);
    rc = write_archive(d, name, offset, dimensions, &pickle, bytes, saved_bytes(s, saved), err);
    pickle_writer_clear(&pickle);
    free(bytes);
    return rc;
}

/* --- Other state ----------------------------------------------------------------------------- */

/* The name of a module's extra state in a layer, or outside the layers (-1). */
static void state_name(const struct saving *s, const char *module, int64_t layer, char name[NAME])
{
    if (layer >= 0)
        snprintf(name, NAME, "decoder.layers.%s._extra_state/shard_%" PRId64 "_%" PRId64, module,
                 layer, s->index->model.network.shape.layers);
    else
        snprintf(name, NAME, "%s._extra_state/shard_0_1", module);
}

/* Call 'take' for each object. */
static int each_state(struct dist *d,
                      int (*take)(struct dist *d, const char *name, struct error *err),
                      struct error *err)
{
    const char *const *outer = saved_states(0, 0), *const *of_layer = saved_states(0, 1);
    char name[NAME];

    for (int i = 0; outer[i]; i++) {
        state_name(d->saving, outer[i], -1, name);
        if (take(d, name, err) < 0)
            return -1;
    }
    for (int64_t layer = 0; layer < d->saving->index->model.network.shape.layers; layer++)
        for (int i = 0; of_layer[i]; i++) {
            state_name(d->saving, of_layer[i], layer, name);
            if (take(d, name, err) < 0)
                return -1;
        }
    return 0;
}

/* A list of None: no module has more state than its parameters. */
static int write_state(struct dist *d, const char *name, struct error *err)
{
    struct pickle_writer pickle = {0};
    int rc;

    pickle_begin(&pickle);
    pickle_put(&pickle, "]Na");
    pickle_end(&pickle);
    rc = write_archive(d, name, NULL, 0, &pickle, NULL, 0, err);
    pickle_writer_clear(&pickle);
    return rc;
}

/* --- The index -------------------------------------------------------------------------------- */

static void put_properties(struct pickle_writer *p, enum device_type type)
{
    pickle_put_global(p, METADATA, "TensorProperties");
    pickle_put(p, ")\x81(");
    torch_put_type(p, type);
    pickle_put_global(p, "torch.serialization", "_get_layout");
    pickle_put_text(p, NULL, "torch.strided");
    pickle_put(p, "\x85R");
    pickle_put_bool(p, NULL, 0); /* requires_grad */
    pickle_put_global(p, METADATA, "_MEM_FORMAT_ENCODING");
    pickle_put_integer(p, NULL, 0); /* contiguous */
    pickle_put(p, "\x85R");
    pickle_put_bool(p, NULL, 0); /* pinned */
    pickle_put(p, "tb");
}

/* One tensor, with the chunks of all layers. */
static void put_tensor(const struct saving *s, const struct saved *saved, struct pickle_writer *p)
{
    int64_t shape[3], whole[3], offset[3], layers = s->index->model.network.shape.layers;
    char name[NAME];
    int dimensions = chunk_of(saved, name, shape, offset);

    memcpy(whole, shape, sizeof(whole));
    if (saved->layer >= 0)
        whole[0] = layers;
    pickle_begin_object(p, name, METADATA, "TensorStorageMetadata");
    pickle_put_name(p, "properties");
    put_properties(p, s->target->type);
    put_size(p, "size", whole, dimensions);
    pickle_put_name(p, "chunks");
    pickle_put(p, "](");
    for (int64_t i = 0; i < (saved->layer >= 0 ? layers : 1); i++) {
        if (saved->layer >= 0)
            offset[0] = i;
        pickle_begin_object(p, NULL, METADATA, "ChunkStorageMetadata");
        put_size(p, "offsets", offset, dimensions);
        put_size(p, "sizes", shape, dimensions);
        pickle_end_object(p);
    }
    pickle_put(p, "e");
    pickle_end_object(p);
}

/* List an object in the first table of the index, which write_index collects in a struct dist of
 * its own. */
static int put_state(struct dist *d, const char *name, struct error *err)
{
    (void)err;
    pickle_put_name(&d->storage, name);
    pickle_put_global(&d->storage, METADATA, "BytesStorageMetadata");
    pickle_put(&d->storage, ")\x81");
    return 0;
}

static int write_index(const struct dist *d, struct error *err)
{
    const struct saving *s = d->saving;
    struct dist table = {.saving = s};
    struct pickle_writer *p = &table.storage;
    struct saved saved;
    int rc;

    pickle_begin(p);
    pickle_begin_object(p, NULL, METADATA, "Metadata");
    pickle_begin_dict(p, "state_dict_metadata");
    for (int i = 0; i < s->parameters.count; i++)
        if (saved_describe(s, i, &saved) && saved.layer <= 0)
            put_tensor(s, &saved, p);
    each_state(&table, put_state, err);
    pickle_end_dict(p);
    pickle_put_text(p, "planner_data", NULL);
    pickle_begin_dict(p, "storage_data");
    pickle_append_bytes(p, d->storage.bytes, d->storage.size);
    pickle_end_dict(p);
    pickle_put_text(p, "storage_meta", NULL);
    pickle_end_object(p);
    pickle_end(p);
    rc = directory_write(s->to, TORCH_DIST_INDEX, p->bytes, p->size, err);
    pickle_writer_clear(p);
    return rc;
}

/* --- Common state ---------------------------------------------------------------------------- */

static int write_common(const struct saving *s, struct error *err)
{
    struct pickle_writer pickle = {0};
    struct torch_writer writer = {0};
    struct error ignored;
    char path[PATH_MAX];
    int fd = saved_open(s, "common.pt", path, err), rc;

    if (fd < 0)
        return -1;
    pickle_begin(&pickle);
    pickle_begin_dict(&pickle, NULL);
    saved_put_common(s, &pickle);
    pickle_begin_dict(&pickle, "content_metadata");
    pickle_put_bool(&pickle, "singleton_local_shards", 0);
    pickle_put_bool(&pickle, "non_homogeneous_layers", 0);
    pickle_end_dict(&pickle);
    pickle_end_dict(&pickle);
    pickle_end(&pickle);
    rc = torch_writer_begin(&writer, fd, path, 0, &pickle, err);
    if (rc == 0)
        rc = torch_writer_end(&writer, err);
    if (saved_close(fd, path, rc == 0 ? err : &ignored) < 0)
        rc = -1;
    torch_writer_clear(&writer);
    pickle_writer_clear(&pickle);
    return rc;
}

int megatron_save_dist(const struct saving *s, struct error *err)
{
    static const char config[] =
        "{\"sharded_backend\": \"torch_dist\", \"sharded_backend_version\": "
        "1, \"common_backend\": \"torch\", \"common_backend_version\": 1}";
    struct dist d = {.saving = s, .fd = -1};
    struct error ignored;
    struct saved saved;
    int rc = each_state(&d, write_state, err);

    for (int i = 0; i < s->parameters.count && rc == 0; i++)
        if (saved_describe(s, i, &saved))
            rc = write_tensor(&d, &saved, err);
    if (end_file(&d, rc == 0 ? err : &ignored) < 0)
        rc = -1;
    if (rc == 0)
        rc = write_common(s, err);
    if (rc == 0)
        rc = write_index(&d, err);
    pickle_writer_clear(&d.storage);
    return rc < 0 ? -1 : directory_write(s->to, "metadata.json", config, strlen(config), err);
}
