/* SPDX-License-Identifier: Apache-2.0 */
/* Stored shingle sets, so that documents that share a band can be compared without being read
 * again. File format: the sorted 32-bit shingles of all documents, the offset of each document's
 * set, the number of documents. */
#include "config.h"
#include "dedup.h"
#include "data/jobs/disk.h"
#include "lines.h"
#include "base/core/xmalloc.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

struct sets {
    struct lines *file;
    struct bytes places;
    uint64_t count;
};

struct sets *sets_create(struct job *job, struct error *err)
{
    struct sets *sets = xcalloc(1, sizeof(*sets));

    sets->file = lines_create(job, "sets", 0, err);
    if (!sets->file) {
        free(sets);
        return NULL;
    }
    bytes_put_u64(&sets->places, 0);
    return sets;
}

int sets_add(struct sets *sets, struct shingles *shingles, struct error *err)
{
    shingles_unique(shingles);
    sets->count++;
    if (lines_put(sets->file, shingles->items, shingles->count * sizeof(*shingles->items), err) < 0)
        return -1;
    bytes_put_u64(&sets->places, (uint64_t)lines_at(sets->file));
    return 0;
}

int sets_finish(struct sets *sets, struct error *err)
{
    struct lines *file = sets->file;
    int64_t size;
    int rc = lines_put(file, sets->places.data, sets->places.size, err);

    if (rc == 0)
        rc = lines_put(file, &sets->count, sizeof(sets->count), err);
    if (rc == 0) {
        sets->file = NULL;
        rc = lines_finish(file, &size, err);
    }
    sets_abandon(sets);
    return rc;
}

void sets_abandon(struct sets *sets)
{
    if (!sets)
        return;
    lines_abandon(sets->file);
    bytes_clear(&sets->places);
    free(sets);
}

/* The chunk that contains document 'number' of the corpus. */
static size_t chunk_of(const struct dedup *dedup, int64_t number)
{
    size_t low = 0, high = dedup->engine->plan.chunk_count;

    while (high - low > 1) {
        size_t middle = (low + high) / 2;

        if (dedup->first[middle] <= number)
            low = middle;
        else
            high = middle;
    }
    return low;
}

static uint32_t *read_set(const struct dedup *dedup, int64_t number, size_t *count,
                          struct error *err)
{
    size_t chunk = chunk_of(dedup, number);
    int64_t documents = dedup->first[chunk + 1] - dedup->first[chunk];
    char path[DISK_PATH];
    uint64_t ends[2];
    uint32_t *set = NULL;
    struct stat status;
    int64_t table;
    int fd, rc;

    if (jobs_path(dedup->engine, "hashes", "sets", chunk, path, err) < 0)
        return NULL;
    fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) {
        error_set_errno(err, errno, "cannot open %s", path);
        return NULL;
    }
    rc = fstat(fd, &status) < 0;
    table = rc == 0 ? status.st_size - 8 - (documents + 1) * 8 : -1;
    if (table >= 0)
        rc = disk_pread(fd, ends, sizeof(ends), table + (number - dedup->first[chunk]) * 8, path,
                        err);
    if (table < 0 || rc != 0 || ends[1] < ends[0] || ends[1] > (uint64_t)table) {
        if (rc >= 0)
            jobs_damaged(path, err);
        close(fd);
        return NULL;
    }
    *count = (size_t)(ends[1] - ends[0]) / sizeof(*set);
    set = xmalloc((*count + 1) * sizeof(*set));
    rc = disk_pread(fd, set, *count * sizeof(*set), (int64_t)ends[0], path, err);
    close(fd);
    if (rc == 0)
        return set;
    free(set);
    if (rc > 0)
        jobs_damaged(path, err);
    return NULL;
}

int sets_compare(const struct dedup *dedup, int64_t a, int64_t b, struct error *err)
{
    size_t a_count, b_count;
    uint32_t *left = read_set(dedup, a, &a_count, err);
    uint32_t *right = left ? read_set(dedup, b, &b_count, err) : NULL;
    int rc = -1;

    if (right)
        rc = shingles_similarity(left, a_count, right, b_count) >= dedup->config->jaccard;
    free(left);
    free(right);
    return rc;
}
