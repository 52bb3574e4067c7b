/* SPDX-License-Identifier: Apache-2.0 */
/* Partitions lines into buckets (sections.h), with at most run_bytes in memory. */
#include "config.h"
#include "mix.h"
#include "sections.h"

#include <stdlib.h>
#include <string.h>

static const size_t run_bytes = 64 << 20;

struct scattered {
    size_t at, size; /* range in 'data' */
    uint32_t bucket;
};

struct scatter {
    struct sections sections;
    struct bytes data;
    struct scattered *items;
    size_t count, capacity;
};

struct scatter *scatter_create(struct curate_job *job, size_t buckets, struct error *err)
{
    struct scatter *scatter = calloc(1, sizeof(*scatter));

    if (!scatter) {
        error_set(err, "out of memory");
        return NULL;
    }
    if (sections_create(&scatter->sections, job, "lines", buckets, err) < 0) {
        free(scatter);
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
        return error_set(err, "lines to shuffle: out of memory");
    if (scatter->count > 0)
        qsort(scatter->items, scatter->count, sizeof(*scatter->items), by_bucket);
    for (size_t bucket = 0; bucket <= scatter->sections.buckets; bucket++) {
        sections_next(&scatter->sections);
        for (; next < scatter->count && scatter->items[next].bucket == bucket; next++)
            if (sections_put(&scatter->sections, scatter->data.data + scatter->items[next].at,
                             scatter->items[next].size, err) < 0)
                return -1;
    }
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
            return error_set(err, "lines to shuffle: out of memory");
        scatter->items = items;
        scatter->capacity = capacity;
    }
    bytes_put(&scatter->data, entry, sizeof(*entry));
    bytes_put(&scatter->data, line, entry->size);
    scatter->items[scatter->count++] =
        (struct scattered){at, sizeof(*entry) + entry->size,
                           (uint32_t)section_of(entry->key, scatter->sections.buckets)};
    return scatter->data.size >= run_bytes ? write_run(scatter, err) : 0;
}

int scatter_finish(struct scatter *scatter, struct error *err)
{
    int rc = scatter->count > 0 ? write_run(scatter, err) : 0;

    if (rc == 0)
        rc = sections_finish(&scatter->sections, err);
    scatter_abandon(scatter);
    return rc;
}

void scatter_abandon(struct scatter *scatter)
{
    if (!scatter)
        return;
    sections_abandon(&scatter->sections);
    bytes_clear(&scatter->data);
    free(scatter->items);
    free(scatter);
}
