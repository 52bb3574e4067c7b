/* SPDX-License-Identifier: Apache-2.0 */
/* A run with all its starts, in order, and figures about it. */
#ifndef MEGATRON_REPORT_RUN_H
#define MEGATRON_REPORT_RUN_H

#include "attempt.h"
#include "notes.h"

enum spent {
    SPENT_TRAINING,
    SPENT_START,
    SPENT_SAVE,
    SPENT_OTHER,
    SPENT_LOST,
    SPENT_DOWN,
    SPENT_KINDS
};

struct run {
    char *name;
    struct attempt **attempts; /* in order of time; owned by the list they were read into */
    size_t count;
    int64_t seq_length, world_size, total; /* -1 if unknown */
    int64_t steps, lost, skipped, nans;    /* steps that count, were repeated, skipped, NaN */
    size_t lines;                          /* log lines of steps that count */
    int clocked;                           /* 'elapsed' is wall-clock time */
    double seconds[SPENT_KINDS];           /* where the time went */
    double span;                           /* sum of the above */
    double median, mean, p90, p99, most;   /* step time in ms; NAN if unknown */
    double peak;                           /* dense bf16 TFLOP/s of its GPUs, NAN if unknown */
    double tokens_per_second, tflops;      /* medians of the last tenth, NAN if unknown */
    const struct step *last;               /* the last step that counts, NULL if there is none */
};

struct runs {
    struct run *items;
    size_t count, room;
};

/* Sort the attempts of one directory into runs and add them to 'runs'. A log and a metrics file of
 * the same start become one attempt. Attempts that differ in the model or in --save belong to
 * different runs, which is noted. 'peak' is the user's, or NAN. */
void runs_arrange(struct runs *runs, struct attempts *attempts, const char *name, double peak,
                  struct notes *notes);
void runs_clear(struct runs *runs);

/* Fill in what can be computed from the attempts of a run, which are in order. */
void run_measure(struct run *run, double peak);

/* One line on how the run ended, or that it has not. */
const char *run_status(const struct run *run);

/* Tokens per second of a log line, NAN if unknown. */
double run_speed(const struct run *run, const struct step *step);

#endif
