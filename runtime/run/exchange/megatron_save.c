/* SPDX-License-Identifier: Apache-2.0 */
#include "megatron_save_private.h"
#include "base/core/xmalloc.h"
#include "run/checkpoint/directory.h"
#include "lib/file.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

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
            pickle_put_text(pickle, name, NULL);
        }
    states = saved_states(stage->saving->target->local, 0);
    for (int i = 0; states[i] && stage->number == stage->saving->target->pp - 1; i++) {
        snprintf(name, sizeof(name), "%s._extra_state", states[i]);
        pickle_put_text(pickle, name, NULL);
    }
}

/* Write the pickle of a stage, which is the same on all tensor-parallel ranks. */
static void put_stage(const struct stage *stage, struct pickle_writer *pickle)
{
    const struct saving *s = stage->saving;
    struct saved saved;
    int64_t storage = 0;
    char name[128];

    pickle_begin(pickle);
    pickle_begin_dict(pickle, NULL);
    saved_put_common(s, pickle);
    pickle_begin_dict(pickle, "model");
    for (int i = 0; i < s->parameters.count; i++) {
        if (!saved_describe(s, i, &saved) || !is_in_stage(stage, &saved))
            continue;
        name_in_stage(stage, &saved, name);
        pickle_put_name(pickle, name);
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

    stage.files = xcalloc((size_t)s->split.tp, sizeof(*stage.files));
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
    int rc = 0;

    parameters_create(&s.parameters, &index->model, &one, &at);
    if (target->interleaved)
        s.split.pairs =
            (int64_t)((double)padded.network.shape.kv_channels * padded.network.rotary_percent) / 2;
    padded.padded_vocabulary =
        vocabulary_padded(index->model.network.shape.vocabulary, target->divisor, s.split.tp);
    if (target->dist)
        rc = megatron_save_dist(&s, err);
    for (int64_t stage = 0; stage < target->pp && rc == 0 && !target->dist; stage++)
        rc = save_stage(&s, stage, err);
    parameters_destroy(&s.parameters);
    return rc;
}
