/* SPDX-License-Identifier: Apache-2.0 */
/* A scale of word embeddings: x = scale * word + position + token type. A model without a scale
 * whose word table is multiplied by it computes the same; the gradients agree with differences of
 * the loss. MEGATRON_TEST_DEVICE (cpu) selects the device. */
#include "tap.h"
#include "engine/model/model.h"

#include <math.h>
#include <stdlib.h>

enum {
    LENGTH = 12,
    VOCABULARY = 20,
    POSITIONS = 16,
    HIDDEN = 16,
    TYPES = 2,
    PADDED = 32,
    MASKED = 256
};
static const float scale = 3;

static struct device *device;
static struct parallel parallel;

static void bail(const struct error *err)
{
    printf("Bail out! %s\n", err->text);
    exit(1);
}

static void wait(struct model *m)
{
    struct error err;

    if (device_stream_wait(model_facts(m).stream, 600, &err) < 0)
        bail(&err);
}

/* --- Parameters ------------------------------------------------------------------------------ */

static const struct parameter *find(struct model *m, const char *name)
{
    const struct parameters *p = model_facts(m).parameters;

    for (int i = 0; i < p->count; i++)
        if (strcmp(p->list[i].name, name) == 0)
            return &p->list[i];
    return NULL;
}

static void copy(struct model *m, void *to, const void *from, size_t count, int direction)
{
    device_copy(model_facts(m).stream, to, from, count * sizeof(float), direction);
    wait(m);
}

/* All weights, with 'change' added to element 'index' of a tensor, and the words multiplied. */
static struct model *create(const struct model_config *config, const char *name, int64_t index,
                            float change, float words)
{
    struct error err;
    struct model *m = model_create(config, &parallel, device, 1, &err);
    const struct parameter *word;
    float *host;
    size_t count;

    if (!m || model_initialize(m, &err) < 0)
        bail(&err);
    word = find(m, "embedding.word.weight");
    count = (size_t)model_facts(m).parameters->elements;
    host = device_host_allocate(device, count * sizeof(*host), &err);
    if (!host)
        bail(&err);
    copy(m, host, model_facts(m).start_weights, count, COPY_TO_HOST);
    if (name)
        host[find(m, name)->offset + index] += change;
    for (int64_t i = 0; i < word->rows * word->cols; i++)
        host[word->offset + i] *= words;
    copy(m, model_facts(m).start_weights, host, count, COPY_TO_DEVICE);
    device_host_release(device, host);
    if (model_adopt(m, &err) < 0)
        bail(&err);
    return m;
}

/* --- Passes ---------------------------------------------------------------------------------- */

static const int32_t tokens[LENGTH + 1] = {3, 7, 3, 0, 19, 11, 7, 7, 2, 5, 3, 18, 6};

/* A batch is in device memory. */
static void put(struct model *m, void *to, const void *from, size_t bytes)
{
    device_copy(model_facts(m).stream, to, from, bytes, COPY_TO_DEVICE);
    wait(m);
}

static void fill(struct model *m)
{
    const struct model_batch *b = model_batch(m, 0, 0);
    int64_t masked = model_facts(m).sizes->masked, predicted = masked > 0 ? masked : LENGTH;
    int32_t positions[LENGTH], starts[LENGTH] = {0}, ends[LENGTH], types[LENGTH];
    int32_t targets[MASKED] = {0}, selected[MASKED];
    int64_t rows[LENGTH];
    float weights[MASKED] = {0}, logged = 1;

    for (int i = 0; i < MASKED; i++)
        selected[i] = i < LENGTH ? i : -1;
    for (int i = 0; i < LENGTH; i++) {
        positions[i] = i;
        ends[i] = LENGTH;
        types[i] = i % 3 == 0;
        rows[i] = i;
        targets[i] = tokens[i + 1];
        weights[i] = 1.0f / LENGTH;
    }
    put(m, b->logged, &logged, sizeof(logged));
    put(m, b->tokens, tokens, sizeof(positions));
    put(m, b->targets, targets, (size_t)predicted * sizeof(*targets));
    put(m, b->positions, positions, sizeof(positions));
    put(m, b->document_start, starts, sizeof(starts));
    put(m, b->row_index, rows, sizeof(rows));
    put(m, b->weight, weights, (size_t)predicted * sizeof(*weights));
    if (masked == 0)
        return;
    put(m, b->selected, selected, (size_t)masked * sizeof(*selected));
    put(m, b->document_end, ends, sizeof(ends));
    put(m, b->token_types, types, sizeof(types));
}

/* The loss of a pass; its gradients are then in the model. */
static double loss_of(struct model *m)
{
    struct step_state state = {.loss_scale = 1};

    fill(m);
    put(m, model_facts(m).state, &state, sizeof(state));
    model_forward(m, 0, 0, 0, 0);
    model_backward(m, 0, 0, 0, NULL, NULL);
    device_copy(model_facts(m).stream, &state, model_facts(m).state, sizeof(state), COPY_TO_HOST);
    wait(m);
    return state.loss;
}

static float gradient_of(struct model *m, const char *name, int64_t index)
{
    float value;

    copy(m, &value, (float *)model_facts(m).gradients + find(m, name)->offset + index, 1,
         COPY_TO_HOST);
    return value;
}

static int near(double a, double b, double tolerance)
{
    return fabs(a - b) <= tolerance * (0.05 + fabs(b));
}

/* --- Tests ----------------------------------------------------------------------------------- */

/* Elements of rows that the tokens use. */
static const struct {
    const char *name;
    int64_t row;
} places[] = {{"embedding.word.weight", 3},       {"embedding.word.weight", 7},
              {"embedding.word.weight", 11},      {"embedding.position.weight", 0},
              {"embedding.position.weight", 5},   {"embedding.position.weight", LENGTH - 1},
              {"embedding.token_type.weight", 0}, {"embedding.token_type.weight", 1}};
enum { PLACES = sizeof(places) / sizeof(places[0]) };

static double loss_with(const struct model_config *config, const char *name, int64_t index,
                        float change)
{
    struct model *m = create(config, name, index, change, 1);
    double loss = loss_of(m);

    model_destroy(m);
    return loss;
}

static void test_differences(const struct model_config *config, const char *name)
{
    struct model *m = create(config, NULL, 0, 0, 1);
    const float step = 1.0f / 64;
    int good;

    loss_of(m);
    for (int i = 0; i < (config->network.token_types > 0 ? PLACES : PLACES - TYPES); i++) {
        int64_t index = places[i].row * HIDDEN + i;
        float gradient = gradient_of(m, places[i].name, index);
        double difference = (loss_with(config, places[i].name, index, step) -
                             loss_with(config, places[i].name, index, -step)) /
                            (2 * (double)step);

        good = near((double)gradient, difference, 2e-2);
        ok(good, "%s: the gradient of %s, row %d", name, places[i].name, (int)places[i].row);
        if (!good)
            diag("%g, by differences %g", (double)gradient, difference);
    }
    model_destroy(m);
}

/* An untied model, because the head has no scale. */
static void test_formula(const struct model_config *scaled)
{
    struct model_config plain = *scaled;
    struct model *a = create(scaled, NULL, 0, 0, 1), *b;
    double losses[2];
    int good = 1;

    plain.network.embedding_scale = 0;
    b = create(&plain, NULL, 0, 0, scale);
    losses[0] = loss_of(a);
    losses[1] = loss_of(b);
    ok(near(losses[0], losses[1], 1e-6), "the loss is that of multiplied words: %.9g, %.9g",
       losses[0], losses[1]);
    for (int i = 0; i < PLACES - TYPES; i++)
        for (int64_t c = 0; c < HIDDEN; c++) {
            float mine = gradient_of(a, places[i].name, places[i].row * HIDDEN + c);
            float theirs = gradient_of(b, places[i].name, places[i].row * HIDDEN + c);

            good &= near((double)mine,
                         (double)theirs * (strcmp(places[i].name, "embedding.word.weight") == 0
                                               ? (double)scale
                                               : 1.0),
                         1e-5);
        }
    ok(good, "the scale is in the gradient of words, and in no other");
    model_destroy(a);
    model_destroy(b);
}

/* The logits of a prompt in a model that generates. */
static void logits_of(struct model_config config, float words, float logits[VOCABULARY])
{
    static const int32_t rows[LENGTH] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11}, last = LENGTH - 1;
    const struct model_batch *b;
    struct model *m;

    config.decoding.cache = POSITIONS;
    m = create(&config, NULL, 0, 0, words);
    b = model_batch(m, 0, 0);
    put(m, b->tokens, tokens, LENGTH * sizeof(*tokens));
    put(m, b->positions, rows, sizeof(rows));
    put(m, b->cache_row, rows, sizeof(rows));
    put(m, b->last, &last, sizeof(last));
    model_extend(m, LENGTH);
    copy(m, logits, model_facts(m).logits, VOCABULARY, COPY_TO_HOST);
    model_destroy(m);
}

static void test_generation(struct model_config config)
{
    float scaled[VOCABULARY], plain[VOCABULARY];
    int good = 1;

    logits_of(config, 1, scaled);
    config.network.embedding_scale = 0;
    logits_of(config, scale, plain);
    for (int i = 0; i < VOCABULARY; i++)
        good &= near((double)scaled[i], (double)plain[i], 1e-5);
    ok(good, "a model that generates does the same");
}

int main(void)
{
    struct model_config config = {
        .network.shape = {.layers = 1,
                          .hidden = HIDDEN,
                          .ffn_hidden = 32,
                          .heads = 2,
                          .query_groups = 2,
                          .kv_channels = 8,
                          .vocabulary = VOCABULARY,
                          .sequence = LENGTH,
                          .rotary_base = 10000},
        .padded_vocabulary = PADDED,
        .network.positions = POSITIONS,
        .network.position = POSITION_LEARNED,
        .network.norm = NORM_LAYER,
        .network.epsilon = 1e-5,
        .network.linear_bias = 1,
        .network.embedding_scale = (double)scale,
        .network.init_std = 0.3,
        .split.chunks = 1,
        .micro_batch = 1,
        .bucket_elements = 1 << 20,
        .seed = 5,
    };
    struct device_options device_options = {.threads = 2};
    struct comm_options comm_options = {.size = 1, .deadline = 60};
    struct layout one = {1, 1, 1, 1};
    const char *name = getenv("MEGATRON_TEST_DEVICE");
    struct comm *comm;
    struct error err;

    device = device_open(name ? name : "cpu", &device_options, &err);
    comm_options.device = device;
    comm = device ? comm_open("self", &comm_options, &err) : NULL;
    if (!comm || parallel_create(&parallel, comm, &one, &err) < 0)
        bail(&err);
    test_formula(&config);
    test_differences(&config, "GPT");
    test_generation(config);
    config.network.tied = 1;
    test_differences(&config, "tied");
    config.network.masked = config.network.post_norm = config.network.gelu_erf = 1;
    config.network.token_types = TYPES;
    config.masked_max = LENGTH;
    test_differences(&config, "BERT");
    parallel_destroy(&parallel);
    comm_close(comm);
    device_close(device);
    return done_testing();
}
