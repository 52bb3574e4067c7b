/* SPDX-License-Identifier: Apache-2.0 */
/* Measure how long a call takes on the GPU, and which of several is the fastest. */
#include "gemm.h"

#include <string.h>

enum { FIRST_REPEATS = 4, FINALISTS = 3 };
enum { ROUNDS = 4, LEAST_ROUNDS = 2 }; /* even: as many rounds forwards as backwards */

/* The length of a round, and the time limit for all rounds. */
static const double ROUND_SECONDS = 0.002, ROUNDS_SECONDS = 0.1;
/* The last comparison: how long each one runs before it is timed, and then again; only for those
 * that are within this of the best. With 25 ms instead of 8 the first step of a GPT of 12 layers
 * and 1,280 columns took 7.8 s instead of 4.2 s on an H200, and a step was no faster. */
static const double SETTLE_SECONDS = 0.008, FAR_BEHIND = 1.03;

double gemm_time(struct gemm_context *context, int (*call)(void *argument), void *argument,
                 int repeats)
{
    cudaEvent_t from = NULL, to = NULL;
    double seconds = -1;

    if (cudaEventCreate(&from) || cudaEventCreate(&to) || call(argument))
        goto out;
    /* Measure the mean of back-to-back runs: a GPU at its power limit runs slower than after a
     * pause. */
    {
        float milliseconds;
        int failed = cudaEventRecord(from, context->stream) != cudaSuccess;

        for (int i = 0; i < repeats && !failed; i++)
            failed = call(argument) != 0;
        if (!failed && !cudaEventRecord(to, context->stream) && !cudaEventSynchronize(to) &&
            !cudaEventElapsedTime(&milliseconds, from, to))
            seconds = milliseconds * 1e-3 / repeats;
    }
out:
    cudaEventDestroy(from);
    cudaEventDestroy(to);
    cudaGetLastError(); /* a candidate that fails is not an error of the device */
    return seconds;
}

/* Run until clocks have settled, then measure for the same time; 'once': approximate time of a run.
 */
static double time_settled(struct gemm_context *context, int (*call)(void *argument),
                           void *argument, double once)
{
    int repeats = (int)(SETTLE_SECONDS / once) + 2;

    if (gemm_time(context, call, argument, repeats) < 0)
        return -1;
    return gemm_time(context, call, argument, repeats);
}

double gemm_time_sustained(struct gemm_context *context, int (*call)(void *argument),
                           void *argument)
{
    double once = gemm_time(context, call, argument, FIRST_REPEATS);

    return once > 0 ? time_settled(context, call, argument, once) : -1;
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

/* One round over all candidates, forwards or backwards; returns its approximate duration. */
static double run_round(struct gemm_context *context, struct timing_candidate *candidates,
                        int count, int backwards)
{
    double spent = 0;

    for (int k = 0; k < count; k++) {
        struct timing_candidate *c = &candidates[backwards ? count - 1 - k : k];
        double seconds;
        int runs;

        if (c->seconds < 0)
            continue;
        runs = 1 + (int)(ROUND_SECONDS / c->once);
        seconds = gemm_time(context, c->call, c->argument, runs);
        c->seconds = seconds > 0 ? c->seconds + seconds : -1;
        spent += (runs + 1) * c->once;
    }
    return spent;
}

static void run_rounds(struct gemm_context *context, struct timing_candidate *candidates, int count)
{
    int rounds = 0, most = count > 1 ? ROUNDS : 1; /* a single candidate: only check that it runs */
    double spent = 0;

    for (int i = 0; i < count; i++) {
        struct timing_candidate *c = &candidates[i];

        if (c->once <= 0)
            c->once = gemm_time(context, c->call, c->argument, 1);
        c->seconds = c->once > 0 ? 0 : -1;
    }
    while (rounds < most && (rounds % 2 || rounds < LEAST_ROUNDS || spent < ROUNDS_SECONDS))
        spent += run_round(context, candidates, count, rounds++ % 2);
    for (int i = 0; i < count; i++)
        if (candidates[i].seconds > 0)
            candidates[i].seconds *= candidates[i].handicap / rounds;
}

/* Candidates that are far behind are dropped. */
static int count_finalists(const struct timing_candidate *candidates, int count)
{
    int finalists = 0;

    while (finalists < count && finalists < FINALISTS && candidates[finalists].seconds > 0 &&
           candidates[finalists].seconds <= FAR_BEHIND * candidates[0].seconds)
        finalists++;
    return finalists;
}

void gemm_rank_candidates(struct gemm_context *context, struct timing_candidate *candidates,
                          int count)
{
    int finalists;

    run_rounds(context, candidates, count);
    sort(candidates, count);
    finalists = count_finalists(candidates, count);
    for (int i = 0; i < finalists && finalists > 1; i++) {
        struct timing_candidate *c = &candidates[i];

        c->seconds = c->handicap * time_settled(context, c->call, c->argument, c->seconds);
    }
    sort(candidates, finalists);
    /* A candidate that failed in the long measurement is sorted after those that were not in it. */
    for (; finalists > 0 && candidates[finalists - 1].seconds <= 0; finalists--) {
        struct timing_candidate failed = candidates[finalists - 1];

        memmove(&candidates[finalists - 1], &candidates[finalists],
                (size_t)(count - finalists) * sizeof(failed));
        candidates[count - 1] = failed;
    }
}
