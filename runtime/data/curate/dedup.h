/* SPDX-License-Identifier: Apache-2.0 */
/* `megatron data dedup`: keep the first document of each cluster of duplicates or near-duplicates.
 *
 *     hashes    per chunk: hash its documents, partitioned into buckets (spread.h)
 *     pairs     per bucket: pair up documents with equal hashes
 *     clusters  once: union-find over all pairs; maps each document to the first of its cluster
 *     write     per chunk: write the documents that are the first of their cluster */
#ifndef MEGATRON_CURATE_DEDUP_H
#define MEGATRON_CURATE_DEDUP_H

#include "documents.h"
#include "data/jobs/jobs.h"
#include "minhash.h"
#include "shingle.h"
#include "spread.h"

struct dedup_config {
    struct jobs_config base;
    int exact;          /* find equal texts only */
    size_t bands, rows; /* of MinHash */
    size_t ngram;       /* n of the n-grams */
    enum shingle_unit unit;
    double jaccard; /* minimum Jaccard similarity of a pair; 0: do not compare */
    uint64_t seed;
    size_t buckets; /* 0: chosen by the size of the input */
};

int dedup_run(struct dedup_config *config, struct error *err);

/* Private to curate/ from here on. The phases, which stats also runs. */
struct dedup {
    const struct dedup_config *config;
    struct jobs *engine;
    struct minhash minhash;
    size_t buckets;
    int64_t *first; /* number of each chunk's first document, and the total; valid after 'hashes' */
};

/* Counts for the summary. */
struct dedup_counts {
    int64_t documents, duplicates, clusters, largest, pairs, compared;
};

/* Run the phases hashes, pairs and clusters. Returns like jobs_phase. */
int dedup_find(struct dedup *dedup, struct dedup_counts *counts, struct error *err);

void dedup_clear(struct dedup *dedup);

/* In cluster.c: the phases after 'hashes'. */
int dedup_pairs(struct dedup *dedup, struct error *err);
int dedup_clusters(struct dedup *dedup, struct dedup_counts *counts, struct error *err);

/* For each document of 'chunk', the first document of its cluster. The caller frees the list. NULL
 * on error. */
uint32_t *dedup_roots(const struct dedup *dedup, size_t chunk, struct error *err);

/* In verify.c: the shingle sets of a chunk, stored for exact comparison. */
struct sets;
struct sets *sets_create(struct job *job, struct error *err);
int sets_add(struct sets *sets, struct shingles *shingles, struct error *err);
int sets_finish(struct sets *sets, struct error *err);
void sets_abandon(struct sets *sets);

/* Do two documents, given by their numbers in the corpus, reach the configured similarity? Returns
 * 1, 0 or -1. */
int sets_compare(const struct dedup *dedup, int64_t a, int64_t b, struct error *err);

#endif
