/* SPDX-License-Identifier: Apache-2.0 */
/* Masks against those of fairseq and numpy. */
#include "data/dataset/masked_tokens.h"
#include "tap.h"

enum { V = 50265, M = V - 1, K = -2 }; /* vocabulary; the mask token; kept as it was */

struct change {
    int place, token;
};

static struct mask_config usual(enum mask_rule rule)
{
    return (struct mask_config){.rule = rule,
                                .vocabulary = V,
                                .mask = M,
                                .first_random = 4,
                                .probability = 0.15,
                                .leave_unmasked = 0.1,
                                .random_token = 0.1};
}

static int32_t text_token(int i)
{
    return i == 0 ? 0 : (7 * i * i + 11 * i) % 1000 + 4;
}

static void test_seeds(void)
{
    ok(masking_seed(1, 1, 0) == 810752 && masking_seed(1, 1, 1) == 808832 &&
           masking_seed(1, 2, 0) == 565248,
       "seeds are Python's hash modulo 1e6");
}

static void test_vectors(void)
{
    static uint8_t begins[V];
    static double counts[V];
    static const struct {
        const char *what;
        enum mask_rule rule;
        int64_t seed, epoch, index;
        int n, words, by_count;
        double random, leave;
        struct change changes[20]; /* up to a change of place 0 that is not the first */
    } rows[] = {
        {"fairseq 0.12, epoch 1, block 0",
         MASK_FAIRSEQ,
         1,
         1,
         0,
         36,
         0,
         0,
         .1,
         .1,
         {{0, M}, {3, M}, {24, M}, {32, M}, {35, K}}},
        {"fairseq 0.12, epoch 2",
         MASK_FAIRSEQ,
         1,
         2,
         0,
         36,
         0,
         0,
         .1,
         .1,
         {{4, 31619}, {7, 39868}, {16, M}, {18, M}, {24, K}}},
        {"fairseq 0.12, block 1",
         MASK_FAIRSEQ,
         1,
         1,
         1,
         62,
         0,
         0,
         .1,
         .1,
         {{4, K}, {11, M}, {15, M}, {24, M}, {34, M}, {39, M}, {41, M}, {49, 28114}, {50, M}}},
        {"fairseq main",
         MASK_FAIRSEQ_MAIN,
         1,
         1,
         0,
         36,
         0,
         0,
         .1,
         .1,
         {{13, M}, {14, K}, {17, M}, {22, M}, {24, M}, {33, M}}},
        {"fairseq main, block 1",
         MASK_FAIRSEQ_MAIN,
         1,
         1,
         1,
         62,
         0,
         0,
         .1,
         .1,
         {{6, M},
          {15, 5919},
          {32, 19321},
          {35, M},
          {38, M},
          {41, 39828},
          {53, M},
          {58, M},
          {59, M}}},
        {"whole words",
         MASK_FAIRSEQ,
         1,
         1,
         3,
         100,
         1,
         0,
         .1,
         .1,
         {{15, M},
          {19, M},
          {29, M},
          {30, M},
          {34, M},
          {35, M},
          {36, M},
          {37, M},
          {45, M},
          {46, M},
          {47, M},
          {60, M},
          {71, M},
          {86, M},
          {93, M},
          {96, M},
          {97, M},
          {98, M}}},
        {"replacements by frequency",
         MASK_FAIRSEQ,
         7,
         3,
         11,
         100,
         0,
         1,
         .6,
         .1,
         {{10, 30034},
          {13, 7932},
          {25, 9554},
          {28, M},
          {32, 5041},
          {42, M},
          {46, M},
          {50, 413},
          {51, M},
          {71, 8226},
          {80, 18401},
          {83, 19512},
          {87, M},
          {94, M},
          {97, 26692}}},
        {"whole words, main",
         MASK_FAIRSEQ_MAIN,
         1,
         1,
         3,
         100,
         1,
         0,
         .5,
         .1,
         {{20, M},
          {21, M},
          {22, M},
          {23, M},
          {33, M},
          {62, 41773},
          {67, M},
          {72, M},
          {73, 40414},
          {87, 46514},
          {88, M},
          {89, M},
          {90, M},
          {96, 13879},
          {97, 1379},
          {98, 48935}}},
    };

    for (int id = 0; id < V; id++) {
        begins[id] = id < 4 || id % 3 != 1;
        counts[id] = V - id;
    }
    for (size_t r = 0; r < sizeof(rows) / sizeof(rows[0]); r++) {
        struct mask_config config = usual(rows[r].rule);
        int32_t tokens[100], labels[100];
        int good = 1, changes = 0;
        struct masking *masking;
        struct error err;
        int64_t selected;
        uint32_t seed = masking_seed(rows[r].seed, rows[r].epoch, rows[r].index);

        config.begins = rows[r].words ? begins : NULL;
        config.counts = rows[r].by_count ? counts : NULL;
        config.random_token = rows[r].random;
        config.leave_unmasked = rows[r].leave;
        for (int i = 0; i < rows[r].n; i++)
            tokens[i] = i == rows[r].n - 1 ? 2 : text_token(i);
        masking = masking_create(&config, &err);
        selected = masking_apply(masking, seed, tokens, rows[r].n, labels, &err);
        for (int i = 0; i < rows[r].n; i++) {
            const struct change *c = &rows[r].changes[changes];
            int32_t old = i == rows[r].n - 1 ? 2 : text_token(i);
            int here = c->place == i && (c->token != 0);

            changes += here;
            good &= labels[i] == (here ? old : BATCH_IGNORE);
            good &= tokens[i] == (here && c->token != K ? c->token : old);
        }
        ok(good && selected == changes, "%s: %d tokens", rows[r].what, changes);
        ok(masking_count(masking, seed, rows[r].n) == (rows[r].words ? -1 : selected) &&
               selected <= masking_limit(&config, rows[r].n),
           "their number is known beforehand");
        masking_destroy(masking);
    }
}

/* Long samples: numpy's Generator draws them differently. */
static void test_long(void)
{
    enum { N = 12000 };
    static int32_t tokens[N], labels[N];
    struct mask_config config = usual(MASK_FAIRSEQ_MAIN);
    struct masking *masking;
    struct error err;
    int64_t sum = 0, selected;

    for (int i = 0; i < N; i++)
        tokens[i] = i == 0 ? 0 : (int32_t)((7 * (int64_t)i * i + 11 * (int64_t)i) % 1000 + 4);
    masking = masking_create(&config, &err);
    selected = masking_apply(masking, masking_seed(1, 1, 3), tokens, N, labels, &err);
    for (int i = 0; i < N; i++)
        if (labels[i] != BATCH_IGNORE)
            sum += (int64_t)i * (tokens[i] % 97);
    ok(selected == 1800 && sum == 271320998, "a sample of 12000 tokens");
    masking_destroy(masking);
}

static void test_bad_tokens(void)
{
    struct mask_config config = usual(MASK_FAIRSEQ);
    struct masking *masking;
    int32_t tokens[] = {0, 7, V}, labels[3];
    struct error err;

    masking = masking_create(&config, &err);
    ok(masking_apply(masking, 1, tokens, 3, labels, &err) < 0 &&
           strstr(err.text, "outside the vocabulary of 50265") && strstr(err.text, "dict.txt"),
       "a token outside the vocabulary is an error");
    tokens[2] = M;
    ok(masking_apply(masking, 1, tokens, 3, labels, &err) < 0 &&
           strstr(err.text, "contains the mask token"),
       "data with the mask token is an error");
    masking_destroy(masking);
    config.mask = V;
    ok(!masking_create(&config, &err) && strstr(err.text, "mask token 50265 is not in"),
       "a mask token outside the vocabulary is an error");
    config = usual(MASK_FAIRSEQ);
    config.probability = 1.5;
    ok(!masking_create(&config, &err), "a probability above 1 is an error");
    config = usual(MASK_FAIRSEQ);
    config.random_token = config.leave_unmasked = .6;
    ok(!masking_create(&config, &err), "shares above 1 are an error");
}

int main(void)
{
    test_seeds();
    test_vectors();
    test_long();
    test_bad_tokens();
    return done_testing();
}
