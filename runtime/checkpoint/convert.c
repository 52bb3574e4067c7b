#include "convert.h"
#include "directory.h"
#include "hf_config.h"
#include "hf_private.h"
#include "reshard.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* --- Import ---------------------------------------------------------------------------------- */

/* One stage of layers as its rank would write it. */
static int import_stage(const struct hf_name *table, const struct safetensors *tensors,
                        const struct model_config *model, const struct layout *layout, int rank,
                        const char *directory, struct index_file *file, struct error *err)
{
    struct layout_position at = layout_position(layout, rank);
    struct parameters p;
    struct pieces pieces = {0};
    char path[PATH_MAX];
    float *values = NULL;
    int rc = parameters_create(&p, model, layout, &at, 1, err);

    if (rc == 0)
        rc = pieces_create(&pieces, &p, &at, 0, PIECES_WRITTEN, err);
    if (rc == 0) {
        values = calloc((size_t)p.shard_elements + 1, sizeof(*values));
        rc = values ? directory_path(path, err, "%s/%s", directory, file->name)
                    : error_set(err, "out of memory");
    }
    for (int i = 0; i < pieces.count && rc == 0; i++)
        rc = hf_load_one(table, tensors, &p.list[pieces.list[i].parameter],
                         values + pieces.list[i].shard, err);
    if (rc == 0)
        rc = shard_file_write(path, &p, &pieces, (const float *const *)&values, 1, file, err);
    free(values);
    pieces_destroy(&pieces);
    parameters_destroy(&p);
    return rc;
}

static int import_all(const struct hf_name *table, const struct safetensors *tensors,
                      struct checkpoint_index *index, const char *temporary, struct error *err)
{
    size_t size;
    char *text;
    int rc = 0;

    index->arrays = 1;
    index->state.loss_scale = 1;
    for (int i = 0; i < index->file_count && rc == 0; i++)
        rc = import_stage(table, tensors, &index->model, &index->layout, i, temporary,
                          &index->files[i], err);
    if (rc < 0)
        return -1;
    text = index_write(index, &size, err);
    rc = text ? directory_write(temporary, INDEX_NAME, text, size, err) : -1;
    free(text);
    return rc;
}

static int import_to(const char *directory, const struct hf_name *table,
                     const struct safetensors *tensors, struct checkpoint_index *index,
                     struct error *err)
{
    char temporary[PATH_MAX];
    struct error ignored;
    int rc;

    if (directory_prepare(directory, err) < 0 ||
        directory_path(temporary, err, "%s/iter_0000000.tmp-import-%ld", directory,
                       (long)getpid()) < 0)
        return -1;
    if (directory_latest(directory) >= 0)
        return error_set(err, "%s holds checkpoints already; name another directory", directory);
    if (mkdir(temporary, 0777) < 0)
        return error_set_errno(err, errno, "cannot make %s", temporary);
    rc = import_all(table, tensors, index, temporary, err);
    if (rc == 0)
        rc = directory_commit(directory, temporary, 0, err);
    if (rc < 0)
        directory_remove(temporary, &ignored);
    return rc;
}

int convert_import_hf(const char *from, const char *directory, struct error *err)
{
    struct checkpoint_index index = {0};
    struct model_config model;
    struct layout layout = {1, 1, 1, 1};
    const struct hf_name *table;
    struct safetensors *tensors = NULL;
    int rc = hf_config_read(from, &model, err);

    if (rc < 0)
        return -1;
    /* As if every layer had been a stage of a pipeline: only one is in memory at a time. */
    layout.pp = model.shape.layers;
    table = hf_names_of(&model, err);
    if (table)
        tensors = safetensors_open(from, err);
    rc = tensors ? index_create(&index, &model, &layout, err) : -1;
    if (rc == 0)
        rc = import_to(directory, table, tensors, &index, err);
    index_clear(&index);
    safetensors_destroy(tensors);
    return rc;
}

/* --- Export ---------------------------------------------------------------------------------- */

/* To the nearest, ties to even; NaN stays NaN. */
static uint16_t to_bf16(float value)
{
    uint32_t bits;

    memcpy(&bits, &value, sizeof(bits));
    if ((bits & 0x7FFFFFFF) > 0x7F800000)
        return (uint16_t)(bits >> 16 | 0x40);
    return (uint16_t)((bits + 0x7FFF + (bits >> 16 & 1)) >> 16);
}

static uint16_t to_fp16(float value)
{
    uint32_t bits, sign, fraction, rest, half;
    int exponent, shift;

    memcpy(&bits, &value, sizeof(bits));
    sign = bits >> 16 & 0x8000;
    exponent = (int)(bits >> 23 & 255) - 112;
    fraction = (bits & 0x7FFFFF) | 0x800000;
    if ((bits & 0x7FFFFFFF) > 0x7F800000)
        return (uint16_t)(sign | 0x7E00);
    if (exponent >= 31)
        return (uint16_t)(sign | 0x7C00);
    if (exponent < -10)
        return (uint16_t)sign;
    shift = exponent <= 0 ? 14 - exponent : 13;
    half = exponent <= 0 ? fraction >> shift : (uint32_t)(exponent - 1) << 10;
    if (exponent > 0)
        half += fraction >> shift;
    rest = fraction & ((1u << shift) - 1);
    if (rest > 1u << (shift - 1) || (rest == 1u << (shift - 1) && (half & 1)))
        half++;
    return (uint16_t)(sign | half);
}

/* In place: a half takes less room than what it is made of. */
static void round_to(enum device_type type, float *values, int64_t count)
{
    uint16_t *out = (uint16_t *)(void *)values;

    for (int64_t i = 0; i < count && type != TYPE_FP32; i++) {
        uint16_t half = type == TYPE_BF16 ? to_bf16(values[i]) : to_fp16(values[i]);

        memcpy(&out[i], &half, sizeof(half));
    }
}

static int export_one(int fd, const char *from, const struct checkpoint_index *index,
                      const struct hf_name *table, const struct safetensors_layout *layout,
                      const struct parameters *p, int number, struct error *err)
{
    const struct parameter *q = &p->list[number];
    struct piece piece = {number, 0, q->true_rows * q->cols, 0};
    struct pieces pieces = {&piece, 1, piece.count};
    float *values = calloc((size_t)piece.count + 1, sizeof(*values));
    int rc;

    if (!values)
        return error_set(err, "out of memory");
    rc = reshard_read(from, index, p, &pieces, &values, 1, err);
    if (rc == 0) {
        round_to(layout->type, values, piece.count);
        rc = hf_save_one(fd, table, layout, q, (const char *)values, err);
    }
    free(values);
    return rc;
}

static int export_all(int fd, const char *from, const struct checkpoint_index *index,
                      const struct hf_name *table, const struct safetensors_layout *layout,
                      struct error *err)
{
    struct layout one = {1, 1, 1, 1};
    struct layout_position at = {0, 0, 0, 0};
    struct parameters p;
    int rc = parameters_create(&p, &index->model, &one, &at, 1, err);

    for (int i = 0; i < p.count && rc == 0; i++)
        rc = export_one(fd, from, index, table, layout, &p, i, err);
    parameters_destroy(&p);
    return rc;
}

static int export_to(const char *to, const char *from, const struct checkpoint_index *index,
                     const struct hf_name *table, const struct safetensors_layout *layout,
                     struct error *err)
{
    char path[PATH_MAX], temporary[PATH_MAX];
    int fd, rc;

    if (directory_prepare(to, err) < 0 ||
        directory_path(path, err, "%s/model.safetensors", to) < 0 ||
        directory_path(temporary, err, "%s.new", path) < 0)
        return -1;
    fd = hf_open_file(temporary, layout, 1, err);
    if (fd < 0)
        return -1;
    rc = export_all(fd, from, index, table, layout, err);
    if (rc == 0 && fsync(fd) < 0)
        rc = error_set_errno(err, errno, "cannot write %s", temporary);
    if (close(fd) < 0 && rc == 0)
        rc = error_set_errno(err, errno, "cannot write %s", temporary);
    if (rc == 0)
        rc = hf_write_config(to, &index->model, err);
    if (rc == 0 && rename(temporary, path) < 0)
        rc = error_set_errno(err, errno, "cannot rename %s", temporary);
    if (rc < 0)
        unlink(temporary);
    return rc < 0 ? -1 : directory_sync(to, err);
}

int convert_export_hf(const char *from, const char *to, enum device_type type, struct error *err)
{
    struct checkpoint_index index;
    struct safetensors_layout layout = {.type = type};
    const struct hf_name *table = NULL;
    int rc = index_load(&index, from, err);

    if (rc == 0) {
        index.model.type = type;
        index.model.chunks = 1;
        index.model.padded_vocabulary = index.model.shape.vocabulary;
        table = hf_names_of(&index.model, err);
        rc = table ? hf_make_layout(&index.model, table, &layout, err) : -1;
    }
    /* The model that its fields describe must be that of its tensors. */
    if (rc == 0)
        rc = index_check_model(&index, &index.model, err);
    if (rc == 0)
        rc = export_to(to, from, &index, table, &layout, err);
    safetensors_layout_clear(&layout);
    index_clear(&index);
    return rc;
}
