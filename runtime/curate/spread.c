/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"
#include "spread.h"
#include "disk.h"
#include "lines.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define SPREAD_MAGIC 0x3144414552505344ull /* "DSPREAD1" */

struct spread {
    struct lines *file;
    size_t buckets;
    struct spread_entry *entries;
    size_t count, capacity;
    struct bytes table;
    uint64_t runs, written;
};

struct footer {
    uint64_t runs, buckets, magic;
};

struct spread *spread_create(struct curate_job *job, size_t buckets, struct error *err)
{
    struct spread *spread = calloc(1, sizeof(*spread));

    if (!spread) {
        error_set(err, "out of memory");
        return NULL;
    }
    spread->buckets = buckets;
    spread->file = lines_create(job, "hashes", 0, err);
    if (!spread->file) {
        spread_abandon(spread);
        return NULL;
    }
    return spread;
}

/* Write what there is as one run, by bucket; a counting sort keeps the documents in order. */
static int write_run(struct spread *spread, struct error *err)
{
    uint64_t *places = calloc(spread->buckets + 1, sizeof(*places));
    struct spread_entry *sorted = malloc((spread->count + 1) * sizeof(*sorted));
    int rc = places && sorted ? 0 : error_set(err, "out of memory");

    for (size_t i = 0; rc == 0 && i < spread->count; i++)
        places[spread_bucket(spread->entries[i].hash, spread->buckets) + 1]++;
    for (size_t i = 0; rc == 0 && i < spread->buckets; i++)
        places[i + 1] += places[i];
    for (size_t i = 0; rc == 0 && i <= spread->buckets; i++)
        bytes_put_u64(&spread->table, spread->written + places[i]);
    for (size_t i = 0; rc == 0 && i < spread->count; i++)
        sorted[places[spread_bucket(spread->entries[i].hash, spread->buckets)]++] =
            spread->entries[i];
    if (rc == 0)
        rc = lines_put(spread->file, sorted, spread->count * sizeof(*sorted), err);
    spread->runs++;
    spread->written += spread->count;
    spread->count = 0;
    free(places);
    free(sorted);
    return rc;
}

int spread_add(struct spread *spread, const struct spread_entry *entry, struct error *err)
{
    if (spread->count == SPREAD_RUN && write_run(spread, err) < 0)
        return -1;
    if (spread->count == spread->capacity) {
        size_t capacity = spread->capacity ? spread->capacity * 2 : 4096;
        struct spread_entry *entries = realloc(spread->entries, capacity * sizeof(*entries));

        if (!entries)
            return error_set(err, "out of memory for %zu hashes", capacity);
        spread->entries = entries;
        spread->capacity = capacity;
    }
    spread->entries[spread->count++] = *entry;
    return 0;
}

int spread_finish(struct spread *spread, struct error *err)
{
    struct footer footer = {0, spread->buckets, SPREAD_MAGIC};
    struct lines *file = spread->file;
    int64_t size;
    int rc = spread->count > 0 ? write_run(spread, err) : 0;

    footer.runs = spread->runs;
    if (rc == 0 && spread->table.failed)
        rc = error_set(err, "out of memory");
    if (rc == 0)
        rc = lines_put(file, spread->table.data, spread->table.size, err);
    if (rc == 0)
        rc = lines_put(file, &footer, sizeof(footer), err);
    if (rc == 0) {
        spread->file = NULL;
        rc = lines_finish(file, &size, err);
    }
    spread_abandon(spread);
    return rc;
}

void spread_abandon(struct spread *spread)
{
    if (!spread)
        return;
    lines_abandon(spread->file);
    bytes_clear(&spread->table);
    free(spread->entries);
    free(spread);
}

static int read_section(int fd, const char *path, int64_t table, size_t bucket,
                        struct spread_bucket_entries *entries, struct error *err)
{
    uint64_t ends[2];
    size_t count;
    int rc =
        disk_pread(fd, ends, sizeof(ends), table + (int64_t)(bucket * sizeof(*ends)), path, err);

    if (rc != 0 || ends[1] < ends[0] || ends[1] > (uint64_t)table / sizeof(*entries->items))
        return rc < 0 ? -1 : error_set(err, "%s is damaged", path);
    count = (size_t)(ends[1] - ends[0]);
    if (entries->count + count > entries->capacity) {
        size_t capacity = (entries->count + count) * 2;
        struct spread_entry *items = realloc(entries->items, capacity * sizeof(*items));

        if (!items)
            return error_set(err, "out of memory for %zu hashes", capacity);
        entries->items = items;
        entries->capacity = capacity;
    }
    rc = disk_pread(fd, entries->items + entries->count, count * sizeof(*entries->items),
                    (int64_t)(ends[0] * sizeof(*entries->items)), path, err);
    entries->count += count;
    return rc > 0 ? error_set(err, "%s is damaged", path) : rc;
}

int spread_read(const struct curate *engine, const char *phase, size_t number, size_t bucket,
                struct spread_bucket_entries *entries, struct error *err)
{
    char path[DISK_PATH];
    struct footer footer;
    struct stat status;
    int64_t table;
    int fd, rc;

    if (curate_path(engine, phase, "hashes", number, path, err) < 0)
        return -1;
    fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return error_set_errno(err, errno, "cannot open %s", path);
    rc = fstat(fd, &status) < 0 || status.st_size < (int64_t)sizeof(footer)
             ? 1
             : disk_pread(fd, &footer, sizeof(footer), status.st_size - (int64_t)sizeof(footer),
                          path, err);
    if (rc == 0 && (footer.magic != SPREAD_MAGIC || bucket >= footer.buckets ||
                    footer.buckets > SPREAD_BUCKETS || footer.runs > (uint64_t)status.st_size))
        rc = 1;
    if (rc > 0)
        rc = error_set(err, "%s is damaged", path);
    for (uint64_t run = 0; rc == 0 && run < footer.runs; run++) {
        table = status.st_size - (int64_t)sizeof(footer) -
                (int64_t)((footer.runs - run) * (footer.buckets + 1) * sizeof(uint64_t));
        rc = table < 0 ? error_set(err, "%s is damaged", path)
                       : read_section(fd, path, table, bucket, entries, err);
    }
    close(fd);
    return rc;
}
