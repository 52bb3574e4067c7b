/* SPDX-License-Identifier: Apache-2.0 */
/* `megatron data mix`: documents of several sources in given proportions, in random order.
 *
 *     count    per chunk: count documents and bytes of each source, list the sizes of documents
 *     choose   per source: select random documents that make up its share
 *     scatter  per chunk: put each copy of each selected document into a random bucket
 *     write    per bucket: sort its documents by their random numbers
 *
 * The random number of a copy is a function of the seed, the source, the number of the document in
 * its source and the number of the copy, so the order does not depend on how the input is cut. */
#ifndef MEGATRON_CURATE_MIX_H
#define MEGATRON_CURATE_MIX_H

#include "data/jobs/jobs.h"
#include "documents.h"

enum { MIX_SOURCES = 1024 };
enum mix_unit { MIX_BYTES, MIX_DOCUMENTS };

struct mix_config {
    struct jobs_config base; /* each of its inputs is a source */
    const double *weights;   /* weights of the sources; NULL: see epochs */
    const double *epochs;    /* passes over each source; NULL and no weights: one */
    enum mix_unit unit;      /* of weights and size */
    int64_t size;            /* of the output; 0: the size of all sources together */
    uint64_t seed;
};

int mix_run(struct mix_config *config, struct error *err);

/* Private to curate/ from here on. A source: each of its documents is taken 'copies' times, and
 * once more if its random number is below 'limit'. */
struct source_counts {
    int64_t documents, bytes;
};

struct source {
    struct source_counts all, taken;
    double wanted; /* share of the output, in documents or bytes */
    int64_t copies;
    uint64_t limit;
};

struct mix {
    const struct mix_config *config;
    struct jobs *engine;
    size_t count, buckets;
    struct source *sources;
    uint32_t *source_of; /* per file of the plan */
    int64_t *before;     /* [chunk * count + source]: documents of the source before the chunk */
    struct tally tally;
};

/* The phase "count" stores the size of a document with the index of its source above these bits. */
enum { MIX_SIZE_BITS = 54 };

/* In the unit of the weights: documents or bytes. */
double mix_amount(const struct mix *mix, const struct source_counts *counts);
/* The random number that decides whether a document is selected. */
uint64_t mix_key(const struct mix *mix, uint32_t source, int64_t number);
/* The job function of the phase "choose". */
int mix_choose(void *context, struct job *job, struct bytes *result, struct error *err);

/* Lines partitioned into buckets (sections.h), with their sort keys. */
struct scatter_entry {
    uint64_t key;    /* the random number */
    uint64_t number; /* of the document within its source */
    uint32_t source, copy;
    uint64_t size; /* of the line that follows the entry */
};

struct scatter;
struct scatter *scatter_create(struct job *job, size_t buckets, struct error *err);
int scatter_add(struct scatter *scatter, const struct scatter_entry *entry, const char *line,
                struct error *err);
int scatter_finish(struct scatter *scatter, struct error *err);
void scatter_abandon(struct scatter *scatter);

#endif
