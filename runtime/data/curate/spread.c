/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"
#include "spread.h"

#include <stdlib.h>
#include <string.h>

struct spread {
    struct sections sections;
    struct spread_entry *entries;
    size_t count, capacity;
};

struct spread *spread_create(struct curate_job *job, size_t buckets, struct error *err)
{
    struct spread *spread = calloc(1, sizeof(*spread));

    if (!spread) {
        error_set(err, "out of memory");
        return NULL;
    }
    if (sections_create(&spread->sections, job, "hashes", buckets, err) < 0) {
        free(spread);
        return NULL;
    }
    return spread;
}

/* Write the entries as one run, partitioned by a stable counting sort. */
static int write_run(struct spread *spread, struct error *err)
{
    size_t buckets = spread->sections.buckets;
    size_t *ends = calloc(buckets + 1, sizeof(*ends));
    struct spread_entry *sorted = malloc((spread->count + 1) * sizeof(*sorted));
    int rc = ends && sorted ? 0 : error_set(err, "out of memory");

    for (size_t i = 0; rc == 0 && i < spread->count; i++)
        ends[section_of(spread->entries[i].hash, buckets) + 1]++;
    for (size_t i = 0; rc == 0 && i < buckets; i++)
        ends[i + 1] += ends[i];
    for (size_t i = 0; rc == 0 && i < spread->count; i++)
        sorted[ends[section_of(spread->entries[i].hash, buckets)]++] = spread->entries[i];
    /* 'ends' now holds the end of each bucket. */
    for (size_t i = 0, at = 0; rc == 0 && i < buckets; at = ends[i], i++) {
        sections_next(&spread->sections);
        rc = sections_put(&spread->sections, sorted + at, (ends[i] - at) * sizeof(*sorted), err);
    }
    if (rc == 0)
        sections_next(&spread->sections);
    spread->count = 0;
    free(ends);
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
            return error_set(err, "%zu hashes: out of memory", capacity);
        spread->entries = entries;
        spread->capacity = capacity;
    }
    spread->entries[spread->count++] = *entry;
    return 0;
}

int spread_finish(struct spread *spread, struct error *err)
{
    int rc = spread->count > 0 ? write_run(spread, err) : 0;

    if (rc == 0)
        rc = sections_finish(&spread->sections, err);
    spread_abandon(spread);
    return rc;
}

void spread_abandon(struct spread *spread)
{
    if (!spread)
        return;
    sections_abandon(&spread->sections);
    free(spread->entries);
    free(spread);
}
