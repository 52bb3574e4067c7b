/* SPDX-License-Identifier: Apache-2.0 */
#include "safetensors.h"
#include "base/core/list.h"
#include "base/core/half.h"
#include "base/core/json.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define HEADER_LIMIT ((size_t)100 << 20)
#define FILES_MOST   4096
#define AGAIN        "; copy the file again"

struct mapping {
    char name[256]; /* name in an index; "" for a single file */
    void *memory;
    size_t bytes;
};

/* The byte range that a tensor claims. */
struct range {
    int64_t begin, end;
};

struct safetensors {
    LIST(struct mapping) files;
    LIST(struct safetensor) tensors;
};

static int element_type(const char *name, enum device_type *type)
{
    static const struct {
        const char *name;
        enum device_type type;
    } rows[] = {{"F32", TYPE_FP32}, {"BF16", TYPE_BF16}, {"F16", TYPE_FP16}};

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
        if (strcmp(rows[i].name, name) == 0) {
            *type = rows[i].type;
            return 0;
        }
    return -1;
}

/* shape [n] or [m, n] of a header entry. */
static int read_shape(struct json_value value, int64_t *rows, int64_t *cols)
{
    struct json_value shape, item;
    struct json_iterator i;
    int64_t sizes[2] = {1, 1};
    int count = 0;

    if (json_member(value, "shape", &shape) < 0 || json_iterate(shape, &i) < 0)
        return -1;
    while (json_next(&i, NULL, NULL, &item)) {
        if (count == 2 || json_integer(item, &sizes[count]) < 0 || sizes[count] < 0 ||
            sizes[count] > INT32_MAX)
            return -1;
        count++;
    }
    *rows = count == 2 ? sizes[0] : 1;
    *cols = count == 2 ? sizes[1] : sizes[0];
    return 0;
}

/* Parse one entry; 'range' is within the data. */
static int read_entry(struct safetensors *s, const char *name, struct json_value value,
                      const char *data, size_t bytes, struct range *range, struct error *err)
{
    struct safetensor tensor = {.rows = 1};
    struct json_value item, offsets;
    struct json_iterator i;
    const char *type;
    size_t length;
    int64_t bounds[2] = {-1, -1};

    if (json_member(value, "dtype", &item) < 0 || json_string(item, &type, &length) < 0 ||
        json_member(value, "data_offsets", &offsets) < 0 || json_iterate(offsets, &i) < 0)
        return error_set(err, "the header gives no dtype or no data_offsets of tensor %.100s" AGAIN,
                         name);
    for (int k = 0; k < 2 && json_next(&i, NULL, NULL, &item); k++)
        if (json_integer(item, &bounds[k]) < 0)
            return error_set(err, "the data_offsets of tensor %.100s are not two integers" AGAIN,
                             name);
    if (bounds[0] < 0 || bounds[1] < bounds[0] || (uint64_t)bounds[1] > bytes)
        return error_set(
            err, "tensor %.100s is outside the file, which is truncated or damaged" AGAIN, name);
    *range = (struct range){bounds[0], bounds[1]};
    if (snprintf(tensor.name, sizeof(tensor.name), "%s", name) >= (int)sizeof(tensor.name))
        return 0; /* no data */
    snprintf(tensor.kind, sizeof(tensor.kind), "%s", type);
    /* A mask, a counter or similar: keep it so that callers know it exists. */
    if (element_type(type, &tensor.type) == 0 &&
        read_shape(value, &tensor.rows, &tensor.cols) == 0) {
        if ((uint64_t)(bounds[1] - bounds[0]) !=
            (uint64_t)tensor.rows * (uint64_t)tensor.cols * type_size(tensor.type))
            return error_set(err, "the size of tensor %.100s does not match its shape" AGAIN, name);
        tensor.data = data + bounds[0];
    }
    *list_add(&s->tensors) = tensor;
    return 0;
}

static int by_begin(const void *a, const void *b)
{
    const struct range *x = a, *y = b;

    if (x->begin != y->begin)
        return x->begin < y->begin ? -1 : 1;
    return x->end < y->end ? -1 : x->end > y->end;
}

/* Tensors must not overlap or leave gaps: the format requires it. */
static int check_ranges(struct range *ranges, size_t count, size_t bytes, struct error *err)
{
    int64_t at = 0;

    if (count > 1)
        qsort(ranges, count, sizeof(*ranges), by_begin);
    for (size_t i = 0; i < count; i++) {
        if (ranges[i].begin < at)
            return error_set(err, "tensors overlap" AGAIN);
        if (ranges[i].begin > at)
            break;
        at = ranges[i].end;
    }
    return (size_t)at == bytes ? 0 : error_set(err, "some of its bytes belong to no tensor" AGAIN);
}

static int read_entries(struct safetensors *s, struct json_value root, const char *data,
                        size_t bytes, struct error *err)
{
    struct range *ranges = xcalloc(json_count(root) + 1, sizeof(*ranges));
    struct json_iterator i;
    struct json_value value;
    const char *name;
    size_t length, count = 0;
    int rc = 0;

    if (json_iterate(root, &i) < 0 || json_type(root) != JSON_OBJECT)
        rc = error_set(err, "the header is not a JSON object" AGAIN);
    while (rc == 0 && json_next(&i, &name, &length, &value))
        if (strcmp(name, "__metadata__") != 0)
            rc = read_entry(s, name, value, data, bytes, &ranges[count++], err);
    if (rc == 0)
        rc = check_ranges(ranges, count, bytes, err);
    free(ranges);
    return rc;
}

static int read_header(struct safetensors *s, const char *path, const char *file, size_t bytes,
                       struct error *err)
{
    uint64_t length = 0;
    struct json *json;
    int rc;

    for (int k = 0; k < 8 && bytes >= 8; k++)
        length |= (uint64_t)(unsigned char)file[k] << (8 * k);
    if (bytes < 8 || length > bytes - 8 || length > HEADER_LIMIT)
        return error_set(
            err, "%s is not a safetensors file: the length of its header is impossible" AGAIN,
            path);
    json = json_read(file + 8, (size_t)length, err);
    if (!json)
        return error_prefix(err, "%s: header", path);
    rc = read_entries(s, json_root(json), file + 8 + length, bytes - 8 - (size_t)length, err);
    json_destroy(json);
    return rc < 0 ? error_prefix(err, "%s", path) : 0;
}

static int map_file(struct safetensors *s, const char *path, const char *name, struct error *err)
{
    struct mapping *file;
    struct stat status;
    int fd;
    void *memory;

    fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0 || fstat(fd, &status) < 0) {
        error_set_errno(err, errno, "cannot open %s", path);
        if (fd >= 0)
            close(fd);
        return -1;
    }
    memory = status.st_size > 0 ? mmap(NULL, (size_t)status.st_size, PROT_READ, MAP_SHARED, fd, 0)
                                : MAP_FAILED;
    close(fd);
    if (memory == MAP_FAILED)
        return status.st_size > 0 ? error_set_errno(err, errno, "cannot map %s into memory", path)
                                  : error_set(err, "%s is empty" AGAIN, path);
    file = list_add(&s->files);
    *file = (struct mapping){"", memory, (size_t)status.st_size};
    snprintf(file->name, sizeof(file->name), "%s", name);
    return read_header(s, path, memory, (size_t)status.st_size, err);
}

/* Open a file that an index names; hundreds of tensors name the same few files. */
static int map_named(struct safetensors *s, const char *directory, struct json_value value,
                     struct error *err)
{
    const char *name;
    char path[PATH_MAX];
    size_t length;

    if (json_string(value, &name, &length) < 0 || length == 0 || strlen(name) != length ||
        length >= sizeof(s->files.items->name) || strchr(name, '/'))
        return error_set(
            err, "a tensor is mapped to something that is not the name of a file in this folder");
    for (size_t i = s->files.count; i > 0; i--)
        if (strcmp(s->files.items[i - 1].name, name) == 0)
            return 0;
    if (s->files.count == FILES_MOST)
        return error_set(err, "it names more than %d files", FILES_MOST);
    if (snprintf(path, sizeof(path), "%s/%s", directory, name) >= (int)sizeof(path))
        return error_set(err, "path too long: %.60s...; use a shorter one", directory);
    return map_file(s, path, name, err);
}

static int map_indexed(struct safetensors *s, const char *directory, const char *index,
                       struct error *err)
{
    struct json *json = json_read_file(index, HEADER_LIMIT, err);
    struct json_value map, value;
    struct json_iterator i;
    int rc = 0;

    if (!json)
        return -1;
    if (json_member(json_root(json), "weight_map", &map) < 0 || json_iterate(map, &i) < 0)
        rc = error_set(err, "it contains no weight_map");
    while (rc == 0 && json_next(&i, NULL, NULL, &value))
        rc = map_named(s, directory, value, err);
    json_destroy(json);
    return rc < 0 ? error_prefix(err, "%s", index) : 0;
}

static int by_name(const void *a, const void *b)
{
    return strcmp(((const struct safetensor *)a)->name, ((const struct safetensor *)b)->name);
}

/* One of two tensors with the same name would be chosen silently. */
static int sort_tensors(struct safetensors *s, struct error *err)
{
    if (s->tensors.count > 1)
        qsort(s->tensors.items, s->tensors.count, sizeof(*s->tensors.items), by_name);
    for (size_t i = 1; i < s->tensors.count; i++)
        if (by_name(&s->tensors.items[i - 1], &s->tensors.items[i]) == 0)
            return error_set(err, "tensor %s exists twice", s->tensors.items[i].name);
    return 0;
}

/* The single file takes precedence over an index, as in transformers. */
static int map_directory(struct safetensors *s, const char *path, struct error *err)
{
    char whole[PATH_MAX], index[PATH_MAX];

    if (snprintf(whole, sizeof(whole), "%s/model.safetensors", path) >= (int)sizeof(whole) ||
        snprintf(index, sizeof(index), "%s/model.safetensors.index.json", path) >=
            (int)sizeof(index))
        return error_set(err, "path too long: %.60s...; use a shorter one", path);
    return access(whole, F_OK) < 0 && access(index, F_OK) == 0 ? map_indexed(s, path, index, err)
                                                               : map_file(s, whole, "", err);
}

struct safetensors *safetensors_open(const char *path, struct error *err)
{
    struct safetensors *s = xcalloc(1, sizeof(*s));
    struct stat status;
    int rc;

    if (stat(path, &status) < 0)
        rc = error_set_errno(err, errno, "cannot open %s", path);
    else if (!S_ISDIR(status.st_mode))
        rc = map_file(s, path, "", err);
    else
        rc = map_directory(s, path, err);
    if (rc == 0 && sort_tensors(s, err) < 0)
        rc = error_prefix(err, "%s", path);
    if (rc < 0) {
        error_advise(err, "copy the file again");
        safetensors_destroy(s);
        return NULL;
    }
    return s;
}

void safetensors_destroy(struct safetensors *s)
{
    if (!s)
        return;
    for (size_t i = 0; i < s->files.count; i++)
        munmap(s->files.items[i].memory, s->files.items[i].bytes);
    list_free(&s->files);
    list_free(&s->tensors);
    free(s);
}

const struct safetensor *safetensors_find(const struct safetensors *s, const char *name)
{
    struct safetensor wanted;

    if (snprintf(wanted.name, sizeof(wanted.name), "%s", name) >= (int)sizeof(wanted.name))
        return NULL;
    return s->tensors.count
               ? bsearch(&wanted, s->tensors.items, s->tensors.count, sizeof(wanted), by_name)
               : NULL;
}

const struct safetensor *safetensors_at(const struct safetensors *s, size_t number)
{
    return number < s->tensors.count ? &s->tensors.items[number] : NULL;
}

void safetensor_read(const struct safetensor *tensor, int64_t first, int64_t step, int64_t count,
                     float *out)
{
    const char *at = (const char *)tensor->data + first * (int64_t)type_size(tensor->type);
    uint16_t half;

    if (tensor->type == TYPE_FP32 && step == 1)
        memcpy(out, at, (size_t)count * sizeof(*out));
    else if (tensor->type == TYPE_FP32)
        for (int64_t i = 0; i < count; i++)
            memcpy(&out[i], at + i * step * 4, sizeof(*out));
    else
        for (int64_t i = 0; i < count; i++) {
            memcpy(&half, at + i * step * 2, sizeof(half));
            out[i] = tensor->type == TYPE_FP16 ? half_to_float(half) : bfloat_to_float(half);
        }
}

bool safetensor_equal(const struct safetensor *one, const struct safetensor *other)
{
    enum { PART = 4096 };
    float a[PART], b[PART];
    int64_t elements = one->rows * one->cols;

    if (!one->data || !other->data || elements != other->rows * other->cols)
        return false;
    for (int64_t at = 0; at < elements; at += PART) {
        int64_t count = elements - at < PART ? elements - at : PART;

        safetensor_read(one, at, 1, count, a);
        safetensor_read(other, at, 1, count, b);
        if (memcmp(a, b, (size_t)count * sizeof(*a)) != 0)
            return false;
    }
    return true;
}
