/* SPDX-License-Identifier: Apache-2.0 */
/* From the attempts of several files to runs: match logs with metrics, separate runs, sort. */
#include "run.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* --- A start in a log and in a metrics file -------------------------------------------------- */

static bool is_near(float a, float b, float distance)
{
    return (isnan(a) && isnan(b)) || fabsf(a - b) <= distance;
}

/* Is this the same line, printed with fewer digits in the log? */
static bool is_same(const struct step *log, const struct step *metric)
{
    return log->iteration == metric->iteration &&
           is_near(log->ms, metric->ms, 0.051F + 1e-6F * log->ms) &&
           is_near(log->loss, metric->loss, 2e-6F * fabsf(log->loss));
}

/* Index of the line of 'metric' that is the first of 'log', or -1. */
static ssize_t find_line(const struct attempt *log, const struct attempt *metric)
{
    size_t at = attempt_find(metric, log->steps.items[0].iteration);

    return at < metric->steps.count && is_same(&log->steps.items[0], &metric->steps.items[at])
               ? (ssize_t)at
               : -1;
}

static void move_text(char **to, char **from)
{
    if (!*from || !**from)
        return;
    free(*to);
    *to = *from;
    *from = NULL;
}

/* Replace the steps of 'log' by those of 'metric' from 'index' on, which have more digits and
 * times; steps that only the log has are kept. */
static void take_steps(struct attempt *log, struct attempt *metric, size_t index)
{
    struct attempt old = {.steps = log->steps};

    memset(&log->steps, 0, sizeof(log->steps));
    for (size_t i = index; i < metric->steps.count; i++)
        attempt_step(log, &metric->steps.items[i]);
    for (size_t i = 0; i < old.steps.count; i++)
        if (old.steps.items[i].iteration > attempt_last(log))
            attempt_step(log, &old.steps.items[i]);
    list_free(&old.steps);
    metric->steps.count = index;
}

/* Returns true if nothing of 'metric' is left. */
static bool merge(struct attempt *log, struct attempt *metric, size_t index)
{
    take_steps(log, metric, index);
    if (index > 0)
        return false; /* the metrics of an earlier start come first in the same attempt */
    if (!isnan(metric->time))
        log->time = metric->time;
    move_text(&log->command, &metric->command);
    move_text(&log->program, &metric->program);
    move_text(&log->host, &metric->host);
    move_text(&log->job, &metric->job);
    move_text(&log->device, &metric->device);
    if (log->seq_length < 0)
        log->seq_length = metric->seq_length;
    if (log->world_size < 0)
        log->world_size = metric->world_size;
    for (size_t i = 0; i < metric->events.count; i++)
        attempt_event(log, &metric->events.items[i]);
    for (size_t i = 0; log->validations.count == 0 && i < metric->validations.count; i++)
        attempt_validation(log, &metric->validations.items[i]);
    return true;
}

static void remove_at(struct attempts *list, size_t index)
{
    attempt_destroy(list->items[index]);
    memmove(list->items + index, list->items + index + 1,
            (list->count - index - 1) * sizeof(*list->items));
    list->count--;
}

/* Match the last starts first: what they leave of a metrics attempt belongs to earlier ones. */
static void match(struct attempts *list)
{
    for (size_t i = list->count; i-- > 0;) {
        struct attempt *log = list->items[i];

        if (log->from_metrics || log->steps.count == 0)
            continue;
        for (size_t k = list->count; k-- > 0;) {
            struct attempt *metric = list->items[k];
            ssize_t index;

            if (!metric->from_metrics || metric->steps.count == 0)
                continue;
            index = find_line(log, metric);
            if (index < 0)
                continue;
            if (merge(log, metric, (size_t)index)) {
                remove_at(list, k);
                i -= k < i;
            }
            break;
        }
    }
}

/* --- Order ----------------------------------------------------------------------------------- */

static double time_of(const struct attempt *a)
{
    return !isnan(a->time) || a->steps.count == 0 ? a->time : a->steps.items[0].time;
}

struct dated {
    struct attempt *attempt;
    double time;
    size_t index;
};

static int compare(const void *x, const void *y)
{
    const struct dated *a = x, *b = y;

    if (a->time != b->time)
        return a->time < b->time ? -1 : 1;
    return a->index < b->index ? -1 : a->index > b->index;
}

/* By time; an attempt without one comes after the one before it in its file. */
static void sort(struct attempts *list)
{
    struct dated *dated = xcalloc(list->count, sizeof(*dated));
    double before = -INFINITY;

    for (size_t i = 0; i < list->count; i++) {
        double time = time_of(list->items[i]);

        if (i > 0 && strcmp(list->items[i]->file, list->items[i - 1]->file) != 0)
            before = -INFINITY;
        before = isnan(time) ? before : time;
        dated[i] = (struct dated){list->items[i], before, i};
    }
    qsort(dated, list->count, sizeof(*dated), compare);
    for (size_t i = 0; i < list->count; i++)
        list->items[i] = dated[i].attempt;
    free(dated);
}

/* --- Several runs in one directory ----------------------------------------------------------- */

static const char *const identity[] = {"save", "num_layers", "hidden_size", "num_attention_heads",
                                       "ffn_hidden_size"};

/* "--hidden-size" for "hidden_size". */
static void option_name(const char *name, char *option, size_t size)
{
    snprintf(option, size, "--%s", name);
    for (char *c = option; *c; c++)
        if (*c == '_')
            *c = '-';
}

/* The value of an option, from the table of arguments or from the command line. */
static const char *option_of(const struct attempt *a, const char *name, char *buffer, size_t size)
{
    const char *value = attempt_value(a, name), *at;
    char option[64];

    if (value || !a->command)
        return value;
    option_name(name, option, sizeof(option));
    for (at = a->command; (at = strstr(at, option)); at += strlen(option)) {
        const char *word = at + strlen(option);

        if (*word != ' ' && *word != '=')
            continue;
        snprintf(buffer, size, "%.*s", (int)strcspn(word + 1, " "), word + 1);
        value = buffer;
    }
    return value;
}

/* The option in which two attempts differ, NULL if they may belong to one run. */
static const char *difference(const struct attempt *a, const struct attempt *b)
{
    char one[512], two[512];

    for (size_t i = 0; i < sizeof(identity) / sizeof(identity[0]); i++) {
        const char *x = option_of(a, identity[i], one, sizeof(one));
        const char *y = option_of(b, identity[i], two, sizeof(two));

        if (x && y && strcmp(x, y) != 0)
            return identity[i];
    }
    return NULL;
}

/* Add an attempt to the first of the runs from 'first' on that it may belong to, or to a new one.
 */
static void add_attempt(struct runs *runs, size_t first, struct attempt *attempt,
                        const char **differs)
{
    struct run *run = NULL;

    for (size_t i = first; i < runs->count && !run; i++) {
        const char *option = difference(runs->items[i].attempts[0], attempt);

        if (option)
            *differs = option;
        else
            run = &runs->items[i];
    }
    if (!run) {
        run = list_add(runs);
        *run = (struct run){0};
    }
    run->attempts = xrealloc(run->attempts, run->count + 1, sizeof(*run->attempts));
    run->attempts[run->count++] = attempt;
}

static void name_runs(struct runs *runs, size_t first, const char *name, const char *differs,
                      struct notes *notes)
{
    size_t count = runs->count - first;
    char option[64];

    for (size_t i = first; i < runs->count; i++)
        runs->items[i].name =
            count > 1 ? xasprintf("%s (%zu)", name, i - first + 1) : xstrdup(name);
    if (count < 2)
        return;
    option_name(differs, option, sizeof(option));
    notes_add(notes,
              "%s contains %zu runs, which differ in %s; all are shown; name the files of one run "
              "to see only that",
              name, count, option);
}

void runs_arrange(struct runs *runs, struct attempts *list, const char *name, double peak,
                  struct notes *notes)
{
    size_t first = runs->count;
    const char *differs = "";

    match(list);
    sort(list);
    for (size_t i = 0; i < list->count; i++)
        add_attempt(runs, first, list->items[i], &differs);
    name_runs(runs, first, name, differs, notes);
    for (size_t i = first; i < runs->count; i++)
        run_measure(&runs->items[i], peak);
}

void runs_clear(struct runs *runs)
{
    for (size_t i = 0; i < runs->count; i++) {
        free(runs->items[i].name);
        free(runs->items[i].attempts);
    }
    list_free(runs);
}
