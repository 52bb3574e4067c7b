/* SPDX-License-Identifier: Apache-2.0 */
/* The training samples of a masked language model, as `megatron train` reads them with the same
 * options, for programs that train or compare with the same ones.
 *
 *   masked-samples MICRO-BATCHES OPTION-OF-MEGATRON-TRAIN... >OUT
 *
 * OUT is int32: samples, sequence length, 1 if there are token types, 1 if there are pairs; then
 * for each micro-batch: tokens, labels (-1: not predicted), token types, all (samples, sequence
 * length), and the label of each sample's pair. */
#include "run/train/arguments.h"
#include "run/train/masked_words.h"
#include "run/train/configure.h"

#include <stdio.h>
#include <stdlib.h>

static int put(const int32_t *values, size_t count, struct error *err)
{
    return fwrite(values, sizeof(*values), count, stdout) == count
               ? 0
               : error_set(err, "cannot write to the standard output");
}

static int write_batches(const struct dataset *data, const struct arguments *a, int64_t count,
                         struct error *err)
{
    size_t rows = (size_t)a->run.micro_batch_size, all = rows * (size_t)a->model.network.shape.sequence;
    void *buffer = aligned_alloc(4096, batch_size(a->run.micro_batch_size, a->model.network.shape.sequence));
    int types = a->mlm.data.bert, pairs = a->mlm.data.binary && types;
    int32_t head[] = {(int32_t)rows, (int32_t)a->model.network.shape.sequence, types, pairs};
    int rc = buffer ? put(head, 4, err) : error_set(err, "out of memory");
    struct batch batch;

    for (int64_t i = 0; i < count && rc == 0; i++) {
        rc = dataset_batch(data, i * a->run.micro_batch_size, a->run.micro_batch_size, buffer, &batch, err);
        if (rc == 0)
            rc = put(batch.tokens, all, err);
        if (rc == 0)
            rc = put(batch.labels, all, err);
        if (rc == 0 && types)
            rc = put(batch.token_types, all, err);
        if (rc == 0 && pairs)
            rc = put(batch.binary, rows, err);
    }
    free(buffer);
    return rc;
}

static int write_samples(struct arguments *a, int64_t count, struct error *err)
{
    struct dataset *splits[DATASET_SPLITS] = {0};
    struct dataset_config config;
    struct masked_config masked;
    struct masked_words words = {0};
    int rc = masked_words_load(&words, a, err);

    configure_dataset(a, &config);
    if (rc == 0 && !config.masked)
        rc = error_set(err, "these are not the options of a masked language model");
    if (rc == 0) {
        masked = *config.masked;
        masked.mask.counts = words.counts;
        masked.mask.begins = words.begins;
        config.masked = &masked;
        rc = dataset_create(&config, splits, err);
    }
    if (rc == 0)
        rc = splits[DATASET_TRAIN] ? write_batches(splits[DATASET_TRAIN], a, count, err)
                                   : error_set(err, "there is no training data");
    for (int i = 0; i < DATASET_SPLITS; i++)
        dataset_destroy(splits[i]);
    masked_words_clear(&words);
    return rc;
}

int main(int argc, char **argv)
{
    struct error err = {.text = "usage: masked-samples MICRO-BATCHES OPTION-OF-MEGATRON-TRAIN..."};
    struct options_result result = {0};
    struct arguments arguments;
    struct world world;
    int rc = argc > 2 ? 0 : -1;

    arguments_default(&arguments);
    if (rc == 0)
        rc = options_parse(arguments_table, &arguments, argc - 2, (const char *const *)argv + 2,
                           &result, &err);
    if (rc == 0)
        rc = world_read(&world, &err);
    if (rc == 0)
        rc = arguments_derive(&arguments, &result, &world, &err);
    if (rc == 0)
        rc = write_samples(&arguments, atoll(argv[1]), &err);
    if (fflush(stdout) != 0 && rc == 0)
        rc = error_set(&err, "cannot write to the standard output");
    options_result_clear(&result);
    data_files_clear(&arguments);
    if (rc < 0)
        fprintf(stderr, "masked-samples: %s\n", err.text);
    return rc < 0;
}
