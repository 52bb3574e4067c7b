/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"
#include "dedup.h"
#include "hash.h"
#include "kept.h"
#include "base/core/xmalloc.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* --- Hashes ----------------------------------------------------------------------------------- */

/* The state of a job. */
struct hashing {
    const struct dedup *dedup;
    struct spread *spread;
    struct sets *sets;
    struct shingles shingles;
    uint32_t *minima;
};

static int hash_exact(struct hashing *hashing, const struct document *document, struct error *err)
{
    struct spread_entry entry = {hash_bytes(document->text, document->size, 0),
                                 (uint32_t)hash_bytes(document->text, document->size, HASH_B),
                                 (uint32_t)document->number};

    return spread_add(hashing->spread, &entry, err);
}

static int hash_bands(struct hashing *hashing, const struct document *document, struct error *err)
{
    const struct minhash *minhash = &hashing->dedup->minhash;
    const struct dedup_config *config = hashing->dedup->config;
    struct shingles *shingles = &hashing->shingles;

    shingles_make(shingles, config->unit, config->ngram, document->text, document->size);
    if (shingles->count > 0) {
        minhash_minima(minhash, shingles->items, shingles->count, hashing->minima);
        for (size_t band = 0; band < minhash->bands; band++) {
            const uint32_t *minima = hashing->minima + band * minhash->rows;
            struct spread_entry entry = {minhash_band(minhash, hashing->minima, band),
                                         minima[0] + 31 * minima[minhash->rows - 1],
                                         (uint32_t)document->number};

            if (spread_add(hashing->spread, &entry, err) < 0)
                return -1;
        }
    }
    return hashing->sets ? sets_add(hashing->sets, shingles, err) : 0;
}

static int hash_document(void *context, const struct document *document, struct error *err)
{
    struct hashing *hashing = context;

    if (document->number >= UINT32_MAX)
        return error_set(err, "a chunk of the input has over 4 billion documents; split the input "
                              "into several files");
    return hashing->dedup->config->exact ? hash_exact(hashing, document, err)
                                         : hash_bands(hashing, document, err);
}

static int begin_hashing(struct hashing *hashing, struct job *job, struct error *err)
{
    hashing->spread = spread_create(job, hashing->dedup->buckets, err);
    if (!hashing->spread)
        return -1;
    hashing->minima = xcalloc(hashing->dedup->minhash.count + 1, sizeof(*hashing->minima));
    if (hashing->dedup->config->jaccard > 0 && !hashing->dedup->config->exact) {
        hashing->sets = sets_create(job, err);
        return hashing->sets ? 0 : -1;
    }
    return 0;
}

static int hashes_job(void *context, struct job *job, struct bytes *result, struct error *err)
{
    struct hashing hashing = {.dedup = context};
    struct tally tally = {0};
    int rc = begin_hashing(&hashing, job, err);

    if (rc == 0)
        rc = documents_each(job, job->number, &tally, hash_document, &hashing, err);
    if (rc == 0 && hashing.sets) {
        rc = sets_finish(hashing.sets, err);
        hashing.sets = NULL;
    }
    if (rc == 0) {
        rc = spread_finish(hashing.spread, err);
        hashing.spread = NULL;
    }
    spread_abandon(hashing.spread);
    sets_abandon(hashing.sets);
    shingles_clear(&hashing.shingles);
    free(hashing.minima);
    tally_put(&tally, result);
    return rc;
}

/* About a million hashes per bucket, for texts of 3 kB: 100 MB with the hash table. */
static size_t count_buckets(const struct jobs *engine, const struct dedup_config *config)
{
    double bytes = 0, bands = config->exact ? 1 : (double)config->bands;

    for (size_t i = 0; i < engine->plan.files.count; i++) {
        const struct corpus_file *file = &engine->plan.files.items[i];

        bytes += (double)file->size * (file->codec == CODEC_PLAIN ? 1 : 4);
    }
    bytes *= bands / 14 / 268435456.0;
    if (config->buckets > 0)
        return config->buckets;
    return bytes < 16 ? 16 : bytes > SECTIONS_MOST ? SECTIONS_MOST : (size_t)bytes;
}

static int number_documents(struct dedup *dedup, struct error *err)
{
    struct jobs *engine = dedup->engine;
    size_t chunks = engine->plan.chunk_count;

    dedup->first = xcalloc(chunks + 1, sizeof(*dedup->first));
    for (size_t i = 0; i < chunks; i++) {
        struct bytes bytes;
        struct tally tally;

        if (jobs_result(engine, "hashes", i, &bytes, err) < 0)
            return -1;
        tally_take(&tally, &bytes);
        bytes_clear(&bytes);
        dedup->first[i + 1] = dedup->first[i] + tally.documents;
    }
    if (dedup->first[chunks] >= UINT32_MAX)
        return error_set(err, "%" PRId64 " documents are too many for one run; split the input",
                         dedup->first[chunks]);
    return 0;
}

int dedup_find(struct dedup *dedup, struct dedup_counts *counts, struct error *err)
{
    const struct dedup_config *config = dedup->config;
    struct phase phase = {.name = "hashes",
                          .count = dedup->engine->plan.chunk_count,
                          .chunks = true,
                          .context = dedup,
                          .job = hashes_job};
    int rc;

    dedup->buckets = count_buckets(dedup->engine, config);
    if (!config->exact &&
        minhash_init(&dedup->minhash, config->bands, config->rows, config->seed, NULL, err) < 0)
        return -1;
    rc = jobs_phase(dedup->engine, &phase, err);
    if (rc == 0)
        rc = number_documents(dedup, err);
    if (rc == 0)
        rc = dedup_pairs(dedup, err);
    return rc == 0 ? dedup_clusters(dedup, counts, err) : rc;
}

void dedup_clear(struct dedup *dedup)
{
    minhash_clear(&dedup->minhash);
    free(dedup->first);
    dedup->first = NULL;
}

/* --- Output ----------------------------------------------------------------------------------- */

struct writing {
    const struct dedup *dedup;
    struct kept kept;
    uint32_t *roots;
    int64_t first;
};

static int write_document(void *context, const struct document *document, struct error *err)
{
    struct writing *writing = context;
    uint32_t root = writing->roots[document->number];
    char extra[64];

    if ((int64_t)root == writing->first + document->number)
        return kept_keep(&writing->kept, document, NULL, 0, NULL, err);
    snprintf(extra, sizeof(extra), ",\"number\":%" PRId64 ",\"of\":%" PRIu32,
             writing->first + document->number, root);
    return kept_drop(&writing->kept, document,
                     writing->dedup->config->exact ? "duplicate" : "near-duplicate", extra, err);
}

static int write_job(void *context, struct job *job, struct bytes *result, struct error *err)
{
    struct writing writing = {.dedup = context};
    struct tally tally = {0};
    int rc;

    writing.first = writing.dedup->first[job->number];
    writing.roots = dedup_roots(writing.dedup, job->number, err);
    if (!writing.roots)
        return -1;
    rc = kept_begin(&writing.kept, job, err);
    if (rc == 0)
        rc = documents_each(job, job->number, &tally, write_document, &writing, err);
    free(writing.roots);
    rc = kept_end(&writing.kept, rc, result, err);
    tally_put(&tally, result);
    return rc;
}

struct dedup_ending {
    struct dedup dedup;
    struct dedup_counts counts;
};

static int finish(struct jobs *engine, void *context, struct error *err)
{
    struct dedup_ending *ending = context;
    const struct dedup_config *config = ending->dedup.config;
    const struct dedup_counts *counts = &ending->counts;
    struct kept_result all = {0, 0, 0, 0};
    struct tally tally = {0};

    if (kept_sum(engine, &all, &tally, NULL, 0, err) < 0 ||
        documents_check(engine, &tally, err) < 0 || kept_publish(engine, err) < 0)
        return -1;
    documents_warn(engine, &tally);
    printf("Done: %s\n", config->base.output);
    tally_print(&tally);
    printf("  dropped:         %" PRId64 " %s of %" PRId64
           " documents; the largest cluster has %" PRId64 "\n",
           counts->duplicates, config->exact ? "duplicates" : "near-duplicates", counts->clusters,
           counts->largest);
    if (!config->exact)
        printf("  minhash:         %zu bands of %zu rows, %zu-grams of %s: half of all pairs with "
               "similarity %.2f are found\n",
               config->bands, config->rows, config->ngram,
               config->unit == SHINGLE_WORDS ? "words" : "characters",
               pow(1 - pow(0.5, 1 / (double)config->bands), 1 / (double)config->rows));
    if (config->jaccard > 0 && !config->exact)
        printf("  compared:        %" PRId64 " pairs, of which %" PRId64
               " have a similarity of %g or more\n",
               counts->compared, counts->pairs, config->jaccard);
    kept_print(engine, &all, &tally);
    return 0;
}

static int body(struct jobs *engine, void *context, struct error *err)
{
    struct dedup_ending ending = {.dedup = {.config = context, .engine = engine}};
    int rc = dedup_find(&ending.dedup, &ending.counts, err);

    if (rc == 0)
        rc = kept_run(engine, write_job, finish, &ending, err);
    dedup_clear(&ending.dedup);
    return rc;
}

int dedup_run(struct dedup_config *config, struct error *err)
{
    struct bytes identity = {0};
    int rc;

    config->base.reads_twice = 1;
    config->base.most_chunks = SECTIONS_MOST;
    bytes_put_u64(&identity, (uint64_t)config->exact);
    bytes_put_u64(&identity, config->bands);
    bytes_put_u64(&identity, config->rows);
    bytes_put_u64(&identity, config->ngram);
    bytes_put_u64(&identity, config->unit);
    bytes_put(&identity, &config->jaccard, sizeof(config->jaccard));
    bytes_put_u64(&identity, config->seed);
    bytes_put_u64(&identity, config->buckets);
    rc = jobs_run(&config->base, &identity, body, config, err);
    bytes_clear(&identity);
    return rc;
}
