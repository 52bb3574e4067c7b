/* SPDX-License-Identifier: Apache-2.0 */
/* A model that generates token by token with its cache against the same model reading the whole
 * text at once: the logits at every position, and the loss of the training's forward pass. Both
 * families, grouped queries, partial and scaled rotations, several texts at once. */
#include "tap.h"
#include "engine/model/model.h"

#include <math.h>
#include <stdlib.h>

enum { LENGTH = 300, SHOWN = 14, PROMPT = 5, TEXTS = 2, VOCABULARY = 50, PADDED = 64 };

static struct device *device;
static struct parallel parallel;
static int32_t tokens[TEXTS][LENGTH + 1];

static void bail(const struct error *err)
{
    printf("Bail out! %s\n", err->text);
    exit(1);
}

static struct model *create(const struct model_config *config)
{
    struct error err;
    struct model *m = model_create(config, &parallel, device, 1, &err);

    if (!m || model_initialize(m, &err) < 0)
        bail(&err);
    return m;
}

/* A model that generates all texts, token by token; one that is trained on a text of this length.
 */
static struct model *create_writer(struct model_config config, int64_t cache)
{
    config.decoding.cache = cache;
    config.micro_batch = TEXTS;
    config.network.shape.sequence = 1;
    return create(&config);
}

static struct model *create_trainer(struct model_config config, int64_t length)
{
    config.micro_batch = 1;
    config.network.shape.sequence = length;
    return create(&config);
}

static void wait(struct model *m)
{
    struct error err;

    if (device_stream_wait(model_facts(m).stream, 600, &err) < 0)
        bail(&err);
}

/* Tokens 'from' .. 'from' + 'count' - 1 of each text, the second one 'late' tokens behind. Returns
 * the last logits of each. */
static const float *extend(struct model *m, int64_t from, int64_t count, int64_t late)
{
    const struct model_batch *b = model_batch(m, 0, 0);
    const struct model_sizes *z = model_facts(m).sizes;

    for (int64_t t = 0; t < TEXTS; t++) {
        int64_t first = t == 0 ? from : from > late ? from - late : 0;
        int64_t end = from + count - t * late;

        for (int64_t i = 0; i < z->sequence; i++) {
            int there = first + i < end;
            int64_t row = t * z->sequence + i;

            b->tokens[row] = there ? tokens[t][first + i] : 49;
            b->positions[row] = there ? (int32_t)(first + i) : 0;
            b->cache_row[row] = there ? (int32_t)(t * z->cache + first + i) : -1;
        }
        b->last[t] = (int32_t)(t * z->sequence + end - first - 1);
    }
    model_extend(m, from + count);
    wait(m);
    return model_facts(m).logits;
}

/* The training's forward pass: its result for the token after position 'at' of text 't'. */
static double loss(struct model *m, int64_t t, int64_t at, int64_t length)
{
    const struct model_batch *b = model_batch(m, 0, 0);
    struct step_state *state = model_facts(m).state;

    for (int64_t i = 0; i < length; i++) {
        b->tokens[i] = tokens[t][i];
        b->targets[i] = tokens[t][i + 1];
        b->positions[i] = (int32_t)i;
        b->document_start[i] = 0;
        b->row_index[i] = i;
        b->weight[i] = i == at ? 1 : 0;
    }
    *b->logged = 1;
    memset(state, 0, sizeof(*state));
    state->loss_scale = 1;
    model_forward(m, 0, 0, 1, 0);
    wait(m);
    return state->loss;
}

static double loss_of(const float *logits, int32_t target)
{
    double sum = 0;

    for (int i = 0; i < VOCABULARY; i++)
        sum += exp((double)logits[i]);
    return log(sum) - logits[target];
}

static int near(double a, double b)
{
    return fabs(a - b) <= 2e-4 * (1 + fabs(b));
}

static void test_model(struct model_config config, const char *name)
{
    struct model *writes, *prompt, *whole, *trains;
    struct error err;
    float kept[SHOWN + 1][TEXTS][VOCABULARY];
    int alike = 1, right = 1;

    writes = create_writer(config, 64);
    trains = create_trainer(config, SHOWN);
    prompt = model_create_pass(writes, 8, &err);
    whole = model_create_pass(writes, 16, &err);
    if (!prompt || !whole)
        bail(&err);
    /* Text 1 is 2 tokens behind text 0, so that their positions differ. */
    for (int64_t at = PROMPT - 1; at < SHOWN; at++) {
        const float *logits =
            at == PROMPT - 1 ? extend(prompt, 0, PROMPT, 2) : extend(writes, at, 1, 2);

        for (int64_t t = 0; t < TEXTS; t++)
            memcpy(kept[at][t], logits + t * PADDED, sizeof(kept[at][t]));
    }
    for (int64_t at = PROMPT - 1; at < SHOWN; at++) {
        const float *logits = extend(whole, 0, at + 1, 2);

        for (int64_t t = 0; t < TEXTS; t++) {
            for (int64_t i = 0; i < VOCABULARY; i++)
                alike &= near(kept[at][t][i], logits[t * PADDED + i]);
            right &= near(loss_of(kept[at][t], tokens[t][at - 2 * t + 1]),
                          loss(trains, t, at - 2 * t, SHOWN));
        }
    }
    ok(alike, "%s: token by token as in one pass, at every position", name);
    ok(right, "%s: as the training's forward pass has it", name);
    model_destroy(whole);
    model_destroy(prompt);
    model_destroy(writes);
    model_destroy(trains);
}

/* Longer than the first plan of attention on a cache allows. */
static void test_long(struct model_config config)
{
    struct model *writes, *prompt, *trains;
    struct error err;
    const float *logits = NULL;
    int right = 1;

    writes = create_writer(config, 320);
    trains = create_trainer(config, LENGTH);
    prompt = model_create_pass(writes, 256, &err);
    if (!prompt)
        bail(&err);
    extend(prompt, 0, 250, 0);
    for (int64_t at = 250; at < LENGTH; at++) {
        logits = extend(writes, at, 1, 0);
        if (at % 7 == 0)
            for (int64_t t = 0; t < TEXTS; t++)
                right &= near(loss_of(logits + t * PADDED, tokens[t][at + 1]),
                              loss(trains, t, at, LENGTH));
    }
    ok(right, "a long text, as the training's forward pass has it");
    model_destroy(prompt);
    model_destroy(writes);
    model_destroy(trains);
}

int main(void)
{
    struct model_config gpt = {
        .network.shape = {.layers = 3,
                          .hidden = 32,
                          .ffn_hidden = 64,
                          .heads = 4,
                          .query_groups = 4,
                          .kv_channels = 8,
                          .vocabulary = VOCABULARY,
                          .rotary_base = 10000},
        .padded_vocabulary = PADDED,
        .network.positions = 320,
        .network.rotary_percent = 1,
        .network.norm = NORM_LAYER,
        .network.epsilon = 1e-5,
        .network.tied = 1,
        .network.linear_bias = 1,
        .network.init_std = 0.3,
        .split.chunks = 1,
        .bucket_elements = 1 << 20,
        .seed = 5,
    };
    struct model_config llama = gpt, scaled, partial;
    struct device_options device_options = {.threads = 2};
    struct comm_options comm_options = {.size = 1, .deadline = 60};
    struct layout one = {1, 1, 1, 1};
    struct comm *comm;
    struct error err;

    device = device_open("cpu", &device_options, &err);
    comm_options.device = device;
    comm = device ? comm_open("self", &comm_options, &err) : NULL;
    if (!comm || parallel_create(&parallel, comm, &one, &err) < 0)
        bail(&err);
    for (int i = 0; i < TEXTS * (LENGTH + 1); i++)
        tokens[i / (LENGTH + 1)][i % (LENGTH + 1)] = (i * 31 + i / 7 * 11 + 3) % VOCABULARY;
    llama.network.position = POSITION_ROPE;
    llama.network.norm = NORM_RMS;
    llama.network.swiglu = 1;
    llama.network.tied = llama.network.linear_bias = 0;
    llama.network.shape.query_groups = 2;
    partial = scaled = llama;
    partial.network.rotary_percent = 0.5;
    partial.network.qkv_bias = 1;
    scaled.network.shape.query_groups = 1;
    scaled.network.rope_scaling = (struct rope_scaling){ROPE_LLAMA3, 8, 1, 4, 4, 0};
    test_model(gpt, "GPT");
    test_model(llama, "Llama with grouped queries");
    test_model(partial, "Llama with partial rotations and biases of query, key and value");
    test_model(scaled, "Llama with scaled rotations and one key head");
    test_long(llama);
    parallel_destroy(&parallel);
    comm_close(comm);
    device_close(device);
    return done_testing();
}
