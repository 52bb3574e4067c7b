/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "run/checkpoint/directory.h"
#include "base/core/xmalloc.h"
#include "lib/file.h"
#include "hf_masked.h"
#include "hf_private.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

/* --- The plan -------------------------------------------------------------------------------- */

/* The plan being built: the parameters of the whole model, and the file that small tensors go to.
 */
struct planning {
    struct hf_files *files;
    struct parameters parameters;
    enum device_type type;
    int64_t shard_bytes;
    struct hf_file open; /* not in the list of files yet */
};

/* Append a file that is full to the list; it is cleared. */
static void add_file(struct hf_files *files, struct hf_file *file)
{
    if (file->layout.count == 0)
        return;
    files->list = xrealloc(files->list, files->count + 1, sizeof(*file));
    files->list[files->count++] = *file;
    *file = (struct hf_file){.layout.type = file->layout.type, .fd = -1};
}

/* The rows that a file gives a tensor; 0: it is a vector. Tables can have one row. */
static int64_t rank_of(const char *name, int64_t rows)
{
    return rows == 1 && !strstr(name, "_embeddings.") ? 0 : rows;
}

/* Same order and numbering as in transformers: a tensor larger than the maximum file size gets its
 * own file at once; the others fill a file that is numbered when it is full. */
static void place(struct planning *plan, const char *name, int64_t rows, int64_t cols)
{
    int64_t bytes = rows * cols * (int64_t)type_size(plan->type);
    struct hf_file alone = {.layout.type = plan->type, .fd = -1};

    plan->files->parameters += rows * cols;
    plan->files->bytes += bytes;
    if (bytes > plan->shard_bytes) {
        safetensors_layout_add(&alone.layout, name, rank_of(name, rows), cols);
        add_file(plan->files, &alone);
        return;
    }
    if ((int64_t)plan->open.layout.data_bytes + bytes > plan->shard_bytes)
        add_file(plan->files, &plan->open);
    safetensors_layout_add(&plan->open.layout, name, rank_of(name, rows), cols);
}

/* The Hugging Face tensor for a row of the table, if the model has it and the row is its first. */
static void place_row(struct planning *plan, const struct hf_name *row, int64_t layer)
{
    char ours[HF_NAME], theirs[HF_NAME];
    int64_t rows, cols;

    if (row->part != PART_WHOLE && row->part != PART_QUERY && row->part != PART_GATE)
        return;
    snprintf(ours, sizeof(ours), row->ours, (int)layer);
    snprintf(theirs, sizeof(theirs), row->theirs, (int)layer);
    for (int i = 0; i < plan->parameters.count; i++) {
        if (strcmp(plan->parameters.list[i].name, ours) != 0)
            continue;
        hf_shape(&plan->files->map, row, &plan->parameters.list[i], &rows, &cols);
        place(plan, theirs, rows, cols);
        return;
    }
}

/* Rows of layers are consecutive in the table; they are repeated for each layer. */
static void place_all(struct planning *plan, int64_t layers)
{
    for (const struct hf_name *row = plan->files->map.names, *end; row->ours; row = end) {
        int repeated = strchr(row->ours, '%') != NULL;

        for (end = row + 1; repeated && end->ours && strchr(end->ours, '%'); end++)
            ;
        for (int64_t layer = 0; layer < (repeated ? layers : 1); layer++)
            for (const struct hf_name *r = row; r < end; r++)
                place_row(plan, r, layer);
    }
}

static int name_files(struct hf_files *files, struct error *err)
{
    if (files->count > 99999) {
        error_set(err, "the export would need more than 99999 files");
        return error_append(err, "; raise --max-shard-size");
    }
    for (size_t i = 0; i < files->count; i++) {
        struct hf_file *file = &files->list[i];

        hf_file_name(files, i, 0, file->name);
        safetensors_layout_finish(&file->layout);
    }
    return 0;
}

int hf_files_plan(struct hf_files *files, const struct model_config *config, int64_t shard_bytes,
                  struct error *err)
{
    struct planning plan = {.files = files,
                            .type = config->numerics.type,
                            .shard_bytes = shard_bytes,
                            .open = {.layout.type = config->numerics.type, .fd = -1}};
    struct layout one = {1, 1, 1, 1};
    struct layout_position at = {0, 0, 0, 0};
    struct model_config whole = *config;
    char theirs[HF_NAME];
    int rc = 0;

    memset(files, 0, sizeof(*files));
    if (hf_map_of(&config->network, &files->map, err) < 0)
        return error_advise(err, "export the model in the Megatron-LM format");
    whole.split.chunks = 1;
    parameters_create(&plan.parameters, &whole, &one, &at);
    for (int i = 0; i < plan.parameters.count && rc == 0; i++)
        if (!hf_find_name(&files->map, plan.parameters.list[i].name, theirs))
            rc = error_set(err,
                           "Hugging Face's %s architecture has no equivalent of %s; export the "
                           "model in the Megatron-LM format",
                           files->map.name, plan.parameters.list[i].name);
    if (rc == 0) {
        place_all(&plan, config->network.shape.layers);
        /* New files consist of zeros. */
        if (hf_masked_zeros(&config->network))
            place(&plan, hf_masked_zeros(&config->network), 1, config->network.shape.hidden);
        add_file(files, &plan.open);
    }
    parameters_destroy(&plan.parameters);
    return rc < 0 ? -1 : name_files(files, err);
}

void hf_files_clear(struct hf_files *files)
{
    for (size_t i = 0; i < files->count; i++) {
        if (files->list[i].fd >= 0)
            close(files->list[i].fd);
        free(files->list[i].path);
        safetensors_layout_clear(&files->list[i].layout);
    }
    free(files->list);
    memset(files, 0, sizeof(*files));
}

/* --- Data ------------------------------------------------------------------------------------ */

static int write_all(const struct hf_file *file, const void *data, size_t bytes, size_t at,
                     struct error *err)
{
    return file_write_at(file->fd, data, bytes, (int64_t)at) < 0
               ? error_set_errno(err, errno, "cannot write %s", file->path)
               : 0;
}

static int open_one(struct hf_file *file, int create, struct error *err)
{
    if (create && unlink(file->path) < 0 && errno != ENOENT)
        return error_set_errno(err, errno, "cannot remove %s", file->path);
    /* Write-only: to read, an NFS client would read whole pages and write them back with stale data
     * over what another node has written to their other parts. */
    file->fd =
        open(file->path, O_WRONLY | O_CLOEXEC | O_NOFOLLOW | (create ? O_CREAT | O_EXCL : 0), 0666);
    return file->fd < 0 ? error_set_errno(err, errno, "cannot write %s", file->path) : 0;
}

/* Create a file of its full size, with its header. */
static int create_one(struct hf_file *file, struct error *err)
{
    const struct safetensors_layout *layout = &file->layout;
    off_t bytes = (off_t)(layout->header_bytes + layout->data_bytes);

    if (open_one(file, 1, err) < 0)
        return -1;
    /* Detect a full disk here rather than minutes later; not all file systems support it. */
    if (fallocate(file->fd, 0, 0, bytes) < 0 && (errno == ENOSPC || errno == EFBIG))
        return error_set_errno(err, errno, "cannot write %s", file->path);
    if (ftruncate(file->fd, bytes) < 0)
        return error_set_errno(err, errno, "cannot write %s", file->path);
    return write_all(file, layout->header, layout->header_bytes, 0, err);
}

/* Raise the limit of open files to the number of files plus a reserve. */
static int allow_files(size_t count, struct error *err)
{
    struct rlimit limit;
    rlim_t wanted = count;

    if (getrlimit(RLIMIT_NOFILE, &limit) < 0 || limit.rlim_cur == RLIM_INFINITY)
        return 0;
    if (wanted >= limit.rlim_max) {
        error_set(err, "%zu files must be open at once, but the limit is %zu (ulimit -Hn)", count,
                  (size_t)limit.rlim_max);
        return error_append(err, "; raise --max-shard-size");
    }
    wanted += limit.rlim_cur;
    limit.rlim_cur = wanted < limit.rlim_max ? wanted : limit.rlim_max;
    setrlimit(RLIMIT_NOFILE, &limit);
    return 0;
}

int hf_files_open(struct hf_files *files, const char *directory, int create, struct error *err)
{
    char path[PATH_MAX];

    if (allow_files(files->count, err) < 0)
        return -1;
    for (size_t i = 0; i < files->count; i++) {
        struct hf_file *file = &files->list[i];

        if (directory_path(path, err, "%s/%s.new", directory, file->name) < 0)
            return -1;
        free(file->path);
        file->path = xstrdup(path);
        if (create && create_one(file, err) < 0)
            return -1;
    }
    return 0;
}

/* Our rows are Hugging Face's columns. */
static int write_columns(const struct hf_map *map, const struct hf_file *file,
                         const struct hf_name *row, const struct parameter *p, size_t offset,
                         size_t size, const char *weights, struct error *err)
{
    int64_t rows = hf_true_rows(p);
    char *column = xmalloc((size_t)rows * size + 1);
    int rc = 0;

    for (int64_t c = 0; c < p->cols && rc == 0; c++) {
        for (int64_t r = 0; r < rows; r++)
            memcpy(column + (size_t)r * size, weights + (size_t)(r * p->cols + c) * size, size);
        rc = write_all(
            file, column, (size_t)rows * size,
            offset + (size_t)hf_index(map, row, p, p->first_row, p->first_col + c) * size, err);
    }
    free(column);
    return rc;
}

int hf_files_write(struct hf_files *files, const struct parameter *p, const char *weights,
                   struct error *err)
{
    char theirs[HF_NAME];
    const struct hf_name *row = hf_find_name(&files->map, p->name, theirs);
    const struct safetensors_entry *entry = NULL;
    struct hf_file *file;
    int64_t rows = hf_true_rows(p), units, together;
    int vector = p->all_rows == 1;
    size_t i = 0, size;
    int rc = 0;

    while (row && i < files->count &&
           !(entry = safetensors_layout_find(&files->list[i].layout, theirs)))
        i++;
    if (!entry)
        return error_bug(err, "no output file contains %s", p->name);
    file = &files->list[i];
    if (file->fd < 0 && open_one(file, 0, err) < 0)
        return -1;
    size = type_size(file->layout.type);
    if (row->how & HF_TRANSPOSED && !vector)
        return write_columns(&files->map, file, row, p, entry->offset, size, weights, err);
    /* Whole rows are also contiguous in the file, as far as the tensor is not interleaved. */
    units = vector ? p->cols : rows;
    together = vector || p->cols == p->all_cols ? hf_adjacent(&files->map, row, p) : 1;
    for (int64_t i = 0; i < units && rc == 0; i += together) {
        int64_t count = units - i < together ? units - i : together;
        int64_t at = hf_index(&files->map, row, p, p->first_row + (vector ? 0 : i),
                              p->first_col + (vector ? i : 0));

        rc = write_all(file, weights + (size_t)(i * (vector ? 1 : p->cols)) * size,
                       (size_t)(count * (vector ? 1 : p->cols)) * size,
                       entry->offset + (size_t)at * size, err);
    }
    return rc;
}

int hf_files_close(struct hf_files *files, struct error *err)
{
    int rc = 0;

    for (size_t i = 0; i < files->count; i++) {
        struct hf_file *file = &files->list[i];

        if (file->fd < 0)
            continue;
        if (fsync(file->fd) < 0 && rc == 0)
            rc = error_set_errno(err, errno, "cannot write %s", file->path);
        if (close(file->fd) < 0 && rc == 0)
            rc = error_set_errno(err, errno, "cannot write %s", file->path);
        file->fd = -1;
    }
    return rc;
}
