/* SPDX-License-Identifier: Apache-2.0 */
/* Measure how long a call takes on the GPU, and which of several is the fastest.
 *
 * Under load a GPU reaches its power limit after 70 ms, and from then on its clocks rise and fall
 * by several percent within a fifth of a second (H200). So that all are measured at the same, full
 * clocks, the GPU rests after each measurement for as long as that took. Then two measurements
 * differ by 0.3 %. What was fastest at full clocks was also fastest at the limit, in training:
 * steps of five models with what was chosen in this way were 0.5 to 2.6 % faster than with what was
 * fastest after 28 ms without a rest. */
#include "cuda_error.h"
#include "gemm.h"

#include "lib/clock.h"

enum { MOST_ROUNDS = 4 };

static const double BRIEF_SECONDS = 0.001;
/* This close to the best after a brief measurement: it may be the fastest. */
static const double CLOSE = 1.03;
/* A close comparison: every candidate runs for about ROUND_SECONDS in each round, at least once.
 * There are as many rounds as single runs of the fastest fit into CLOSE_SECONDS, but 2 to
 * MOST_ROUNDS: fewer for long runs. */
static const double ROUND_SECONDS = 0.0015, CLOSE_SECONDS = 0.006;

/* Let the GPU rest, run 'call' 'untimed' times, and then time 'repeats' runs back to back. */
double gemm_time(struct gemm_context *context, int (*call)(void *argument), void *argument,
                 int untimed, int repeats)
{
    cudaEvent_t from = NULL, to = NULL;
    double left = context->rested - clock_now(), seconds = -1;
    float milliseconds;
    int failed = cudaEventCreate(&from) || cudaEventCreate(&to);

    if (left > 0)
        clock_sleep(left);
    for (int i = 0; i < untimed && !failed; i++)
        failed = call(argument) != 0;
    failed = failed || cudaEventRecord(from, context->stream);
    for (int i = 0; i < repeats && !failed; i++)
        failed = call(argument) != 0;
    if (!failed && !cudaEventRecord(to, context->stream) && !cudaEventSynchronize(to) &&
        !cudaEventElapsedTime(&milliseconds, from, to)) {
        seconds = milliseconds * 1e-3 / repeats;
        context->rested = clock_now() + (untimed + repeats) * seconds;
    }
    cudaEventDestroy(from);
    cudaEventDestroy(to);
    cudaGetLastError(); /* a candidate that fails is not an error of the device */
    return seconds;
}

/* 'once': approximate time of a run. */
static int runs_in(double seconds, double once)
{
    return 1 + (int)(seconds / once);
}

static int is_faster(const struct timing_candidate *a, const struct timing_candidate *b)
{
    return a->seconds > 0 && (b->seconds <= 0 || a->seconds < b->seconds);
}

static void sort(struct timing_candidate *candidates, int count)
{
    for (int i = 1; i < count; i++) { /* insertion sort: only a handful of entries */
        struct timing_candidate now = candidates[i];
        int j = i;

        for (; j > 0 && is_faster(&now, &candidates[j - 1]); j--)
            candidates[j] = candidates[j - 1];
        candidates[j] = now;
    }
}

/* Time those with unknown times, forwards and backwards. */
static void time_briefly(struct gemm_context *context, struct timing_candidate *candidates,
                         int count)
{
    for (int i = 0; i < count; i++) {
        struct timing_candidate *c = &candidates[i];

        c->seconds = c->once > 0 ? c->once : gemm_time(context, c->call, c->argument, 1, 1);
    }
    for (int i = count - 1; i >= 0; i--) {
        struct timing_candidate *c = &candidates[i];
        double again = c->seconds;

        if (c->once <= 0 && c->seconds > 0)
            again = gemm_time(context, c->call, c->argument, 0, runs_in(BRIEF_SECONDS, c->seconds));
        c->seconds = again > 0 ? c->handicap * (c->seconds + again) / 2 : -1;
    }
}

/* Time a candidate in a round and add it to its sum; -1 once it has failed. If its time was given,
 * some of its kernels may still have to be loaded. */
static double add_round(struct gemm_context *context, const struct timing_candidate *c, int round,
                        double sum)
{
    int untimed = round == 0 && (c->once > 0 || c->seconds < GEMM_LONG);
    double time;

    if (sum < 0)
        return -1;
    time = gemm_time(context, c->call, c->argument, untimed, runs_in(ROUND_SECONDS, c->seconds));
    return time > 0 ? sum + time : -1;
}

static void time_closely(struct gemm_context *context, struct timing_candidate *candidates,
                         int count)
{
    double sums[TIMING_CLOSE] = {0};
    int rounds = (int)(CLOSE_SECONDS / candidates[0].seconds);

    rounds = rounds < 2 ? 2 : rounds < MOST_ROUNDS ? rounds : MOST_ROUNDS;
    for (int round = 0; round < rounds; round++)
        for (int j = 0; j < count; j++) {
            int i = round % 2 ? count - 1 - j : j;

            sums[i] = add_round(context, &candidates[i], round, sums[i]);
        }
    for (int i = 0; i < count; i++)
        candidates[i].seconds = sums[i] < 0 ? -1 : candidates[i].handicap * sums[i] / rounds;
}

/* How many of the sorted candidates may be the fastest? */
static int count_close(const struct timing_candidate *candidates, int count)
{
    int close = 0;

    while (close < count && close < TIMING_CLOSE && candidates[close].seconds > 0 &&
           candidates[close].seconds <= CLOSE * candidates[0].seconds)
        close++;
    return close;
}

/* How many of the sorted candidates have not failed? */
static int count_running(const struct timing_candidate *candidates, int count)
{
    int running = 0;

    while (running < count && candidates[running].seconds > 0)
        running++;
    return running;
}

int gemm_rank(struct gemm_context *context, struct timing_candidate *candidates, int count,
              struct error *err)
{
    int close;

    time_briefly(context, candidates, count);
    sort(candidates, count);
    close = count_close(candidates, count);
    if (close > 1) {
        time_closely(context, candidates, close);
        sort(candidates, close);
        close = count_running(candidates, close);
        sort(candidates + close, count - close); /* those that no longer run come last */
    }
    if (close == 0) /* then the next one wins, if any */
        close = candidates[0].seconds > 0;
    if (!cudaStreamSynchronize(context->stream))
        return close;
    context->broken = 1;
    return error_set(err,
                     "the GPU crashed while kernels were timed; restart the run" CUDA_CHECK_NODE);
}
