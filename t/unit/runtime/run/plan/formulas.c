/* SPDX-License-Identifier: Apache-2.0 */
/* The published formulas against the numbers that were published with them. */
#include <math.h>
#include "run/plan/formulas.h"
#include "tap.h"

static const struct machine machine = {.memory = {.state_bytes = 18, .activations = 1}};

/* Activations of Korthikanti 2022, figure 1, in GiB. */
static void test_activations(void)
{
    static const struct {
        const char *name;
        int64_t layers, hidden, heads, pp, chunks, micro_batch, batch;
        enum plan_recompute recompute;
        int sequence_parallel;
        double gib;
    } rows[] = {
        {"22B, selective", 48, 6144, 64, 1, 1, 4, 4, PLAN_RECOMPUTE_SELECTIVE, 1, 9.5625},
        {"175B, everything kept", 96, 12288, 96, 8, 3, 1, 64, PLAN_RECOMPUTE_NONE, 0, 66.84},
        {"530B, everything kept", 105, 20480, 128, 35, 3, 1, 280, PLAN_RECOMPUTE_NONE, 0, 114.02},
        {"530B, selective", 105, 20480, 128, 35, 3, 1, 280, PLAN_RECOMPUTE_SELECTIVE, 1, 23.08},
        {"1T, selective", 128, 25600, 160, 64, 1, 1, 512, PLAN_RECOMPUTE_SELECTIVE, 1, 26.56},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct plan_run run = {.shape = {.layers = rows[i].layers,
                                         .hidden = rows[i].hidden,
                                         .ffn_hidden = 4 * rows[i].hidden,
                                         .heads = rows[i].heads,
                                         .query_groups = rows[i].heads,
                                         .vocabulary = 51200,
                                         .sequence = 2048},
                               .tied = 1,
                               .sequence_parallel = rows[i].sequence_parallel,
                               .layout = {.tp = 8, .cp = 1, .dp = 1, .pp = rows[i].pp},
                               .chunks = rows[i].chunks,
                               .micro_batch = rows[i].micro_batch,
                               .global_batch = rows[i].batch,
                               .recompute = rows[i].recompute,
                               .software = PLAN_CLASSIC};
        double got = formulas_memory(&run, &machine, 0).activations / 1073741824.0;

        ok(fabs(got / rows[i].gib - 1) < 0.005, "%s: %.2f GiB of %.2f", rows[i].name, got,
           rows[i].gib);
    }
}

/* GPT-3's step of 1536 x 2048 tokens, counted in the five ways. */
static void test_flops(void)
{
    struct plan_run run = {.shape = {.layers = 96,
                                     .hidden = 12288,
                                     .ffn_hidden = 49152,
                                     .heads = 96,
                                     .query_groups = 96,
                                     .vocabulary = 51200,
                                     .sequence = 2048},
                           .global_batch = 1536};
    double model = formulas_flops(&run, FLOPS_MODEL, 0);
    double tokens = 1536 * 2048.0;

    ok(fabs(formulas_flops(&run, FLOPS_PAPER, 0) / model - 1) < 1e-9,
       "the paper's formula is the model's count");
    ok(formulas_flops(&run, FLOPS_EXECUTED, 0) / model > 1.32, "recomputation adds a third");
    ok(formulas_flops(&run, FLOPS_CAUSAL, 0) < model, "causal attention counts half");
    ok(fabs(formulas_flops(&run, FLOPS_6PT, 175e9) - 6 * 175e9 * tokens) < 1, "6PT");
    ok(fabs(formulas_flops(&run, FLOPS_8PT, 175e9) - 8 * 175e9 * tokens) < 1, "8PT");
}

int main(void)
{
    test_activations();
    test_flops();
    return done_testing();
}
