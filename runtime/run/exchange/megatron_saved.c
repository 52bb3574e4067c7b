/* SPDX-License-Identifier: Apache-2.0 */
/* The tensors that an export to Megatron-LM writes, in both of its formats. */
#include "convert.h"
#include "megatron_save_private.h"
#include "run/checkpoint/directory.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* --- Names ------------------------------------------------------------------------------------ */

/* Norms are part of the next linear layer in Transformer Engine's layers and in distributed
 * checkpoints. */
static const struct {
    const char *ours, *fused, *local;
} norms[] = {
    {"norm1.weight", "self_attention.linear_qkv.layer_norm_weight", "input_layernorm.weight"},
    {"norm1.bias", "self_attention.linear_qkv.layer_norm_bias", "input_layernorm.bias"},
    {"norm2.weight", "mlp.linear_fc1.layer_norm_weight", "pre_mlp_layernorm.weight"},
    {"norm2.bias", "mlp.linear_fc1.layer_norm_bias", "pre_mlp_layernorm.bias"},
};

const char *const *saved_states(int local, int of_layer)
{
    static const char *const layer[] = {"self_attention.linear_qkv",
                                        "self_attention.linear_proj",
                                        "mlp.linear_fc1",
                                        "mlp.linear_fc2",
                                        "self_attention.core_attention",
                                        NULL};
    static const char *const local_layer[] = {"self_attention.linear_qkv",
                                              "self_attention.linear_proj", "mlp.linear_fc1",
                                              "mlp.linear_fc2", NULL};
    /* The norm has one with Transformer Engine 2. */
    static const char *const outer[] = {"output_layer", "decoder.final_layernorm", NULL};
    static const char *const local_outer[] = {"output_layer", NULL};

    if (of_layer)
        return local ? local_layer : layer;
    return local ? local_outer : outer;
}

/* Megatron core's name is the last of the row. */
static const char *core_name(const struct saving *s, const struct megatron_name *row)
{
    int last = 0;

    for (size_t i = 0; i < sizeof(norms) / sizeof(norms[0]); i++)
        if (strcmp(norms[i].ours, row->ours) == 0)
            return s->target->local && !s->target->dist ? norms[i].local : norms[i].fused;
    while (last < 3 && row->theirs[last + 1])
        last++;
    return row->theirs[last];
}

/* Is it the first of the tensors that Megatron-LM joins? */
static int is_first(const struct saving *s, const struct megatron_name *row)
{
    if (row->cut == CUT_FC1)
        return row->part == (s->index->model.network.swiglu ? 0 : 1);
    return row->part == 0;
}

int saved_describe(const struct saving *s, int number, struct saved *saved)
{
    const struct parameter *p = &s->parameters.list[number];
    const struct model_config *model = s->split.model;
    int64_t rows;

    memset(saved, 0, sizeof(*saved));
    saved->row = megatron_name_of(p->name, &saved->layer);
    if (!saved->row || !is_first(s, saved->row))
        return 0;
    saved->number = number;
    saved->name = core_name(s, saved->row);
    saved->vector = p->all_rows == 1;
    rows = saved->vector ? p->cols : p->rows;
    if (saved->row->cut == CUT_ROWS)
        rows = model->padded_vocabulary;
    megatron_part_shape(&s->split, saved->row, rows, saved->vector ? 1 : p->cols, &saved->rows,
                        &saved->cols);
    return 1;
}

size_t saved_bytes(const struct saving *s, const struct saved *saved)
{
    return (size_t)(saved->rows * saved->cols) * type_size(s->target->type);
}

/* --- Elements --------------------------------------------------------------------------------- */

/* Read one of our tensors and put its rows where Megatron-LM has them. */
static int read_one(const struct saving *s, const struct saved *saved,
                    const struct megatron_name *row, int number, float *out, struct error *err)
{
    const struct parameter *p = &s->parameters.list[number];
    int64_t rows = saved->vector ? p->cols : p->rows, cols = saved->vector ? 1 : p->cols;
    int64_t true_rows = saved->vector ? rows : p->true_rows;
    float *values = export_read(s->from, s->index, &s->parameters, number, err);

    if (!values)
        return -1;
    if (row->cut == CUT_ROWS)
        rows = s->split.model->padded_vocabulary;
    for (int64_t r = 0; r < true_rows; r++) {
        int64_t local, rank = megatron_rank_of_row(&s->split, row, rows, r, &local);

        for (int64_t c = 0; c < cols; c += saved->cols, rank++)
            memcpy(out + (rank * saved->rows + local) * saved->cols, values + r * cols + c,
                   (size_t)saved->cols * sizeof(*out));
    }
    free(values);
    return 0;
}

/* Is parameter 'number' one of those that are joined to this tensor? */
static const struct megatron_name *row_in(const struct saving *s, const struct saved *saved,
                                          int number)
{
    int64_t layer;
    const struct megatron_name *row = megatron_name_of(s->parameters.list[number].name, &layer);

    return row && layer == saved->layer && strcmp(core_name(s, row), saved->name) == 0 ? row : NULL;
}

void *saved_read(const struct saving *s, const struct saved *saved, struct error *err)
{
    int64_t ranks = saved->row->cut == CUT_NONE ? 1 : s->split.tp;
    int64_t elements = ranks * saved->rows * saved->cols;
    float *values = calloc((size_t)elements + 1, sizeof(*values));
    int rc = values ? 0 : error_set(err, "out of memory");

    for (int i = 0; i < s->parameters.count && rc == 0; i++) {
        const struct megatron_name *row = row_in(s, saved, i);

        if (row)
            rc = read_one(s, saved, row, i, values, err);
    }
    if (rc == 0)
        rc = export_round(s->target->type, saved->name, values, elements, err);
    if (rc == 0)
        return values;
    free(values);
    return NULL;
}

/* --- Files ------------------------------------------------------------------------------------ */

int saved_open(const struct saving *s, const char *name, char path[PATH_MAX], struct error *err)
{
    int fd;

    if (directory_path(path, err, "%s/%s", s->to, name) < 0)
        return -1;
    fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    return fd < 0 ? error_set_errno(err, errno, "cannot write %s", path) : fd;
}

int saved_close(int fd, const char *path, struct error *err)
{
    int rc = fsync(fd);

    if (close(fd) < 0 || rc < 0)
        return error_set_errno(err, errno, "cannot write %s", path);
    return 0;
}
