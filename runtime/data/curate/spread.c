/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"
#include "spread.h"
#include "base/core/list.h"

#include <stdlib.h>
#include <string.h>

struct spread {
    struct sections sections;
    LIST(struct spread_entry) entries;
};

struct spread *spread_create(struct job *job, size_t buckets, struct error *err)
{
    struct spread *spread = xcalloc(1, sizeof(*spread));

    if (sections_create(&spread->sections, job, "hashes", buckets, err) == 0)
        return spread;
    free(spread);
    return NULL;
}

/* Write the entries as one run, partitioned by a stable counting sort. */
static int write_run(struct spread *spread, struct error *err)
{
    const struct spread_entry *entries = spread->entries.items;
    size_t count = spread->entries.count, buckets = spread->sections.buckets;
    size_t *ends = xcalloc(buckets + 1, sizeof(*ends));
    struct spread_entry *sorted = xcalloc(count + 1, sizeof(*sorted));
    int rc = 0;

    for (size_t i = 0; i < count; i++)
        ends[section_of(entries[i].hash, buckets) + 1]++;
    for (size_t i = 0; i < buckets; i++)
        ends[i + 1] += ends[i];
    for (size_t i = 0; i < count; i++)
        sorted[ends[section_of(entries[i].hash, buckets)]++] = entries[i];
    /* 'ends' now holds the end of each bucket. */
    for (size_t i = 0, at = 0; rc == 0 && i < buckets; at = ends[i], i++) {
        sections_next(&spread->sections);
        rc = sections_put(&spread->sections, sorted + at, (ends[i] - at) * sizeof(*sorted), err);
    }
    sections_next(&spread->sections);
    spread->entries.count = 0;
    free(ends);
    free(sorted);
    return rc;
}

int spread_add(struct spread *spread, const struct spread_entry *entry, struct error *err)
{
    if (spread->entries.count == SPREAD_RUN && write_run(spread, err) < 0)
        return -1;
    *list_add(&spread->entries) = *entry;
    return 0;
}

int spread_finish(struct spread *spread, struct error *err)
{
    int rc = spread->entries.count > 0 ? write_run(spread, err) : 0;

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
    list_free(&spread->entries);
    free(spread);
}
