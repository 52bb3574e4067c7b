/* SPDX-License-Identifier: Apache-2.0 */
/* Measure how long a call takes on the GPU, and which of several is the fastest. */
#include "cuda_error.h"
#include "gemm.h"

enum { FIRST_REPEATS = 4, MOST_RUNS = 400 };

static const double BRIEF_SECONDS = 0.001;
/* Close to the best after a brief measurement, in which large tiles seem 4 % slower than they are
 * at the power limit (H200). */
static const double CLOSE = 1.05;
/* How long each one runs before it is timed, and how long it is timed. A step of gpt1.3b with what
 * was chosen after 8 or 16 ms took 240 to 247 ms on an H200, after 28 to 50 ms 234 to 237 ms. */
static const double SETTLE_SECONDS = 0.028, TIMED_SECONDS = 0.01;

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

/* Small products do not reach the power limit, so they need not run as long. */
static int runs_in(double seconds, double once)
{
    double runs = seconds / once;

    return 1 + (runs < MOST_RUNS ? (int)runs : MOST_RUNS);
}

/* 'once': approximate time of a run. */
static double time_settled(struct gemm_context *context, int (*call)(void *argument),
                           void *argument, double once)
{
    if (gemm_time(context, call, argument, runs_in(SETTLE_SECONDS, once)) < 0)
        return -1;
    return gemm_time(context, call, argument, runs_in(TIMED_SECONDS, once));
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

/* Time those with unknown times, forwards and backwards, because clocks change meanwhile. */
static void time_briefly(struct gemm_context *context, struct timing_candidate *candidates,
                         int count)
{
    for (int i = 0; i < count; i++) {
        struct timing_candidate *c = &candidates[i];

        c->seconds = c->once > 0 ? c->once : gemm_time(context, c->call, c->argument, 1);
    }
    for (int i = count - 1; i >= 0; i--) {
        struct timing_candidate *c = &candidates[i];
        double again = c->seconds;

        if (c->once <= 0 && c->seconds > 0)
            again = gemm_time(context, c->call, c->argument, runs_in(BRIEF_SECONDS, c->seconds));
        c->seconds = again > 0 ? c->handicap * (c->seconds + again) / 2 : -1;
    }
}

static int check_gpu(struct gemm_context *context, struct error *err)
{
    if (!cudaStreamSynchronize(context->stream))
        return 0;
    context->broken = 1;
    return error_set(err, "the GPU crashed while kernels for a linear layer were timed; restart "
                          "the run" CUDA_CHECK_NODE);
}

int gemm_rank_briefly(struct gemm_context *context, struct timing_candidate *candidates, int count,
                      struct error *err)
{
    int close = 0;

    time_briefly(context, candidates, count);
    sort(candidates, count);
    while (close < count && close < TIMING_CLOSE && candidates[close].seconds > 0 &&
           candidates[close].seconds <= CLOSE * candidates[0].seconds)
        close++;
    return check_gpu(context, err) < 0 ? -1 : close;
}

int gemm_rank_settled(struct gemm_context *context, struct timing_candidate *candidates, int count,
                      struct error *err)
{
    for (int i = 0; i < count; i++) {
        struct timing_candidate *c = &candidates[i];

        c->seconds = c->handicap * time_settled(context, c->call, c->argument, c->seconds);
    }
    sort(candidates, count);
    return check_gpu(context, err);
}
