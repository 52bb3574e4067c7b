/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"
#include "dataset_private.h"

#include <inttypes.h>
#include <stdlib.h>
#include "base/core/xmalloc.h"
#include "bert.h"
#include "vocabulary_check.h"

const char *dataset_split_name(enum dataset_split split)
{
    static const char *const names[DATASET_SPLITS] = {"train", "valid", "test"};

    return names[split];
}

const char *dataset_split_words(enum dataset_split split)
{
    static const char *const words[DATASET_SPLITS] = {"training", "validation", "test"};

    return words[split];
}

struct dataset *dataset_new(const struct dataset_config *config, enum dataset_split split,
                            size_t members)
{
    struct dataset *dataset = xcalloc(1, sizeof(*dataset));

    dataset->members = xcalloc(members, sizeof(*dataset->members));
    dataset->split = split;
    dataset->member_count = members;
    dataset->sequence_length = config->sequence_length;
    dataset->vocabulary = config->vocabulary;
    dataset->eod = config->eod;
    dataset->eod_mask_loss = config->eod_mask_loss;
    dataset->reset_position_ids = config->reset_position_ids;
    dataset->reset_attention_mask = config->reset_attention_mask;
    dataset->seed = config->seed;
    dataset->bert = config->masked && config->masked->bert;
    if (dataset->bert)
        dataset->bert_config = *config->masked;
    return dataset;
}

static int create_mock(const struct dataset_config *config, struct dataset *splits[DATASET_SPLITS],
                       struct error *err)
{
    enum { ONE_EPOCH = 100000 };

    if (config->vocabulary < 2 || config->eod < 0 || config->eod >= config->vocabulary)
        return error_set(err,
                         "mock data needs an end-of-document token; %" PRId32
                         " is not in a vocabulary of %" PRId64
                         "; use --data-path PREFIX instead of --mock-data",
                         config->eod, config->vocabulary);
    for (int i = 0; i < DATASET_SPLITS; i++) {
        if (config->samples[i] == 0)
            continue;
        splits[i] = dataset_new(config, (enum dataset_split)i, 0);
        splits[i]->mock = 1;
        splits[i]->samples = config->samples[i] > 0 ? config->samples[i] : ONE_EPOCH;
    }
    return 0;
}

int64_t dataset_part_samples(const struct dataset *dataset, size_t i)
{
    const struct index_file *index = dataset->members[i].index;

    return dataset->bert ? bert_index_samples(index) : gpt_index_samples(index);
}

/* The vocabulary of corpora is checked for the first split only if all splits have the same ones.
 */
static int check_blend(const struct dataset_config *config, const struct data_paths *paths,
                       enum dataset_split split, struct vocabulary_check *vocabulary,
                       struct error *err)
{
    const struct blend *blend = &paths->blends[split];
    int64_t first, count;

    for (size_t i = 0; i < blend->count; i++) {
        struct indexed *corpus = indexed_open(blend->prefixes[i], err);
        int rc = corpus ? data_paths_part(corpus, split, config->masked != NULL,
                                          &paths->ranges[split], &first, &count, err)
                        : -1;

        if (rc == 0 && vocabulary)
            rc = vocabulary_check(vocabulary, corpus, err);
        indexed_close(corpus);
        if (rc < 0)
            return -1;
    }
    return 0;
}

int dataset_check(const struct dataset_config *config, struct error *err)
{
    struct data_paths paths = {0};
    struct vocabulary_check vocabulary = {.vocabulary = config->vocabulary,
                                          .tokenizer = config->tokenizer,
                                          .eod = config->masked ? -1 : config->eod};
    int status = -1;
    bool checked = false;

    if (config->masked && !config->masked->bert)
        return masked_check(config, err);
    if (config->mock)
        return config->split ? split_parse(config->split, paths.ranges, err) : 0;
    if (data_paths_read(config, &paths, err) < 0)
        goto out;
    if (config->samples[DATASET_TRAIN] != 0 && !paths.ranges[DATASET_TRAIN].present) {
        error_set_code(err, ERROR_USAGE,
                       "no training data: the split assigns none to it; change --split");
        goto out;
    }
    for (int i = 0; i < DATASET_SPLITS; i++) {
        if (config->samples[i] == 0 || !paths.ranges[i].present)
            continue;
        if (check_blend(config, &paths, (enum dataset_split)i,
                        config->data_path.count > 0 && checked ? NULL : &vocabulary, err) < 0)
            goto out;
        checked = true;
    }
    vocabulary_check_report(&vocabulary);
    status = 0;
out:
    data_paths_clear(&paths);
    return status;
}

int dataset_create(const struct dataset_config *config, struct dataset *splits[DATASET_SPLITS],
                   struct error *err)
{
    int status;

    for (int i = 0; i < DATASET_SPLITS; i++)
        splits[i] = NULL;
    if (config->sequence_length < 1 || config->sequence_length > INT32_MAX / 8)
        return error_set(
            err, "a sequence length of %" PRId64 " is out of range (1 to %d); change --seq-length",
            config->sequence_length, INT32_MAX / 8);
    status = config->masked && !config->masked->bert ? masked_create(config, splits, err)
             : config->mock                          ? create_mock(config, splits, err)
                                                     : dataset_build(config, splits, err);
    for (int i = 0; i < DATASET_SPLITS && status == 0 && config->cyclic_ranks > 0; i++)
        if (splits[i] && !config->masked) {
            splits[i]->cyclic = cyclic_create(splits[i]->samples, config->cyclic_micro_batch,
                                              config->cyclic_ranks, err);
            status = splits[i]->cyclic ? 0 : -1;
        }
    for (int i = 0; i < DATASET_SPLITS && status < 0; i++) {
        dataset_destroy(splits[i]);
        splits[i] = NULL;
    }
    return status;
}

void dataset_destroy(struct dataset *dataset)
{
    if (!dataset)
        return;
    for (size_t i = 0; i < dataset->member_count; i++) {
        indexed_close(dataset->members[i].corpus);
        index_file_close(dataset->members[i].index);
    }
    index_file_close(dataset->blend);
    masked_close(dataset->masked);
    cyclic_destroy(dataset->cyclic);
    free(dataset->members);
    free(dataset);
}

int64_t dataset_samples(const struct dataset *dataset)
{
    return dataset->samples;
}

int64_t dataset_left_out(const struct dataset *dataset, const char **names)
{
    *names = dataset->left_out_names;
    return dataset->left_out;
}

struct masked *dataset_masked(const struct dataset *dataset)
{
    return dataset->masked;
}

int dataset_find(const struct dataset *dataset, int64_t i, const struct blend_member **member,
                 int64_t *sample, struct error *err)
{
    int16_t corpus;

    *member = dataset->members;
    *sample = i;
    if (dataset->blend) {
        if (index_file_read(dataset->blend, BLEND_CORPUS, i, 1, &corpus, err) < 0 ||
            index_file_read(dataset->blend, BLEND_SAMPLE, i, 1, sample, err) < 0)
            return -1;
        if (corpus < 0 || (size_t)corpus >= dataset->member_count)
            return error_set(err,
                             "%s names corpus %d of %zu; it is damaged; remove it and run again",
                             index_file_path(dataset->blend), corpus, dataset->member_count);
        *member += corpus;
    }
    return 0;
}

static int read_text(const struct dataset *dataset, int64_t i, int32_t *text,
                     const struct blend_member **from, struct error *err)
{
    int64_t sample;

    if (dataset_find(dataset, i, from, &sample, err) < 0)
        return -1;
    return gpt_index_text((*from)->index, (*from)->corpus, dataset->sequence_length, sample, text,
                          err);
}

int dataset_text(const struct dataset *dataset, int64_t i, int32_t *text, struct error *err)
{
    const struct blend_member *member = NULL;
    const char *split = dataset_split_name(dataset->split);

    if (i < 0 || i >= dataset->samples)
        return error_bug(err,
                         "sample %" PRId64 " of the %s data does not exist; there are %" PRId64, i,
                         split, dataset->samples);
    if (dataset->mock) {
        mock_text(dataset, i, text);
        return 0;
    }
    if (read_text(dataset, i, text, &member, err) < 0)
        return error_prefix(err, "sample %" PRId64 " of the %s data", i, split);
    for (int64_t j = 0; j <= dataset->sequence_length && dataset->vocabulary > 0; j++)
        if (text[j] < 0 || text[j] >= dataset->vocabulary)
            return error_set(err,
                             "%s.bin: token %" PRId32 " in sample %" PRId64 " of the %s data is "
                             "not in the vocabulary of %" PRId64
                             "; use the tokenizer that made the data, or tokenize it again",
                             indexed_prefix(member->corpus), text[j], i, split,
                             dataset->vocabulary);
    return 0;
}
