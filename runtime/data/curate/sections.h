/* SPDX-License-Identifier: Apache-2.0 */
/* A file of sections, one per bucket: every chunk writes one, and whoever does a bucket reads its
 * sections of all files. What belongs together meets in one bucket, and a bucket is small enough
 * for memory, whatever the corpus.
 *
 *     run*     the bytes of all buckets, in the order of their numbers, as much as memory is wanted
 *              for at once
 *     table    per run, where each bucket's bytes begin (buckets + 1 numbers)
 *     footer   runs, buckets, magic */
#ifndef MEGATRON_CURATE_SECTIONS_H
#define MEGATRON_CURATE_SECTIONS_H

#include "curate.h"
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

/* Begin the file NAME-N of the job. Returns 0 or -1. */
int sections_create(struct sections *sections, struct curate_job *job, const char *name,
                    size_t buckets, struct error *err);

/* The next bucket of the run begins here. Called for each bucket before its bytes are put, and once
 * more at the end of the run. */
void sections_next(struct sections *sections);
int sections_put(struct sections *sections, const void *data, size_t size, struct error *err);

int sections_finish(struct sections *sections, struct error *err);
void sections_abandon(struct sections *sections);

/* Add the bytes of 'bucket' in the file NAME-NUMBER of 'phase' to those in 'bytes', in the order in
 * which they were put. Returns 0 or -1. */
int sections_read(const struct curate *engine, const char *phase, const char *name, size_t number,
                  size_t bucket, struct bytes *bytes, struct error *err);

#endif
