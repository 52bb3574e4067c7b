/* How long does a call take on the GPU, and which of several is the fastest? */
#include "gemm.h"

#include <string.h>

enum { FIRST_REPEATS = 4, FINALISTS = 3 };
enum { TURNS = 4, LEAST_TURNS = 2 }; /* even: as often there as back */

/* A turn, and how long all turns may take. */
static const double TURN_SECONDS = 0.002, TURNS_SECONDS = 0.1;
static const double SETTLE_SECONDS = 0.04, FAR_BEHIND = 1.06;

double gemm_time(struct gemm_context *context, int (*call)(void *argument), void *argument,
                 int repeats)
{
    cudaEvent_t from = NULL, to = NULL;
    double seconds = -1;

    if (cudaEventCreate(&from) || cudaEventCreate(&to) || call(argument))
        goto out;
    /* Back to back and on average: a GPU at its power limit runs slower than after a pause. */
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

/* Run as long as clocks need to settle, then measure as long; 'once': about what a run takes. */
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

static int is_faster(const struct contestant *a, const struct contestant *b)
{
    return a->seconds > 0 && (b->seconds <= 0 || a->seconds < b->seconds);
}

static void sort(struct contestant *contestants, int count)
{
    for (int i = 1; i < count; i++) { /* insertion sort: a handful of entries */
        struct contestant now = contestants[i];
        int j = i;

        for (; j > 0 && is_faster(&now, &contestants[j - 1]); j--)
            contestants[j] = contestants[j - 1];
        contestants[j] = now;
    }
}

/* One turn of each, forwards or backwards; returns about how long they took. */
static double take_turns(struct gemm_context *context, struct contestant *contestants, int count,
                         int backwards)
{
    double spent = 0;

    for (int k = 0; k < count; k++) {
        struct contestant *c = &contestants[backwards ? count - 1 - k : k];
        double seconds;
        int runs;

        if (c->seconds < 0)
            continue;
        runs = 1 + (int)(TURN_SECONDS / c->once);
        seconds = gemm_time(context, c->call, c->argument, runs);
        c->seconds = seconds > 0 ? c->seconds + seconds : -1;
        spent += (runs + 1) * c->once;
    }
    return spent;
}

static void run_turns(struct gemm_context *context, struct contestant *contestants, int count)
{
    int turns = 0, most = count > 1 ? TURNS : 1; /* a single one: to see that it runs */
    double spent = 0;

    for (int i = 0; i < count; i++) {
        struct contestant *c = &contestants[i];

        if (c->once <= 0)
            c->once = gemm_time(context, c->call, c->argument, 1);
        c->seconds = c->once > 0 ? 0 : -1;
    }
    while (turns < most && (turns % 2 || turns < LEAST_TURNS || spent < TURNS_SECONDS))
        spent += take_turns(context, contestants, count, turns++ % 2);
    for (int i = 0; i < count; i++)
        if (contestants[i].seconds > 0)
            contestants[i].seconds *= contestants[i].handicap / turns;
}

/* Who is far behind will not catch up. */
static int count_finalists(const struct contestant *contestants, int count)
{
    int finalists = 0;

    while (finalists < count && finalists < FINALISTS && contestants[finalists].seconds > 0 &&
           contestants[finalists].seconds <= FAR_BEHIND * contestants[0].seconds)
        finalists++;
    return finalists;
}

void gemm_contest(struct gemm_context *context, struct contestant *contestants, int count)
{
    int finalists;

    run_turns(context, contestants, count);
    sort(contestants, count);
    finalists = count_finalists(contestants, count);
    for (int i = 0; i < finalists && finalists > 1; i++) {
        struct contestant *c = &contestants[i];

        c->seconds = c->handicap * time_settled(context, c->call, c->argument, c->seconds);
    }
    sort(contestants, finalists);
    /* Who failed in the long run goes behind those who were not in it. */
    for (; finalists > 0 && contestants[finalists - 1].seconds <= 0; finalists--) {
        struct contestant failed = contestants[finalists - 1];

        memmove(&contestants[finalists - 1], &contestants[finalists],
                (size_t)(count - finalists) * sizeof(failed));
        contestants[count - 1] = failed;
    }
}
