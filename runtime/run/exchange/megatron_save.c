/* SPDX-License-Identifier: Apache-2.0 */
#include "megatron_save_private.h"
#include "convert_private.h"
#include "run/checkpoint/directory.h"
#include "lib/file.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
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
    float *values = convert_read(s->from, s->index, &s->parameters, number, err);

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
        rc = convert_round(s->target->type, saved->name, values, elements, err);
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

/* --- A file per rank ------------------------------------------------------------------------- */

/* The stage that is being written: a file for each tensor-parallel rank. */
struct stage {
    const struct saving *saving;
    int64_t number, layers; /* of each stage */
    struct stage_file {
        char path[PATH_MAX];
        struct torch_writer writer;
    } * files;
};

/* Does the stage contain the tensor? The last one has a copy of tied embeddings as its head. */
static int is_in_stage(const struct stage *stage, const struct saved *saved)
{
    const struct saving *s = stage->saving;
    int64_t last = s->target->pp - 1;

    if (saved->layer >= 0)
        return saved->layer / stage->layers == stage->number;
    if (strncmp(saved->row->ours, "embedding.", 10) != 0)
        return stage->number == last;
    return stage->number == 0 || (stage->number == last && s->index->model.network.tied &&
                                  strcmp(saved->row->ours, "embedding.word.weight") == 0);
}

static void name_in_stage(const struct stage *stage, const struct saved *saved, char out[128])
{
    if (saved->layer >= 0)
        snprintf(out, 128, "decoder.layers.%" PRId64 ".%s", saved->layer % stage->layers,
                 saved->name);
    else if (stage->number > 0 && strncmp(saved->row->ours, "embedding.", 10) == 0)
        snprintf(out, 128, "output_layer.weight");
    else
        snprintf(out, 128, "%s", saved->name);
}

static void put_states(const struct stage *stage, struct pickle_writer *pickle)
{
    const char *const *states = saved_states(stage->saving->target->local, 1);
    char name[128];

    for (int64_t layer = 0; layer < stage->layers; layer++)
        for (int i = 0; states[i]; i++) {
            snprintf(name, sizeof(name), "decoder.layers.%" PRId64 ".%s._extra_state", layer,
                     states[i]);
            pickle_put_text(pickle, name);
            pickle_put_none(pickle);
        }
    states = saved_states(stage->saving->target->local, 0);
    for (int i = 0; states[i] && stage->number == stage->saving->target->pp - 1; i++) {
        snprintf(name, sizeof(name), "%s._extra_state", states[i]);
        pickle_put_text(pickle, name);
        pickle_put_none(pickle);
    }
}

/* The same on all tensor-parallel ranks. */
static void put_stage(const struct stage *stage, struct pickle_writer *pickle)
{
    const struct saving *s = stage->saving;
    struct saved saved;
    int64_t storage = 0;
    char name[128];

    pickle_begin(pickle);
    pickle_begin_dict(pickle);
    saved_put_common(s, pickle);
    pickle_put_text(pickle, "model");
    pickle_begin_dict(pickle);
    for (int i = 0; i < s->parameters.count; i++) {
        if (!saved_describe(s, i, &saved) || !is_in_stage(stage, &saved))
            continue;
        name_in_stage(stage, &saved, name);
        pickle_put_text(pickle, name);
        torch_put_tensor(pickle, storage++, s->target->type,
                         (const int64_t[]){saved.rows, saved.cols}, saved.vector ? 1 : 2);
    }
    put_states(stage, pickle);
    pickle_end_dict(pickle);
    pickle_end_dict(pickle);
    pickle_end(pickle);
}

static int open_stage(struct stage *stage, struct error *err)
{
    const struct saving *s = stage->saving;
    struct pickle_writer pickle = {0};
    char name[80], folder[PATH_MAX];
    int rc = 0;

    put_stage(stage, &pickle);
    for (int64_t rank = 0; rank < s->split.tp && rc == 0; rank++) {
        struct stage_file *file = &stage->files[rank];
        int length = snprintf(name, sizeof(name), "mp_rank_%02" PRId64, rank), fd;

        if (s->target->pp > 1)
            snprintf(name + length, sizeof(name) - (size_t)length, "_%03" PRId64, stage->number);
        rc = directory_path(folder, err, "%s/%s", s->to, name);
        if (rc == 0 && mkdir(folder, 0777) < 0)
            rc = error_set_errno(err, errno, "cannot create %s", folder);
        if (rc < 0)
            break;
        strncat(name, "/model_optim_rng.pt", sizeof(name) - strlen(name) - 1);
        fd = saved_open(s, name, file->path, err);
        rc = fd < 0 ? -1 : torch_writer_begin(&file->writer, fd, file->path, 0, &pickle, err);
        if (fd >= 0)
            file->writer.fd = fd;
    }
    pickle_writer_clear(&pickle);
    return rc;
}

static int write_stage(struct stage *stage, struct error *err)
{
    const struct saving *s = stage->saving;
    struct saved saved;
    int rc = 0;

    for (int i = 0; i < s->parameters.count && rc == 0; i++) {
        char *bytes;

        if (!saved_describe(s, i, &saved) || !is_in_stage(stage, &saved))
            continue;
        bytes = saved_read(s, &saved, err);
        rc = bytes ? 0 : -1;
        for (int64_t rank = 0; rank < s->split.tp && rc == 0; rank++)
            rc = torch_writer_add(
                &stage->files[rank].writer,
                bytes + (saved.row->cut == CUT_NONE ? 0 : (size_t)rank * saved_bytes(s, &saved)),
                saved_bytes(s, &saved), err);
        free(bytes);
    }
    return rc;
}

static int close_stage(struct stage *stage, int rc, struct error *err)
{
    char folder[PATH_MAX], *slash;

    for (int64_t rank = 0; rank < stage->saving->split.tp; rank++) {
        struct stage_file *file = &stage->files[rank];
        struct error ignored, *to = rc == 0 ? err : &ignored;

        if (file->path[0] == '\0')
            continue;
        if (rc == 0)
            rc = torch_writer_end(&file->writer, err);
        if (file->writer.fd > 0 && saved_close(file->writer.fd, file->path, to) < 0)
            rc = -1;
        snprintf(folder, sizeof(folder), "%s", file->path);
        slash = strrchr(folder, '/');
        *slash = '\0';
        if (rc == 0)
            rc = file_sync_directory(folder, err);
        torch_writer_clear(&file->writer);
    }
    return rc;
}

static int save_stage(const struct saving *s, int64_t number, struct error *err)
{
    struct stage stage = {s, number, s->index->model.network.shape.layers / s->target->pp, NULL};
    int rc;

    stage.files = calloc((size_t)s->split.tp, sizeof(*stage.files));
    if (!stage.files)
        return error_set(err, "out of memory");
    rc = open_stage(&stage, err);
    if (rc == 0)
        rc = write_stage(&stage, err);
    rc = close_stage(&stage, rc, err);
    free(stage.files);
    return rc;
}

int megatron_save(const char *to, const char *from, const struct checkpoint_index *index,
                  const struct megatron_target *target, struct error *err)
{
    struct layout one = {1, 1, 1, 1};
    struct layout_position at = {0, 0, 0, 0};
    struct model_config padded = index->model;
    struct saving s = {to, from, index, target, {&padded, target->dist ? 1 : target->tp, 3, 0},
                       {0}};
    int rc = parameters_create(&s.parameters, &index->model, &one, &at, err);

    if (target->interleaved)
        s.split.pairs =
            (int64_t)((double)padded.network.shape.kv_channels * padded.network.rotary_percent) / 2;
    padded.padded_vocabulary =
        vocabulary_padded(index->model.network.shape.vocabulary, target->divisor, s.split.tp);
    if (rc == 0 && target->dist)
        rc = megatron_save_dist(&s, err);
    for (int64_t stage = 0; stage < target->pp && rc == 0 && !target->dist; stage++)
        rc = save_stage(&s, stage, err);
    parameters_destroy(&s.parameters);
    return rc;
}
