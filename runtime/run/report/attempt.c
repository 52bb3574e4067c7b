/* SPDX-License-Identifier: Apache-2.0 */
#include "attempt.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

struct attempt *attempts_add(struct attempts *list, const char *file)
{
    struct attempt *a = xcalloc(1, sizeof(*a));

    attempt_text(&a->file, file);
    a->time = a->first_step = a->memory = NAN;
    a->resumed = a->total = a->seq_length = a->world_size = -1;
    *list_add(list) = a;
    return a;
}

void attempt_destroy(struct attempt *a)
{
    char *texts[] = {a->file, a->command, a->program, a->device, a->host, a->job, a->memory_text};

    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++)
        free(texts[i]);
    for (size_t i = 0; i < a->arguments.count; i++) {
        free(a->arguments.items[i].name);
        free(a->arguments.items[i].value);
    }
    for (size_t i = 0; i < a->events.count; i++)
        free(a->events.items[i].text);
    list_free(&a->arguments);
    list_free(&a->events);
    list_free(&a->steps);
    list_free(&a->validations);
    free(a);
}

void attempts_clear(struct attempts *list)
{
    for (size_t i = 0; i < list->count; i++)
        attempt_destroy(list->items[i]);
    list_free(list);
}

struct step step_unknown(int64_t iteration)
{
    return (struct step){.iteration = iteration,
                         .samples = NAN,
                         .time = NAN,
                         .elapsed = NAN,
                         .ms = NAN,
                         .lr = NAN,
                         .loss = NAN,
                         .scale = NAN,
                         .norm = NAN,
                         .tflops = NAN,
                         .batch = NAN};
}

void attempt_step(struct attempt *a, const struct step *step)
{
    struct step *added = list_add(&a->steps);

    *added = *step;
    if (!(step->skipped >= 0 && step->skipped < 1e9F))
        added->skipped = 0;
    if (!(step->nans >= 0 && step->nans < 1e9F))
        added->nans = 0;
}

void attempt_event(struct attempt *a, const struct event *event)
{
    struct event *added;

    if (a->events.count >= MOST_EVENTS)
        return;
    added = list_add(&a->events);
    *added = *event;
    added->text = event->text ? xstrdup(event->text) : NULL;
}

void attempt_validation(struct attempt *a, const struct validation *v)
{
    if (a->validations.count < MOST_VALIDATIONS)
        *list_add(&a->validations) = *v;
}

void attempt_argument(struct attempt *a, const char *name, const char *value)
{
    if (a->arguments.count < MOST_ARGUMENTS)
        *list_add(&a->arguments) = (struct argument){xstrdup(name), xstrdup(value)};
}

const char *attempt_value(const struct attempt *a, const char *name)
{
    for (size_t i = 0; i < a->arguments.count; i++)
        if (strcmp(a->arguments.items[i].name, name) == 0)
            return strcmp(a->arguments.items[i].value, "None") == 0 ? NULL
                                                                    : a->arguments.items[i].value;
    return NULL;
}

int64_t attempt_last(const struct attempt *a)
{
    return a->steps.count > 0 ? a->steps.items[a->steps.count - 1].iteration : -1;
}

size_t attempt_find(const struct attempt *a, int64_t iteration)
{
    size_t from = 0, to = a->steps.count;

    while (from < to) {
        size_t middle = from + (to - from) / 2;

        if (a->steps.items[middle].iteration < iteration)
            from = middle + 1;
        else
            to = middle;
    }
    return from;
}

void attempt_text(char **slot, const char *text)
{
    char *copy = xstrdup(text);

    free(*slot);
    *slot = copy;
}
