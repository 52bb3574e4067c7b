/* SPDX-License-Identifier: Apache-2.0 */
/* What t/bench/dataset measures of ours; prints "SECONDS PEAK_KIB SAMPLES" or "SECONDS TOKENS
 * WAITED".
 *
 *     dataset-bench index PREFIX CACHE SAMPLES LENGTH THREADS
 *     dataset-bench load PREFIX CACHE SAMPLES LENGTH THREADS
 *     dataset-bench blend CORPORA SAMPLES */
#include "data/dataset/blend.h"
#include "lib/clock.h"
#include "data/dataset/dataset.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>

/* CPU time of all threads: comparable even on a machine that is also used by others. */
static double cpu_seconds(void)
{
    struct timespec time;

    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
    return (double)time.tv_sec + (double)time.tv_nsec * 1e-9;
}

static int load(const struct dataset *dataset, int64_t length, int64_t samples, int threads,
                struct error *err)
{
    enum { BUFFERS = 4, MICRO_BATCH = 4 };
    int64_t batches = samples / MICRO_BATCH;
    struct batch_loader_config config = {
        .dataset = dataset,
        .micro_batch = MICRO_BATCH,
        .ranks = 1,
        .buffer_count = BUFFERS,
        .threads = threads,
    };
    void *buffers[BUFFERS];
    struct batch_loader *loader;
    struct batch batch;
    double begin, waited = 0;
    int status = 0;

    for (int i = 0; i < BUFFERS; i++)
        buffers[i] = aligned_alloc(4096, batch_size(MICRO_BATCH, length));
    config.buffers = buffers;
    begin = clock_now();
    loader = batch_loader_create(&config, err);
    for (int64_t i = 0; i < batches && loader && status == 0; i++) {
        double asked = clock_now();

        status = batch_loader_next(loader, &batch, err);
        waited += clock_now() - asked;
        if (status == 0)
            batch_loader_release(loader, &batch);
    }
    if (loader && status == 0)
        printf("%.3f %lld %.3f\n", clock_now() - begin, (long long)(batches * MICRO_BATCH * length),
               waited);
    status = loader ? status : -1;
    batch_loader_destroy(loader);
    for (int i = 0; i < BUFFERS; i++)
        free(buffers[i]);
    return status;
}

static int index_or_load(char **argv, struct error *err)
{
    const char *prefix = argv[2];
    struct dataset_config config = {
        .data_path = {&prefix, 1},
        .split = "1",
        .samples = {atoll(argv[4]), 0, 0},
        .sequence_length = atoll(argv[5]),
        .seed = 1234,
        .cache_path = argv[3],
        .threads = atoi(argv[6]),
    };
    struct dataset *splits[DATASET_SPLITS];
    struct rusage usage;
    double begin = clock_now();
    int status = dataset_create(&config, splits, err);

    if (status == 0 && strcmp(argv[1], "load") == 0)
        status = load(splits[0], config.sequence_length, config.samples[0], config.threads, err);
    else if (status == 0) {
        getrusage(RUSAGE_SELF, &usage);
        printf("%.3f %.3f %ld %lld\n", clock_now() - begin, cpu_seconds(), usage.ru_maxrss,
               (long long)dataset_samples(splits[0]));
    }
    dataset_destroy(splits[0]);
    return status;
}

static int drop(void *arg, int64_t first, int64_t count, const int16_t *corpus,
                const int64_t *sample, struct error *err)
{
    (void)first, (void)corpus, (void)sample, (void)err;
    *(int64_t *)arg += count;
    return 0;
}

static int blend(char **argv, struct error *err)
{
    size_t corpora = (size_t)atoll(argv[2]);
    double *weights = calloc(corpora, sizeof(*weights)), begin = clock_now();
    int64_t *taken = calloc(corpora, sizeof(*taken)), done = 0;
    int status;

    for (size_t i = 0; i < corpora; i++)
        weights[i] = (double)(1 + i % 7);
    blend_normalise(weights, corpora);
    status = blend_order(weights, corpora, atoll(argv[3]), taken, drop, &done, err);
    printf("%.3f %.3f 0 %lld\n", clock_now() - begin, cpu_seconds(), (long long)done);
    free(weights);
    free(taken);
    return status;
}

int main(int argc, char **argv)
{
    struct error err = {.text = "usage: dataset-bench index|load|blend ..."};
    int status = -1;

    if (argc == 7 && (strcmp(argv[1], "index") == 0 || strcmp(argv[1], "load") == 0))
        status = index_or_load(argv, &err);
    else if (argc == 4 && strcmp(argv[1], "blend") == 0)
        status = blend(argv, &err);
    if (status < 0)
        fprintf(stderr, "dataset-bench: %s\n", err.text);
    return status < 0;
}
