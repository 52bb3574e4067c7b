/* SPDX-License-Identifier: Apache-2.0 */
#include "feeds.h"
#include "data/dataset/blend.h"
#include "configure.h"
#include "base/core/storage.h"
#include "run/checkpoint/tokenizer_files.h"
#include "train.h"

#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The tokenizer that is next to the weights, if none is named. Errors in its files are reported
 * where they are needed. */
static void find_tokenizer(const struct arguments *a, struct tokenizer_identity *identity)
{
    const char *from = a->checkpoint.load_hf ? a->checkpoint.load_hf : a->checkpoint.load;
    struct tokenizer_config config = {0};
    char paths[2][PATH_MAX];
    struct tokenizer *tokenizer = NULL;
    struct error ignored;

    if (from && tokenizer_files_find(from, &config, paths[0], paths[1], &ignored) > 0)
        tokenizer = tokenizer_create(&config, &ignored);
    if (tokenizer)
        tokenizer_identify(tokenizer, identity);
    tokenizer_destroy(tokenizer);
}

int feeds_check(const struct arguments *a, struct error *err)
{
    struct tokenizer_identity identity = a->tokenizer_identity;
    struct dataset_config config;

    configure_dataset(a, &config);
    if (!a->tokenizer_named)
        find_tokenizer(a, &identity);
    config.tokenizer = identity.type[0] ? &identity : NULL;
    errno = 0;
    if (dataset_check(&config, err) == 0)
        return 0;
    if (err->code == ERROR_VOCABULARY) {
        err->code = ERROR_USAGE;
        return error_append(err,
                            " (from %s); the data were made with another tokenizer: use that one, "
                            "or run megatron preprocess again with this one",
                            a->vocabulary_origin);
    }
    return file_path_error(err);
}

static int create_splits(const struct dataset_config *config, struct feeds *feeds,
                         struct error *err)
{
    if (dataset_create(config, feeds->splits, err) == 0)
        return 0;
    if (err->code != ERROR_NO_CACHE)
        return -1;
    err->code = ERROR_USAGE;
    return error_append(err, "; choose one with --data-cache-path");
}

/* Report missing validation and test data. */
static void print_missing(const struct feeds *feeds, const struct dataset_config *config)
{
    struct split_range ranges[SPLITS] = {{0, 1, 1}, {0, 1, 1}, {0, 1, 1}};

    if ((!config->masked || config->masked->bert) && config->data_path.count > 0)
        split_parse(config->split ? config->split : DATASET_DEFAULT_SPLIT, ranges, NULL);
    for (int i = DATASET_VALID; i <= DATASET_TEST; i++) {
        const struct dataset *data = feeds->splits[i];
        const char *prefixes = NULL;
        int64_t left_out = data ? dataset_left_out(data, &prefixes) : 0;
        int named = config->data_path.count > 0 || config->split_path[i].count > 0;

        if (config->samples[i] == 0)
            continue;
        if (left_out > 0)
            printf(" > %" PRId64 " dataset%s too small for %s data: %s\n", left_out,
                   left_out == 1 ? " is" : "s are", dataset_split_words((enum dataset_split)i),
                   prefixes);
        else if (!data && named)
            printf(" > no %s data: %s\n", dataset_split_words((enum dataset_split)i),
                   config->masked && !config->masked->bert ? "that directory has none"
                   : ranges[i].present ? "its part of the data is shorter than one sample"
                                       : "--split assigns none to it");
    }
}

static int open_splits(struct feeds *feeds, const struct arguments *a, struct comm *comm,
                       uint64_t seed, struct error *err)
{
    struct dataset_config config;
    int64_t refused = 0;

    configure_dataset(a, &config);
    config.seed = (uint32_t)seed;
    if (config.masked) {
        if (masked_words_load(&feeds->words, a, err) < 0)
            return -1;
        feeds->masked = *config.masked;
        feeds->masked.mask.counts = feeds->words.counts;
        feeds->masked.mask.begins = feeds->words.begins;
        config.masked = &feeds->masked;
    }
    /* One rank builds missing indices; the others then load them. */
    if (comm->rank == 0 && create_splits(&config, feeds, err) < 0) {
        if (err->code != ERROR_USAGE)
            return -1;
        refused = 1;
    }
    if (comm_host_max(comm, &refused, 1, err) < 0)
        return -1;
    if (refused)
        return TRAIN_REFUSED;
    if (comm->rank == 0)
        print_missing(feeds, &config);
    else if (create_splits(&config, feeds, err) < 0)
        return -1;
    return 0;
}

/* Report the cost of padding. */
static void print_rows(const struct feeds *feeds, const struct arguments *a)
{
    struct masked *masked =
        feeds->splits[DATASET_TRAIN] ? dataset_masked(feeds->splits[DATASET_TRAIN]) : NULL;
    struct masked_counts counts;

    if (!masked)
        return;
    counts = masked_counts(masked);
    printf(" > %" PRId64 " training samples in %" PRId64 " rows of %" PRId64
           " tokens (%.1f %% padding), %" PRId64 " steps per epoch\n",
           counts.blocks - counts.skipped, counts.rows, a->model.network.shape.sequence,
           100 - 100.0 * (double)counts.tokens /
                     ((double)counts.rows * (double)a->model.network.shape.sequence),
           masked_steps(masked));
    if (counts.skipped > 0)
        printf(" > %" PRId64 " samples are skipped: they are longer than --tokens-per-sample\n",
               counts.skipped);
}

/* A run with --train-iters that is resumed with another batch size may run out of data early. */
static int check_length(const struct feeds *feeds, const struct arguments *a,
                        const struct progress *progress, int64_t total, struct error *err)
{
    int64_t left = (total - progress->iteration) * a->run.global_batch_size;
    int64_t samples;

    if (!feeds->splits[DATASET_TRAIN] || a->run.rampup.count > 0 || a->run.skip_train ||
        a->data.dataloader_type == DATALOADER_CYCLIC)
        return 0;
    samples = dataset_samples(feeds->splits[DATASET_TRAIN]);
    if (left <= 0 || left <= samples - progress->consumed)
        return 0;
    /* A blend and mock data have exactly the requested number of samples. */
    error_set(err,
              "the dataset index covers %" PRId64 " samples; this run has consumed %" PRId64
              " and needs %" PRId64 " more; resume with the original --global-batch-size%s",
              samples, progress->consumed, left,
              samples > a->total_samples ? " or lower --train-iters" : "");
    return TRAIN_REFUSED;
}

/* --full-validation takes whole batches. Without one, the run would end at its first evaluation. */
static int check_validation(const struct feeds *feeds, const struct arguments *a, struct error *err)
{
    const struct dataset *data = feeds->splits[DATASET_VALID];

    if (!a->run.full_validation || !data || dataset_masked(data) ||
        dataset_samples(data) >= a->run.global_batch_size)
        return 0;
    error_set(err,
              "--full-validation: the validation data have fewer samples (%" PRId64
              ") than a global batch; lower --global-batch-size",
              dataset_samples(data));
    return TRAIN_REFUSED;
}

static int open_loader(struct feeds *feeds, enum dataset_split split, const struct arguments *a,
                       const struct parallel *parallel, int64_t consumed, struct error *err)
{
    size_t bytes = batch_size(a->run.micro_batch_size, a->model.network.shape.sequence);
    void **buffers = feeds->buffers[split];
    struct batch_loader_config config = {
        .dataset = feeds->splits[split],
        .consumed = consumed,
        .micro_batch = a->run.micro_batch_size,
        .rank = (int)parallel->at.dp,
        .ranks = (int)parallel->layout.dp,
        .buffers = buffers,
        .buffer_count = FEED_BUFFERS,
        .threads = 1,
        .deadline = 60.0 * a->parallel.timeout_minutes,
    };

    if (!config.dataset)
        return 0;
    for (int i = 0; i < FEED_BUFFERS; i++) {
        buffers[i] = aligned_alloc(4096, bytes);
        if (!buffers[i])
            return error_set(err, "out of memory");
    }
    feeds->loaders[split] = batch_loader_create(&config, err);
    return feeds->loaders[split] ? 0 : -1;
}

int feeds_open(struct feeds *feeds, const struct arguments *a, const struct parallel *parallel,
               uint64_t seed, const struct progress *progress, int64_t total, struct error *err)
{
    int rc;

    memset(feeds, 0, sizeof(*feeds));
    rc = open_splits(feeds, a, parallel->comm, seed, err);
    if (rc == 0 && parallel->comm->rank == 0)
        print_rows(feeds, a);
    if (rc == 0)
        rc = check_length(feeds, a, progress, total, err);
    if (rc == 0)
        rc = check_validation(feeds, a, err);
    if (rc < 0)
        return rc;
    if (open_loader(feeds, DATASET_TRAIN, a, parallel, progress->consumed, err) < 0 ||
        open_loader(feeds, DATASET_VALID, a, parallel,
                    a->run.full_validation ? 0 : progress->consumed_valid, err) < 0 ||
        open_loader(feeds, DATASET_TEST, a, parallel, 0, err) < 0)
        return -1;
    if (!feeds->loaders[DATASET_TRAIN] && !a->run.skip_train)
        return error_bug(err, "no training data");
    return 0;
}

int64_t feeds_eval_steps(const struct feeds *feeds, const struct arguments *a,
                         enum dataset_split split)
{
    struct masked *masked = feeds->splits[split] ? dataset_masked(feeds->splits[split]) : NULL;

    if (a->run.full_validation && split == DATASET_VALID && !masked)
        return dataset_samples(feeds->splits[split]) / a->run.global_batch_size;
    return masked ? masked_steps(masked) : a->run.eval_iters;
}

int feeds_restart(struct feeds *feeds, enum dataset_split split, const struct arguments *a,
                  const struct parallel *parallel, struct error *err)
{
    batch_loader_destroy(feeds->loaders[split]);
    feeds->loaders[split] = NULL;
    for (int i = 0; i < FEED_BUFFERS; i++) {
        free(feeds->buffers[split][i]);
        feeds->buffers[split][i] = NULL;
    }
    return open_loader(feeds, split, a, parallel, 0, err);
}

void feeds_close(struct feeds *feeds)
{
    for (int i = 0; i < DATASET_SPLITS; i++) {
        batch_loader_destroy(feeds->loaders[i]);
        for (int j = 0; j < FEED_BUFFERS; j++)
            free(feeds->buffers[i][j]);
        dataset_destroy(feeds->splits[i]);
    }
    masked_words_clear(&feeds->words);
    memset(feeds, 0, sizeof(*feeds));
}
