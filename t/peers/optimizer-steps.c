/* SPDX-License-Identifier: Apache-2.0 */
/* Three steps of an optimizer on a small model with made-up weights and gradients, for comparison
 * with torch (t/peers/optimizers, t/train/optimizers.t).
 *
 *   optimizer-steps [--device cpu|cuda] adam|sgd
 *   optimizer-steps [--device cpu|cuda] muon NESTEROV SPLIT SCALE EXTRA A B C [A B C]...
 *
 * NESTEROV and SPLIT are 0 or 1, SCALE is 0 for spectral, 1 for unit_rms_norm, 2 for shape_scaling;
 * A, B and C are the coefficients of each Newton-Schulz step. Prints a line for each parameter: its
 * name, rows, columns and values. Value i of parameter p is ((31 i + 17 p) mod 1009 - 504) / 5040
 * at first, its gradient in step s = 1, 2, 3 is ((7919 i + 13 i^2 + 104729 p + 15485863 s) mod 2003
 * - 1001) / 1001. */
#include "engine/schedule/optimizer.h"
#include "engine/parallel/ranks.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { STEPS = 3 };

static const struct model_config config = {
    .network.shape = {.layers = 1,
                      .hidden = 24,
                      .ffn_hidden = 40,
                      .heads = 6,
                      .query_groups = 2,
                      .kv_channels = 4,
                      .vocabulary = 32,
                      .sequence = 8},
    .padded_vocabulary = 32,
    .network.positions = 8,
    .network.position = POSITION_LEARNED,
    .network.norm = NORM_LAYER,
    .network.epsilon = 1e-5,
    .network.linear_bias = 1,
    .network.swiglu = 1,
    .network.init_std = 0.02,
    .micro_batch = 1,
    .split.chunks = 1,
    .bucket_elements = 1,
};

static void stop(const struct error *err)
{
    fprintf(stderr, "optimizer-steps: %s\n", err->text);
    exit(1);
}

static struct optimizer_config read_config(int count, char **words)
{
    struct optimizer_config c = {
        .rules = {.lr = 0.01,
                  .style = LR_CONSTANT,
                  .weight_decay = 0.1,
                  .beta1 = 0.9,
                  .beta2 = 0.95,
                  .clip = 1},
        .epsilon = 1e-8,
        .initial_scale = 1,
    };

    if (count == 1 && strcmp(words[0], "adam") == 0)
        return c;
    if (count == 1 && strcmp(words[0], "sgd") == 0) {
        c.rules.optimizer = OPTIMIZER_SGD;
        return c;
    }
    if (count < 8 || (count - 5) % 3 != 0 || (count - 5) / 3 > NEWTON_SCHULZ_STEPS ||
        strcmp(words[0], "muon") != 0)
        stop(&(struct error){.text = "wrong arguments"});
    c.rules.optimizer = OPTIMIZER_MUON;
    c.muon = (struct muon_config){.momentum = 0.95,
                                  .nesterov = atoi(words[1]),
                                  .split_qkv = atoi(words[2]),
                                  .scale = (enum muon_scale)atoi(words[3]),
                                  .extra_scale = atof(words[4]),
                                  .fp32 = 1,
                                  .rule = {.steps = (count - 5) / 3}};
    for (int i = 5; i < count; i++)
        c.muon.rule.coefficients[(i - 5) / 3][(i - 5) % 3] = atof(words[i]);
    return c;
}

/* Fill the gradient arena; step 0: with the first weights. */
static void fill(struct model *m, float *host, int step)
{
    const struct parameters *p = model_facts(m).parameters;
    struct error err;

    memset(host, 0, (size_t)p->elements * sizeof(float));
    for (int n = 0; n < p->count; n++)
        for (int64_t i = 0; i < p->list[n].rows * p->list[n].cols; i++)
            host[p->list[n].offset + i] =
                step == 0
                    ? (float)((double)((31 * i + 17 * n) % 1009 - 504) / 5040)
                    : (float)((double)(((7919 + 13 * i) * i + 104729 * n + 15485863LL * step) %
                                           2003 -
                                       1001) /
                              1001);
    device_copy(model_facts(m).stream, model_facts(m).gradients, host,
                (size_t)p->elements * sizeof(float), COPY_TO_DEVICE);
    if (device_stream_wait(model_facts(m).stream, 60, &err) < 0)
        stop(&err);
}

static void print(struct model *m, const float *weights)
{
    const struct parameters *p = model_facts(m).parameters;

    for (int n = 0; n < p->count; n++) {
        const struct parameter *q = &p->list[n];

        printf("%s %lld %lld", q->name, (long long)q->rows, (long long)q->cols);
        for (int64_t i = 0; i < q->rows * q->cols; i++)
            printf(" %.9g", (double)weights[q->offset + i]);
        printf("\n");
    }
}

static void run(const struct optimizer_config *c, struct ranks *ranks)
{
    struct error err;
    struct model *m = model_create(&config, &ranks->parallel, ranks->device, 1, &err);
    struct optimizer *o =
        m ? optimizer_create(c, m, &ranks->parallel, ranks->device, TYPE_FP32, &err) : NULL;
    size_t bytes = m ? (size_t)model_facts(m).parameters->elements * sizeof(float) : 0;
    float *host = o ? device_host_allocate(ranks->device, bytes, &err) : NULL;

    if (!host)
        stop(&err);
    fill(m, host, 0);
    if (model_adopt(m, &err) < 0 || optimizer_start(o, NULL, 1, &err) < 0)
        stop(&err);
    for (int step = 1; step <= STEPS; step++) {
        fill(m, host, step);
        optimizer_phase(o, STEP_BEGIN);
        optimizer_finish(o);
    }
    optimizer_settle(o);
    device_copy(model_facts(m).stream, host, model_facts(m).weights, bytes, COPY_TO_HOST);
    if (device_stream_wait(model_facts(m).stream, 60, &err) < 0)
        stop(&err);
    print(m, host);
    device_host_release(ranks->device, host);
    optimizer_destroy(o);
    model_destroy(m);
}

int main(int argc, char **argv)
{
    static const struct world world = {.size = 1, .local_size = 1, .nodes = 1};
    int first = argc > 2 && strcmp(argv[1], "--device") == 0 ? 3 : 1;
    struct optimizer_config c = read_config(argc - first, argv + first);
    struct ranks_config setting = {
        .device = first == 3 && strcmp(argv[2], "cuda") == 0 ? DEVICE_CUDA : DEVICE_CPU,
        .threads = 1,
        .deadline = 60,
        .layout = {1, 1, 1, 1}};
    struct ranks ranks;
    struct error err;

    if (ranks_open(&ranks, &setting, &world, &err) < 0)
        stop(&err);
    run(&c, &ranks);
    ranks_close(&ranks);
    return 0;
}
