/* SPDX-License-Identifier: Apache-2.0 */
#include "torch_file.h"
#include "base/core/xmalloc.h"
#include "base/core/half.h"
#include "zip.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

/* The bytes of a storage; tensors are views of it. */
struct storage {
    struct pickle_text key;
    enum torch_type type;
    int64_t elements;
    const unsigned char *data; /* NULL until it is found */
    const struct zip_member *member;
    int checked;
};

struct torch_file {
    void *mapped; /* NULL: the bytes are the caller's */
    const unsigned char *bytes;
    size_t size;
    struct zip *zip;
    char folder[256]; /* prefix of the archive's members, with its slash */
    struct pickle *pickle;
    struct storage *storages; /* by key, each once */
    size_t storage_count;
};

static const struct {
    const char *name; /* of the class of storages */
    size_t size;
} types[] = {
    [TORCH_FLOAT] = {"FloatStorage", 4},       [TORCH_HALF] = {"HalfStorage", 2},
    [TORCH_BFLOAT16] = {"BFloat16Storage", 2}, [TORCH_DOUBLE] = {"DoubleStorage", 8},
    [TORCH_LONG] = {"LongStorage", 8},         [TORCH_INT] = {"IntStorage", 4},
    [TORCH_SHORT] = {"ShortStorage", 2},       [TORCH_CHAR] = {"CharStorage", 1},
    [TORCH_BYTE] = {"ByteStorage", 1},         [TORCH_BOOL] = {"BoolStorage", 1},
};

/* --- Storages -------------------------------------------------------------------------------- */

static int compare_texts(struct pickle_text a, struct pickle_text b)
{
    int order = memcmp(a.at, b.at, a.length < b.length ? a.length : b.length);

    return order ? order : a.length < b.length ? -1 : a.length > b.length;
}

static int by_key(const void *a, const void *b)
{
    return compare_texts(((const struct storage *)a)->key, ((const struct storage *)b)->key);
}

static int type_of(const struct pickle_value *class, enum torch_type *type)
{
    for (size_t i = 0; i < sizeof(types) / sizeof(types[0]); i++)
        if (pickle_is_global(class, "torch", types[i].name) ||
            pickle_is_global(class, "torch.cuda", types[i].name)) {
            *type = (enum torch_type)i;
            return 0;
        }
    return -1;
}

/* ("storage", class, key, location, elements, ...) */
static int read_identity(const struct pickle_value *value, struct storage *storage)
{
    const struct pickle_value *tuple = value->type == PICKLE_PERSISTENT ? value->arguments : NULL;
    const struct pickle_value *key = pickle_item(tuple, 2), *elements = pickle_item(tuple, 4);

    if (!pickle_is_text(pickle_item(tuple, 0), "storage") || !key || key->type != PICKLE_STRING ||
        !elements || elements->type != PICKLE_INTEGER || elements->integer < 0 ||
        type_of(pickle_item(tuple, 1), &storage->type) < 0)
        return -1;
    storage->key = key->text;
    storage->elements = elements->integer;
    return 0;
}

/* Collect all storages in the pickle. An unknown type is reported when it is used. */
static int list_storages(struct torch_file *f, struct error *err)
{
    const struct pickle_value *value;
    size_t count = 0, kept = 0;

    while (pickle_persistent(f->pickle, count))
        count++;
    f->storages = xcalloc(count + 1, sizeof(*f->storages));
    for (size_t i = 0; (value = pickle_persistent(f->pickle, i)); i++)
        f->storage_count += read_identity(value, &f->storages[f->storage_count]) == 0;
    if (f->storage_count > 1)
        qsort(f->storages, f->storage_count, sizeof(*f->storages), by_key);
    for (size_t i = 0; i < f->storage_count; i++) {
        struct storage *last = kept ? &f->storages[kept - 1] : NULL;

        if (!last || by_key(last, &f->storages[i]) != 0)
            f->storages[kept++] = f->storages[i];
        else if (last->type != f->storages[i].type || last->elements != f->storages[i].elements)
            return error_set(
                err, "two tensors disagree about the type or size of a storage that they share");
    }
    f->storage_count = kept;
    return 0;
}

static struct storage *find_storage(struct torch_file *f, struct pickle_text key)
{
    struct storage wanted = {.key = key};

    return f->storage_count
               ? bsearch(&wanted, f->storages, f->storage_count, sizeof(wanted), by_key)
               : NULL;
}

/* --- Zip format ------------------------------------------------------------------------------ */

static const struct zip_member *find_member(const struct torch_file *f, const char *name,
                                            struct pickle_text key)
{
    char path[400];
    int length = snprintf(path, sizeof(path), "%s%s%.*s", f->folder, name, (int)key.length, key.at);

    return key.length < 64 && length < (int)sizeof(path) ? zip_find(f->zip, path) : NULL;
}

static int open_zip(struct torch_file *f, struct error *err)
{
    const struct zip_member *member;
    size_t used, length;

    f->zip = zip_open(f->bytes, f->size, err);
    if (!f->zip)
        return -1;
    member = zip_find_tail(f->zip, "/data.pkl");
    if (!member && zip_find_tail(f->zip, "/model_optim_rng.pt"))
        return error_set(err, "it is an archive that contains a checkpoint; unpack it first");
    if (!member)
        return error_set(
            err,
            "the archive contains no data.pkl, so it was not written by torch.save; name another "
            "file, or save it with torch.save");
    length = member->length - strlen("data.pkl");
    if (length >= sizeof(f->folder))
        return error_set(err, "the archive's folder name is too long; save it again with "
                              "torch.save under a shorter name");
    memcpy(f->folder, member->name, length);
    if (zip_check(member, err) < 0)
        return -1;
    f->pickle = pickle_read(member->data, member->size, &used, err);
    if (!f->pickle || list_storages(f, err) < 0)
        return -1;
    member = find_member(f, "byteorder", (struct pickle_text){"", 0});
    if (member && (member->size != 6 || memcmp(member->data, "little", 6) != 0))
        return error_set(
            err,
            "it is big-endian, which is not supported; save it again on a little-endian machine");
    for (size_t i = 0; i < f->storage_count; i++) {
        struct storage *s = &f->storages[i];

        s->member = find_member(f, "data/", s->key);
        if (s->member && s->member->size / types[s->type].size >= (uint64_t)s->elements)
            s->data = s->member->data;
    }
    return 0;
}

/* --- Stream format --------------------------------------------------------------------------- */

/* Read the pickle at 'at' and advance 'at' past it. */
static struct pickle *next_pickle(const struct torch_file *f, size_t *at, struct error *err)
{
    size_t used = 0;
    struct pickle *pickle = pickle_read(f->bytes + *at, f->size - *at, &used, err);

    *at += used;
    return pickle;
}

/* A magic number, the format version, and properties of the machine that wrote it. */
static int read_stream_head(const struct torch_file *f, size_t *at, struct error *err)
{
    static const char magic[] = "\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19";
    const struct pickle_value *value;
    int good = 0;

    for (int i = 0; i < 3; i++) {
        struct pickle *pickle = next_pickle(f, at, err);

        if (!pickle)
            return error_set(
                err,
                "it was not written by torch.save; name another file, or save it with torch.save");
        value = pickle_root(pickle);
        if (i == 0)
            good = value->type == PICKLE_BIG && value->text.length == sizeof(magic) - 1 &&
                   memcmp(value->text.at, magic, sizeof(magic) - 1) == 0;
        else if (i == 1)
            good = value->type == PICKLE_INTEGER && value->integer == 1001;
        else if ((value = pickle_member(value, "little_endian")))
            good = value->type == PICKLE_BOOL && value->integer;
        pickle_destroy(pickle);
        if (!good)
            return error_set(
                err, i == 0   ? "it was not written by torch.save; name another file, or save it "
                                "with torch.save"
                     : i == 1 ? "its stream version is not 1001; save it again with torch.save"
                              : "it is big-endian, which is not supported; save it again on a "
                                "little-endian machine");
    }
    return 0;
}

/* After a list of keys: for each storage the number of elements, and the elements. */
static int place_storages(struct torch_file *f, const struct pickle_value *keys, size_t at,
                          struct error *err)
{
    const struct pickle_value *key;

    if (keys->type != PICKLE_LIST)
        return error_set(err, "the list of storages after the tensors is missing");
    for (size_t i = 0; (key = pickle_item(keys, i)); i++) {
        struct storage *s = key->type == PICKLE_STRING ? find_storage(f, key->text) : NULL;
        uint64_t elements = 0, size;

        if (!s || s->data)
            return error_set(err, "storage %zu is listed twice, or no tensor uses it", i);
        size = types[s->type].size;
        for (int k = 0; k < 8 && f->size - at >= 8; k++)
            elements |= (uint64_t)f->bytes[at + (size_t)k] << (8 * k);
        if (f->size - at < 8 || elements != (uint64_t)s->elements ||
            elements > (f->size - at - 8) / size)
            return error_set(err,
                             "storage %zu exceeds the file: it is truncated or damaged; copy the "
                             "checkpoint again",
                             i);
        s->data = f->bytes + at + 8;
        at += 8 + (size_t)(elements * size);
    }
    return 0;
}

static int open_stream(struct torch_file *f, struct error *err)
{
    struct pickle *keys;
    size_t at = 0;
    int rc;

    if (read_stream_head(f, &at, err) < 0)
        return -1;
    f->pickle = next_pickle(f, &at, err);
    if (!f->pickle || list_storages(f, err) < 0)
        return -1;
    keys = next_pickle(f, &at, err);
    rc = keys ? place_storages(f, pickle_root(keys), at, err) : -1;
    pickle_destroy(keys);
    return rc;
}

/* --- Files ----------------------------------------------------------------------------------- */

static int open_bytes(struct torch_file *f, const void *bytes, size_t size, struct error *err)
{
    f->bytes = bytes;
    f->size = size;
    return zip_is(bytes, size) ? open_zip(f, err) : open_stream(f, err);
}

static int open_path(struct torch_file *f, const char *path, struct error *err)
{
    struct stat status;
    int fd = open(path, O_RDONLY | O_CLOEXEC);

    if (fd < 0)
        return error_set_errno(err, errno, "cannot open it");
    if (fstat(fd, &status) == 0 && S_ISREG(status.st_mode) && status.st_size > 0)
        f->mapped = mmap(NULL, (size_t)status.st_size, PROT_READ, MAP_SHARED, fd, 0);
    close(fd);
    if (!f->mapped || f->mapped == MAP_FAILED) {
        f->mapped = NULL;
        return error_set(
            err, "it is empty, not a regular file, or cannot be mapped into memory; copy it again");
    }
    f->size = (size_t)status.st_size;
    return open_bytes(f, f->mapped, f->size, err);
}

struct torch_file *torch_file_open(const char *path, struct error *err)
{
    struct torch_file *f = xcalloc(1, sizeof(*f));

    if (open_path(f, path, err) < 0) {
        torch_file_destroy(f);
        f = NULL;
    }
    return f;
}

struct torch_file *torch_file_read(const void *bytes, size_t size, struct error *err)
{
    struct torch_file *f = xcalloc(1, sizeof(*f));

    if (open_bytes(f, bytes, size, err) < 0) {
        torch_file_destroy(f);
        f = NULL;
    }
    return f;
}

void torch_file_destroy(struct torch_file *f)
{
    if (!f)
        return;
    free(f->storages);
    pickle_destroy(f->pickle);
    zip_destroy(f->zip);
    if (f->mapped)
        munmap(f->mapped, f->size);
    free(f);
}

const struct pickle_value *torch_file_root(const struct torch_file *f)
{
    return pickle_root(f->pickle);
}

/* --- Tensors --------------------------------------------------------------------------------- */

/* Describe a value that is not a tensor. */
static int no_tensor(const struct pickle_value *value, struct error *err)
{
    const struct pickle_value *callable =
        value && value->type == PICKLE_OBJECT ? value->callable : NULL;

    if (!callable || callable->type != PICKLE_GLOBAL)
        return error_set(err, "it is not a tensor");
    return error_set(
        err, "it would be created by %.*s.%.*s, which is unknown; nothing is executed",
        (int)(callable->text.length < 60 ? callable->text.length : 60), callable->text.at,
        (int)(callable->name.length < 60 ? callable->name.length : 60), callable->name.at);
}

int torch_is_tensor(const struct pickle_value *value)
{
    static const char *const modules[] = {"torch._utils", "torch._tensor"};
    static const char start[] = "_rebuild_";
    const struct pickle_value *callable =
        value && value->type == PICKLE_OBJECT ? value->callable : NULL;

    if (!callable || callable->type != PICKLE_GLOBAL || callable->name.length < sizeof(start) - 1 ||
        memcmp(callable->name.at, start, sizeof(start) - 1) != 0)
        return 0;
    for (size_t i = 0; i < sizeof(modules) / sizeof(modules[0]); i++)
        if (callable->text.length == strlen(modules[i]) &&
            memcmp(callable->text.at, modules[i], callable->text.length) == 0)
            return 1;
    return 0;
}

/* Read the non-negative integers of a tuple. */
static int read_sizes(const struct pickle_value *tuple, int64_t out[TORCH_DIMENSIONS])
{
    if (!tuple || tuple->type != PICKLE_LIST || tuple->count > TORCH_DIMENSIONS)
        return -1;
    for (size_t i = 0; i < tuple->count; i++) {
        if (tuple->items[i]->type != PICKLE_INTEGER || tuple->items[i]->integer < 0)
            return -1;
        out[i] = tuple->items[i]->integer;
    }
    return (int)tuple->count;
}

/* The storage of a tensor with its data; the stream format may contain views of storages. */
static struct storage *resolve(struct torch_file *f, const struct pickle_value *value,
                               int64_t *first, int64_t *elements, struct error *err)
{
    struct storage described, *s;
    const struct pickle_value *view;
    int64_t range[TORCH_DIMENSIONS];

    if (!value || read_identity(value, &described) < 0) {
        error_set(err, "its data type is not supported; save the checkpoint in fp32, bf16 or fp16");
        return NULL;
    }
    s = find_storage(f, described.key);
    if (!s || !s->data) {
        error_set(err, "its data is missing or truncated; copy the checkpoint again");
        return NULL;
    }
    *first = 0;
    *elements = s->elements;
    view = pickle_item(value->arguments, 5);
    if (!view || view->type == PICKLE_NONE)
        return s;
    /* (key, first element, elements) */
    for (size_t i = 1; i < 3; i++) {
        const struct pickle_value *item = pickle_item(view, i);

        range[i] = item && item->type == PICKLE_INTEGER ? item->integer : -1;
    }
    if (range[1] < 0 || range[2] < 0 || range[1] > s->elements ||
        range[2] > s->elements - range[1]) {
        error_set(err, "its data is outside its storage");
        return NULL;
    }
    *first = range[1];
    *elements = range[2];
    return s;
}

/* Can the tensor, starting at 'offset', extend beyond the storage's 'elements'? */
static int reaches_out(const struct torch_tensor *t, int64_t offset, int64_t elements)
{
    __int128 last = offset;

    for (int i = 0; i < t->dimensions; i++) {
        if (t->shape[i] == 0)
            return offset > elements;
        last += (__int128)(t->shape[i] - 1) * t->stride[i];
        if (last >= elements)
            return 1;
    }
    return last >= elements;
}

int torch_file_tensor(struct torch_file *f, const struct pickle_value *value,
                      struct torch_tensor *tensor, struct error *err)
{
    const struct pickle_value *arguments, *offset;
    struct storage *s;
    int64_t first, elements;

    /* A parameter is a tensor in a wrapper. */
    if (value && value->type == PICKLE_OBJECT &&
        pickle_is_global(value->callable, "torch._utils", "_rebuild_parameter"))
        value = pickle_item(value->arguments, 0);
    if (!value || value->type != PICKLE_OBJECT ||
        (!pickle_is_global(value->callable, "torch._utils", "_rebuild_tensor_v2") &&
         !pickle_is_global(value->callable, "torch._utils", "_rebuild_tensor")))
        return no_tensor(value, err);
    arguments = value->arguments;
    offset = pickle_item(arguments, 1);
    tensor->dimensions = read_sizes(pickle_item(arguments, 2), tensor->shape);
    if (!offset || offset->type != PICKLE_INTEGER || offset->integer < 0 ||
        tensor->dimensions < 0 ||
        read_sizes(pickle_item(arguments, 3), tensor->stride) != tensor->dimensions)
        return error_set(err, "its sizes, strides and offset do not describe a tensor");
    s = resolve(f, pickle_item(arguments, 0), &first, &elements, err);
    if (!s)
        return -1;
    if (reaches_out(tensor, offset->integer, elements))
        return error_set(err, "its data is outside its storage");
    if (s->member && !s->checked && zip_check(s->member, err) < 0)
        return -1;
    s->checked = 1;
    tensor->type = s->type;
    tensor->data = s->data + (size_t)(first + offset->integer) * types[s->type].size;
    return 0;
}

static float element(enum torch_type type, const unsigned char *at)
{
    union {
        float f;
        double d;
        int64_t l;
        int32_t i;
        int16_t s;
        uint16_t h;
        int8_t c;
    } v;

    memcpy(&v, at, types[type].size);
    switch (type) {
    case TORCH_FLOAT:
        return v.f;
    case TORCH_HALF:
        return half_to_float(v.h);
    case TORCH_BFLOAT16:
        return bfloat_to_float(v.h);
    case TORCH_DOUBLE:
        return (float)v.d;
    case TORCH_LONG:
        return (float)v.l;
    case TORCH_INT:
        return (float)v.i;
    case TORCH_SHORT:
        return v.s;
    case TORCH_CHAR:
        return v.c;
    default:
        return *at;
    }
}

void torch_tensor_pick(struct torch_tensor *t, int64_t index)
{
    t->data += (size_t)(index * t->stride[0]) * types[t->type].size;
    t->dimensions--;
    memmove(t->shape, t->shape + 1, (size_t)t->dimensions * sizeof(t->shape[0]));
    memmove(t->stride, t->stride + 1, (size_t)t->dimensions * sizeof(t->stride[0]));
}

void torch_tensor_read(const struct torch_tensor *t, int64_t row, int64_t col, int64_t count,
                       float *out)
{
    int last = t->dimensions - 1;
    int64_t stride = last >= 0 ? t->stride[last] : 0;
    int64_t at = col * stride + (last > 0 ? row * t->stride[last - 1] : 0);
    size_t size = types[t->type].size;

    if (t->type == TORCH_FLOAT && stride == 1) {
        memcpy(out, t->data + (size_t)at * size, (size_t)count * size);
        return;
    }
    for (int64_t i = 0; i < count; i++)
        out[i] = element(t->type, t->data + (size_t)(at + i * stride) * size);
}
