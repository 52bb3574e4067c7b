/* SPDX-License-Identifier: Apache-2.0 */
/* `megatron data mix`: documents of several sources in given shares, in random order.
 *
 *     count    per chunk: documents and bytes of each source, the sizes of all documents
 *     choose   per source: how many of its documents make up its share, in a random order
 *     scatter  per chunk: each copy of each document goes to a bucket by its random number
 *     write    per bucket: its documents, sorted by their numbers
 *
 * The random number of a copy is a function of the seed, the source, the document's number in its
 * source and the copy's number: the order does not depend on how the input is cut. */
#ifndef MEGATRON_CURATE_MIX_H
#define MEGATRON_CURATE_MIX_H

#include "curate.h"
#include "documents.h"

enum { MIX_SOURCES = 1024 };
enum mix_unit { MIX_BYTES, MIX_DOCUMENTS };

struct mix_config {
    struct curate_config base; /* each word of its inputs is a source */
    const double *weights;     /* shares of the sources; NULL: see epochs */
    const double *epochs;      /* how often each source is read; NULL: once, without weights */
    enum mix_unit unit;        /* of shares and size */
    int64_t size;              /* of the output; 0: all sources together */
    uint64_t seed;
};

int mix_run(struct mix_config *config, struct error *err);

/* Inside: a source, and what is taken of it: each document 'copies' times, and those whose random
 * number is below a limit once more. */
struct source_counts {
    int64_t documents, bytes;
};

struct source {
    struct source_counts all, taken;
    double wanted; /* documents or bytes of the output */
    int64_t copies;
    uint64_t limit;
};

struct mix {
    const struct mix_config *config;
    struct curate *engine;
    size_t count, buckets;
    struct source *sources;
    uint32_t *source_of; /* of each file of the plan */
    int64_t *before;     /* chunk * count + source: documents before the chunk */
    struct tally tally;
};

/* "count" keeps the sizes of documents with the number of their source above these bits. */
enum { MIX_SIZE_BITS = 54 };

/* Documents or bytes, as the shares are. */
double mix_amount(const struct mix *mix, const struct source_counts *counts);
/* The random number that decides whether a document is taken. */
uint64_t mix_key(const struct mix *mix, uint32_t source, int64_t number);
/* The job of "choose". */
int mix_choose(void *context, struct curate_job *job, struct bytes *result, struct error *err);

/* Inside: lines on their way to their buckets, in sections (sections.h), with what they are sorted
 * by. */
struct scatter_entry {
    uint64_t key;    /* the random number */
    uint64_t number; /* of the document in its source */
    uint32_t source, copy;
    uint64_t size; /* bytes of the line that follows */
};

struct scatter;
struct scatter *scatter_create(struct curate_job *job, size_t buckets, struct error *err);
int scatter_add(struct scatter *scatter, const struct scatter_entry *entry, const char *line,
                struct error *err);
int scatter_finish(struct scatter *scatter, struct error *err);
void scatter_abandon(struct scatter *scatter);

#endif
