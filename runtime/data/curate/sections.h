/* SPDX-License-Identifier: Apache-2.0 */
/* Files partitioned by bucket: each chunk writes one file with a section per bucket, and the job of
 * a bucket reads its section of every file. Equal keys meet in the same bucket, and a bucket fits
 * into memory, whatever the size of the corpus.
 *
 *     run*     the data of all buckets in order; one run per flush of the writer's buffer
 *     table    per run: the offset of each bucket's data (buckets + 1 numbers)
 *     footer   runs, buckets, magic */
#ifndef MEGATRON_CURATE_SECTIONS_H
#define MEGATRON_CURATE_SECTIONS_H

#include "data/jobs/jobs.h"
#include "lines.h"

enum { SECTIONS_MOST = 4096 };

static inline size_t section_of(uint64_t hash, size_t buckets)
{
    return (size_t)(((hash >> 32) * buckets) >> 32);
}

struct sections {
    struct lines *file;
    size_t buckets;
    struct bytes table;
};

/* Create the file NAME-N of the job. Returns 0 or -1. */
int sections_create(struct sections *sections, struct job *job, const char *name, size_t buckets,
                    struct error *err);

/* Start the next bucket of the run. Called before the data of each bucket, and once more at the end
 * of the run. */
void sections_next(struct sections *sections);
int sections_put(struct sections *sections, const void *data, size_t size, struct error *err);

int sections_finish(struct sections *sections, struct error *err);
void sections_abandon(struct sections *sections);

/* Append the data of 'bucket' in the file NAME-NUMBER of 'phase' to 'bytes', in the order of
 * writing. Returns 0 or -1. */
int sections_read(const struct jobs *engine, const char *phase, const char *name, size_t number,
                  size_t bucket, struct bytes *bytes, struct error *err);

#endif
