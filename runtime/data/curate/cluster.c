/* SPDX-License-Identifier: Apache-2.0 */
/* The phases pairs and clusters: from equal hashes to clusters of documents. */
#include "config.h"
#include "dedup.h"
#include "data/jobs/disk.h"
#include "hash.h"
#include "lines.h"
#include "base/core/xmalloc.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* If pairs are compared: a document is compared with at most this many others that share a band. */
enum { REPRESENTATIVES = 256 };

struct pair {
    uint64_t first, second;
};

/* --- Pairs ------------------------------------------------------------------------------------ */

/* A document that later ones with the same band are compared with. */
struct representative {
    int64_t document;
    uint32_t next;
};

struct slot {
    uint64_t hash;
    uint32_t check;
    uint32_t first; /* 1 + index of its first representative; 0: free */
};

/* The state of a job. */
struct pairing {
    const struct dedup *dedup;
    struct slot *slots;
    size_t mask;
    struct representative *representatives;
    size_t count;
    struct lines *out;
    int64_t pairs, compared;
};

static struct slot *find_slot(struct pairing *pairing, const struct spread_entry *entry)
{
    size_t at = hash_mix(entry->hash) & pairing->mask;

    while (pairing->slots[at].first > 0 &&
           (pairing->slots[at].hash != entry->hash || pairing->slots[at].check != entry->check))
        at = (at + 1) & pairing->mask;
    return &pairing->slots[at];
}

static uint32_t add_representative(struct pairing *pairing, int64_t document)
{
    pairing->representatives[pairing->count] = (struct representative){document, 0};
    return (uint32_t)++pairing->count;
}

/* Documents arrive in corpus order. Each joins the first representative that it matches, or becomes
 * one. */
static int pair_entry(struct pairing *pairing, const struct spread_entry *entry, int64_t document,
                      struct error *err)
{
    struct slot *slot = find_slot(pairing, entry);
    uint32_t at = slot->first, last = 0;
    struct pair pair;

    if (at == 0) {
        *slot = (struct slot){entry->hash, entry->check, add_representative(pairing, document)};
        return 0;
    }
    for (int tried = 0; at > 0 && tried < REPRESENTATIVES; tried++) {
        struct representative *other = &pairing->representatives[at - 1];
        int alike = 1;

        if (other->document == document) /* a document may have the same hash twice */
            return 0;
        if (pairing->dedup->config->jaccard > 0) {
            alike = sets_compare(pairing->dedup, other->document, document, err);
            pairing->compared++;
        }
        if (alike < 0)
            return -1;
        if (alike) {
            pair = (struct pair){(uint64_t)other->document, (uint64_t)document};
            pairing->pairs++;
            return lines_put(pairing->out, &pair, sizeof(pair), err);
        }
        last = at;
        at = other->next;
    }
    if (at == 0)
        pairing->representatives[last - 1].next = add_representative(pairing, document);
    return 0;
}

static int read_bucket(const struct dedup *dedup, struct job *job, size_t *chunk_ends,
                       struct bytes *bytes, struct error *err)
{
    for (size_t i = 0; i < dedup->engine->plan.chunk_count; i++) {
        if (sections_read(dedup->engine, "hashes", "hashes", i, job->number, bytes, err) < 0)
            return -1;
        chunk_ends[i] = bytes->size / sizeof(struct spread_entry);
        job_touch(job);
    }
    if (bytes->size / sizeof(struct spread_entry) < UINT32_MAX)
        return 0;
    error_set(err, "bucket %zu has too many hashes", job->number);
    return error_append(err, "; use more --buckets");
}

static int pair_bucket(struct pairing *pairing, struct job *job, const struct spread_entry *entries,
                       size_t count, const size_t *chunk_ends, struct error *err)
{
    size_t size = 16, chunk = 0;

    while (size < 2 * count)
        size *= 2;
    pairing->slots = calloc(size, sizeof(*pairing->slots));
    pairing->mask = size - 1;
    pairing->representatives = malloc((count + 1) * sizeof(*pairing->representatives));
    if (!pairing->slots || !pairing->representatives) {
        error_set(err, "out of memory for a bucket of %zu hashes", count);
        return error_append(err, "; use more --buckets");
    }
    for (size_t i = 0; i < count; i++) {
        while (i >= chunk_ends[chunk])
            chunk++;
        if ((i & 4095) == 0)
            job_touch(job);
        if (pair_entry(pairing, &entries[i], pairing->dedup->first[chunk] + entries[i].document,
                       err) < 0)
            return -1;
    }
    return 0;
}

static int pairs_job(void *context, struct job *job, struct bytes *result, struct error *err)
{
    struct pairing pairing = {.dedup = context};
    struct bytes bytes = {0};
    size_t *chunk_ends = xcalloc(pairing.dedup->engine->plan.chunk_count + 1, sizeof(*chunk_ends));
    int64_t size;
    int rc = read_bucket(pairing.dedup, job, chunk_ends, &bytes, err);

    if (rc == 0) {
        pairing.out = lines_create(job, "pairs", 0, err);
        rc = pairing.out ? 0 : -1;
    }
    if (rc == 0)
        rc = pair_bucket(&pairing, job, (const struct spread_entry *)(const void *)bytes.data,
                         bytes.size / sizeof(struct spread_entry), chunk_ends, err);
    if (rc == 0)
        rc = lines_finish(pairing.out, &size, err);
    else
        lines_abandon(pairing.out);
    bytes_put_u64(result, (uint64_t)pairing.pairs);
    bytes_put_u64(result, (uint64_t)pairing.compared);
    free(pairing.slots);
    free(pairing.representatives);
    bytes_clear(&bytes);
    free(chunk_ends);
    return rc;
}

int dedup_pairs(struct dedup *dedup, struct error *err)
{
    struct phase phase = {
        .name = "pairs", .count = dedup->buckets, .context = dedup, .job = pairs_job};

    return jobs_phase(dedup->engine, &phase, err);
}

/* --- Clusters --------------------------------------------------------------------------------- */

/* Union-find with path halving: the first document of the cluster. */
static uint32_t find_root(uint32_t *parents, uint32_t document)
{
    while (parents[document] != document) {
        parents[document] = parents[parents[document]];
        document = parents[document];
    }
    return document;
}

static void join(uint32_t *parents, uint32_t a, uint32_t b)
{
    a = find_root(parents, a);
    b = find_root(parents, b);
    if (a < b)
        parents[b] = a;
    else
        parents[a] = b;
}

static int read_pairs(const struct dedup *dedup, struct job *job, size_t bucket, int64_t total,
                      uint32_t *parents, struct error *err)
{
    enum { PAIRS = 1 << 16 };
    struct pair *pairs = NULL;
    struct stat status;
    char path[DISK_PATH];
    int64_t count;
    int fd, rc = -1;

    if (jobs_path(dedup->engine, "pairs", "pairs", bucket, path, err) < 0)
        return -1;
    fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0 || fstat(fd, &status) < 0) {
        error_set_errno(err, errno, "cannot open %s", path);
        goto out;
    }
    pairs = xcalloc(PAIRS, sizeof(*pairs));
    count = status.st_size / (int64_t)sizeof(*pairs);
    for (int64_t at = 0; at < count; at += PAIRS) {
        size_t part = count - at < PAIRS ? (size_t)(count - at) : PAIRS;

        rc = disk_pread(fd, pairs, part * sizeof(*pairs), at * (int64_t)sizeof(*pairs), path, err);
        for (size_t i = 0; rc == 0 && i < part; i++) {
            if (pairs[i].first >= (uint64_t)total || pairs[i].second >= (uint64_t)total)
                rc = 1;
            else
                join(parents, (uint32_t)pairs[i].first, (uint32_t)pairs[i].second);
        }
        if (rc != 0) {
            rc = rc > 0 ? jobs_damaged(path, err) : -1;
            goto out;
        }
        job_touch(job);
    }
    rc = 0;
out:
    if (fd >= 0)
        close(fd);
    free(pairs);
    return rc;
}

/* The size of each cluster is counted at its root, in an array of its own. */
static int count_clusters(uint32_t *parents, int64_t total, struct dedup_counts *counts,
                          struct error *err)
{
    uint32_t *sizes = calloc((size_t)total + 1, sizeof(*sizes));

    if (!sizes)
        return error_set(err, "%" PRId64 " documents: out of memory", total);
    for (int64_t i = 0; i < total; i++) {
        parents[i] = find_root(parents, (uint32_t)i);
        sizes[parents[i]]++;
    }
    for (int64_t i = 0; i < total; i++) {
        counts->duplicates += parents[i] != (uint32_t)i;
        counts->clusters += sizes[i] > 1;
        counts->largest = sizes[i] > counts->largest ? sizes[i] : counts->largest;
    }
    free(sizes);
    return 0;
}

static int clusters_job(void *context, struct job *job, struct bytes *result, struct error *err)
{
    const struct dedup *dedup = context;
    int64_t total = dedup->first[dedup->engine->plan.chunk_count], size;
    struct dedup_counts counts = {.documents = total};
    uint32_t *parents = malloc(((size_t)total + 1) * sizeof(*parents));
    struct lines *out = NULL;
    int rc = parents ? 0 : error_set(err, "%" PRId64 " documents: out of memory", total);

    for (int64_t i = 0; rc == 0 && i < total; i++)
        parents[i] = (uint32_t)i;
    for (size_t i = 0; rc == 0 && i < dedup->buckets; i++)
        rc = read_pairs(dedup, job, i, total, parents, err);
    if (rc == 0)
        rc = count_clusters(parents, total, &counts, err);
    if (rc == 0) {
        out = lines_create(job, "roots", 0, err);
        rc = out ? lines_put(out, parents, (size_t)total * sizeof(*parents), err) : -1;
    }
    if (rc == 0)
        rc = lines_finish(out, &size, err);
    else
        lines_abandon(out);
    free(parents);
    bytes_put(result, &counts, sizeof(counts));
    return rc;
}

int dedup_clusters(struct dedup *dedup, struct dedup_counts *counts, struct error *err)
{
    struct phase phase = {.name = "clusters", .count = 1, .context = dedup, .job = clusters_job};
    struct bytes bytes;
    const void *data;
    int rc = jobs_phase(dedup->engine, &phase, err);

    if (rc != 0)
        return rc;
    if (jobs_result(dedup->engine, "clusters", 0, &bytes, err) < 0)
        return -1;
    data = bytes_take(&bytes, sizeof(*counts));
    if (data)
        memcpy(counts, data, sizeof(*counts));
    bytes_clear(&bytes);
    for (size_t i = 0; i < dedup->buckets; i++) {
        if (jobs_result(dedup->engine, "pairs", i, &bytes, err) < 0)
            return -1;
        counts->pairs += (int64_t)bytes_take_u64(&bytes);
        counts->compared += (int64_t)bytes_take_u64(&bytes);
        bytes_clear(&bytes);
    }
    return 0;
}

uint32_t *dedup_roots(const struct dedup *dedup, size_t chunk, struct error *err)
{
    int64_t first = dedup->first[chunk], count = dedup->first[chunk + 1] - first;
    uint32_t *roots;
    char path[DISK_PATH];
    int fd, rc;

    if (jobs_path(dedup->engine, "clusters", "roots", 0, path, err) < 0)
        return NULL;
    fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) {
        error_set_errno(err, errno, "cannot open %s", path);
        return NULL;
    }
    roots = xmalloc(((size_t)count + 1) * sizeof(*roots));
    rc = disk_pread(fd, roots, (size_t)count * sizeof(*roots), first * (int64_t)sizeof(*roots),
                    path, err);
    close(fd);
    if (rc == 0)
        return roots;
    if (rc > 0)
        jobs_damaged(path, err);
    free(roots);
    return NULL;
}
