/* SPDX-License-Identifier: Apache-2.0 */
/* Faults, saves, days and money. */
#include <math.h>
#include "run/plan/outlook.h"
#include "tap.h"

static const struct machine machine = {
    .gpu = {.flops = {1e15, 0, 0}, .time_error = 0.1},
    .gpus = 8,
    .fault_hours = 46000,
    .save_bandwidth = 2e9,
};

static struct candidate example(void)
{
    struct candidate c = {.run = {.shape = {.layers = 10,
                                            .hidden = 1000,
                                            .ffn_hidden = 4000,
                                            .heads = 10,
                                            .query_groups = 10,
                                            .kv_channels = 100,
                                            .vocabulary = 50000,
                                            .sequence = 1000},
                                  .tied = 1,
                                  .global_batch = 1000},
                          .time = {.total = 10, .bubble = 1, .data = 2, .tensor = 1}};
    return c;
}

/* Any other interval loses more. */
static void test_interval(const struct outlook *o, double step, double restart)
{
    double between = o->fault_hours * 3600;

    for (double factor = 0.5; factor <= 2; factor *= 4) {
        double interval = factor * o->interval;
        double lost = o->save_seconds / interval + (interval / 2 + restart) / between;

        ok(lost >= o->lost, "saving every %g s loses more than every %g s", interval, o->interval);
    }
    ok(fabs(o->interval - (double)o->interval_steps * step) < 1e-9, "the interval is whole steps");
}

int main(void)
{
    struct candidate c = example();
    struct search_request search = {.machine = &machine, .nodes = 128};
    struct outlook_request request = {.tokens = 1e12, .price = 50, .restart_seconds = 600};
    struct outlook o = outlook_of(&c, &search, &request);

    ok(fabs(o.low - 9) < 1e-9 && fabs(o.high - 11) < 1e-9, "the range");
    ok(fabs(o.bubble - 0.1) < 1e-9 && fabs(o.exposed - 0.3) < 1e-9, "shares of a step");
    ok(fabs(o.tokens_per_second - 1e5) < 1e-6, "tokens per second");
    ok(fabs(o.checkpoint - 12 * (10 * 12e6 + 50e6)) < 1, "bytes of a checkpoint");
    ok(fabs(o.fault_hours - 46000.0 / 1024) < 1e-9, "faults come with the number of GPUs");
    test_interval(&o, 10, 600);
    ok(fabs(o.days * (1 - o.lost) - 1e12 / 1e5 / 86400) < 1e-6, "days");
    ok(fabs(o.dollars - o.days * 24 * 128 * 50) < 1e-3, "dollars");
    request.tokens = request.price = 0;
    o = outlook_of(&c, &search, &request);
    ok(o.days == 0 && o.dollars == 0, "neither without tokens and price");
    return done_testing();
}
