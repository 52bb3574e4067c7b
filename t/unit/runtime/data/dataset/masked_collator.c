/* SPDX-License-Identifier: Apache-2.0 */
/* Masks against those of Hugging Face's collator, and its draws against PyTorch's. */
#include "data/dataset/masked_tokens.h"
#include "masked_collator_vectors.h"
#include "data/dataset/mt19937.h"
#include "tap.h"

enum { MOST = 300, MORE = 39 }; /* tokens of a vector; ids of a model that the tokenizer lacks */

/* The input of the vectors: t/peers/masks has the same. */
static int32_t input_token(int bert, int count, int i)
{
    if (i == 0)
        return bert ? 101 : 0;
    if (i == count - 1 || i % 23 == 22)
        return bert ? 102 : 2;
    if (i % 17 == 5)
        return bert ? 100 : 3;
    return (bert ? 104 : 4) + (7 * i * i + 11 * i) % 199;
}

static void test_draws(void)
{
    struct mt19937 rng;
    int at = 0, wrong = 0;

    mt19937_seed(&rng, 810752);
    for (size_t i = 0; i < sizeof(torch_draws) / sizeof(torch_draws[0]); i++) {
        for (; at < torch_draws[i].at; at++)
            mt19937_next(&rng);
        wrong += mt19937_next(&rng) % (1 << 24) != torch_draws[i].draw;
        at++;
    }
    ok(wrong == 0, "PyTorch's random numbers");
}

static struct mask_config config_of(int ids, int bert)
{
    struct mask_config config = {.rule = MASK_COLLATOR,
                                 .vocabulary = ids + MORE,
                                 .tokenizer_ids = ids,
                                 .mask = bert ? 103 : ids - 1,
                                 .specials = {0, 1, 2, 3, ids - 1},
                                 .special_count = 5,
                                 .probability = .15,
                                 .leave_unmasked = .1,
                                 .random_token = .1};

    if (bert)
        memcpy(config.specials, (int32_t[]){0, 100, 101, 102, 103}, sizeof(config.specials));
    return config;
}

static void test_vectors(void)
{
    static uint8_t begins[50265 + MORE];

    for (size_t id = 0; id < sizeof(begins); id++)
        begins[id] = id % 4 == 0;
    for (size_t r = 0; r < sizeof(collator_vectors) / sizeof(collator_vectors[0]); r++) {
        int count = collator_vectors[r].count, bert = collator_vectors[r].bert, next = 0, wrong = 0;
        struct mask_config config = config_of(collator_vectors[r].ids, bert);
        int32_t tokens[MOST], labels[MOST];
        struct masking *masking;
        struct error err;
        int64_t predicted;

        config.begins = collator_vectors[r].words ? begins : NULL;
        config.probability = collator_vectors[r].probability;
        config.leave_unmasked = collator_vectors[r].leave_unmasked;
        config.random_token = collator_vectors[r].random_token;
        for (int i = 0; i < count; i++)
            tokens[i] = input_token(bert, count, i);
        masking = masking_create(&config, &err);
        predicted = masking_apply(masking, collator_vectors[r].seed, tokens, count, labels, &err);
        for (int i = 0; i < count; i++) {
            int32_t old = input_token(bert, count, i);
            int here =
                next < collator_vectors[r].predicted && collator_vectors[r].places[next].at == i;

            wrong += labels[i] != (here ? old : BATCH_IGNORE);
            wrong += tokens[i] != (here ? collator_vectors[r].places[next].id : old);
            next += here;
        }
        ok(wrong == 0 && next == collator_vectors[r].predicted && predicted == next,
           "%s: %d tokens are predicted", collator_vectors[r].what, next);
        masking_destroy(masking);
    }
}

/* Without a tokenizer, the first ids are special, and all ids of the model are drawn. */
static void test_unnamed(void)
{
    enum { IDS = 12 };
    struct mask_config config = {.rule = MASK_COLLATOR,
                                 .vocabulary = IDS,
                                 .mask = IDS - 1,
                                 .first_random = 4,
                                 .probability = .9,
                                 .random_token = 1};
    int32_t tokens[MOST], labels[MOST];
    int special = 0, largest = 0;

    for (int i = 0; i < MOST; i++)
        tokens[i] = i % 5;
    collator_apply(&config, 5, tokens, MOST, labels);
    for (int i = 0; i < MOST; i++) {
        special += labels[i] >= 0 && labels[i] < 4;
        largest = tokens[i] > largest ? tokens[i] : largest;
    }
    ok(special == 0 && largest == IDS - 1, "a model without a tokenizer");
    tokens[0] = 2;
    ok(collator_apply(&config, 5, tokens, 1, labels) == 0 && labels[0] == BATCH_IGNORE,
       "a special token alone");
}

int main(void)
{
    test_draws();
    test_vectors();
    test_unnamed();
    return done_testing();
}
