/* SPDX-License-Identifier: Apache-2.0 */
/* Initial weights: the standard deviation of every tensor, as Megatron and GPT-2 define it. Weights
 * that write to the residual stream have init_std / sqrt(2 * layers), here a quarter of it. */
#include "tap.h"
#include "engine/model/model.h"

#include <math.h>
#include <stdlib.h>

enum { LAYERS = 8, HIDDEN = 64, VOCABULARY = 90, PADDED = 128 };

/* Tensors whose name ends with this; deviation 0: all elements are 'mean'. */
struct expected {
    const char *name;
    double mean, deviation;
    int count; /* of such tensors */
};

static const struct expected gpt[] = {
    {"embedding.word.weight", 0, 0.02, 1},
    {"embedding.position.weight", 0, 0.02, 1},
    {"norm1.weight", 1, 0, LAYERS},
    {"norm1.bias", 0, 0, LAYERS},
    {"attention.query.weight", 0, 0.02, LAYERS},
    {"attention.key.weight", 0, 0.02, LAYERS},
    {"attention.value.weight", 0, 0.02, LAYERS},
    {"attention.query.bias", 0, 0, LAYERS},
    {"attention.key.bias", 0, 0, LAYERS},
    {"attention.value.bias", 0, 0, LAYERS},
    {"attention.projection.weight", 0, 0.005, LAYERS},
    {"attention.projection.bias", 0, 0, LAYERS},
    {"norm2.weight", 1, 0, LAYERS},
    {"norm2.bias", 0, 0, LAYERS},
    {"mlp.up.weight", 0, 0.02, LAYERS},
    {"mlp.up.bias", 0, 0, LAYERS},
    {"mlp.down.weight", 0, 0.005, LAYERS},
    {"mlp.down.bias", 0, 0, LAYERS},
    {"final_norm.weight", 1, 0, 1},
    {"final_norm.bias", 0, 0, 1},
    {0},
};

static const struct expected llama[] = {
    {"embedding.word.weight", 0, 0.02, 1},
    {"norm1.weight", 1, 0, LAYERS},
    {"attention.query.weight", 0, 0.02, LAYERS},
    {"attention.key.weight", 0, 0.02, LAYERS},
    {"attention.value.weight", 0, 0.02, LAYERS},
    {"attention.projection.weight", 0, 0.005, LAYERS},
    {"norm2.weight", 1, 0, LAYERS},
    {"mlp.gate.weight", 0, 0.02, LAYERS},
    {"mlp.up.weight", 0, 0.02, LAYERS},
    {"mlp.down.weight", 0, 0.005, LAYERS},
    {"final_norm.weight", 1, 0, 1},
    {"head.weight", 0, 0.02, 1},
    {0},
};

static void bail(const struct error *err)
{
    printf("Bail out! %s\n", err->text);
    exit(1);
}

static int ends_with(const char *text, const char *end)
{
    size_t length = strlen(text), tail = strlen(end);

    return length >= tail && strcmp(text + length - tail, end) == 0;
}

/* Mean and standard deviation within five standard errors, which are far less than the factor of
 * 1.4 between sqrt(layers) and sqrt(2 * layers); padding is 0. Returns what is wrong, or NULL. */
static const char *fault_of(const struct parameter *p, const float *x, const struct expected *e)
{
    int64_t used = p->true_rows * p->cols;
    double sum = 0, squares = 0, n = (double)used;

    for (int64_t i = 0; i < used; i++) {
        sum += x[i];
        squares += (x[i] - e->mean) * (x[i] - e->mean);
        if (e->deviation == 0 && x[i] != (float)e->mean)
            return "an element that is not the constant";
    }
    for (int64_t i = used; i < p->rows * p->cols; i++)
        if (x[i] != 0)
            return "padding that is not 0";
    if (e->deviation == 0)
        return NULL;
    if (fabs(sum / n - e->mean) > 5 * e->deviation / sqrt(n))
        return "the mean";
    if (fabs(sqrt(squares / n) / e->deviation - 1) > 5 / sqrt(2 * n))
        return "the standard deviation";
    return NULL;
}

static void test_tensors(const char *network, const struct parameters *p, const float *values,
                         const struct expected *e)
{
    int found = 0;

    for (int i = 0; i < p->count; i++) {
        const char *fault;

        if (!ends_with(p->list[i].name, e->name))
            continue;
        found++;
        fault = fault_of(&p->list[i], values + p->list[i].offset, e);
        if (fault)
            diag("%s: %s", p->list[i].name, fault);
        found -= fault ? 1000 : 0;
    }
    ok(found == e->count, "%s: %d x %s, mean %g, standard deviation %g", network, e->count, e->name,
       e->mean, e->deviation);
}

/* No two tensors have the same random numbers. */
static int are_different(const struct parameters *p, const float *values)
{
    for (int i = 0; i < p->count; i++)
        for (int k = 0; k < i; k++)
            if (p->list[i].deviation > 0 && p->list[i].deviation == p->list[k].deviation &&
                memcmp(values + p->list[i].offset, values + p->list[k].offset,
                       8 * sizeof(*values)) == 0)
                return 0;
    return 1;
}

static void test_network(const struct model_config *config, const struct expected *table,
                         struct device *device, const struct parallel *parallel)
{
    const char *name = config->network.shape.name;
    struct error err;
    struct model *m = model_create(config, parallel, device, 1, &err);
    int known = 0;

    if (!m || model_initialize(m, &err) < 0)
        bail(&err);
    for (const struct expected *e = table; e->name; e++) {
        test_tensors(name, model_facts(m).parameters, model_facts(m).gradients, e);
        known += e->count;
    }
    ok(model_facts(m).parameters->count == known, "%s: the table has all tensors", name);
    ok(are_different(model_facts(m).parameters, model_facts(m).gradients), "%s: all draws differ",
       name);
    model_destroy(m);
}

int main(void)
{
    struct model_config config = {
        .network.shape = {"gpt", MODEL_GPT, LAYERS, HIDDEN, 4 * HIDDEN, 4, 4, HIDDEN / 4,
                          VOCABULARY, 16, 0},
        .padded_vocabulary = PADDED,
        .network.positions = 16,
        .network.position = POSITION_LEARNED,
        .network.norm = NORM_LAYER,
        .network.epsilon = 1e-5,
        .network.tied = 1,
        .network.linear_bias = 1,
        .network.init_std = 0.02,
        .numerics.type = TYPE_FP32,
        .micro_batch = 1,
        .split.chunks = 1,
        .seed = 1234,
    };
    struct parallel parallel = {.layout = {1, 1, 1, 1}};
    struct device_options options = {.threads = 1};
    struct error err;
    struct device *device = device_open("cpu", &options, &err);

    if (!device)
        bail(&err);
    test_network(&config, gpt, device, &parallel);
    config.network.shape = (struct model_shape){
        "llama", MODEL_LLAMA, LAYERS, HIDDEN, 4 * HIDDEN, 4, 2, HIDDEN / 4, VOCABULARY, 16, 10000};
    config.network.position = POSITION_ROPE;
    config.network.rotary_percent = 1;
    config.network.norm = NORM_RMS;
    config.network.swiglu = 1;
    config.network.tied = config.network.linear_bias = 0;
    test_network(&config, llama, device, &parallel);
    device_close(device);
    return done_testing();
}
