/* SPDX-License-Identifier: Apache-2.0 */
/* Partitions lines into buckets (sections.h), with at most run_bytes in memory. */
#include "config.h"
#include "mix.h"
#include "sections.h"
#include "base/core/list.h"

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
    LIST(struct scattered) lines;
};

struct scatter *scatter_create(struct job *job, size_t buckets, struct error *err)
{
    struct scatter *scatter = xcalloc(1, sizeof(*scatter));

    if (sections_create(&scatter->sections, job, "lines", buckets, err) == 0)
        return scatter;
    free(scatter);
    return NULL;
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
    struct scattered *lines = scatter->lines.items;
    size_t count = scatter->lines.count, next = 0;

    if (count > 0)
        qsort(lines, count, sizeof(*lines), by_bucket);
    for (size_t bucket = 0; bucket <= scatter->sections.buckets; bucket++) {
        sections_next(&scatter->sections);
        for (; next < count && lines[next].bucket == bucket; next++)
            if (sections_put(&scatter->sections, scatter->data.data + lines[next].at,
                             lines[next].size, err) < 0)
                return -1;
    }
    scatter->lines.count = 0;
    scatter->data.size = 0;
    return 0;
}

int scatter_add(struct scatter *scatter, const struct scatter_entry *entry, const char *line,
                struct error *err)
{
    size_t at = scatter->data.size;

    bytes_put(&scatter->data, entry, sizeof(*entry));
    bytes_put(&scatter->data, line, entry->size);
    *list_add(&scatter->lines) =
        (struct scattered){at, sizeof(*entry) + entry->size,
                           (uint32_t)section_of(entry->key, scatter->sections.buckets)};
    return scatter->data.size >= run_bytes ? write_run(scatter, err) : 0;
}

int scatter_finish(struct scatter *scatter, struct error *err)
{
    int rc = scatter->lines.count > 0 ? write_run(scatter, err) : 0;

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
    list_free(&scatter->lines);
    free(scatter);
}
