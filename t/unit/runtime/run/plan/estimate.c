/* SPDX-License-Identifier: Apache-2.0 */
/* The time model: what must hold on every machine. */
#include <math.h>
#include "run/plan/calibrate.h"
#include "run/plan/estimate.h"
#include "tap.h"

static const struct machine machine = {
    .gpu = {.processors = 132,
            .flops = {1e15, 2e15, 0},
            .memory_bandwidth = 3e12,
            .rates = {.product = 0.7,
                      .small_tile = 0.8,
                      .half_depth = 80,
                      .flash = 0.6,
                      .unfused = 0.5,
                      .unaligned = 0.2,
                      .fp8 = 0.85,
                      .hidden_traffic = 16,
                      .ffn_traffic = 6,
                      .logit_bytes = 16,
                      .nvlink = 0.9,
                      .network = 0.8,
                      .latency = 1e-5,
                      .tensor_exposed = 0.5,
                      .context_exposed = 0.3,
                      .pipeline_exposed = 1,
                      .data_exposed = 0.1,
                      .gradient_bytes = 2,
                      .optimizer_bytes = 24,
                      .hbm = 0.85}},
    .gpus = 8,
    .nvlink = 450e9,
    .nvlink_pair = 1,
    .network = 50e9,
    .efficiency = 1,
    .nvlink_efficiency = 1,
    .collective_latency = 1,
};

static const struct plan_run base = {
    .shape = {.layers = 32,
              .hidden = 4096,
              .ffn_hidden = 16384,
              .heads = 32,
              .query_groups = 32,
              .kv_channels = 128,
              .vocabulary = 51200,
              .sequence = 2048},
    .tied = 1,
    .layout = {.tp = 2, .cp = 1, .dp = 4, .pp = 4},
    .chunks = 1,
    .micro_batch = 1,
    .global_batch = 64,
};

/* Changes of the run or the machine, and whether a step becomes slower (1) or faster (-1). */
static void test_changes(void)
{
    struct {
        const char *name;
        struct plan_run run;
        struct machine machine;
        int slower;
    } rows[] = {
        {"full recomputation", base, machine, 1},
        {"selective recomputation", base, machine, 1},
        {"virtual stages", base, machine, -1},
        {"twice the batch", base, machine, 1},
        {"twice the sequence", base, machine, 1},
        {"twice the vocabulary", base, machine, 1},
        {"fp8", base, machine, -1},
        {"half of the network", base, machine, 1},
        {"half of NVLink", base, machine, 1},
        {"half of the memory bandwidth", base, machine, 1},
        {"a less efficient cluster", base, machine, 1},
        {"collectives that start late", base, machine, 1},
    };
    double before = plan_estimate(&base, &machine).total;

    rows[0].run.recompute = PLAN_RECOMPUTE_FULL;
    rows[1].run.recompute = PLAN_RECOMPUTE_SELECTIVE;
    rows[2].run.chunks = 4;
    rows[3].run.global_batch *= 2;
    rows[4].run.shape.sequence *= 2;
    rows[5].run.shape.vocabulary *= 2;
    rows[6].run.precision = MACHINE_FP8;
    rows[7].machine.network /= 2;
    rows[8].machine.nvlink /= 2;
    rows[9].machine.gpu.memory_bandwidth /= 2;
    rows[10].machine.efficiency = 0.9;
    rows[11].machine.collective_latency = 5;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        double after = plan_estimate(&rows[i].run, &rows[i].machine).total;

        ok(rows[i].slower > 0 ? after > before : after < before, "%s: %g s instead of %g s",
           rows[i].name, after, before);
    }
}

static void test_parts(void)
{
    struct plan_time t = plan_estimate(&base, &machine);
    double sum = t.products + t.attention + t.elementwise + t.tensor + t.context + t.head +
                 t.pipeline + t.bubble + t.data + t.optimizer + t.fixed;
    struct plan_run one = base;

    ok(fabs(sum - t.total) < 1e-12 * t.total, "the parts add up");
    ok(t.products > 0.5 * t.total, "most of the time is products");
    one.layout = (struct layout){1, 1, 1, 1};
    t = plan_estimate(&one, &machine);
    ok(t.bubble == 0 && t.tensor == 0 && t.pipeline == 0 && t.data == 0 && t.context == 0,
       "one GPU does not communicate");
}

/* Every product at the rate of large ones is a bound from below. */
static void test_bound(void)
{
    double least = plan_flops(&base) / 32 / (1e15 * 0.7);

    ok(plan_estimate(&base, &machine).total > 0.9 * least, "no step is faster than its products");
}

/* Traffic of gradients that one micro-batch cannot hide is exposed. */
static void test_overlap(void)
{
    struct machine slow = machine;
    struct plan_time t;

    slow.network = 1e8;
    t = plan_estimate(&base, &slow);
    ok(t.data > 0.5 * t.total - t.pipeline, "a slow network is not hidden");
}

/* The slower of host and GPU sets the pace of a layer. */
static void test_host(void)
{
    struct machine slow = machine;
    struct plan_run run = base;
    double before = plan_estimate(&base, &machine).total;

    slow.gpu.rates.host = 1e-6;
    ok(plan_estimate(&base, &slow).total == before, "a host that keeps up costs nothing");
    slow.gpu.rates.host = 1;
    /* 3 passes, 8 layers a stage, 16 micro-batches and a bubble of 3. */
    ok(fabs(plan_estimate(&base, &slow).total / (3 * 8 * 19) - 1) < 0.01,
       "a slow host is all that counts");
    slow.gpu.rates.host = 1e-6;
    slow.synchronous = 1;
    ok(fabs(plan_estimate(&base, &slow).total - before - 3e-6 * 8 * 19) < 1e-9,
       "a host that waits for every kernel adds its time");
    slow.synchronous = 0;
    slow.gpu.rates.host = 1;
    slow.gpu.rates.classic = 1;
    slow.gpu.rates.host_softmax = 1;
    before = plan_estimate(&run, &slow).total;
    run.shape.heads = 36; /* 18 on a rank: not a multiple of 4 */
    run.shape.query_groups = 36;
    ok(plan_estimate(&run, &slow).total > 1.9 * before,
       "a softmax that is not fused is launched slowly");
    run = base;
    slow.gpu.rates.classic = 0;
    slow.gpu.rates.host_softmax = 0;
    slow.gpu.rates.host_collective = 0.25;
    slow.gpu.rates.host_late = 0.125;
    /* 4 collectives, for each of which tp 2 is one doubling, are 1.5 s more a layer. */
    ok(fabs(plan_estimate(&run, &slow).total / ((3 + 1.5) * 8 * 19) - 1) < 0.01,
       "the host launches collectives, too");
    run.layout.tp = 1;
    ok(fabs(plan_estimate(&run, &slow).total / (3 * 8 * 19) - 1) < 0.01, "where there are any");
}

/* Without a switch, a group has the links between its ranks only. */
static void test_links(void)
{
    struct machine mesh = machine;
    struct plan_run run = base;
    double pair, four, all;

    mesh.gpu.rates.collective = mesh.gpu.rates.latency = 0;
    run.layout.tp = 2;
    pair = plan_estimate(&run, &mesh).tensor;
    run.layout.tp = 4;
    four = plan_estimate(&run, &mesh).tensor;
    run.layout.tp = 8;
    all = plan_estimate(&run, &mesh).tensor;
    mesh.nvlink_pair = 1.0 / 3;
    ok(fabs(plan_estimate(&run, &mesh).tensor / all - 1) < 1e-9, "all GPUs use all links");
    run.layout.tp = 4;
    ok(fabs(plan_estimate(&run, &mesh).tensor / four - 1.5) < 1e-9, "four of eight use two thirds");
    run.layout.tp = 2;
    ok(fabs(plan_estimate(&run, &mesh).tensor / pair - 3) < 1e-9, "a pair uses a third");
}

static void test_one_node(void)
{
    struct machine node = machine, slow;
    double before;

    node.gpus = 32;
    slow = node;
    slow.network /= 100;
    before = plan_estimate(&base, &node).total;
    ok(plan_estimate(&base, &slow).total == before, "one node does not use the network");
}

static void test_vocabulary(void)
{
    struct machine odd = machine;
    struct plan_run run = base;
    double before;

    odd.gpu.rates.unaligned_vocabulary = 0.4;
    before = plan_estimate(&run, &odd).head;
    run.shape.vocabulary++;
    ok(plan_estimate(&run, &odd).head < 1.01 * before,
       "a vocabulary that tp does not divide is padded");
    run.layout.tp = 1;
    run.layout.dp = 8;
    before = plan_estimate(&run, &odd).head;
    run.shape.vocabulary = 51208;
    ok(before > 1.5 * plan_estimate(&run, &odd).head, "an unaligned vocabulary is slow");
}

static void test_shards(void)
{
    struct machine whole = machine, divided;

    whole.gpu.rates.classic = 1;
    divided = whole;
    divided.memory.sharded_bytes = 12;
    ok(fabs(plan_estimate(&base, &whole).optimizer / plan_estimate(&base, &divided).optimizer - 4) <
           1e-9,
       "ranks that share the optimizer's state share its time");
}

/* How layers are divided over stages: those of the first, the second and the last. */
static void test_stages(void)
{
    static const struct {
        const char *name;
        int64_t layers, stages, first, second, last;
    } rows[] = {
        {"no pipeline", 70, 1, 70, 70, 70},
        {"equal stages", 72, 12, 6, 6, 6},
        {"the embedding and the head as layers (BLOOM)", 70, 12, 5, 6, 5},
        {"the embedding and the head as layers (Llama 3 405B)", 126, 16, 7, 8, 7},
        {"stages that stay unequal", 45, 4, 12, 12, 12},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct plan_run run = base;

        run.shape.layers = rows[i].layers;
        run.layout.pp = rows[i].stages;
        ok(plan_stage(&run, 0).layers == rows[i].first &&
               plan_stage(&run, 1).layers == rows[i].second &&
               plan_stage(&run, rows[i].stages - 1).layers == rows[i].last,
           "%s: layers", rows[i].name);
        if (rows[i].stages > 2)
            ok(fabs(plan_stage(&run, 0).parameters - plan_stage(&run, 1).parameters -
                    (51200.0 + 12 * 4096.0 * (double)(rows[i].first - rows[i].second)) * 4096 / 2) <
                   1,
               "%s: only the ends have a table of the vocabulary", rows[i].name);
    }
}

/* Two layers fewer make room for a large vocabulary; each of the others is as full as before. */
static void test_balance(void)
{
    struct plan_run equal = base, balanced;

    equal.shape.layers = 48;
    equal.shape.vocabulary = 250880;
    equal.layout.pp = 12;
    balanced = equal;
    balanced.shape.layers = 46;
    ok(plan_estimate(&balanced, &machine).products == plan_estimate(&equal, &machine).products,
       "the fullest stages have as many layers");
    ok(plan_estimate(&balanced, &machine).head < 0.9 * plan_estimate(&equal, &machine).head,
       "the output layer delays by what it needs beyond a layer");
    balanced.shape.vocabulary = 1024;
    ok(plan_estimate(&balanced, &machine).head == 0,
       "an output layer that is smaller than a layer does not delay");
}

static void test_bf16(void)
{
    struct machine old = machine;
    struct plan_run fp16 = base, bf16;

    old.gpu.rates.classic = 1;
    old.gpu.rates.data_exposed = 1;
    bf16 = fp16;
    bf16.bf16 = 1;
    ok(fabs(plan_estimate(&bf16, &old).data / plan_estimate(&fp16, &old).data - 2) < 1e-9,
       "old software sends gradients of bf16 in fp32");
    ok(plan_estimate(&bf16, &old).elementwise > plan_estimate(&fp16, &old).elementwise,
       "and adds them in fp32");
    ok(plan_estimate(&bf16, &machine).total == plan_estimate(&fp16, &machine).total,
       "rates of new software include that");
}

/* A measured step is predicted as it was measured, and moves the prediction of its neighbors. */
static void test_measured(void)
{
    struct machine plain = machine, measured;
    struct plan_run run = base, near = base, narrow;
    struct plan_time t, without, with;

    plain.gpu.own = plain.gpu.rates;
    measured = plain;
    measured.gpu.steps[0] = (struct machine_step){4096, 16384, 32, 32, 0, 2048, 4, 51200, .04, .01};
    measured.gpu.steps[1] = (struct machine_step){1024, 4096, 16, 16, 0, 2048, 4, 51200, .04, .01};
    measured.gpu.step_count = 2;
    run.layout = near.layout = (struct layout){.tp = 1, .cp = 1, .dp = 1, .pp = 1};
    run.micro_batch = run.global_batch = near.micro_batch = near.global_batch = 4;
    run.own = near.own = 1;
    near.shape.hidden = 3072;
    near.shape.ffn_hidden = 12288;
    t = plan_estimate(&run, &measured);
    ok(fabs(t.products + t.attention + t.elementwise - 32 * .04) < 0.01 * 32 * .04 &&
           fabs(t.head - .01) < 0.01 * .01,
       "measured layers and heads are predicted as measured");
    without = plan_estimate(&near, &plain);
    with = plan_estimate(&near, &measured);
    ok(with.total > 1.2 * without.total, "and correct what is near them");
    ok(fabs(with.optimizer - without.optimizer) < 1e-12, "but not the optimizer");
    narrow = near;
    narrow.narrowed = 4;
    ok(fabs(plan_estimate(&narrow, &plain).optimizer / without.optimizer -
            (plain.gpu.own.optimizer_bytes - 8) / plain.gpu.own.optimizer_bytes) < 1e-9,
       "moments in bf16 are read and written in less time");
    narrow.offloaded = near.offloaded = 1;
    ok(plan_estimate(&narrow, &plain).optimizer < 0.7 * plan_estimate(&near, &plain).optimizer,
       "also in host memory");
    near.offloaded = 0;
    near.own = 0;
    ok(plan_estimate(&near, &measured).total == plan_estimate(&near, &plain).total,
       "and not other software");
}

/* Steps of a machine with other constants are enough to find what it predicts. */
static void test_fit(void)
{
    static const double widths[][2] = {{1024, 16}, {2048, 16}, {4096, 32}, {8192, 64}};
    struct machine real = machine, fitted;
    struct plan_run run = base;
    double error, want, got;

    real.gpu.rates.product = 0.62;
    real.gpu.rates.hidden_traffic = 3;
    real.gpu.rates.ffn_traffic = 2;
    real.gpu.rates.flash = 0.5;
    real.gpu.rates.logit_bytes = 6;
    real.gpu.own = real.gpu.rates;
    fitted = machine;
    for (int i = 0; i < 4; i++) {
        struct machine_step step = {
            widths[i][0], 4 * widths[i][0], widths[i][1], widths[i][1], 0, 2048, 4, 51200, 1, 1};
        struct plan_run one = plan_run_of_step(&step);
        struct plan_time t = plan_estimate(&one, &real);

        step.layer = t.products + t.attention + t.elementwise;
        step.head = t.head;
        fitted.gpu.steps[i] = step;
    }
    fitted.gpu.step_count = 4;
    error = calibrate_fit(&fitted);
    ok(error < 0.01, "rates are fitted to steps: %.2f %%", 100 * error);
    run.own = 1;
    run.shape.hidden = 3072;
    run.shape.ffn_hidden = 12288;
    run.shape.heads = run.shape.query_groups = 24;
    want = plan_estimate(&run, &real).total;
    got = plan_estimate(&run, &fitted).total;
    ok(fabs(got / want - 1) < 0.01, "other models are then predicted: %+.2f %%",
       100 * (got / want - 1));
    fitted.gpu.step_count = 0;
    ok(calibrate_fit(&fitted) == 0, "without steps there is nothing to fit");
}

int main(void)
{
    test_changes();
    test_parts();
    test_bound();
    test_overlap();
    test_host();
    test_links();
    test_one_node();
    test_vocabulary();
    test_shards();
    test_stages();
    test_balance();
    test_bf16();
    test_measured();
    test_fit();
    return done_testing();
}
