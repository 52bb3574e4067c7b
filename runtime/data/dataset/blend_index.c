/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"
#include "blend.h"
#include "dataset_private.h"
#include "lib/checksum.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/core/xmalloc.h"

struct blend_work {
    struct dataset *dataset;
    struct index_writer *writer;
    double *weights; /* NULL: use the sizes of the members */
    int64_t *sizes, *taken, samples;
};

static int write_piece(void *arg, int64_t first, int64_t count, const int16_t *corpus,
                       const int64_t *sample, struct error *err)
{
    struct blend_work *work = arg;

    if (index_writer_write(work->writer, BLEND_CORPUS, first, count, corpus, err) < 0)
        return -1;
    return index_writer_write(work->writer, BLEND_SAMPLE, first, count, sample, err);
}

/* The file may have been built for other corpora with the same weights. */
static int check_taken(struct blend_work *work, struct error *err)
{
    const struct dataset *dataset = work->dataset;

    if (index_file_read(dataset->blend, BLEND_TAKEN, 0, (int64_t)dataset->member_count, work->taken,
                        err) < 0)
        return -1;
    for (size_t i = 0; i < dataset->member_count; i++)
        if (work->taken[i] > work->sizes[i])
            return error_set_code(
                err, ERROR_USAGE,
                "the %s blend takes %" PRId64 " samples of %s, which has %" PRId64
                "; the weights cannot be rounded to so few samples; use more data, or "
                "other weights",
                dataset_split_name(dataset->split), work->taken[i],
                indexed_prefix(dataset->members[i].corpus), work->sizes[i]);
    return 0;
}

static int build_blend(void *arg, struct index_writer *writer, struct error *err)
{
    struct blend_work *work = arg;
    struct index_layout layout = {0};
    size_t count = work->dataset->member_count;

    layout.array[BLEND_CORPUS].count = layout.array[BLEND_SAMPLE].count = work->samples;
    layout.array[BLEND_CORPUS].width = sizeof(int16_t);
    layout.array[BLEND_SAMPLE].width = sizeof(int64_t);
    layout.array[BLEND_TAKEN].count = (int64_t)count;
    layout.array[BLEND_TAKEN].width = sizeof(int64_t);
    work->writer = writer;
    if (index_writer_layout(writer, &layout, err) < 0)
        return -1;
    if (!work->weights)
        memcpy(work->taken, work->sizes, count * sizeof(*work->sizes));
    if (work->weights
            ? blend_order(work->weights, count, work->samples, work->taken, write_piece, work, err)
            : blend_order_exhaustive(work->sizes, count, write_piece, work, err))
        return -1;
    return index_writer_write(writer, BLEND_TAKEN, 0, (int64_t)count, work->taken, err);
}

/* The order of a blend depends only on its weights and its size. Nothing else (such as the members'
 * paths) is part of the description, so blends with the same weights share a file. The sizes are
 * included if they serve as weights. */
static char *describe(const struct blend_work *work)
{
    size_t count = work->dataset->member_count;
    const void *numbers = work->weights ? (const void *)work->weights : (const void *)work->sizes;
    char *text = xasprintf("blend order 2\n%s\nsamples %" PRId64 "\nparts %zu\n"
                           "hash of all %016" PRIx64 "\n",
                           work->weights ? "weights" : "exhaustive", work->samples, count,
                           checksum_of(numbers, count * 8));

    for (size_t i = 0; i < count && i < 256; i++) {
        char *longer = work->weights ? xasprintf("%s%a\n", text, work->weights[i])
                                     : xasprintf("%s%" PRId64 "\n", text, work->sizes[i]);

        free(text);
        text = longer;
    }
    return text;
}

/* Megatron's rules for the weights and the size of a blend. */
static int decide(struct blend_work *work, const double *weights, int64_t wanted, struct error *err)
{
    size_t count = work->dataset->member_count;
    int64_t total = 0;

    for (size_t i = 0; i < count; i++) {
        work->sizes[i] = dataset_part_samples(work->dataset, i);
        total += work->sizes[i];
        if (work->sizes[i] == 0) {
            return error_set_code(err, ERROR_USAGE,
                                  "%s: its %s data is shorter than one sample; drop it from the "
                                  "blend; or change --split",
                                  indexed_prefix(work->dataset->members[i].corpus),
                                  dataset_split_words(work->dataset->split));
        }
    }
    if (weights) {
        memcpy(work->weights, weights, count * sizeof(*weights));
        work->samples = 0;
        for (size_t i = 0; i < count; i++)
            work->samples += blend_target(wanted, weights[i]);
    } else if (wanted >= 0) {
        for (size_t i = 0; i < count; i++)
            work->weights[i] = (double)work->sizes[i];
        work->samples = wanted < total ? wanted : total;
    } else {
        free(work->weights);
        work->weights = NULL;
        work->samples = total;
        return 0;
    }
    /* The user's weights are normalized a second time here, as in Megatron. */
    blend_normalise(work->weights, count);
    return 0;
}

int blend_index_get(struct dataset *dataset, const double *weights, int64_t wanted,
                    const struct index_place *place, struct error *err)
{
    size_t count = dataset->member_count;
    struct blend_work work = {
        .dataset = dataset,
        .weights = xcalloc(count, sizeof(double)),
        .sizes = xcalloc(count, sizeof(int64_t)),
        .taken = xcalloc(count, sizeof(int64_t)),
    };
    char kind[64], *description = NULL;
    int status = decide(&work, weights, wanted, err);

    snprintf(kind, sizeof(kind), "BlendedDataset-%s", dataset_split_name(dataset->split));
    if (status == 0) {
        struct index_request request = {
            .place = place,
            .kind = kind,
            .description = description = describe(&work),
            .build = build_blend,
            .arg = &work,
        };

        dataset->blend = index_file_get(&request, err);
        dataset->samples = work.samples;
        status = dataset->blend ? check_taken(&work, err) : -1;
    }
    free(description);
    free(work.weights);
    free(work.sizes);
    free(work.taken);
    return status;
}
