/* SPDX-License-Identifier: Apache-2.0 */
/* Hashes of documents, spread over buckets: every chunk writes one file with a section per bucket,
 * and whoever does a bucket reads its sections of all files. Equal hashes meet in one bucket, and a
 * bucket is small enough for memory, whatever the corpus.
 *
 *     entry*   16 bytes each, by bucket, in runs of up to SPREAD_RUN entries
 *     table    per run, where each bucket's entries begin (buckets + 1 numbers)
 *     footer   magic, runs, buckets */
#ifndef MEGATRON_CURATE_SPREAD_H
#define MEGATRON_CURATE_SPREAD_H

#include "curate.h"

enum { SPREAD_RUN = 4 << 20, SPREAD_BUCKETS = 4096 };

struct spread_entry {
    uint64_t hash;
    uint32_t check; /* further bits of the same */
    uint32_t document;
};

static inline size_t spread_bucket(uint64_t hash, size_t buckets)
{
    return (size_t)(((hash >> 32) * buckets) >> 32);
}

struct spread;

/* Begin the file "hashes-N" of the job. */
struct spread *spread_create(struct curate_job *job, size_t buckets, struct error *err);
int spread_add(struct spread *spread, const struct spread_entry *entry, struct error *err);
int spread_finish(struct spread *spread, struct error *err);
void spread_abandon(struct spread *spread);

/* Entries of a bucket. Caller frees 'items'. */
struct spread_bucket_entries {
    struct spread_entry *items;
    size_t count, capacity;
};

/* Add the entries of 'bucket' in the file that job 'number' of 'phase' has made, in the order of
 * documents. Returns 0 or -1. */
int spread_read(const struct curate *engine, const char *phase, size_t number, size_t bucket,
                struct spread_bucket_entries *entries, struct error *err);

#endif
