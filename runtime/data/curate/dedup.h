/* SPDX-License-Identifier: Apache-2.0 */
/* `megatron data dedup`: of documents that are alike, the first in the order of the input stays.
 *
 *     hashes    per chunk: the hashes of its documents, spread over buckets (spread.h)
 *     pairs     per bucket: documents with equal hashes, as pairs
 *     clusters  once: pairs -> for each document the first one of its cluster
 *     write     per chunk: the documents that are the first of theirs */
#ifndef MEGATRON_CURATE_DEDUP_H
#define MEGATRON_CURATE_DEDUP_H

#include "documents.h"
#include "curate.h"
#include "minhash.h"
#include "shingle.h"
#include "spread.h"

struct dedup_config {
    struct curate_config base;
    int exact;          /* equal texts only */
    size_t bands, rows; /* of MinHash */
    size_t ngram;       /* n */
    enum shingle_unit unit;
    double jaccard; /* pairs must have this similarity; 0: they are not compared */
    uint64_t seed;
    size_t buckets; /* 0: by the size of the input */
};

int dedup_run(struct dedup_config *config, struct error *err);

/* Inside: the phases, for stats as well. */
struct dedup {
    const struct dedup_config *config;
    struct curate *engine;
    struct minhash minhash;
    size_t buckets;
    int64_t *first; /* the number of each chunk's first document, and that of all; after 'hashes' */
};

/* What is found besides the output. */
struct dedup_counts {
    int64_t documents, duplicates, clusters, largest, pairs, compared;
};

/* Hashes, pairs and clusters. Returns as curate_phase. */
int dedup_find(struct dedup *dedup, struct dedup_counts *counts, struct error *err);

/* What the phase 'hashes' has read. */
int dedup_tally(struct dedup *dedup, struct tally *tally, struct error *err);

void dedup_clear(struct dedup *dedup);

/* In cluster.c: the phases after 'hashes'. */
int dedup_pairs(struct dedup *dedup, struct error *err);
int dedup_clusters(struct dedup *dedup, struct dedup_counts *counts, struct error *err);

/* The first documents of the clusters that those of 'chunk' are in. Caller frees. NULL on error. */
uint32_t *dedup_roots(const struct dedup *dedup, size_t chunk, struct error *err);

/* In verify.c: the sets of shingles of a chunk, for comparison. */
struct sets;
struct sets *sets_create(struct curate_job *job, struct error *err);
int sets_add(struct sets *sets, struct shingles *shingles, struct error *err);
int sets_finish(struct sets *sets, struct error *err);
void sets_abandon(struct sets *sets);

/* Are two documents, by their numbers in the corpus, as similar as the configuration wants it?
 * Returns 1, 0 or -1. */
int sets_compare(const struct dedup *dedup, int64_t a, int64_t b, struct error *err);

#endif
