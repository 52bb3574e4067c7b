/* SPDX-License-Identifier: Apache-2.0 */
/* Which ranks are stragglers, and why. */
#include "config.h"
#include "run/train/rank_times.h"
#include "tap.h"

enum { RANKS = 6 };

static const struct {
    const char *name;
    float ms[RANKS];
    int stages, gpu;
    const char *slow; /* marks after one comparison */
} rows[] = {
    {"equal ranks", {10, 10, 10, 10, 10, 10}, 1, 1, "000000"},
    {"a GPU that is 5 % slower", {10, 10, 10.5F, 10, 10, 10}, 1, 1, "000000"},
    {"a GPU that is 7 % slower", {10, 10, 10.7F, 10, 10, 10}, 1, 1, "001000"},
    {"a CPU rank that is 7 % slower", {10, 10, 10.7F, 10, 10, 10}, 1, 0, "000000"},
    {"a CPU rank that is twice as slow", {10, 10, 20, 10, 10, 10}, 1, 0, "001000"},
    {"a stage with more work", {10, 10, 10, 15, 15, 15}, 2, 1, "000000"},
    {"a slow rank in it", {10, 10, 10, 15, 17, 15}, 2, 1, "000010"},
    {"stages of two ranks: the slower one", {10, 12, 10, 10, 20, 20}, 3, 1, "010000"},
    {"no times yet", {0, 0, 0, 0, 0, 0}, 1, 1, "000000"},
};

int main(void)
{
    struct rank_place places[RANKS];
    struct rank_sample samples[RANKS];
    unsigned char slow[RANKS];
    double medians[RANKS];
    char text[128];

    for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
        char marks[RANKS + 1] = "";

        memset(slow, 0, sizeof(slow));
        for (int r = 0; r < RANKS; r++) {
            places[r] =
                (struct rank_place){.stage = r * rows[i].stages / RANKS, .gpu = rows[i].gpu};
            samples[r] = (struct rank_sample){.milliseconds = rows[i].ms[r], .mhz = 1900};
        }
        rank_times_mark(places, samples, RANKS, slow, medians);
        for (int r = 0; r < RANKS; r++)
            marks[r] = (char)('0' + slow[r]);
        is(marks, rows[i].slow, rows[i].name);
    }
    samples[1].milliseconds = 30;
    for (int r = 0; r < RANKS; r++)
        samples[r].milliseconds = r == 1 ? 30 : 10;
    rank_times_mark(places, samples, RANKS, slow, medians);
    rank_times_mark(places, samples, RANKS, slow, medians);
    is_int(slow[1], 2, "comparisons in a row are counted");
    samples[1].milliseconds = 10;
    rank_times_mark(places, samples, RANKS, slow, medians);
    is_int(slow[1], 0, "until the rank recovers");

    is(rank_times_cause(&samples[1], samples, RANKS, text, sizeof(text)),
       "unknown; test the node with megatron preflight", "no cause");
    samples[1].retransmitted = 5000;
    is(rank_times_cause(&samples[1], samples, RANKS, text, sizeof(text)),
       "its node retransmitted 5000 TCP segments", "retransmissions");
    samples[1].mhz = 1200;
    is(rank_times_cause(&samples[1], samples, RANKS, text, sizeof(text)),
       "its clock is 1200 MHz, the median is 1900 MHz", "a low clock");
    samples[1].slow_reasons = SLOW_SOFT_HEAT;
    is(rank_times_cause(&samples[1], samples, RANKS, text, sizeof(text)),
       "its clocks are lowered by heat (software limit)", "throttling");
    samples[1].xid = 94;
    is(rank_times_cause(&samples[1], samples, RANKS, text, sizeof(text)), "its GPU reported Xid 94",
       "an error in the kernel log");
    return done_testing();
}
