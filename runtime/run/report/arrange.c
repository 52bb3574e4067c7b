/* SPDX-License-Identifier: Apache-2.0 */
/* From the attempts of several files to runs: match logs with metrics, separate runs, sort. */
#include "run.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* --- A start in a log and in a metrics file --------------------------------------------------- */

static int is_near(float a, float b, float distance)
{
    return (isnan(a) && isnan(b)) || fabsf(a - b) <= distance;
}

/* Is this the same line, printed with fewer digits in the log? */
static int is_same(const struct step *log, const struct step *metric)
{
    return log->iteration == metric->iteration &&
           is_near(log->ms, metric->ms, 0.051F + 1e-6F * log->ms) &&
           is_near(log->loss, metric->loss, 2e-6F * fabsf(log->loss));
}

/* Index of the line of 'metric' that is the first of 'log', or -1. */
static ssize_t find_line(const struct attempt *log, const struct attempt *metric)
{
    size_t from = 0, to = metric->step_count;

    while (from < to) {
        size_t middle = from + (to - from) / 2;

        if (metric->steps[middle].iteration < log->steps[0].iteration)
            from = middle + 1;
        else
            to = middle;
    }
    return from < metric->step_count && is_same(&log->steps[0], &metric->steps[from])
               ? (ssize_t)from
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
static int take_steps(struct attempt *log, struct attempt *metric, size_t index, struct error *err)
{
    struct step *steps = log->steps;
    size_t count = log->step_count;
    int rc = 0;

    log->steps = NULL;
    log->step_count = log->step_room = 0;
    for (size_t i = index; i < metric->step_count && rc == 0; i++)
        rc = attempt_step(log, &metric->steps[i], err);
    for (size_t i = 0; i < count && rc == 0; i++)
        if (steps[i].iteration > attempt_last(log))
            rc = attempt_step(log, &steps[i], err);
    free(steps);
    metric->step_count = index;
    return rc;
}

static int merge(struct attempt *log, struct attempt *metric, size_t index, struct error *err)
{
    if (take_steps(log, metric, index, err) < 0)
        return -1;
    if (index > 0)
        return 0; /* the metrics of an earlier start come first in the same attempt */
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
    for (size_t i = 0; i < metric->event_count; i++)
        if (attempt_event(log, &metric->events[i], err) < 0)
            return -1;
    for (size_t i = 0; log->validation_count == 0 && i < metric->validation_count; i++)
        if (attempt_validation(log, &metric->validations[i], err) < 0)
            return -1;
    return 1;
}

static void remove_at(struct attempts *list, size_t index)
{
    attempt_destroy(list->items[index]);
    memmove(list->items + index, list->items + index + 1,
            (list->count - index - 1) * sizeof(*list->items));
    list->count--;
}

/* Match the last starts first: what they leave of a metrics attempt belongs to earlier ones. */
static int match(struct attempts *list, struct error *err)
{
    for (size_t i = list->count; i-- > 0;) {
        struct attempt *log = list->items[i];

        if (log->from_metrics || log->step_count == 0)
            continue;
        for (size_t k = list->count; k-- > 0;) {
            struct attempt *metric = list->items[k];
            ssize_t index;
            int rc;

            if (!metric->from_metrics || metric->step_count == 0)
                continue;
            index = find_line(log, metric);
            if (index < 0)
                continue;
            rc = merge(log, metric, (size_t)index, err);
            if (rc < 0)
                return -1;
            if (rc > 0) {
                remove_at(list, k);
                i -= k < i;
            }
            break;
        }
    }
    return 0;
}

/* --- Order ----------------------------------------------------------------------------------- */

static double time_of(const struct attempt *a)
{
    return !isnan(a->time) || a->step_count == 0 ? a->time : a->steps[0].time;
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
static int sort(struct attempts *list, struct error *err)
{
    struct dated *dated = calloc(list->count + 1, sizeof(*dated));
    double before = -INFINITY;

    if (!dated)
        return error_set(err, "out of memory");
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
    return 0;
}

/* --- Several runs in one directory ------------------------------------------------------------ */

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

static int add_to(struct run *run, struct attempt *attempt, struct error *err)
{
    struct attempt **items = reallocarray(run->attempts, run->count + 1, sizeof(*run->attempts));

    if (!items)
        return error_set(err, "out of memory");
    run->attempts = items;
    run->attempts[run->count++] = attempt;
    return 0;
}

static struct run *add_run(struct runs *runs, struct error *err)
{
    struct run *items = reallocarray(runs->items, runs->count + 1, sizeof(*items));

    if (!items) {
        error_set(err, "out of memory");
        return NULL;
    }
    runs->items = items;
    runs->items[runs->count] = (struct run){0};
    return &runs->items[runs->count++];
}

/* The first of the runs from 'first' on that an attempt may belong to. */
static int add_attempt(struct runs *runs, size_t first, struct attempt *attempt,
                       const char **differs, struct error *err)
{
    struct run *run;

    for (size_t i = first; i < runs->count; i++) {
        const char *option = difference(runs->items[i].attempts[0], attempt);

        if (!option)
            return add_to(&runs->items[i], attempt, err);
        *differs = option;
    }
    run = add_run(runs, err);
    return run ? add_to(run, attempt, err) : -1;
}

static int name_runs(struct runs *runs, size_t first, const char *name, const char *differs,
                     struct notes *notes, struct error *err)
{
    size_t count = runs->count - first;

    for (size_t i = first; i < runs->count; i++) {
        char text[1024];

        if (count > 1)
            snprintf(text, sizeof(text), "%s (%zu)", name, i - first + 1);
        else
            snprintf(text, sizeof(text), "%s", name);
        if (attempt_text(&runs->items[i].name, text, err) < 0)
            return -1;
    }
    if (count > 1) {
        char option[64];

        option_name(differs, option, sizeof(option));
        notes_add(notes,
                  "%s contains %zu runs, which differ in %s; all are shown; name the files of one "
                  "run to see only that",
                  name, count, option);
    }
    return 0;
}

int runs_arrange(struct runs *runs, struct attempts *list, const char *name, double peak,
                 struct notes *notes, struct error *err)
{
    size_t first = runs->count;
    const char *differs = "";

    if (match(list, err) < 0 || sort(list, err) < 0)
        return -1;
    for (size_t i = 0; i < list->count; i++)
        if (add_attempt(runs, first, list->items[i], &differs, err) < 0)
            return -1;
    if (name_runs(runs, first, name, differs, notes, err) < 0)
        return -1;
    for (size_t i = first; i < runs->count; i++)
        if (run_measure(&runs->items[i], peak, err) < 0)
            return -1;
    return 0;
}

void runs_clear(struct runs *runs)
{
    for (size_t i = 0; i < runs->count; i++) {
        free(runs->items[i].name);
        free(runs->items[i].attempts);
    }
    free(runs->items);
    *runs = (struct runs){0};
}
