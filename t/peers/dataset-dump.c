/* SPDX-License-Identifier: Apache-2.0 */
/* dataset-dump OUT OPTIONS: write the text of every sample of each split, (samples, S + 1) int32,
 * to OUT.train, OUT.valid and OUT.test, for t/peers/data-order to compare. */
#include "base/core/option_rows.h"
#include "data/dataset/dataset.h"
#include "lib/parse.h"

#include <stdio.h>
#include <stdlib.h>

struct target {
    struct dataset_config config;
    int64_t seed, threads;
};

#define AT(field) offsetof(struct target, field)
static const struct option table[] = {
    VALUES("data-path", config.data_path, "PATH...", 0),
    VALUES("train-data-path", config.split_path[0], "PATH...", 0),
    VALUES("valid-data-path", config.split_path[1], "PATH...", 0),
    VALUES("test-data-path", config.split_path[2], "PATH...", 0),
    TEXT("split", config.split, "N,N,N", 0),
    FLAG("mock-data", config.mock, 0),
    RANGE("train-samples", config.samples[0], 0, 0, 0),
    RANGE("valid-samples", config.samples[1], 0, 0, 0),
    RANGE("test-samples", config.samples[2], 0, 0, 0),
    RANGE("seq-length", config.sequence_length, 0, 0, 0),
    RANGE("seed", seed, 0, UINT32_MAX, 0),
    RANGE("threads", threads, 0, 64, 0),
    TEXT("data-cache-path", config.cache_path, "DIR", 0),
    {0},
};

static int dump(const struct dataset *dataset, int64_t length, const char *path, struct error *err)
{
    size_t count = (size_t)length + 1;
    int32_t *text = malloc(count * sizeof(*text));
    FILE *file = fopen(path, "wb");
    int status = file && text ? 0 : error_set(err, "%s: cannot write", path);

    for (int64_t i = 0; i < dataset_samples(dataset) && status == 0; i++) {
        status = dataset_text(dataset, i, text, err);
        if (status == 0 && fwrite(text, sizeof(*text), count, file) != count)
            status = error_set(err, "%s: cannot write", path);
    }
    if (file && fclose(file) != 0)
        status = error_set(err, "%s: cannot write", path);
    free(text);
    return status;
}

int main(int argc, char **argv)
{
    static const char *const names[DATASET_SPLITS] = {"train", "valid", "test"};
    struct dataset *splits[DATASET_SPLITS] = {0};
    struct target target = {0};
    struct options_result result = {0};
    struct error err = {.text = "usage: dataset-dump OUT OPTIONS"};
    int status = -1;

    if (argc > 2)
        status =
            options_parse(table, &target, argc - 2, (const char *const *)argv + 2, &result, &err);
    target.config.seed = (uint32_t)target.seed;
    target.config.threads = (int)target.threads;
    if (status == 0)
        status = dataset_create(&target.config, splits, &err);
    for (int i = 0; i < DATASET_SPLITS && status == 0; i++) {
        char path[4096];

        snprintf(path, sizeof(path), "%s.%s", argv[1], names[i]);
        if (splits[i])
            status = dump(splits[i], target.config.sequence_length, path, &err);
    }
    for (int i = 0; i < DATASET_SPLITS; i++)
        dataset_destroy(splits[i]);
    free(target.config.data_path.items);
    for (int i = 0; i < DATASET_SPLITS; i++)
        free(target.config.split_path[i].items);
    options_result_clear(&result);
    if (status < 0)
        fprintf(stderr, "dataset-dump: %s\n", err.text);
    return status < 0;
}
