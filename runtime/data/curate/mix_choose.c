/* SPDX-License-Identifier: Apache-2.0 */
/* Selects the documents that make up a source's share. */
#include "config.h"
#include "mix.h"
#include "data/jobs/disk.h"
#include "base/core/rng.h"
#include "base/core/xmalloc.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

uint64_t mix_key(const struct mix *mix, uint32_t source, int64_t number)
{
    return rng_bits(mix->config->seed, RNG_CURATE + 1, source, (uint64_t)number);
}

double mix_amount(const struct mix *mix, const struct source_counts *counts)
{
    int bytes = mix->config->weights && mix->config->unit == MIX_BYTES;

    return (double)(bytes ? counts->bytes : counts->documents);
}

/* Histogram of the documents by the leading bits of their random numbers. */
enum { BIN_BITS = 16, BINS = 1 << BIN_BITS };

struct candidate {
    uint64_t key;
    int64_t size;
};

struct choosing {
    const struct mix *mix;
    struct job *job;
    struct source_counts *bins;
    uint64_t bin; /* the bin whose documents are listed */
    struct candidate *items;
    size_t count;
};

/* Read the sizes of one chunk, whose first document of the source is number 'next'. Counts them per
 * bin, or lists those of one bin if 'items' is set. */
static int read_sizes(struct choosing *choosing, size_t chunk, int64_t next, struct error *err)
{
    const struct mix *mix = choosing->mix;
    uint32_t source = (uint32_t)choosing->job->number;
    int64_t number = mix->before[chunk * mix->count + source];
    char path[DISK_PATH];
    uint64_t size;
    FILE *file;

    if (jobs_path(mix->engine, "count", "sizes", chunk, path, err) < 0)
        return -1;
    file = fopen(path, "re");
    if (!file)
        return error_set_errno(err, errno, "cannot open %s", path);
    while (fread(&size, sizeof(size), 1, file) == 1) {
        uint64_t key, bytes = size & (((uint64_t)1 << MIX_SIZE_BITS) - 1);

        if (size >> MIX_SIZE_BITS != source)
            continue;
        key = mix_key(mix, source, number++);
        if (!choosing->items) {
            choosing->bins[key >> (64 - BIN_BITS)].documents++;
            choosing->bins[key >> (64 - BIN_BITS)].bytes += (int64_t)bytes;
        } else if (key >> (64 - BIN_BITS) == choosing->bin) {
            if (choosing->count >= (size_t)choosing->bins[choosing->bin].documents)
                break; /* the file has changed since it was counted */
            choosing->items[choosing->count++] = (struct candidate){key, (int64_t)bytes};
        }
    }
    fclose(file);
    job_touch(choosing->job);
    return number == next ? 0 : jobs_damaged(path, err);
}

static int read_all_sizes(struct choosing *choosing, struct error *err)
{
    const struct mix *mix = choosing->mix;
    size_t chunks = mix->engine->plan.chunk_count, source = choosing->job->number;

    for (size_t i = 0; i < chunks; i++) {
        int64_t next = i + 1 < chunks ? mix->before[(i + 1) * mix->count + source]
                                      : mix->sources[source].all.documents;

        if (next > mix->before[i * mix->count + source] && read_sizes(choosing, i, next, err) < 0)
            return -1;
    }
    return 0;
}

static int by_candidate(const void *a, const void *b)
{
    const struct candidate *left = a, *right = b;

    return left->key < right->key ? -1 : left->key > right->key;
}

/* Take documents in the order of their random numbers until 'rest' is used up. */
static int take_rest(struct choosing *choosing, double rest, struct source *source,
                     struct error *err)
{
    const struct mix *mix = choosing->mix;
    struct source_counts *bins = choosing->bins;

    if (read_all_sizes(choosing, err) < 0)
        return -1;
    for (; choosing->bin < BINS && rest >= mix_amount(mix, &bins[choosing->bin]); choosing->bin++) {
        rest -= mix_amount(mix, &bins[choosing->bin]);
        source->taken.documents += bins[choosing->bin].documents;
        source->taken.bytes += bins[choosing->bin].bytes;
    }
    if (choosing->bin == BINS) {
        source->limit = UINT64_MAX;
        return 0;
    }
    choosing->items = calloc((size_t)bins[choosing->bin].documents + 1, sizeof(*choosing->items));
    if (!choosing->items)
        return error_set(err, "the documents of a source: out of memory");
    if (read_all_sizes(choosing, err) < 0)
        return -1;
    qsort(choosing->items, choosing->count, sizeof(*choosing->items), by_candidate);
    source->limit = choosing->bin << (64 - BIN_BITS);
    for (size_t i = 0; i < choosing->count; i++) {
        struct source_counts own = {1, choosing->items[i].size};

        /* Take the last document if that comes closer to the share. */
        if (rest < mix_amount(mix, &own) / 2)
            break;
        rest -= mix_amount(mix, &own);
        source->taken.documents++;
        source->taken.bytes += own.bytes;
        source->limit = choosing->items[i].key + 1;
    }
    return 0;
}

int mix_choose(void *context, struct job *job, struct bytes *result, struct error *err)
{
    const struct mix *mix = context;
    struct source source = mix->sources[job->number];
    double rest = source.wanted - (double)source.copies * mix_amount(mix, &source.all);
    struct choosing choosing = {.mix = mix, .job = job};
    int rc = 0;

    source.taken.documents = source.copies * source.all.documents;
    source.taken.bytes = source.copies * source.all.bytes;
    if (rest > 0) {
        choosing.bins = xcalloc(BINS, sizeof(*choosing.bins));
        rc = take_rest(&choosing, rest, &source, err);
    }
    bytes_put_u64(result, source.limit);
    bytes_put(result, &source.taken, sizeof(source.taken));
    free(choosing.bins);
    free(choosing.items);
    return rc;
}
