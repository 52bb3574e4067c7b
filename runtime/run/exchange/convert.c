/* SPDX-License-Identifier: Apache-2.0 */
#include "convert.h"
#include "run/checkpoint/directory.h"
#include "run/checkpoint/shard_file.h"
#include "fairseq_source.h"
#include "lib/file.h"
#include "base/core/storage.h"
#include "hf_config.h"
#include "hf_private.h"
#include "megatron_save.h"
#include "megatron_source.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* A file next to the index: the absolute path of the Hugging Face folder that was imported. */
#define SOURCE_NAME "imported_from"

/* --- A new directory of checkpoints ---------------------------------------------------------- */

/* A checkpoint to create in 'to', which must not contain one. */
struct creation {
    const char *to;
    const char *kind; /* "import" or "export", part of the temporary name */
    int64_t iteration;
    bool release; /* name it "release", as Megatron-LM names a model that was imported */
    int (*fill)(void *context, const char *temporary, struct error *err);
    void *context;
};

static int commit_release(const char *to, const char *temporary, struct error *err)
{
    char final[PATH_MAX];

    if (directory_path(final, err, "%s/release", to) < 0 || file_sync_directory(temporary, err) < 0)
        return -1;
    if (rename(temporary, final) < 0)
        return error_set_errno(err, errno, "cannot rename %s", temporary);
    return directory_write(to, LATEST, "release\n", strlen("release\n"), err);
}

/* A failure leaves nothing behind, not even an empty directory. */
static int create_checkpoint(const struct creation *c, struct error *err)
{
    size_t existing = file_existing_length(c->to);
    char temporary[PATH_MAX];
    struct error ignored;
    int64_t newest;
    int rc = -1;

    if (directory_prepare(c->to, err) < 0 || directory_newest(c->to, -1, &newest, err) < 0 ||
        directory_path(temporary, err, "%s/iter_%07lld.tmp-%s-%ld", c->to, (long long)c->iteration,
                       c->kind, (long)getpid()) < 0)
        goto out;
    if (newest >= 0 || directory_has(c->to, LATEST) || directory_has(c->to, "release")) {
        error_set_code(err, ERROR_USAGE,
                       "%s already contains checkpoints; choose another directory", c->to);
        goto out;
    }
    if (mkdir(temporary, 0777) < 0) {
        error_set_errno(err, errno, "cannot create %s", temporary);
        goto out;
    }
    rc = c->fill(c->context, temporary, err);
    if (rc == 0)
        rc = c->release ? commit_release(c->to, temporary, err)
                        : directory_commit(c->to, temporary, c->iteration, NULL, err);
    if (rc < 0)
        directory_remove(temporary, NULL, &ignored);
out:
    if (rc < 0)
        file_remove_created(c->to, existing);
    return rc;
}

/* --- Import ---------------------------------------------------------------------------------- */

/* Where the weights come from: one of three. */
struct source {
    const char *path;
    const struct model_config *model;
    const struct safetensors *tensors; /* with 'map' */
    struct hf_map map;
    struct megatron_source *megatron;
    struct fairseq_source *fairseq;
};

static int load(const struct source *source, const struct parameter *p, float *out,
                struct error *err)
{
    if (source->megatron)
        return megatron_source_load(source->megatron, p, out, err);
    return source->fairseq ? fairseq_source_load(source->fairseq, p, out, err)
                           : hf_load_one(&source->map, source->tensors, p, out, err);
}

/* Write one layer as a pipeline rank would. */
static int import_stage(const struct source *source, const struct layout *layout, int rank,
                        const char *directory, struct index_file *file, struct error *err)
{
    struct layout_position at = layout_position(layout, rank);
    struct parameters p;
    struct pieces pieces = {0};
    char path[PATH_MAX];
    float *values = NULL;
    int rc;

    parameters_create(&p, source->model, layout, &at);
    pieces_create(&pieces, &p, &at, 0, PIECES_WRITTEN);
    values = calloc((size_t)p.shard_elements + 1, sizeof(*values));
    rc = values ? directory_path(path, err, "%s/%s", directory, file->name)
                : error_set(err, "out of memory");
    if (rc < 0)
        goto out;
    for (int i = 0; i < pieces.count; i++) {
        errno = 0;
        rc = load(source, &p.list[pieces.list[i].parameter], values + pieces.list[i].shard, err);
        if (rc < 0) {
            file_path_error(err);
            error_prefix(err, "%s", source->path);
            goto out;
        }
    }
    rc = shard_file_write(path, &p, &pieces, (const float *const *)&values, 1, file, NULL, err);
out:
    free(values);
    pieces_destroy(&pieces);
    parameters_destroy(&p);
    return rc;
}

struct import {
    const struct source *source;
    struct checkpoint_index index;
};

static int import_all(void *context, const char *temporary, struct error *err)
{
    struct import *import = context;
    const struct source *source = import->source;
    struct checkpoint_index *index = &import->index;
    size_t size;
    char *text, path[PATH_MAX];
    int rc = 0;

    index->arrays = 1;
    index->state.loss_scale = 1;
    for (int i = 0; i < index->file_count && rc == 0; i++)
        rc = import_stage(source, &index->layout, i, temporary, &index->files[i], err);
    if (rc < 0)
        return -1;
    text = index_write(index, &size, err);
    rc = text ? directory_write(temporary, INDEX_NAME, text, size, err) : -1;
    free(text);
    if (rc == 0 && source->tensors && realpath(source->path, path))
        rc = directory_write(temporary, SOURCE_NAME, path, strlen(path), err);
    return rc;
}

static int import(const struct source *source, const char *from, const char *directory,
                  struct error *err)
{
    struct import import = {.source = source};
    struct creation creation = {
        .to = directory, .kind = "import", .fill = import_all, .context = &import};
    /* As if every layer were a pipeline stage: only one is in memory at a time. */
    struct layout layout = {1, 1, 1, source->model->network.shape.layers};
    int rc;

    if (index_check_sizes(&source->model->network, err) < 0) {
        err->code = ERROR_USAGE;
        return error_prefix(err, "%s", from);
    }
    rc = index_create(&import.index, source->model, &layout, err);
    if (rc == 0)
        rc = create_checkpoint(&creation, err);
    index_clear(&import.index);
    return rc;
}

/* A source with missing or duplicate parts was usually damaged while it was copied. */
static int import_failed(struct error *err)
{
    return error_advise(err, "copy the checkpoint again from its source");
}

int convert_import_hf(const char *from, const char *directory, struct error *err)
{
    struct model_config model;
    struct source source = {.path = from, .model = &model};
    struct safetensors *tensors = NULL;
    int rc = hf_config_read(from, &model, err);

    if (rc < 0)
        return import_failed(err);
    errno = 0;
    if (hf_map_of(&model.network, &source.map, err) == 0)
        source.tensors = tensors = safetensors_open(from, err);
    rc = tensors ? hf_check_tensors(&source.map, tensors, &model, err) : -1;
    if (rc < 0)
        file_path_error(err);
    if (rc == 0)
        rc = import(&source, from, directory, err);
    else if (tensors)
        error_prefix(err, "%s", from);
    safetensors_destroy(tensors);
    return rc < 0 ? import_failed(err) : 0;
}

/* Import a checkpoint of Megatron-LM or fairseq that was opened, or say why it was not. */
static int import_opened(struct source *source, const char *directory, struct error *err)
{
    int rc = source->model ? import(source, source->path, directory, err) : file_path_error(err);

    megatron_source_destroy(source->megatron);
    fairseq_source_destroy(source->fairseq);
    return rc < 0 ? import_failed(err) : 0;
}

int convert_import_megatron(const char *from, const char *directory,
                            const struct megatron_hints *hints, char said[200], struct error *err)
{
    struct source source = {.path = from};

    errno = 0;
    source.megatron = megatron_source_open(from, hints, err);
    if (source.megatron) {
        source.model = megatron_source_model(source.megatron);
        snprintf(said, 200, "%s", megatron_source_describe(source.megatron));
    }
    return import_opened(&source, directory, err);
}

int convert_import_fairseq(const char *from, const char *directory, int64_t heads,
                           struct error *err)
{
    struct source source = {.path = from};

    errno = 0;
    source.fairseq = fairseq_source_open(from, heads, err);
    if (source.fairseq)
        source.model = fairseq_source_model(source.fairseq);
    return import_opened(&source, directory, err);
}

/* --- Export ---------------------------------------------------------------------------------- */

static int export_one(struct hf_files *files, const char *from,
                      const struct checkpoint_index *index, const struct parameters *p, int number,
                      struct error *err)
{
    const struct parameter *q = &p->list[number];
    float *values = export_read(from, index, p, number, err);
    int64_t count = q->true_rows * q->cols;
    int rc;

    if (!values)
        return -1;
    hf_to_theirs(&files->map, q, values, count);
    rc = export_round(index->model.numerics.type, q->name, values, count, err);
    if (rc == 0)
        rc = hf_files_write(files, q, (const char *)values, err);
    free(values);
    return rc;
}

static int export_all(struct hf_files *files, const char *from,
                      const struct checkpoint_index *index, struct error *err)
{
    struct layout one = {1, 1, 1, 1};
    struct layout_position at = {0, 0, 0, 0};
    struct parameters p;
    int rc = 0;

    parameters_create(&p, &index->model, &one, &at);
    for (int i = 0; i < p.count && rc == 0; i++)
        rc = export_one(files, from, index, &p, i, err);
    parameters_destroy(&p);
    return rc;
}

/* The weights that the checkpoint in 'from' was imported from are not replaced. */
static int check_source(const char *from, const char *to, struct error *err)
{
    char path[PATH_MAX];
    struct file_bytes source;
    int same;

    if (directory_path(path, err, "%s/" SOURCE_NAME, from) < 0)
        return -1;
    if (access(path, F_OK) < 0)
        return 0;
    if (file_read(path, PATH_MAX, &source, err) < 0)
        return -1;
    same = file_is_same(source.data, to);
    file_bytes_clear(&source);
    return same ? error_set_code(err, ERROR_USAGE,
                                 "%s was imported from %s, whose weights are not replaced; choose "
                                 "another directory",
                                 from, to)
                : 0;
}

static int export_to(const char *to, const char *from, const struct checkpoint_index *index,
                     struct hf_files *files, struct error *err)
{
    size_t existing = file_existing_length(to);
    struct error ignored;
    int rc = directory_prepare(to, err);

    if (rc == 0)
        rc = hf_files_check(to, &index->model, err);
    if (rc == 0)
        rc = hf_files_open(files, to, 1, err);
    if (rc == 0)
        rc = export_all(files, from, index, err);
    if (hf_files_close(files, rc == 0 ? err : &ignored) < 0)
        rc = -1;
    if (rc == 0)
        rc = hf_files_commit(files, to, &index->model, err);
    if (rc < 0) {
        hf_files_abandon(files, to);
        file_remove_created(to, existing);
    }
    return rc;
}

int convert_export_hf(const char *from, const char *to, enum device_type type, int64_t shard_bytes,
                      struct error *err)
{
    struct checkpoint_index index;
    struct hf_files files = {0};
    int rc = index_load(&index, from, err);

    if (rc == 0) {
        index.model.numerics.type = type;
        index.model.split.chunks = 1;
        index.model.padded_vocabulary = index.model.network.shape.vocabulary;
        rc = hf_files_plan(&files, &index.model, shard_bytes, err);
    }
    /* The model described by the index must match the tensors. */
    if (rc == 0)
        rc = index_check_model(&index, &index.model, err);
    if (rc == 0)
        rc = check_source(from, to, err);
    if (rc == 0)
        rc = export_to(to, from, &index, &files, err);
    hf_files_clear(&files);
    index_clear(&index);
    return rc;
}

/* --- Export to Megatron-LM ------------------------------------------------------------------- */

struct export
{
    const char *from;
    const struct megatron_target *target;
    struct checkpoint_index index;
};

static int export_megatron(void *context, const char *temporary, struct error *err)
{
    const struct export *export = context;

    return megatron_save(temporary, export->from, &export->index, export->target, err);
}

int convert_export_megatron(const char *from, const char *to, const struct megatron_target *target,
                            struct error *err)
{
    struct export export = {.from = from, .target = target};
    struct creation creation = {
        .to = to, .kind = "export", .fill = export_megatron, .context = &export};
    struct model_config *model = &export.index.model;
    int rc = index_load(&export.index, from, err);

    if (rc < 0)
        goto out;
    model->numerics.type = target->type;
    model->split.chunks = 1;
    model->padded_vocabulary = model->network.shape.vocabulary;
    rc = megatron_save_check(&model->network, target, err);
    if (rc == 0)
        rc = index_check_model(&export.index, model, err);
    if (rc < 0)
        goto out;
    /* Iteration 0 is a model that was imported. */
    creation.iteration = export.index.progress.iteration;
    creation.release = creation.iteration == 0;
    rc = create_checkpoint(&creation, err);
out:
    index_clear(&export.index);
    return rc < 0 ? -1 : 0;
}
