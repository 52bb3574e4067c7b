/* SPDX-License-Identifier: Apache-2.0 */
/* What a log or metrics file says about a run, start by start. An attempt is one start of a run up
 * to the next one or to the end of the file. */
#ifndef MEGATRON_ATTEMPT_H
#define MEGATRON_ATTEMPT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/core/list.h"

/* One log line: the mean of the steps since the line before. NAN: not known. */
struct step {
    int64_t iteration;
    double samples; /* consumed by training so far */
    double time;    /* wall-clock time at the end, seconds since 1970 */
    double elapsed; /* seconds since the run's first start; set by runs_arrange */
    float ms, lr, loss, scale, norm, tflops, batch;
    float skipped, nans; /* steps */
    int covers;          /* number of steps; set by runs_arrange */
    bool lost;           /* a later attempt repeated these steps; set by runs_arrange */
};

enum event_kind { EVENT_SAVE, EVENT_FAULT, EVENT_END, EVENT_KINDS };

struct event {
    enum event_kind kind;
    int64_t iteration; /* of the last step before it, or the one it names; -1: before the first */
    double seconds;    /* a save: its duration; NAN if unknown */
    double stalled;    /* a save: how long training waited for it */
    double time;       /* NAN if unknown */
    char *text;
};

struct validation {
    int64_t iteration;
    double loss;
    bool test; /* on the test set */
};

struct argument {
    char *name, *value;
};

struct attempt {
    char *file;         /* where it was read */
    bool from_metrics;  /* from JSON lines */
    double time;        /* at which it began, NAN if unknown */
    double first_step;  /* seconds from the start to the end of the first step, NAN if unknown */
    int64_t resumed;    /* iteration of the checkpoint it resumed from, -1 if none or unknown */
    int64_t total;      /* planned number of iterations, -1 if unknown */
    int64_t seq_length; /* -1 if unknown */
    int64_t world_size; /* -1 if unknown */
    double memory;      /* GiB on the fullest rank, NAN if unknown */
    bool finished;      /* it reached the last iteration */
    bool differs;       /* it printed only arguments that differ from the first start's */
    char *command, *program, *device, *host, *job, *memory_text;
    LIST(struct argument) arguments;
    LIST(struct step) steps;
    LIST(struct event) events;
    LIST(struct validation) validations;
};

struct attempts {
    struct attempt **items;
    size_t count, room;
};

/* Limits on what a damaged or foreign file can make the report keep. */
enum { MOST_ATTEMPTS = 4096, MOST_EVENTS = 4096, MOST_VALIDATIONS = 100000, MOST_ARGUMENTS = 2048 };

/* Add an empty attempt. */
struct attempt *attempts_add(struct attempts *list, const char *file);
void attempts_clear(struct attempts *list);
void attempt_destroy(struct attempt *attempt);

/* A step of which nothing is known but its number. */
struct step step_unknown(int64_t iteration);

/* Text is copied; what is above the limits is dropped. */
void attempt_step(struct attempt *attempt, const struct step *step);
void attempt_event(struct attempt *attempt, const struct event *event);
void attempt_validation(struct attempt *attempt, const struct validation *v);
void attempt_argument(struct attempt *attempt, const char *name, const char *value);

/* The value of an argument such as "hidden_size", NULL if it was not printed or is None. */
const char *attempt_value(const struct attempt *attempt, const char *name);

/* Iteration of its last step, -1 if it has none. */
int64_t attempt_last(const struct attempt *attempt);

/* Index of its first step whose iteration is at least 'iteration', or the number of steps. */
size_t attempt_find(const struct attempt *attempt, int64_t iteration);

/* Replace the text in 'slot' by a copy. */
void attempt_text(char **slot, const char *text);

#endif
