/* SPDX-License-Identifier: Apache-2.0 */
#include "run.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Set how many steps each line covers. */
static void count_covered(struct attempt *a)
{
    const char *given = attempt_value(a, "log_interval");
    int64_t interval = given ? strtoll(given, NULL, 10) : 1, before;

    if (a->steps.count == 0)
        return;
    if (!given && a->steps.count > 1)
        interval = a->steps.items[1].iteration - a->steps.items[0].iteration;
    before = a->steps.items[0].iteration - interval;
    if (a->resumed >= 0 && a->resumed < a->steps.items[0].iteration)
        before = a->resumed;
    before = before < 0 ? 0 : before;
    for (size_t i = 0; i < a->steps.count; i++) {
        int64_t covers = a->steps.items[i].iteration - before;

        a->steps.items[i].covers = covers > 0 && covers < INT32_MAX ? (int)covers : 1;
        before = a->steps.items[i].iteration;
    }
}

/* Later attempts win: what they repeated is lost. */
static void mark_lost(struct run *run)
{
    int64_t limit = INT64_MAX;

    for (size_t i = run->count; i-- > 0;) {
        struct attempt *a = run->attempts[i];

        for (size_t k = 0; k < a->steps.count; k++)
            a->steps.items[k].lost = a->steps.items[k].iteration > limit;
        if (a->steps.count > 0 && a->steps.items[0].iteration - a->steps.items[0].covers < limit)
            limit = a->steps.items[0].iteration - a->steps.items[0].covers;
    }
}

static double step_seconds(const struct step *s)
{
    return isnan(s->ms) ? 0 : (double)s->ms / 1000 * s->covers;
}

/* The time at which an attempt began, as far as it can be known. */
static double began_at(const struct attempt *a)
{
    if (!isnan(a->time) || a->steps.count == 0 || isnan(a->steps.items[0].time))
        return a->time;
    if (!isnan(a->first_step)) /* of the first step alone, which the first line contains */
        return a->steps.items[0].time - a->first_step - step_seconds(&a->steps.items[0]) +
               (double)a->steps.items[0].ms / 1000;
    return a->steps.items[0].time - step_seconds(&a->steps.items[0]);
}

/* Seconds before the first step; NAN if unknown. */
static double starting(const struct attempt *a)
{
    double seconds = NAN;

    if (a->steps.count == 0)
        return NAN;
    if (!isnan(a->time) && !isnan(a->steps.items[0].time))
        seconds = a->steps.items[0].time - a->time - step_seconds(&a->steps.items[0]);
    else if (!isnan(a->first_step))
        seconds =
            a->first_step - (isnan(a->steps.items[0].ms) ? 0 : (double)a->steps.items[0].ms / 1000);
    return seconds < 0 ? 0 : seconds;
}

static int is_clocked(const struct run *run)
{
    int any = 0;

    for (size_t i = 0; i < run->count; i++)
        for (size_t k = 0; k < run->attempts[i]->steps.count; k++) {
            if (isnan(run->attempts[i]->steps.items[k].time))
                return 0;
            any = 1;
        }
    return any;
}

/* Set the time of each step since the first start: by the clock, or by adding up durations. */
static void set_elapsed(struct run *run)
{
    double origin = NAN, sum = 0;

    run->clocked = is_clocked(run);
    for (size_t i = 0; i < run->count; i++) {
        struct attempt *a = run->attempts[i];
        double start = starting(a);

        if (isnan(origin))
            origin = began_at(a);
        sum += isnan(start) ? 0 : start;
        for (size_t k = 0; k < a->steps.count; k++) {
            sum += step_seconds(&a->steps.items[k]);
            a->steps.items[k].elapsed = run->clocked ? a->steps.items[k].time - origin : sum;
        }
    }
}

/* How long training waited for a save, which the time of the next step contains. */
static double save_seconds(const struct attempt *a, const struct event *e)
{
    const char *async = attempt_value(a, "async_save");
    double seconds = async && strcmp(async, "True") == 0 ? e->stalled : e->seconds;

    return isnan(seconds) ? 0 : seconds;
}

/* Distribute the time of one attempt; 'end' is when the one before it ended, NAN if unknown. */
static void add_attempt(struct run *run, const struct attempt *a, double *end)
{
    double start = starting(a), began = began_at(a), stepping = 0, saving = 0, last;

    if (run->clocked && !isnan(*end) && began > *end)
        run->seconds[SPENT_DOWN] += began - *end;
    if (a->steps.count == 0)
        return;
    run->seconds[SPENT_START] += isnan(start) ? 0 : start;
    for (size_t i = 0; i < a->steps.count; i++) {
        const struct step *s = &a->steps.items[i];

        run->seconds[s->lost ? SPENT_LOST : SPENT_TRAINING] += step_seconds(s);
        stepping += step_seconds(s);
    }
    for (size_t i = 0; i < a->events.count; i++)
        if (a->events.items[i].kind == EVENT_SAVE && a->events.items[i].iteration < attempt_last(a))
            saving += save_seconds(a, &a->events.items[i]);
    if (saving > run->seconds[SPENT_TRAINING])
        saving = run->seconds[SPENT_TRAINING];
    run->seconds[SPENT_SAVE] += saving;
    run->seconds[SPENT_TRAINING] -= saving;
    last = a->steps.items[a->steps.count - 1].time;
    if (run->clocked) {
        double rest = last - began - (isnan(start) ? 0 : start) - stepping;

        run->seconds[SPENT_OTHER] += rest > 0 ? rest : 0;
        *end = last;
    }
}

static void split_time(struct run *run)
{
    double end = NAN;

    for (size_t i = 0; i < run->count; i++)
        add_attempt(run, run->attempts[i], &end);
    for (int i = 0; i < SPENT_KINDS; i++)
        run->span += run->seconds[i];
}

static int compare_floats(const void *x, const void *y)
{
    float a = *(const float *)x, b = *(const float *)y;

    return a < b ? -1 : a > b;
}

static double quantile(const float *sorted, size_t count, double q)
{
    return count == 0 ? NAN : (double)sorted[(size_t)(q * (double)(count - 1) + 0.5)];
}

double run_speed(const struct run *run, const struct step *s)
{
    return run->seq_length > 0 && s->ms > 0
               ? (double)s->batch * (double)run->seq_length / ((double)s->ms / 1000)
               : NAN;
}

/* Visit the steps that count, in order. */
static int next_step(const struct run *run, size_t *attempt, size_t *index,
                     const struct step **step)
{
    for (; *attempt < run->count; (*attempt)++, *index = 0)
        while (*index < run->attempts[*attempt]->steps.count) {
            *step = &run->attempts[*attempt]->steps.items[(*index)++];
            if (!(*step)->lost)
                return 1;
        }
    return 0;
}

static void measure_times(struct run *run, float *values)
{
    const struct step *s;
    size_t count = 0, seen = 0, skip = run->lines - (run->lines + 9) / 10, late;
    double sum = 0;

    for (size_t a = 0, i = 0; next_step(run, &a, &i, &s);)
        if (!isnan(s->ms)) {
            values[count++] = s->ms;
            sum += (double)s->ms;
        }
    qsort(values, count, sizeof(*values), compare_floats);
    run->median = quantile(values, count, 0.5);
    run->p90 = quantile(values, count, 0.9);
    run->p99 = quantile(values, count, 0.99);
    run->most = quantile(values, count, 1);
    run->mean = count > 0 ? sum / (double)count : NAN;
    late = 0;
    for (size_t a = 0, i = 0; next_step(run, &a, &i, &s); seen++)
        if (seen >= skip && !isnan(run_speed(run, s)))
            values[late++] = (float)run_speed(run, s);
    qsort(values, late, sizeof(*values), compare_floats);
    run->tokens_per_second = quantile(values, late, 0.5);
    seen = late = 0;
    for (size_t a = 0, i = 0; next_step(run, &a, &i, &s); seen++)
        if (seen >= skip && !isnan(s->tflops))
            values[late++] = s->tflops;
    qsort(values, late, sizeof(*values), compare_floats);
    run->tflops = quantile(values, late, 0.5);
}

/* Dense bf16 TFLOP/s by the GPU's name. */
static double peak_of(const char *device)
{
    static const struct {
        const char *name;
        double tflops;
    } peaks[] = {{"H100 PCIe", 756}, {"H100", 989},   {"H200", 989},  {"GH200", 989},
                 {"H800", 989},      {"GB200", 2500}, {"B200", 2250}, {"B300", 2250},
                 {"A100", 312},      {"A800", 312},   {"V100", 125},  {"L40S", 362}};

    for (size_t i = 0; device && i < sizeof(peaks) / sizeof(peaks[0]); i++)
        if (strstr(device, peaks[i].name))
            return peaks[i].tflops;
    return NAN;
}

void run_measure(struct run *run, double peak)
{
    const struct step *s;
    float *values;

    run->seq_length = run->world_size = run->total = -1;
    run->peak = peak;
    for (size_t i = 0; i < run->count; i++) {
        struct attempt *a = run->attempts[i];

        count_covered(a);
        run->seq_length = a->seq_length > 0 ? a->seq_length : run->seq_length;
        run->world_size = a->world_size > 0 ? a->world_size : run->world_size;
        run->total = a->total > 0 ? a->total : run->total;
        if (isnan(peak) && !isnan(peak_of(a->device)))
            run->peak = peak_of(a->device);
    }
    mark_lost(run);
    set_elapsed(run);
    split_time(run);
    for (size_t i = 0; i < run->count; i++)
        for (size_t k = 0; k < run->attempts[i]->steps.count; k++)
            if (run->attempts[i]->steps.items[k].lost)
                run->lost += run->attempts[i]->steps.items[k].covers;
    for (size_t a = 0, i = 0; next_step(run, &a, &i, &s); run->lines++) {
        run->steps += s->covers;
        run->skipped += (int64_t)s->skipped;
        run->nans += (int64_t)s->nans;
        run->last = s;
    }
    values = xcalloc(run->lines, sizeof(*values));
    measure_times(run, values);
    free(values);
}

const char *run_status(const struct run *run)
{
    const struct attempt *a = run->attempts[run->count - 1];
    const struct event *e = a->events.count > 0 ? &a->events.items[a->events.count - 1] : NULL;

    if (a->finished || (run->last && run->total > 0 && run->last->iteration >= run->total))
        return "finished";
    if (!run->last)
        return "no steps yet";
    if (e && e->kind == EVENT_FAULT)
        return "stopped by a fault";
    if (e && e->kind == EVENT_END)
        return "ended early, to be resumed";
    return "running, or stopped without a message";
}
