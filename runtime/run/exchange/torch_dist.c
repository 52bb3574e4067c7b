/* SPDX-License-Identifier: Apache-2.0 */
#include "torch_dist_private.h"
#include "base/core/xmalloc.h"
#include "run/checkpoint/directory.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

/* --- The index -------------------------------------------------------------------------------- */

/* The texts stay in 'bytes'. */
static int list_tensors(struct torch_dist *d, const void *bytes, size_t size, struct error *err)
{
    size_t used;
    struct pickle *pickle = pickle_read(bytes, size, &used, err);
    int rc = pickle ? torch_dist_list(d, pickle_root(pickle), err) : -1;

    pickle_destroy(pickle);
    return rc < 0 ? error_prefix(err, "%s/" TORCH_DIST_INDEX, d->directory) : 0;
}

struct torch_dist *torch_dist_open(const char *directory, struct error *err)
{
    struct torch_dist *d = xcalloc(1, sizeof(*d));
    char path[PATH_MAX];

    d->directory = xstrdup(directory);
    if (directory_path(path, err, "%s/" TORCH_DIST_INDEX, directory) == 0 &&
        file_read(path, (size_t)1 << 32, &d->index, err) == 0 &&
        list_tensors(d, d->index.data, d->index.length, err) == 0)
        return d;
    torch_dist_destroy(d);
    return NULL;
}

void torch_dist_destroy(struct torch_dist *d)
{
    if (!d)
        return;
    for (size_t i = 0; i < d->files.count; i++)
        munmap(d->files.items[i].bytes, d->files.items[i].size);
    list_free(&d->files);
    list_free(&d->chunks);
    free(d->tensors);
    file_bytes_clear(&d->index);
    free(d->directory);
    free(d);
}

const struct torch_dist_tensor *torch_dist_at(const struct torch_dist *d, size_t index)
{
    return index < d->tensor_count ? &d->tensors[index] : NULL;
}

static int by_name(const void *a, const void *b)
{
    return torch_dist_compare(((const struct torch_dist_tensor *)a)->name,
                              ((const struct torch_dist_tensor *)b)->name);
}

const struct torch_dist_tensor *torch_dist_find(const struct torch_dist *d, const char *name)
{
    struct torch_dist_tensor wanted = {.name = {name, strlen(name)}};

    return d->tensor_count ? bsearch(&wanted, d->tensors, d->tensor_count, sizeof(wanted), by_name)
                           : NULL;
}

/* --- Files ------------------------------------------------------------------------------------ */

static int map_file(const char *path, struct torch_dist_file *file, struct error *err)
{
    struct stat status;
    int fd = open(path, O_RDONLY | O_CLOEXEC), rc = 0;

    if (fd < 0)
        return error_set_errno(err, errno, "cannot open %s", path);
    if (fstat(fd, &status) < 0 || !S_ISREG(status.st_mode) || status.st_size == 0)
        rc = error_set(err, "%s is empty or not a regular file; copy the checkpoint again", path);
    if (rc == 0) {
        file->size = (size_t)status.st_size;
        file->bytes = mmap(NULL, file->size, PROT_READ, MAP_SHARED, fd, 0);
        if (file->bytes == MAP_FAILED)
            rc = error_set_errno(err, errno, "cannot map %s into memory", path);
    }
    close(fd);
    return rc;
}

static const struct torch_dist_file *find_file(struct torch_dist *d, struct pickle_text name,
                                               struct error *err)
{
    struct torch_dist_file file = {.name = name};
    char path[PATH_MAX];

    for (size_t i = 0; i < d->files.count; i++)
        if (torch_dist_compare(d->files.items[i].name, name) == 0)
            return &d->files.items[i];
    if (directory_path(path, err, "%s/%.*s", d->directory, (int)name.length, name.at) < 0)
        return NULL;
    if (map_file(path, &file, err) < 0)
        return NULL;
    *list_add(&d->files) = file;
    return &d->files.items[d->files.count - 1];
}

/* --- Chunks ----------------------------------------------------------------------------------- */

/* The rows and columns of a chunk and where they are in the output: those of the last two
 * dimensions, or one row of a vector. */
struct window {
    int64_t rows, cols, first_row, first_col, all_cols;
};

static struct window window_of(const struct torch_dist_tensor *t, const struct torch_dist_chunk *c,
                               int skipped)
{
    int last = t->dimensions - 1;
    struct window w = {1, c->size[last], 0, c->offset[last], t->shape[last]};

    if (last > skipped) {
        w.rows = c->size[last - 1];
        w.first_row = c->offset[last - 1];
    }
    return w;
}

static int read_stored(struct torch_file *file, const struct torch_dist_tensor *t,
                       const struct torch_dist_chunk *c, int64_t index, float *out,
                       struct error *err)
{
    struct torch_tensor stored;
    struct window w = window_of(t, c, index >= 0);

    if (torch_file_tensor(file, torch_file_root(file), &stored, err) < 0)
        return -1;
    if (stored.dimensions != t->dimensions)
        return error_set(err, "the stored chunk has another shape than the index");
    for (int i = 0; i < t->dimensions; i++)
        if (stored.shape[i] != c->size[i])
            return error_set(err, "the stored chunk has another shape than the index");
    if (index >= 0)
        torch_tensor_pick(&stored, index - c->offset[0]);
    for (int64_t r = 0; r < w.rows; r++)
        torch_tensor_read(&stored, r, 0, w.cols,
                          out + (w.first_row + r) * w.all_cols + w.first_col);
    return 0;
}

static int read_chunk(struct torch_dist *d, const struct torch_dist_tensor *t,
                      const struct torch_dist_chunk *c, int64_t index, float *out,
                      struct error *err)
{
    const struct torch_dist_file *file = find_file(d, c->file, err);
    struct torch_file *stored;
    int rc;

    if (!file)
        return -1;
    if ((uint64_t)c->at > file->size || (uint64_t)c->length > file->size - (uint64_t)c->at)
        return error_set(err,
                         "%.*s is truncated: a chunk at byte %" PRId64 " has %" PRId64
                         " bytes, but the file has %zu; copy the checkpoint again",
                         (int)c->file.length, c->file.at, c->at, c->length, file->size);
    stored = torch_file_read((const char *)file->bytes + c->at, (size_t)c->length, err);
    rc = stored ? read_stored(stored, t, c, index, out, err) : -1;
    torch_file_destroy(stored);
    if (rc < 0)
        return error_prefix(err, "%.*s, byte %" PRId64, (int)c->file.length, c->file.at, c->at);
    return 0;
}

int torch_dist_read(struct torch_dist *d, const struct torch_dist_tensor *t, int64_t index,
                    float *out, struct error *err)
{
    int skipped = index >= 0, name = (int)(t->name.length < 128 ? t->name.length : 128);
    int64_t left = 1;

    if (t->dimensions <= skipped || t->dimensions > skipped + 2 ||
        (skipped && index >= t->shape[0]))
        return error_set(err, "%.*s has %d dimensions, which are not those of a layer's tensor",
                         name, t->name.at, t->dimensions);
    for (int i = skipped; i < t->dimensions; i++)
        left *= t->shape[i];
    for (size_t i = 0; i < t->chunks; i++) {
        const struct torch_dist_chunk *c = &d->chunks.items[t->first + i];
        int64_t count = 1;

        if (skipped && (index < c->offset[0] || index >= c->offset[0] + c->size[0]))
            continue;
        if (read_chunk(d, t, c, index, out, err) < 0)
            return error_prefix(err, "%.*s", name, t->name.at);
        for (int k = skipped; k < t->dimensions; k++)
            count *= c->size[k];
        left -= count;
    }
    if (left != 0)
        return error_set(err, "%.*s: some elements are missing or stored twice", name, t->name.at);
    return 0;
}
