/* SPDX-License-Identifier: Apache-2.0 */
/* The order of samples: values from numpy and megatron-core, and invariants for any corpus. */
#include "tap.h"
#include "corpus.h"
#include "data/dataset/blend.h"
#include "data/dataset/gpt_index.h"
#include "data/dataset/mt19937.h"

#include <math.h>

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

static void test_generator(void)
{
    static const uint32_t first[] = {0, 1, 9, 6, 2, 4, 5, 8, 7, 3};
    static const uint32_t second[] = {7, 2, 9, 1, 0, 8, 4, 5, 6, 3};
    static const uint32_t third[] = {7, 3, 5, 1, 4, 8, 0, 2, 6, 9};
    static const uint64_t wide[] = {752595690692, 108744157686, 291964244179,
                                    650496783975, 396459895993, 611018672663};
    static const uint64_t above_32[] = {372560217,  3731473840, 1687674368,
                                        1485942463, 8287260472, 1127788727};
    uint32_t array[10] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 0};
    int64_t signed_array[10];
    struct mt19937 rng;
    int same = 1;

    mt19937_seed(&rng, 1234567890);
    mt19937_shuffle_u32(&rng, array, 10);
    ok(memcmp(array, first, sizeof(array)) == 0, "RandomState(1234567890).shuffle");
    mt19937_seed(&rng, 1234);
    for (uint32_t i = 0; i < 10; i++)
        array[i] = i;
    mt19937_shuffle_u32(&rng, array, 10);
    ok(memcmp(array, second, sizeof(array)) == 0, "RandomState(1234).shuffle");
    for (int64_t i = 0; i < 10; i++)
        signed_array[i] = i;
    mt19937_shuffle_i64(&rng, signed_array, 10);
    for (int i = 0; i < 10; i++)
        same &= signed_array[i] == third[i];
    ok(same, "and once more, as int64");
    mt19937_seed(&rng, 7);
    for (size_t i = 0; i < COUNT(wide); i++)
        same &= mt19937_interval(&rng, (UINT64_C(1) << 40) - 1) == wide[i];
    for (size_t i = 0; i < COUNT(above_32); i++)
        same &= mt19937_interval(&rng, (UINT64_C(1) << 33) + 4) == above_32[i];
    ok(same, "numbers beyond 32 bits take two words, the high one first");
    ok(mt19937_interval(&rng, 0) == 0, "the interval [0, 0]");
}

/* The blocked shuffle equals the plain one. */
static void test_shuffle_blocks(void)
{
    static const int64_t sizes[] = {0, 1, 2, 3, 127, 128, 129, 130, 255, 256, 257, 1000, 65537};

    for (size_t s = 0; s < COUNT(sizes); s++) {
        uint32_t *fast = calloc((size_t)sizes[s] + 1, 4), *plain = calloc((size_t)sizes[s] + 1, 4);
        struct mt19937 a, b;

        for (int64_t i = 0; i < sizes[s]; i++)
            fast[i] = plain[i] = (uint32_t)i;
        mt19937_seed(&a, (uint32_t)s);
        mt19937_seed(&b, (uint32_t)s);
        mt19937_shuffle_u32(&a, fast, sizes[s]);
        for (int64_t i = sizes[s] - 1; i >= 1; i--) {
            uint64_t j = mt19937_interval(&b, (uint64_t)i);
            uint32_t value = plain[j];

            plain[j] = plain[i];
            plain[i] = value;
        }
        ok(memcmp(fast, plain, (size_t)sizes[s] * 4) == 0 && mt19937_next(&a) == mt19937_next(&b),
           "a shuffle of %lld", (long long)sizes[s]);
        free(fast);
        free(plain);
    }
}

/* The number of threads does not matter. */
static void test_shuffle_threads(void)
{
    static const int64_t sizes[] = {1000, 8388608, 8388609, 8388610, 9437185, 12345678};

    for (size_t s = 0; s < COUNT(sizes); s++) {
        uint32_t *fast = calloc((size_t)sizes[s], 4), *plain = calloc((size_t)sizes[s], 4);
        int64_t *wide = calloc((size_t)sizes[s], 8);
        struct mt19937 a, b, c;
        int same = 1;

        for (int64_t i = 0; i < sizes[s]; i++)
            wide[i] = fast[i] = plain[i] = (uint32_t)i;
        mt19937_seed(&a, (uint32_t)s);
        mt19937_seed(&b, (uint32_t)s);
        mt19937_seed(&c, (uint32_t)s);
        mt19937_shuffle_u32(&a, plain, sizes[s]);
        shuffle_u32(&b, fast, sizes[s], 3);
        shuffle_i64(&c, wide, sizes[s], 2);
        same &= memcmp(fast, plain, (size_t)sizes[s] * 4) == 0;
        for (int64_t i = 0; i < sizes[s]; i++)
            same &= wide[i] == plain[i];
        ok(same && memcmp(&a, &b, sizeof(a)) == 0 && memcmp(&a, &c, sizeof(a)) == 0,
           "a shuffle of %lld by threads", (long long)sizes[s]);
        free(fast);
        free(plain);
        free(wide);
    }
}

static void test_split(void)
{
    static const int64_t sequences[] = {5, 250, 1000, 12345};
    static const struct {
        const char *text;
        int64_t ends[3][4]; /* -1: the split is empty */
    } rows[] = {
        {"949,50,1", {{5, 237, 949, 11715}, {5, 250, 999, 12333}, {5, 250, 1000, 12345}}},
        {"969, 30, 1", {{5, 242, 969, 11962}, {5, 250, 999, 12333}, {5, 250, 1000, 12345}}},
        {"98,2,0", {{5, 245, 980, 12098}, {5, 250, 1000, 12345}, {-1, -1, -1, -1}}},
        {"60/30/10", {{3, 150, 600, 7407}, {4, 225, 900, 11110}, {5, 250, 1000, 12345}}},
        {"1,1,1", {{2, 83, 333, 4115}, {3, 167, 667, 8230}, {5, 250, 1000, 12345}}},
        {"1", {{5, 250, 1000, 12345}, {-1, -1, -1, -1}, {-1, -1, -1, -1}}},
        {"'98,2,0'", {{5, 245, 980, 12098}, {5, 250, 1000, 12345}, {-1, -1, -1, -1}}},
        {".9;.1", {{4, 225, 900, 11110}, {5, 250, 1000, 12345}, {-1, -1, -1, -1}}},
    };
    static const char *const bad[] = {"",      "0,0,0",  "1,2,3,4", "1..2,3", "-1,2",
                                      "words", "98,2,O", "1e2,1",   "98%,2%"};
    struct error err;

    for (size_t i = 0; i < COUNT(rows); i++) {
        struct split_range ranges[SPLITS];
        int same = split_parse(rows[i].text, ranges, &err) == 0;

        for (int n = 0; n < 4 && same; n++) {
            int64_t end = 0;

            for (int s = 0; s < SPLITS; s++) {
                int64_t first, count;

                split_bounds(&ranges[s], sequences[n], &first, &count);
                same &= ranges[s].present == (rows[i].ends[s][n] >= 0);
                if (!ranges[s].present)
                    continue;
                same &= first == end && first + count == rows[i].ends[s][n];
                end = first + count;
            }
        }
        ok(same, "split %s", rows[i].text);
    }
    for (size_t i = 0; i < COUNT(bad); i++) {
        struct split_range ranges[SPLITS];

        ok(split_parse(bad[i], ranges, &err) == -1, "split \"%s\" is rejected", bad[i]);
    }
}

static void test_sum(void)
{
    static const struct {
        size_t count;
        double sum;
    } rows[] = {
        {3, 0x1.d555555555555p+0},    {7, 0x1.4be2be2be2be2p+1},   {8, 0x1.5be2be2be2be2p+1},
        {9, 0x1.6a1ba1ba1ba1bp+1},    {100, 0x1.4bfdfe4591243p+2}, {128, 0x1.5bb8ae9541ca7p+2},
        {129, 0x1.5c37b09149ba9p+2},  {130, 0x1.5cb5b871c7c27p+2}, {257, 0x1.883504d2ee7e2p+2},
        {1000, 0x1.df11f45f4e61ap+2},
    };
    double values[1000];

    for (int i = 0; i < 1000; i++)
        values[i] = 1.0 / (i + 1);
    for (size_t i = 0; i < COUNT(rows); i++)
        ok(blend_sum(values, rows[i].count) == rows[i].sum, "numpy.sum of %zu", rows[i].count);
}

struct collected {
    int16_t corpus[70000];
    int64_t sample[70000], count;
};

static int collect(void *arg, int64_t first, int64_t count, const int16_t *corpus,
                   const int64_t *sample, struct error *err)
{
    struct collected *all = arg;

    (void)err;
    memcpy(all->corpus + first, corpus, (size_t)count * sizeof(*corpus));
    memcpy(all->sample + first, sample, (size_t)count * sizeof(*sample));
    all->count += count;
    return 0;
}

static void test_blend_order(void)
{
    static const struct {
        double weights[3];
        size_t count;
        int16_t corpus[24];
        int64_t sample[24];
    } rows[] = {
        {{.1, .2, .7},
         3,
         {2, 1, 2, 0, 2, 2, 1, 2, 2, 2, 0, 2, 1, 2, 2, 2, 1, 2, 2, 2, 0, 2, 1, 2},
         {0, 0, 1, 0, 2, 3, 1, 4, 5, 6, 1, 7, 2, 8, 9, 10, 3, 11, 12, 13, 2, 14, 4, 15}},
        {{.6, .4},
         2,
         {0, 1, 0, 1, 0, 0, 1, 0, 1, 0, 0, 1, 0, 1, 0, 0, 1, 0, 1, 0, 0, 1, 0, 1},
         {0, 0, 1, 1, 2, 3, 2, 4, 3, 5, 6, 4, 7, 5, 8, 9, 6, 10, 7, 11, 12, 8, 13, 9}},
    };
    static const int16_t all_corpus[] = {0, 2, 1, 0, 2, 0, 2, 0, 2, 0};
    static const int64_t all_sample[] = {0, 0, 0, 1, 1, 2, 2, 3, 3, 4};
    struct collected *got = calloc(1, sizeof(*got));
    struct error err;
    int64_t taken[70];

    for (size_t i = 0; i < COUNT(rows); i++) {
        got->count = 0;
        ok(blend_order(rows[i].weights, rows[i].count, 24, taken, collect, got, &err) == 0 &&
               memcmp(got->corpus, rows[i].corpus, sizeof(rows[i].corpus)) == 0 &&
               memcmp(got->sample, rows[i].sample, sizeof(rows[i].sample)) == 0,
           "the order of blend %zu", i);
    }
    got->count = 0;
    ok(blend_order_exhaustive((const int64_t[]){5, 1, 4}, 3, collect, got, &err) == 0 &&
           got->count == 10 && memcmp(got->corpus, all_corpus, sizeof(all_corpus)) == 0 &&
           memcmp(got->sample, all_sample, sizeof(all_sample)) == 0,
       "the order of all there is");
    free(got);
}

/* Against the definition, with each step rounded separately, over more than one piece. */
static void test_blend_plain(void)
{
    struct collected *got = calloc(1, sizeof(*got));
    double weights[70], plain[70];
    struct error err;
    int64_t taken[70];

    for (size_t count = 1; count <= 70; count += count < 10 ? 1 : 30) {
        int same;

        for (size_t i = 0; i < count; i++) {
            weights[i] = 1.0 + (double)(i * 37 % 11);
            plain[i] = 0;
        }
        blend_normalise(weights, count);
        got->count = 0;
        same = blend_order(weights, count, 70000, taken, collect, got, &err) == 0;
        for (int64_t k = 0; k < 70000 && same; k++) {
            volatile double best = -INFINITY;
            size_t chosen = 0;

            for (size_t i = 0; i < count; i++) {
                volatile double product = weights[i] * (double)(k > 1 ? k : 1);
                volatile double behind = product - plain[i];

                if (behind > best) {
                    best = behind;
                    chosen = i;
                }
            }
            same &= got->corpus[k] == (int16_t)chosen && got->sample[k] == (int64_t)plain[chosen];
            plain[chosen] += 1;
        }
        for (size_t i = 0; i < count; i++)
            same &= taken[i] == (int64_t)plain[i];
        ok(same, "a blend of %zu", count);
    }
    free(got);
}

static void test_blend_words(void)
{
    static const struct {
        const char *words[4];
        size_t count, prefixes;
        int weighted;
    } rows[] = {
        {{"a"}, 1, 1, 0},           {{"a", "b"}, 2, 2, 0},
        {{"1", "a"}, 2, 1, 1},      {{"0.3", "a", "2e1", "b"}, 4, 2, 1},
        {{"a", "b", "c"}, 3, 3, 0}, {{"1", "a", "b"}, 3, 0, 0},
        {{"a", "1"}, 2, 0, 0},      {{"1", "a", "x", "b"}, 4, 0, 0},
        {{"0", "a"}, 2, 0, 0},      {{"-1", "a"}, 2, 0, 0},
    };
    struct error err;

    for (size_t i = 0; i < COUNT(rows); i++) {
        struct blend blend;
        int status = blend_parse(rows[i].words, rows[i].count, &blend, &err);

        if (rows[i].prefixes == 0)
            ok(status == -1, "words %zu are rejected", i);
        else
            ok(status == 0 && blend.count == rows[i].prefixes &&
                   !!blend.weights == rows[i].weighted,
               "words %zu", i);
        blend_clear(&blend);
    }
    ok(blend_target(1000, 0.3) == 300 && blend_with_surplus(1000, 0.3) == 302 &&
           blend_with_surplus(0, 0.3) == 0,
       "samples to build of a part");
}

static void test_plan(void)
{
    static const struct {
        int64_t tokens, length, wanted, epochs, samples, sans;
        int separate;
    } rows[] = {
        {34, 4, 20, 3, 25, 16, 1}, {34, 4, 8, 1, 8, 0, 0},
        {34, 4, 9, 2, 16, 8, 1},   {34, 4, 15, 2, 16, 8, 0},
        {34, 4, 14, 2, 16, 8, 0},  {34, 4, 13, 2, 16, 8, 1},
        {34, 4, -1, 1, 8, 0, 0},   {34, 4, 0, 1, 8, 0, 0},
        {1, 4, 3, 13, 3, 2, 0},    {40000000000, 2048, 146484375, 8, 156250000 - 1, 136718749, 1},
    };
    struct gpt_sizes sizes;
    struct error err;

    for (size_t i = 0; i < COUNT(rows); i++) {
        int status = gpt_sizes(rows[i].tokens, 6, rows[i].length, rows[i].wanted, &sizes, &err);

        if (!ok(status == 0 && sizes.epochs == rows[i].epochs && sizes.samples == rows[i].samples &&
                    sizes.separate == rows[i].separate &&
                    (sizes.epochs == 1 || sizes.sans_final == rows[i].sans),
                "sizes %zu", i))
            diag("%lld epochs, %lld samples, %lld, separate %d", (long long)sizes.epochs,
                 (long long)sizes.samples, (long long)sizes.sans_final, sizes.separate);
    }
    ok(gpt_sizes(0, 6, 4, 1, &sizes, &err) == -1, "no tokens");
    ok(gpt_sizes(34, 6, 4, INT64_MAX / 2, &sizes, &err) == -1, "too many samples");
    ok(gpt_sizes(1, 1, 1, INT64_MAX - 5, &sizes, &err) == -1, "too many epochs");
    ok(gpt_sizes(INT64_C(1) << 45, 1, 4, INT64_C(1) << 34, &sizes, &err) == 0 &&
           sizes.shuffle_width == 8,
       "more than 2^32 samples");
}

static struct index_file *get_index(const struct indexed *corpus, int64_t length, int64_t samples,
                                    uint32_t seed, int threads)
{
    struct gpt_request request = {
        .corpus = corpus,
        .count = indexed_info(corpus)->sequences,
        .sequence_length = length,
        .samples = samples,
        .seed = seed,
    };
    struct error err = {.text = ""};
    const struct index_place place = {.directories = {scratch_path("cache/deep")}, .deadline = 10};
    struct index_file *file;

    scratch_remove_below(scratch_path("cache"));
    file = gpt_index_get(&request, "train", &place, threads, &err);
    if (!file)
        diag("%s", err.text);
    return file;
}

static void test_vector(void)
{
    static const int32_t lengths[] = {5, 7, 3, 9, 4, 6};
    static const int32_t documents[] = {1, 2, 5, 2, 3, 4, 1, 0, 4, 5, 0, 3, 1, 0, 3, 2, 5, 4};
    static const int32_t samples[] = {0,  0, 0,  4, 1,  1, 2,  2, 3,  0, 4,  1, 4,  5, 5,  0, 6,  0,
                                      6,  4, 7,  1, 8,  0, 9,  0, 9,  4, 10, 2, 11, 1, 11, 5, 12, 0,
                                      12, 4, 13, 1, 14, 0, 14, 4, 14, 8, 16, 0, 16, 4, 17, 2};
    static const uint32_t shuffle[] = {7,  1, 10, 13, 15, 4,  3,  11, 2,  6,  9,  14, 5,
                                       12, 0, 8,  20, 21, 18, 22, 24, 17, 16, 19, 23};
    int32_t got[64];
    struct indexed *corpus;
    struct error err;

    corpus_write(scratch_path("v"), IDX_U16, lengths, 6);
    corpus = indexed_open(scratch_path("v"), &err);
    for (int threads = 1; threads <= 3; threads++) {
        struct index_file *file = get_index(corpus, 4, 20, 1234, threads);

        ok(file && gpt_index_samples(file) == 25, "an index with %d threads", threads);
        ok(file && index_file_read(file, GPT_DOCUMENT, 0, 18, got, &err) == 0 &&
               memcmp(got, documents, sizeof(documents)) == 0,
           "its documents");
        ok(file && index_file_read(file, GPT_SAMPLE, 0, 26, got, &err) == 0 &&
               memcmp(got, samples, sizeof(samples)) == 0,
           "its samples");
        ok(file && index_file_read(file, GPT_SHUFFLE, 0, 25, got, &err) == 0 &&
               memcmp(got, shuffle, sizeof(shuffle)) == 0,
           "its shuffle");
        ok(file && index_file_read(file, GPT_SHUFFLE, 25, 1, got, &err) == -1, "and no more");
        index_file_close(file);
    }
    indexed_close(corpus);
}

/* Walk the stream of documents token by token, as defined, and compare. Count how often each token
 * is the first of a training pair: once per epoch. */
static int check_index(const struct indexed *corpus, const int32_t *lengths, int64_t length,
                       const struct index_file *file)
{
    int64_t sequences = indexed_info(corpus)->sequences, tokens = 0, at = 0, samples, documents;
    int64_t *starts = calloc((size_t)sequences + 1, sizeof(*starts));
    int32_t *order, *text = calloc((size_t)length + 1, sizeof(*text)), *stream, *seen;
    struct error err = {.text = ""};
    int same = 1;

    samples = gpt_index_samples(file);
    documents = index_file_layout(file)->array[GPT_DOCUMENT].count;
    order = calloc((size_t)documents + 1, sizeof(*order));
    same &= index_file_read(file, GPT_DOCUMENT, 0, documents, order, &err) == 0;
    for (int64_t i = 0; i < sequences; i++) {
        starts[i] = tokens;
        tokens += lengths[i];
    }
    stream = calloc((size_t)(tokens * (documents / sequences)) + 1, sizeof(*stream));
    seen = calloc((size_t)samples + 1, sizeof(*seen));
    for (int64_t i = 0; i < documents; i++)
        for (int64_t j = 0; j < lengths[order[i]]; j++)
            stream[at++] = corpus_token(starts[order[i]] + j);
    same &= at == tokens * (documents / sequences) && samples == (at - 1) / length;
    for (int64_t i = 0; i < samples && same; i++) {
        uint32_t sample;

        same &= index_file_read(file, GPT_SHUFFLE, i, 1, &sample, &err) == 0;
        same &= sample < samples && seen[sample]++ == 0;
        same &= gpt_index_text(file, corpus, length, i, text, &err) == 0;
        same &= same && memcmp(text, stream + sample * length, ((size_t)length + 1) * 4) == 0;
    }
    if (!same)
        diag("%s", err.text);
    /* Every document occurs once per epoch. */
    memset(starts, 0, (size_t)sequences * sizeof(*starts));
    for (int64_t i = 0; i < documents; i++)
        starts[order[i]]++;
    for (int64_t i = 0; i < sequences; i++)
        same &= starts[i] == documents / sequences;
    free(starts);
    free(order);
    free(text);
    free(stream);
    free(seen);
    return same;
}

static void test_any_corpus(void)
{
    static const struct {
        int64_t sequences, length, samples;
        int32_t longest;
        int threads;
    } rows[] = {
        {1, 5, 3, 40, 1},      {1, 8, 100, 3, 2},         {50, 7, 300, 11, 3},
        {50, 64, 30, 5, 2},    {1000, 16, -1, 30, 4},     {1000, 1, 2000, 3, 2},
        {200000, 9, -1, 3, 3}, {150000, 33, 20000, 4, 2}, {3, 3, 1, 1, 1},
    };
    struct error err;

    for (size_t i = 0; i < COUNT(rows); i++) {
        int32_t *lengths = calloc((size_t)rows[i].sequences, sizeof(*lengths));
        struct indexed *corpus;
        struct index_file *file;

        srand((unsigned)i);
        for (int64_t j = 0; j < rows[i].sequences; j++)
            lengths[j] = rand() % (rows[i].longest + 1);
        lengths[rows[i].sequences / 2] = rows[i].longest;
        corpus_write(scratch_path("p"), i % 2 ? IDX_U16 : IDX_I32, lengths, rows[i].sequences);
        corpus = indexed_open(scratch_path("p"), &err);
        file = get_index(corpus, rows[i].length, rows[i].samples, (uint32_t)i, rows[i].threads);
        ok(file && gpt_index_samples(file) >= rows[i].samples, "corpus %zu has an index", i);
        ok(file && check_index(corpus, lengths, rows[i].length, file),
           "every document once per epoch, every sample once, with its tokens");
        index_file_close(file);
        indexed_close(corpus);
        free(lengths);
    }
}

int main(void)
{
    scratch_make();
    test_generator();
    test_shuffle_blocks();
    test_shuffle_threads();
    test_split();
    test_sum();
    test_blend_order();
    test_blend_plain();
    test_blend_words();
    test_plan();
    test_vector();
    test_any_corpus();
    scratch_remove();
    return done_testing();
}
