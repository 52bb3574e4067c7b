/* SPDX-License-Identifier: Apache-2.0 */
#include "attempt.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Room for one more element of 'size' bytes; it doubles whenever the count is a power of two. */
static void *grow(void *items, size_t count, size_t size, struct error *err)
{
    void *more = items;

    if ((count & (count - 1)) == 0)
        more = reallocarray(items, count ? 2 * count : 1, size);
    if (!more)
        error_set(err, "out of memory");
    return more;
}

struct attempt *attempts_add(struct attempts *list, const char *file, struct error *err)
{
    struct attempt **items = grow(list->items, list->count, sizeof(*items), err);
    struct attempt *a = items ? calloc(1, sizeof(*a)) : NULL;

    if (items)
        list->items = items;
    if (!a || attempt_text(&a->file, file, err) < 0) {
        free(a);
        error_set(err, "out of memory");
        return NULL;
    }
    a->time = a->first_step = a->memory = NAN;
    a->resumed = a->total = a->seq_length = a->world_size = -1;
    list->items[list->count++] = a;
    return a;
}

void attempt_destroy(struct attempt *a)
{
    char *texts[] = {a->file, a->command, a->program, a->device, a->host, a->job, a->memory_text};

    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++)
        free(texts[i]);
    for (size_t i = 0; i < a->argument_count; i++) {
        free(a->arguments[i].name);
        free(a->arguments[i].value);
    }
    for (size_t i = 0; i < a->event_count; i++)
        free(a->events[i].text);
    free(a->arguments);
    free(a->events);
    free(a->steps);
    free(a->validations);
    free(a);
}

void attempts_clear(struct attempts *list)
{
    for (size_t i = 0; i < list->count; i++)
        attempt_destroy(list->items[i]);
    free(list->items);
    *list = (struct attempts){0};
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

int attempt_step(struct attempt *a, const struct step *step, struct error *err)
{
    if (a->step_count == a->step_room) {
        size_t room = a->step_room ? a->step_room + a->step_room / 2 : 64;
        struct step *steps = reallocarray(a->steps, room, sizeof(*steps));

        if (!steps)
            return error_set(err, "out of memory");
        a->steps = steps;
        a->step_room = room;
    }
    a->steps[a->step_count] = *step;
    if (!(step->skipped >= 0 && step->skipped < 1e9F))
        a->steps[a->step_count].skipped = 0;
    if (!(step->nans >= 0 && step->nans < 1e9F))
        a->steps[a->step_count].nans = 0;
    a->step_count++;
    return 0;
}

int attempt_event(struct attempt *a, const struct event *event, struct error *err)
{
    struct event *events, copy = *event;

    if (a->event_count >= MOST_EVENTS)
        return 0;
    events = grow(a->events, a->event_count, sizeof(*events), err);
    if (!events)
        return -1;
    a->events = events;
    copy.text = NULL;
    if (event->text && attempt_text(&copy.text, event->text, err) < 0)
        return -1;
    a->events[a->event_count++] = copy;
    return 0;
}

int attempt_validation(struct attempt *a, const struct validation *v, struct error *err)
{
    struct validation *items;

    if (a->validation_count >= MOST_VALIDATIONS)
        return 0;
    items = grow(a->validations, a->validation_count, sizeof(*items), err);
    if (!items)
        return -1;
    a->validations = items;
    a->validations[a->validation_count++] = *v;
    return 0;
}

int attempt_argument(struct attempt *a, const char *name, const char *value, struct error *err)
{
    struct argument *items, made = {0};

    if (a->argument_count >= MOST_ARGUMENTS)
        return 0;
    items = grow(a->arguments, a->argument_count, sizeof(*items), err);
    if (!items)
        return -1;
    a->arguments = items;
    if (attempt_text(&made.name, name, err) < 0 || attempt_text(&made.value, value, err) < 0) {
        free(made.name);
        return -1;
    }
    a->arguments[a->argument_count++] = made;
    return 0;
}

const char *attempt_value(const struct attempt *a, const char *name)
{
    for (size_t i = 0; i < a->argument_count; i++)
        if (strcmp(a->arguments[i].name, name) == 0)
            return strcmp(a->arguments[i].value, "None") == 0 ? NULL : a->arguments[i].value;
    return NULL;
}

int64_t attempt_last(const struct attempt *a)
{
    return a->step_count > 0 ? a->steps[a->step_count - 1].iteration : -1;
}

int attempt_text(char **slot, const char *text, struct error *err)
{
    char *copy = strdup(text);

    if (!copy)
        return error_set(err, "out of memory");
    free(*slot);
    *slot = copy;
    return 0;
}
