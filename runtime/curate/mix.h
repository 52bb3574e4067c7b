/* SPDX-License-Identifier: Apache-2.0 */
/* `megatron data mix`: documents of several sources in given shares, in random order.
 *
 *     count    per chunk: documents and bytes of each source
 *     scatter  per chunk: each copy of each document goes to a bucket by its random number
 *     write    per bucket: its documents, sorted by their numbers
 *
 * The random number of a copy is a function of the seed, the source, the document's number in its
 * source and the copy's number: the order does not depend on how the input is cut. */
#ifndef MEGATRON_CURATE_MIX_H
#define MEGATRON_CURATE_MIX_H

#include "curate.h"

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

/* How many copies of document 'number' of 'documents' there are where 'target' are wanted of all;
 * 'offset' in [0, documents) decides which documents get one more than others. */
int64_t mix_copies(int64_t number, int64_t documents, int64_t target, int64_t offset);

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
