#include "safetensors.h"
#include "json.h"

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

struct mapping {
    void *memory;
    size_t bytes;
};

struct safetensors {
    struct mapping *files;
    size_t file_count;
    struct safetensor *list;
    size_t count, room;
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

static int add_tensor(struct safetensors *s, const struct safetensor *tensor, struct error *err)
{
    if (s->count == s->room) {
        size_t room = s->room ? 2 * s->room : 64;
        struct safetensor *more = realloc(s->list, room * sizeof(*more));

        if (!more)
            return error_set(err, "out of memory");
        s->list = more;
        s->room = room;
    }
    s->list[s->count++] = *tensor;
    return 0;
}

/* shape [n] or [m, n] of a member of the header. */
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

static int read_entry(struct safetensors *s, const char *path, const char *name,
                      struct json_value value, const char *data, size_t bytes, struct error *err)
{
    struct safetensor tensor = {.rows = 1};
    struct json_value item, offsets;
    struct json_iterator i;
    const char *type;
    size_t length;
    int64_t range[2] = {-1, -1};

    if (strcmp(name, "__metadata__") == 0)
        return 0;
    if (snprintf(tensor.name, sizeof(tensor.name), "%s", name) >= (int)sizeof(tensor.name))
        return 0; /* no name of ours is that long */
    if (json_member(value, "dtype", &item) < 0 || json_string(item, &type, &length) < 0 ||
        json_member(value, "data_offsets", &offsets) < 0 || json_iterate(offsets, &i) < 0)
        return error_set(err, "%s: tensor %s is not described", path, name);
    for (int k = 0; k < 2 && json_next(&i, NULL, NULL, &item); k++)
        if (json_integer(item, &range[k]) < 0)
            return error_set(err, "%s: tensor %s has wrong offsets", path, name);
    if (element_type(type, &tensor.type) < 0 || read_shape(value, &tensor.rows, &tensor.cols) < 0)
        return 0; /* a mask or a counter: nothing we would look for */
    if (range[0] < 0 || range[1] < range[0] || (uint64_t)range[1] > bytes ||
        (uint64_t)(range[1] - range[0]) !=
            (uint64_t)tensor.rows * (uint64_t)tensor.cols * type_size(tensor.type))
        return error_set(err, "%s: tensor %s lies outside of the file or has another size", path,
                         name);
    tensor.data = data + range[0];
    return add_tensor(s, &tensor, err);
}

static int read_header(struct safetensors *s, const char *path, const char *file, size_t bytes,
                       struct error *err)
{
    uint64_t length = 0;
    struct json *json;
    struct json_iterator i;
    struct json_value value;
    const char *name;
    size_t name_length;
    int rc = 0;

    for (int k = 0; k < 8 && bytes >= 8; k++)
        length |= (uint64_t)(unsigned char)file[k] << (8 * k);
    if (bytes < 8 || length > bytes - 8 || length > HEADER_LIMIT)
        return error_set(err, "%s is no safetensors file: its header does not fit", path);
    json = json_read(file + 8, (size_t)length, err);
    if (!json)
        return error_prefix(err, "%s: header", path);
    if (json_iterate(json_root(json), &i) < 0)
        rc = error_set(err, "%s: the header is no object", path);
    while (rc == 0 && json_next(&i, &name, &name_length, &value))
        rc = read_entry(s, path, name, value, file + 8 + length, bytes - 8 - (size_t)length, err);
    json_destroy(json);
    return rc;
}

static int map_file(struct safetensors *s, const char *path, struct error *err)
{
    struct mapping *more = realloc(s->files, (s->file_count + 1) * sizeof(*more));
    struct stat status;
    int fd;
    void *memory;

    if (!more)
        return error_set(err, "out of memory");
    s->files = more;
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
        return error_set(err, "cannot map %s into memory", path);
    s->files[s->file_count++] = (struct mapping){memory, (size_t)status.st_size};
    return read_header(s, path, memory, (size_t)status.st_size, err);
}

/* The files that an index names, each once. */
static int map_indexed(struct safetensors *s, const char *directory, const char *index,
                       struct error *err)
{
    struct json *json = json_read_file(index, HEADER_LIMIT, err);
    struct json_value map, value;
    struct json_iterator i;
    char last[256] = "";
    int rc = 0;

    if (!json)
        return -1;
    if (json_member(json_root(json), "weight_map", &map) < 0 || json_iterate(map, &i) < 0)
        rc = error_set(err, "%s has no weight_map", index);
    /* Hundreds of tensors name a few files; a file is opened when it differs from all before. */
    for (char seen[64][256], *file = last; rc == 0 && json_next(&i, NULL, NULL, &value);) {
        const char *text;
        size_t length, known = 0;
        char path[PATH_MAX];

        if (json_string(value, &text, &length) < 0 || length >= sizeof(last) || strchr(text, '/')) {
            rc = error_set(err, "%s names a file that cannot be", index);
            break;
        }
        snprintf(file, sizeof(last), "%s", text);
        while (known < s->file_count && known < 64 && strcmp(seen[known], file) != 0)
            known++;
        if (known < s->file_count)
            continue;
        if (known == 64) {
            rc = error_set(err, "%s names more than 64 files", index);
            break;
        }
        snprintf(seen[known], sizeof(seen[known]), "%s", file);
        if (snprintf(path, sizeof(path), "%s/%s", directory, file) >= (int)sizeof(path))
            rc = error_set(err, "%s: too long a path", directory);
        else
            rc = map_file(s, path, err);
    }
    json_destroy(json);
    return rc;
}

struct safetensors *safetensors_open(const char *path, struct error *err)
{
    struct safetensors *s = calloc(1, sizeof(*s));
    struct stat status;
    char name[PATH_MAX];
    int rc;

    if (!s) {
        error_set(err, "out of memory");
        return NULL;
    }
    if (stat(path, &status) < 0)
        rc = error_set_errno(err, errno, "cannot open %s", path);
    else if (!S_ISDIR(status.st_mode))
        rc = map_file(s, path, err);
    else if (snprintf(name, sizeof(name), "%s/model.safetensors.index.json", path) <
                 (int)sizeof(name) &&
             access(name, R_OK) == 0)
        rc = map_indexed(s, path, name, err);
    else {
        snprintf(name, sizeof(name), "%s/model.safetensors", path);
        rc = map_file(s, name, err);
    }
    if (rc < 0) {
        safetensors_destroy(s);
        return NULL;
    }
    return s;
}

void safetensors_destroy(struct safetensors *s)
{
    if (!s)
        return;
    for (size_t i = 0; i < s->file_count; i++)
        munmap(s->files[i].memory, s->files[i].bytes);
    free(s->files);
    free(s->list);
    free(s);
}

const struct safetensor *safetensors_find(const struct safetensors *s, const char *name)
{
    for (size_t i = 0; i < s->count; i++)
        if (strcmp(s->list[i].name, name) == 0)
            return &s->list[i];
    return NULL;
}

float safetensor_value(const struct safetensor *tensor, int64_t index)
{
    uint32_t bits;
    uint16_t half;
    float value;

    if (tensor->type == TYPE_FP32) {
        memcpy(&value, (const char *)tensor->data + index * 4, 4);
        return value;
    }
    memcpy(&half, (const char *)tensor->data + index * 2, 2);
    if (tensor->type == TYPE_FP16) {
        int exponent = half >> 10 & 31;
        uint32_t sign = (uint32_t)(half & 0x8000) << 16, fraction = half & 0x3FF;

        if (exponent == 0) {
            value = (float)fraction / 16777216.0f;
            return sign ? -value : value;
        }
        bits = sign | (uint32_t)(exponent == 31 ? 255 : exponent + 112) << 23 | fraction << 13;
    } else {
        bits = (uint32_t)half << 16;
    }
    memcpy(&value, &bits, 4);
    return value;
}

int safetensors_layout_add(struct safetensors_layout *layout, const char *name, int64_t rows,
                           int64_t cols, struct error *err)
{
    struct safetensors_entry *more;
    size_t elements = (size_t)(rows ? rows : 1) * (size_t)cols;

    more = realloc(layout->entries, (layout->count + 1) * sizeof(*more));
    if (!more)
        return error_set(err, "out of memory");
    layout->entries = more;
    more = &layout->entries[layout->count++];
    *more = (struct safetensors_entry){.rows = rows, .cols = cols, .offset = layout->data_bytes};
    snprintf(more->name, sizeof(more->name), "%s", name);
    layout->data_bytes += elements * type_size(layout->type);
    return 0;
}

int safetensors_layout_finish(struct safetensors_layout *layout, struct error *err)
{
    size_t room = 64 + layout->count * 320, used = 8, length;
    const char *type = layout->type == TYPE_FP32   ? "F32"
                       : layout->type == TYPE_BF16 ? "BF16"
                                                   : "F16";

    layout->header = malloc(room);
    if (!layout->header)
        return error_set(err, "out of memory");
    used += (size_t)snprintf(layout->header + used, room - used,
                             "{\"__metadata__\":{\"format\":\"pt\"}");
    for (size_t i = 0; i < layout->count; i++) {
        const struct safetensors_entry *e = &layout->entries[i];
        size_t elements = (size_t)(e->rows ? e->rows : 1) * (size_t)e->cols;
        char shape[64];

        if (e->rows)
            snprintf(shape, sizeof(shape), "%lld,%lld", (long long)e->rows, (long long)e->cols);
        else
            snprintf(shape, sizeof(shape), "%lld", (long long)e->cols);
        used += (size_t)snprintf(
            layout->header + used, room - used,
            ",\"%s\":{\"dtype\":\"%s\",\"shape\":[%s],\"data_offsets\":[%zu,%zu]}", e->name, type,
            shape, e->offset, e->offset + elements * type_size(layout->type));
    }
    used += (size_t)snprintf(layout->header + used, room - used, "}");
    /* The data begins at a multiple of 8. */
    while (used % 8 != 0)
        layout->header[used++] = ' ';
    length = used - 8;
    for (int i = 0; i < 8; i++)
        layout->header[i] = (char)(length >> (8 * i) & 255);
    layout->header_bytes = used;
    for (size_t i = 0; i < layout->count; i++)
        layout->entries[i].offset += used;
    return 0;
}

const struct safetensors_entry *safetensors_layout_find(const struct safetensors_layout *layout,
                                                        const char *name)
{
    for (size_t i = 0; i < layout->count; i++)
        if (strcmp(layout->entries[i].name, name) == 0)
            return &layout->entries[i];
    return NULL;
}

void safetensors_layout_clear(struct safetensors_layout *layout)
{
    free(layout->entries);
    free(layout->header);
    memset(layout, 0, sizeof(*layout));
}
