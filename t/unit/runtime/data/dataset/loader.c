/* SPDX-License-Identifier: Apache-2.0 */
/* Datasets as training uses them: masks and positions, blends, ranks, resuming, failing files. */
#include "lib/clock.h"
#include "tap.h"
#include "corpus.h"
#include "data/dataset/dataset.h"

#include <sys/resource.h>
#include <sys/wait.h>

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))
enum { LENGTH = 8 };

static struct dataset_config config_of(const char **words, size_t count)
{
    return (struct dataset_config){
        .data_path = {words, count},
        .split = "8,1,1",
        .samples = {60, 5, 0},
        .sequence_length = LENGTH,
        .vocabulary = 251,
        .eod = 0,
        .seed = 1234,
        .threads = 2,
        .cache_path = scratch_path("cache"),
    };
}

static void make_corpora(void)
{
    int32_t lengths[300];

    for (int i = 0; i < 300; i++)
        lengths[i] = 1 + i * 7 % 13;
    corpus_write(scratch_path("a"), IDX_U16, lengths, 100);
    corpus_write(scratch_path("b"), IDX_U8, lengths, 300);
}

static struct dataset *train_data(const struct dataset_config *config)
{
    struct dataset *splits[DATASET_SPLITS];
    struct error err = {.text = ""};

    if (dataset_create(config, splits, &err) < 0) {
        diag("%s", err.text);
        return NULL;
    }
    dataset_destroy(splits[DATASET_VALID]);
    dataset_destroy(splits[DATASET_TEST]);
    return splits[DATASET_TRAIN];
}

/* Without options, masks are 1 and positions count up; each option changes only its own array. */
static void test_batch(void)
{
    const char *path = scratch_path("a");

    for (int options = 0; options < 8; options++) {
        struct dataset_config config = config_of(&path, 1);
        void *buffer = aligned_alloc(4096, batch_size(3, LENGTH));
        struct dataset *dataset;
        struct batch batch;
        struct error err = {.text = ""};
        int32_t text[LENGTH + 1], offsets[3 * LENGTH + 1] = {0}, count = 0;
        int same;

        config.eod = 5;
        config.eod_mask_loss = options & 1;
        config.reset_position_ids = options >> 1 & 1;
        config.reset_attention_mask = options >> 2 & 1;
        dataset = train_data(&config);
        same = dataset && dataset_batch(dataset, 7, 3, buffer, &batch, &err) == 0;
        for (int row = 0; row < 3 && same; row++) {
            int position = 0;

            same &= dataset_text(dataset, 7 + row, text, &err) == 0;
            for (int j = 0; j < LENGTH; j++, position++) {
                int at = row * LENGTH + j, ends = text[j] == 5;

                same &= batch.tokens[at] == text[j] && batch.labels[at] == text[j + 1];
                same &= batch.loss_mask[at] == (ends && config.eod_mask_loss ? 0 : 1);
                same &= batch.position_ids[at] == position;
                if (ends && config.reset_position_ids)
                    position = -1;
                if ((ends && config.reset_attention_mask) || j == LENGTH - 1)
                    if (offsets[count] != at + 1)
                        offsets[++count] = at + 1;
            }
        }
        same =
            same && batch.document_count == count &&
            memcmp(batch.document_offsets, offsets, sizeof(offsets[0]) * (size_t)(count + 1)) == 0;
        ok(same && batch.longest_document <= LENGTH && batch.longest_document > 0,
           "a batch with options %d", options);
        dataset_destroy(dataset);
        free(buffer);
    }
    ok(batch_size(0, 5) == 0 && batch_size(INT64_MAX, 5) == 0 && batch_size(1 << 20, 1 << 20) == 0,
       "impossible batches");
}

/* Documents that end within a sample, exactly. */
static void test_boundaries(void)
{
    static const unsigned char tokens[] = {9, 9, 0, 7, 0, 0, 8, 8, 0, 3};
    static const int32_t positions[] = {0, 1, 2, 0, 1, 0, 0, 1, 2}, ends[] = {0, 3, 5, 6, 9};
    const char *path = scratch_path("e");
    struct dataset_config config = config_of(&path, 1);
    void *buffer = aligned_alloc(4096, batch_size(1, 9));
    struct dataset *dataset;
    struct batch batch;
    struct error err = {.text = ""};

    corpus_write(path, IDX_U8, (const int32_t[]){10}, 1);
    write_file(scratch_path("e.bin"), tokens, sizeof(tokens));
    config.split = "1";
    config.samples[0] = 1;
    config.samples[1] = 0;
    config.sequence_length = 9;
    config.eod_mask_loss = config.reset_position_ids = config.reset_attention_mask = 1;
    dataset = train_data(&config);
    ok(dataset && dataset_batch(dataset, 0, 1, buffer, &batch, &err) == 0, "one sample");
    ok(memcmp(batch.position_ids, positions, sizeof(positions)) == 0, "its positions");
    ok(batch.document_count == 4 && memcmp(batch.document_offsets, ends, sizeof(ends)) == 0 &&
           batch.longest_document == 3,
       "its documents; an end at the sample's end is one end");
    ok(batch.loss_mask[2] == 0 && batch.loss_mask[8] == 0 && batch.loss_mask[7] == 1, "its mask");
    dataset_destroy(dataset);
    free(buffer);
}

struct loading {
    struct batch_loader *loader;
    void *buffers[4];
};

static struct batch_loader *load(struct loading *loading, const struct dataset *dataset,
                                 int64_t consumed, int64_t micro_batch, int rank, int ranks,
                                 int threads)
{
    struct batch_loader_config config = {
        .dataset = dataset,
        .consumed = consumed,
        .micro_batch = micro_batch,
        .rank = rank,
        .ranks = ranks,
        .buffers = loading->buffers,
        .buffer_count = 4,
        .threads = threads,
        .deadline = 30,
    };
    struct error err;

    for (int i = 0; i < 4; i++)
        loading->buffers[i] = aligned_alloc(4096, batch_size(micro_batch, LENGTH));
    loading->loader = batch_loader_create(&config, &err);
    return loading->loader;
}

static void unload(struct loading *loading)
{
    batch_loader_destroy(loading->loader);
    for (int i = 0; i < 4; i++)
        free(loading->buffers[i]);
}

/* Consume the samples [consumed, until) with 'ranks' ranks; mark[i] counts how often sample i
 * arrived with its own tokens. */
static int consume(const struct dataset *dataset, int64_t consumed, int64_t until,
                   int64_t micro_batch, int ranks, int *mark)
{
    int same = 1;

    for (int rank = 0; rank < ranks; rank++) {
        struct loading loading;
        struct error err = {.text = ""};

        load(&loading, dataset, consumed, micro_batch, rank, ranks, 1 + rank % 3);
        for (int64_t at = consumed; at < until && same; at += micro_batch * ranks) {
            struct batch batch;

            same &= batch_loader_next(loading.loader, &batch, &err) == 0;
            same &= batch.first == at + rank * micro_batch;
            for (int64_t row = 0; row < micro_batch && same; row++) {
                int32_t text[LENGTH + 1];

                same &= dataset_text(dataset, batch.first + row, text, &err) == 0;
                same &= memcmp(text, batch.tokens + row * LENGTH, LENGTH * sizeof(*text)) == 0;
                mark[batch.first + row] += same;
            }
            batch_loader_release(loading.loader, &batch);
        }
        unload(&loading);
    }
    return same;
}

static void test_ranks(void)
{
    static const struct {
        int micro_batch, ranks, then_micro_batch, then_ranks;
    } rows[] = {{1, 1, 1, 1}, {2, 2, 1, 4}, {4, 1, 2, 3}, {1, 6, 3, 2}, {3, 4, 12, 1}};
    const char *words[] = {"0.3", scratch_path("a"), "0.7", scratch_path("b")};
    struct dataset_config config = config_of(words, 4);
    struct dataset *dataset;

    config.samples[0] = 600;
    dataset = train_data(&config);
    ok(dataset && dataset_samples(dataset) >= 600, "a blend");
    for (size_t i = 0; i < COUNT(rows); i++) {
        int mark[1000] = {0}, good;

        good = consume(dataset, 0, 120, rows[i].micro_batch, rows[i].ranks, mark) &&
               consume(dataset, 120, 240, rows[i].then_micro_batch, rows[i].then_ranks, mark);
        for (int j = 0; j < 240; j++)
            good &= mark[j] == 1;
        ok(good, "each sample once, resumed with other ranks (%zu)", i);
    }
    dataset_destroy(dataset);
}

static void test_end(void)
{
    double begin = clock_now();
    const char *path = scratch_path("a");
    struct dataset_config config = config_of(&path, 1);
    struct dataset *dataset = train_data(&config);
    struct loading loading;
    struct batch batch;
    struct error err = {.text = ""};
    int64_t samples = dataset_samples(dataset), got = 0;
    char expected[256];

    load(&loading, dataset, 0, 1, 0, 1, 3);
    while (batch_loader_next(loading.loader, &batch, &err) == 0) {
        got++;
        batch_loader_release(loading.loader, &batch);
    }
    is_int(got, samples, "every sample is delivered");
    snprintf(expected, sizeof(expected),
             "internal error: sample %lld of the train data does not exist; there are %lld; ",
             (long long)samples, (long long)samples);
    ok(strncmp(err.text, expected, strlen(expected)) == 0, "then an error: %s", err.text);
    ok(batch_loader_next(loading.loader, &batch, &err) == -1, "which stays");
    ok(clock_now() - begin < 30, "no deadline was waited for");
    unload(&loading);
    load(&loading, dataset, 0, 1, 0, 1, 1);
    for (int i = 0; i < 4; i++)
        batch_loader_next(loading.loader, &batch, &err);
    ok(batch_loader_next(loading.loader, &batch, &err) == -1 && strstr(err.text, "are in use"),
       "all buffers in use");
    unload(&loading);
    dataset_destroy(dataset);
}

/* There is no validation data if there is too little of it, and it wraps around at its end. */
static void test_validation(void)
{
    const char *path = scratch_path("a");
    struct dataset_config config = config_of(&path, 1);
    struct dataset *splits[DATASET_SPLITS];
    struct loading loading;
    struct batch batch;
    struct error err = {.text = ""};
    int32_t first[8];
    int64_t samples;
    int good = 1;

    config.split = "1000,1";
    config.samples[1] = 4;
    is_int(dataset_create(&config, splits, &err), 0, "a corpus too small for a thousandth");
    ok(splits[0] && !splits[1], "has no validation data");
    dataset_destroy(splits[0]);
    config.split = "1,1";
    is_int(dataset_create(&config, splits, &err), 0, "half of it");
    samples = dataset_samples(splits[1]);
    load(&loading, splits[1], 0, 1, 0, 1, 1);
    for (int64_t i = 0; i <= samples && good; i++) {
        good = batch_loader_next(loading.loader, &batch, &err) == 0;
        if (i == 0)
            memcpy(first, batch.tokens, sizeof(first));
        good &= i < samples || memcmp(first, batch.tokens, sizeof(first)) == 0;
        batch_loader_release(loading.loader, &batch);
    }
    ok(good, "wraps around at its end");
    unload(&loading);
    dataset_destroy(splits[0]);
    dataset_destroy(splits[1]);
}

/* A corpus too small for validation data is left out of it, and the others share its weight; all
 * of training data must be there. */
static void test_small_members(void)
{
    const char *a = scratch_path("a"), *tiny = scratch_path("tiny"), *empty = scratch_path("empty");
    const int32_t lengths[] = {5};
    const struct {
        const char *name, *words[4];
        size_t count;
        const char *split;
        int64_t valid;        /* samples wanted */
        int64_t left_out;     /* of validation data; negative: there is none */
        const char *expected; /* an error; or NULL */
    } rows[] = {
        {"with weights", {"0.5", a, "0.5", tiny}, 4, "8,1,1", 5, 1, NULL},
        {"first, with weights", {"3", tiny, "7", a}, 4, "8,1,1", 5, 1, NULL},
        {"without weights",
         {a, tiny},
         2,
         "8,1,1",
         5,
         0,
         "its training data is shorter than one sample"},
        {"part of the share", {"1", tiny, "1", tiny}, 4, "8,1,1", 5, -1, NULL},
        {"alone", {tiny}, 1, "8,1,1", 5, -1, NULL},
        {"no training data",
         {"1", a, "1", tiny},
         4,
         "1,9",
         5,
         0,
         "none of its 1 sequences is training"},
        {"without tokens", {"1", a, "1", empty}, 4, "8,1,1", 5, 0, "it contains no tokens"},
        {"all of it", {tiny}, 1, "1,9", -1, 0, "none of its 1 sequences is training"},
    };

    corpus_write(tiny, IDX_U16, lengths, 1);
    corpus_write(empty, IDX_U16, lengths, 0);
    for (size_t i = 0; i < COUNT(rows); i++) {
        struct dataset_config config =
            config_of((const char **)(uintptr_t)rows[i].words, rows[i].count);
        struct dataset *splits[DATASET_SPLITS], *same = NULL;
        const char *names = NULL;
        struct error err = {.text = ""};
        int status;

        config.split = rows[i].split;
        config.samples[1] = rows[i].valid;
        status = dataset_create(&config, splits, &err);
        if (rows[i].expected) {
            ok(status == -1 && err.code == ERROR_USAGE && strstr(err.text, rows[i].expected),
               "%s: %s", rows[i].name, err.text);
            continue;
        }
        if (!ok(status == 0 && splits[0], "%s: there is training data", rows[i].name))
            diag("%s", err.text);
        if (rows[i].left_out < 0)
            ok(!splits[1], "  and no validation data");
        else if (ok(splits[1] && dataset_left_out(splits[1], &names) == rows[i].left_out,
                    "  and validation data of the others")) {
            const char *others[] = {"1", a};
            int32_t text[LENGTH + 1], expected[LENGTH + 1];
            int good = 1;
            struct dataset *alone[DATASET_SPLITS];

            config.data_path = (struct option_list){others, 2};
            dataset_create(&config, alone, &err);
            same = alone[1];
            is_int(dataset_samples(splits[1]), dataset_samples(same), "  as much");
            for (int64_t j = 0; j < dataset_samples(same) && good; j++)
                good = dataset_text(splits[1], j, text, &err) == 0 &&
                       dataset_text(same, j, expected, &err) == 0 &&
                       memcmp(text, expected, sizeof(text)) == 0;
            ok(good, "  in the same order");
            dataset_destroy(alone[0]);
            dataset_destroy(same);
        }
        dataset_destroy(splits[0]);
        dataset_destroy(splits[1]);
    }
}

/* Validation data of its own files: a corpus shorter than a sample is left out of a blend that
 * takes each once, and repeated if weights say so. */
static void test_small_validation(void)
{
    const char *a = scratch_path("a"), *tiny = scratch_path("tiny");
    const char *names = NULL, *once[] = {a, tiny}, *twice[] = {tiny, tiny},
               *weighted[] = {"1", a, "1", tiny};
    struct dataset_config config = config_of(NULL, 0);
    struct dataset *splits[DATASET_SPLITS];
    struct error err = {.text = ""};

    config.split = NULL;
    config.split_path[0] = (struct option_list){&a, 1};
    config.split_path[1] = (struct option_list){once, 2};
    is_int(dataset_create(&config, splits, &err), 0, "a small corpus of --valid-data-path");
    is_int(dataset_left_out(splits[1], &names), 1, "is left out");
    ok(strcmp(names, tiny) == 0, "and named");
    dataset_destroy(splits[0]);
    dataset_destroy(splits[1]);
    config.split_path[1] = (struct option_list){weighted, 4};
    is_int(dataset_create(&config, splits, &err), 0, "with weights");
    is_int(dataset_left_out(splits[1], &names), 0, "it is repeated");
    dataset_destroy(splits[0]);
    dataset_destroy(splits[1]);
    config.split_path[1] = (struct option_list){twice, 2};
    is_int(dataset_create(&config, splits, &err), -1, "nothing but small corpora");
    ok(err.code == ERROR_USAGE &&
           strstr(err.text, "tiny: shorter than one sample of validation data"),
       "are an error: %s", err.text);
}

static void test_failing_file(void)
{
    const char *path = scratch_path("a");
    struct dataset_config config = config_of(&path, 1);
    struct dataset *dataset = train_data(&config);
    struct loading loading;
    struct batch batch;
    struct error err = {.text = ""};
    int status = 0;

    ok(truncate(scratch_path("a.bin"), 200) == 0, "the .bin file is cut during training");
    load(&loading, dataset, 0, 2, 0, 1, 2);
    for (int i = 0; i < 20 && status == 0; i++) {
        status = batch_loader_next(loading.loader, &batch, &err);
        batch_loader_release(loading.loader, &batch);
    }
    ok(status == -1 && strstr(err.text, "a.bin: unexpected end at offset "),
       "an error, not a signal");
    unload(&loading);
    dataset_destroy(dataset);
    make_corpora();
}

static void test_config_errors(void)
{
    const char *a = scratch_path("a"), *both[] = {"1", a, "x", a};
    struct dataset *splits[DATASET_SPLITS];
    struct error err;
    const struct {
        const char *text;
        struct dataset_config change;
    } rows[] = {
        {"no data to train on", {.sequence_length = 8}},
        {"a sequence length of 0 is out of range", {.data_path = {&a, 1}}},
        {"\"x\" is not a weight", {.data_path = {both, 4}, .sequence_length = 8}},
        {"none of its 100 sequences is training data",
         {.data_path = {&a, 1}, .split = "1,1000", .samples = {1, 0}, .sequence_length = 8}},
        {"token 250 in sample",
         {.data_path = {&a, 1}, .samples = {300}, .sequence_length = 8, .vocabulary = 250}},
        {"data for all splits cannot be combined",
         {.data_path = {&a, 1}, .split_path = {{&a, 1}}, .sequence_length = 8}},
        {"a data split cannot be combined",
         {.split = "1", .split_path = {{&a, 1}}, .sequence_length = 8}},
        {"a blend with weights never ends",
         {.data_path = {both, 2}, .samples = {-1}, .sequence_length = 8}},
        {"mock data needs an end-of-document token",
         {.mock = 1, .samples = {1}, .sequence_length = 8}},
    };

    for (size_t i = 0; i < COUNT(rows); i++) {
        struct dataset_config config = rows[i].change;
        int32_t text[9];
        int status;

        config.cache_path = scratch_path("cache");
        err.text[0] = '\0';
        status = dataset_create(&config, splits, &err);
        for (int64_t j = 0; status == 0 && splits[0] && j < dataset_samples(splits[0]); j++)
            status = dataset_text(splits[0], j, text, &err);
        if (!ok(status == -1 && strstr(err.text, rows[i].text), "rejected: %s", rows[i].text))
            diag("%s", err.text);
        for (int s = 0; s < DATASET_SPLITS; s++)
            dataset_destroy(splits[s]);
    }
}

static void test_mock(void)
{
    struct dataset_config config = {
        .mock = 1,
        .samples = {1000, 10, 0},
        .sequence_length = 512,
        .vocabulary = 50257,
        .eod = 50256,
        .seed = 7,
    };
    struct dataset *splits[DATASET_SPLITS], *again[DATASET_SPLITS];
    int32_t text[513], other[513];
    struct error err = {.text = ""};
    int same = 1, in_range = 1, counting = 0;

    ok(dataset_create(&config, splits, &err) == 0 && splits[0] && splits[1] && !splits[2] &&
           dataset_samples(splits[0]) == 1000,
       "mock data, no files");
    dataset_create(&config, again, &err);
    for (int64_t i = 0; i < 1000; i++) {
        same &= dataset_text(splits[0], i, text, &err) == 0;
        same &= dataset_text(again[0], i, other, &err) == 0;
        same &= memcmp(text, other, sizeof(text)) == 0;
        for (int j = 0; j < 513; j++)
            in_range &= text[j] >= 0 && text[j] < 50257;
        for (int j = 0; j < 512; j++)
            counting += text[j + 1] == text[j] + 1;
    }
    ok(same, "the same again");
    ok(in_range && counting > 500000, "tokens that count");
    dataset_text(splits[1], 0, other, &err);
    dataset_text(splits[0], 0, text, &err);
    ok(memcmp(text, other, sizeof(text)) != 0, "another split, another text");
    ok(dataset_text(splits[0], 1000, text, &err) == -1, "and an end");
    for (int s = 0; s < DATASET_SPLITS; s++) {
        dataset_destroy(splits[s]);
        dataset_destroy(again[s]);
    }
}

/* A blend of more files than may initially be open. */
static void test_many_parts(void)
{
    enum { PARTS = 100 };
    const char *words[PARTS];
    struct dataset_config config = config_of(words, PARTS);
    struct rlimit before, low;
    struct dataset *dataset;
    struct error err = {.text = ""};
    int status;

    for (int i = 0; i < PARTS; i++)
        words[i] = scratch_path(i % 2 ? "a" : "b");
    config.samples[DATASET_TRAIN] = config.samples[DATASET_VALID] = 500;
    if (getrlimit(RLIMIT_NOFILE, &before) < 0 || before.rlim_max < 2048)
        return;
    low = before;
    low.rlim_cur = 64;
    setrlimit(RLIMIT_NOFILE, &low);
    dataset = train_data(&config);
    ok(dataset && dataset_samples(dataset) > 0, "%d parts with a limit of 64 open files", PARTS);
    dataset_destroy(dataset);
    fflush(stdout);
    if (fork() == 0) {
        struct dataset *splits[DATASET_SPLITS];

        low.rlim_max = 64;
        setrlimit(RLIMIT_NOFILE, &low);
        status = dataset_create(&config, splits, &err);
        _exit(status == -1 && strstr(err.text, "need 600 open files, but the limit is 64") ? 0 : 1);
    }
    ok(wait(&status) > 0 && status == 0, "an error if the limit cannot be raised");
    setrlimit(RLIMIT_NOFILE, &before);
}

/* Without --data-cache-path the index is next to the data, and later runs use it, too. */
static void test_beside(void)
{
    const char *path = scratch_path("a"), *cache = scratch_path("a/cache/GPTDataset_indices");
    struct dataset_config config = config_of(&path, 1);

    config.cache_path = NULL;
    for (int run = 1; run <= 2; run++) {
        struct dataset *dataset = train_data(&config);

        ok(dataset != NULL, "data without a cache, run %d", run);
        is_int(count_names(cache), 2, "one index of each split beside the data");
        dataset_destroy(dataset);
    }
}

int main(void)
{
    scratch_make();
    make_corpora();
    test_batch();
    test_boundaries();
    test_ranks();
    test_end();
    test_validation();
    test_small_members();
    test_small_validation();
    test_failing_file();
    test_config_errors();
    test_mock();
    test_many_parts();
    test_beside();
    scratch_remove();
    return done_testing();
}
