/* SPDX-License-Identifier: Apache-2.0 */
/* Lines in sections by bucket. The file is a sequence of runs, as long as memory is wanted for one,
 * then a table of where each bucket's bytes begin in each run, then how many runs there are. */
#include "config.h"
#include "mix.h"
#include "disk.h"
#include "lines.h"
#include "spread.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define SCATTER_MAGIC 0x3154414353544144ull /* "DATSCAT1" */

static const size_t run_bytes = 64 << 20;

struct scattered {
    size_t at, size; /* in 'data' */
    uint32_t bucket;
};

struct scatter {
    struct lines *file;
    size_t buckets;
    struct bytes data, table;
    struct scattered *items;
    size_t count, capacity;
    uint64_t runs;
};

struct footer {
    uint64_t runs, buckets, magic;
};

struct scatter *scatter_create(struct curate_job *job, size_t buckets, struct error *err)
{
    struct scatter *scatter = calloc(1, sizeof(*scatter));

    if (!scatter) {
        error_set(err, "out of memory");
        return NULL;
    }
    scatter->buckets = buckets;
    scatter->file = lines_create(job, "lines", 0, err);
    if (!scatter->file) {
        scatter_abandon(scatter);
        return NULL;
    }
    return scatter;
}

static int by_bucket(const void *a, const void *b)
{
    const struct scattered *left = a, *right = b;

    if (left->bucket != right->bucket)
        return left->bucket < right->bucket ? -1 : 1;
    return left->at < right->at ? -1 : left->at > right->at;
}

static int write_run(struct scatter *scatter, struct error *err)
{
    size_t next = 0;

    if (scatter->data.failed)
        return error_set(err, "out of memory for lines to shuffle");
    if (scatter->count > 0)
        qsort(scatter->items, scatter->count, sizeof(*scatter->items), by_bucket);
    for (size_t bucket = 0; bucket <= scatter->buckets; bucket++) {
        bytes_put_u64(&scatter->table, (uint64_t)lines_at(scatter->file));
        for (; next < scatter->count && scatter->items[next].bucket == bucket; next++)
            if (lines_put(scatter->file, scatter->data.data + scatter->items[next].at,
                          scatter->items[next].size, err) < 0)
                return -1;
    }
    scatter->runs++;
    scatter->count = 0;
    scatter->data.size = 0;
    return 0;
}

int scatter_add(struct scatter *scatter, const struct scatter_entry *entry, const char *line,
                struct error *err)
{
    size_t at = scatter->data.size;

    if (scatter->count == scatter->capacity) {
        size_t capacity = scatter->capacity ? scatter->capacity * 2 : 4096;
        struct scattered *items = realloc(scatter->items, capacity * sizeof(*items));

        if (!items)
            return error_set(err, "out of memory for lines to shuffle");
        scatter->items = items;
        scatter->capacity = capacity;
    }
    bytes_put(&scatter->data, entry, sizeof(*entry));
    bytes_put(&scatter->data, line, entry->size);
    scatter->items[scatter->count++] = (struct scattered){
        at, sizeof(*entry) + entry->size, (uint32_t)spread_bucket(entry->key, scatter->buckets)};
    return scatter->data.size >= run_bytes ? write_run(scatter, err) : 0;
}

int scatter_finish(struct scatter *scatter, struct error *err)
{
    struct footer footer = {0, scatter->buckets, SCATTER_MAGIC};
    struct lines *file = scatter->file;
    int64_t size;
    int rc = scatter->count > 0 ? write_run(scatter, err) : 0;

    footer.runs = scatter->runs;
    if (rc == 0 && scatter->table.failed)
        rc = error_set(err, "out of memory");
    if (rc == 0)
        rc = lines_put(file, scatter->table.data, scatter->table.size, err);
    if (rc == 0)
        rc = lines_put(file, &footer, sizeof(footer), err);
    if (rc == 0) {
        scatter->file = NULL;
        rc = lines_finish(file, &size, err);
    }
    scatter_abandon(scatter);
    return rc;
}

void scatter_abandon(struct scatter *scatter)
{
    if (!scatter)
        return;
    lines_abandon(scatter->file);
    bytes_clear(&scatter->data);
    bytes_clear(&scatter->table);
    free(scatter->items);
    free(scatter);
}

static int read_section(int fd, const char *path, int64_t table, size_t bucket, struct bytes *bytes,
                        struct error *err)
{
    uint64_t ends[2];
    unsigned char *room;
    int rc =
        disk_pread(fd, ends, sizeof(ends), table + (int64_t)(bucket * sizeof(*ends)), path, err);

    if (rc != 0 || ends[1] < ends[0] || ends[1] > (uint64_t)table)
        return rc < 0 ? -1 : error_set(err, "%s is damaged", path);
    room = malloc((size_t)(ends[1] - ends[0]) + 1);
    if (!room)
        return error_set(err, "out of memory for a bucket of documents");
    rc = disk_pread(fd, room, (size_t)(ends[1] - ends[0]), (int64_t)ends[0], path, err);
    bytes_put(bytes, room, (size_t)(ends[1] - ends[0]));
    free(room);
    if (bytes->failed)
        return error_set(err, "out of memory for a bucket of documents");
    return rc > 0 ? error_set(err, "%s is damaged", path) : rc;
}

int scatter_read(const struct curate *engine, const char *phase, size_t number, size_t bucket,
                 struct bytes *bytes, struct error *err)
{
    char path[DISK_PATH];
    struct footer footer = {0, 0, 0};
    struct stat status;
    int fd, rc;

    if (curate_path(engine, phase, "lines", number, path, err) < 0)
        return -1;
    fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return error_set_errno(err, errno, "cannot open %s", path);
    rc = fstat(fd, &status) < 0 || status.st_size < (int64_t)sizeof(footer)
             ? 1
             : disk_pread(fd, &footer, sizeof(footer), status.st_size - (int64_t)sizeof(footer),
                          path, err);
    if (rc == 0 && (footer.magic != SCATTER_MAGIC || bucket >= footer.buckets ||
                    footer.buckets > SPREAD_BUCKETS ||
                    footer.runs * (footer.buckets + 1) * 8 > (uint64_t)status.st_size))
        rc = 1;
    if (rc > 0)
        rc = error_set(err, "%s is damaged", path);
    for (uint64_t run = 0; rc == 0 && run < footer.runs; run++) {
        int64_t table = status.st_size - (int64_t)sizeof(footer) -
                        (int64_t)((footer.runs - run) * (footer.buckets + 1) * 8);

        rc = read_section(fd, path, table, bucket, bytes, err);
    }
    close(fd);
    return rc;
}
