/* SPDX-License-Identifier: Apache-2.0 */
/* Lines of a log: those of `megatron train` and `megatron supervise`, which are Megatron-LM's, with
 * or without what launchers and loggers put before them. */
#include "reader.h"

#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* "2025-05-27 15:23:07" anywhere in [text, end): seconds since 1970 as if it were UTC, or NAN. */
static double find_time(const char *text, const char *end)
{
    struct tm t = {0};

    for (; end - text >= 19; text++)
        if (text[0] == '2' && text[4] == '-' && text[7] == '-' && text[13] == ':' &&
            sscanf(text, "%4d-%2d-%2d%*1[ T]%2d:%2d:%2d", &t.tm_year, &t.tm_mon, &t.tm_mday,
                   &t.tm_hour, &t.tm_min, &t.tm_sec) == 6) {
            t.tm_year -= 1900;
            t.tm_mon -= 1;
            return (double)timegm(&t);
        }
    return NAN;
}

/* --- Steps ----------------------------------------------------------------------------------- */

static bool is_key(const char *key, size_t length, const char *name)
{
    return strlen(name) == length && memcmp(key, name, length) == 0;
}

static float *float_of(struct step *step, const char *key, size_t length)
{
    static const struct {
        const char *name;
        size_t offset;
    } keys[] = {
        {"elapsed time per iteration (ms)", offsetof(struct step, ms)},
        {"throughput per GPU (TFLOP/s/GPU)", offsetof(struct step, tflops)},
        {"TFLOPs", offsetof(struct step, tflops)},
        {"learning rate", offsetof(struct step, lr)},
        {"global batch size", offsetof(struct step, batch)},
        {"gloabl batch size", offsetof(struct step, batch)}, /* as some versions print it */
        {"lm loss", offsetof(struct step, loss)},
        {"loss", offsetof(struct step, loss)},
        {"loss scale", offsetof(struct step, scale)},
        {"grad norm", offsetof(struct step, norm)},
        {"number of skipped iterations", offsetof(struct step, skipped)},
        {"number of nan iterations", offsetof(struct step, nans)},
    };

    for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++)
        if (is_key(key, length, keys[i].name))
            return (float *)(void *)((char *)step + keys[i].offset);
    return NULL;
}

/* One "key: value" between two bars. */
static void take_field(const char *field, const char *end, struct step *step, int64_t *seq_length)
{
    const char *colon = memchr(field, ':', (size_t)(end - field));
    float *slot;
    size_t length;
    char *after;
    double value;

    while (field < end && *field == ' ')
        field++;
    if (!colon || colon <= field)
        return;
    value = strtod(colon + 1, &after);
    if (after == colon + 1 || after > end)
        return;
    length = (size_t)(colon - field);
    slot = float_of(step, field, length);
    if (slot)
        *slot = (float)value;
    else if (is_key(field, length, "elapsed time per iteration (s)")) /* Megatron-DeepSpeed */
        step->ms = (float)(1000 * value);
    else if (is_key(field, length, "consumed samples"))
        step->samples = value;
    else if (is_key(field, length, "actual seqlen") && value > 0 && value < 1e9)
        *seq_length = (int64_t)value;
}

/* " iteration      12/     40 |": the text after the bar, NULL if the line is none of a step. */
static const char *find_step(const char *line, const char **begin, int64_t *iteration,
                             int64_t *total)
{
    const char *at = strstr(line, "iteration ");
    char *after;

    if (!at || !strchr(at, '/'))
        return NULL;
    *begin = at;
    *iteration = strtoll(at + 10, &after, 10);
    if (after == at + 10 || *after != '/' || *iteration < 0)
        return NULL;
    at = after + 1;
    *total = strtoll(at, &after, 10);
    if (after == at)
        return NULL;
    while (*after == ' ')
        after++;
    return *after == '|' ? after + 1 : NULL;
}

static void take_step(struct reader *r, const char *begin, const char *fields, const char *line,
                      int64_t iteration, int64_t total)
{
    struct step step = step_unknown(iteration);
    struct attempt *a =
        reader_attempt(r, &r->logged, r->logged && iteration <= attempt_last(r->logged));
    const char *bar;

    step.time = find_time(line, begin);
    for (; (bar = strchr(fields, '|')); fields = bar + 1)
        take_field(fields, bar, &step, &a->seq_length);
    if (fields[strspn(fields, " \r")] != '\0')
        r->torn++;
    a->total = total;
    r->in_arguments = false;
    attempt_step(a, &step);
}

/* --- Other lines ----------------------------------------------------------------------------- */

static struct attempt *current(struct reader *r)
{
    return reader_attempt(r, &r->logged, 0);
}

static void set_argument(struct attempt *a, const char *name, const char *value)
{
    int64_t number = strtoll(value, NULL, 10);

    if (strcmp(name, "seq_length") == 0 && number > 0)
        a->seq_length = number;
    if (strcmp(name, "train_iters") == 0 && number > 0)
        a->total = number;
    if (strcmp(name, "world_size") == 0 && number > 0)
        a->world_size = number;
    attempt_argument(a, name, value);
}

/* Has the attempt an argument of this name? Its value may be None. */
static bool has_argument(const struct attempt *a, const char *name)
{
    for (size_t i = 0; i < a->arguments.count; i++)
        if (strcmp(a->arguments.items[i].name, name) == 0)
            return true;
    return false;
}

/* A later start prints only the arguments that differ from the first start, which is the last one
 * that printed all: copy the others. */
static void take_others(struct reader *r)
{
    const struct attempt *first = NULL;

    r->logged->differs = true;
    for (size_t i = 0; i < r->attempts->count && r->attempts->items[i] != r->logged; i++)
        if (r->attempts->items[i]->arguments.count > 0 && !r->attempts->items[i]->differs &&
            strcmp(r->attempts->items[i]->file, r->logged->file) == 0)
            first = r->attempts->items[i];
    for (size_t i = 0; first && i < first->arguments.count; i++)
        if (!has_argument(r->logged, first->arguments.items[i].name))
            set_argument(r->logged, first->arguments.items[i].name,
                         first->arguments.items[i].value);
}

/* "  hidden_size ..................................... 4096" */
static void take_argument(struct reader *r, const char *line)
{
    const char *dots = strstr(line, " ..."), *value, *name;
    struct attempt *a = r->logged;
    char text[128];

    if (a && strstr(line, " others as at the first start"))
        take_others(r);
    if (!a || !dots)
        return;
    value = dots + 1 + strspn(dots + 1, ".");
    name = dots;
    while (name > line && name[-1] != ' ')
        name--;
    if (*value != ' ' || name == dots || (size_t)(dots - name) >= sizeof(text))
        return;
    memcpy(text, name, (size_t)(dots - name));
    text[dots - name] = '\0';
    set_argument(a, text, value + 1);
}

static void add_event(struct reader *r, enum event_kind kind, int64_t iteration, double seconds,
                      double stalled, const char *text)
{
    struct attempt *a = current(r);
    struct event event = {.kind = kind,
                          .iteration = iteration,
                          .seconds = seconds,
                          .stalled = stalled,
                          .time = NAN,
                          .text = (char *)(uintptr_t)text};

    if (iteration < 0)
        event.iteration = attempt_last(a);
    attempt_event(a, &event);
}

static void take_arguments(struct reader *r, const char *at)
{
    struct attempt *a = r->logged;

    (void)at;
    /* A new start, unless only its first lines were seen so far. */
    r->in_arguments = true;
    reader_attempt(r, &r->logged,
                   a && (a->steps.count > 0 || a->arguments.count > 0 || a->events.count > 0));
}

/* "megatron 0.1.0 started at 2026-11-16 23:49:01 UTC on n1, job 12; built with: ..." */
static void take_started(struct reader *r, const char *at)
{
    const char *program = strstr(r->line, "megatron "), *host = strstr(at, " UTC on "), *job;
    struct attempt *a;
    char text[512];

    if (!program || program > at || !host)
        return;
    take_arguments(r, at);
    r->in_arguments = false;
    a = r->logged;
    a->time = find_time(at, host);
    host += strlen(" UTC on ");
    job = strstr(host, ", job ");
    snprintf(text, sizeof(text), "%.*s", (int)strcspn(host, ",;"), host);
    attempt_text(&a->host, text);
    if (job) {
        snprintf(text, sizeof(text), "%.*s", (int)strcspn(job + 6, ";"), job + 6);
        attempt_text(&a->job, text);
    }
    at += strlen(" started at ");
    snprintf(text, sizeof(text), "%.*s%s", (int)(at - program - (long)strlen(" started at ")),
             program, strchr(host, ';') ? strchr(host, ';') : "");
    attempt_text(&a->program, text);
}

static void take_command(struct reader *r, const char *at)
{
    attempt_text(&current(r)->command, at + strlen("command line: "));
}

static void end_arguments(struct reader *r, const char *at)
{
    (void)at;
    r->in_arguments = false;
}

/* " validation loss at iteration 20 | lm loss value: 6.9E+00 | lm loss PPL: ..." */
static void take_validation(struct reader *r, const char *at)
{
    const char *value = strstr(at, "loss value:"), *bar = value ? strchr(value, '|') : NULL;
    const char *number = strstr(at, "iteration ");
    struct attempt *a = current(r);
    struct validation v;

    if (!value || !bar)
        return;
    v.loss = strtod(value + 11, NULL);
    v.iteration = number && number < value ? strtoll(number + 10, NULL, 10) : attempt_last(a);
    v.test = (number ? strstr(number, "on test set") : strstr(at, "test data")) != NULL;
    attempt_validation(a, &v);
}

/* "  successfully saved checkpoint from iteration 10 to DIR (2.5 s, of which the copy took 0.1 s)"
 */
static void take_saved(struct reader *r, const char *at)
{
    const char *paren = strrchr(at, '('), *copy = strstr(at, "the copy took ");
    const char *number = strstr(at, "iteration ");
    double seconds = paren && copy ? strtod(paren + 1, NULL) : NAN;

    if (!number)
        return;
    add_event(r, EVENT_SAVE, strtoll(number + 10, NULL, 10), seconds,
              copy ? strtod(copy + 14, NULL) : NAN, NULL);
}

static void take_loaded(struct reader *r, const char *at)
{
    const char *number = strstr(at, "at iteration ");

    if (number)
        current(r)->resumed = strtoll(number + 13, NULL, 10);
}

static void take_first_step(struct reader *r, const char *at)
{
    current(r)->first_step = strtod(at + strlen("time to first step:"), NULL);
}

/* "   memory (GiB): weights 1.0, gradients 2.0, optimizer 3.0, activations 4.0, total 10.0" */
static void take_planned_memory(struct reader *r, const char *at)
{
    const char *total = strstr(at, "total ");
    struct attempt *a = current(r);
    double number = total ? strtod(total + 6, NULL) : NAN;

    if (isnan(number) || (!isnan(a->memory) && number <= a->memory))
        return;
    a->memory = number;
    attempt_text(&a->memory_text, at + strlen("memory (GiB): "));
}

/* "[Rank 0] (after 10 iterations) memory (MB) | allocated: ... | max allocated: 1234.5 | ..." */
static void take_used_memory(struct reader *r, const char *at)
{
    const char *most = strstr(at, "max allocated: ");
    struct attempt *a = current(r);
    double gib = most ? strtod(most + 15, NULL) / 1024 : NAN;

    if (isnan(gib) || (!isnan(a->memory) && gib <= a->memory))
        return;
    a->memory = gib;
    attempt_text(&a->memory_text, at + strlen("memory (MB) | "));
}

/* "device cuda (NVIDIA H200): 139.8 GiB available, ..." */
static void take_device(struct reader *r, const char *at)
{
    const char *open = strchr(at, '('), *close = strstr(at, "): ");
    struct attempt *a = current(r);
    char name[256];

    if (!open || !close || close <= open || close - open > (long)sizeof(name))
        return;
    memcpy(name, open + 1, (size_t)(close - open - 1));
    name[close - open - 1] = '\0';
    attempt_text(&a->device, name);
}

static void take_world(struct reader *r, const char *at)
{
    current(r)->world_size = strtoll(at + strlen("using world size: "), NULL, 10);
}

static void take_datetime(struct reader *r, const char *at)
{
    struct attempt *a = current(r);

    if (isnan(a->time))
        a->time = find_time(at, at + strlen(at));
}

static void take_done(struct reader *r, const char *at)
{
    (void)at;
    current(r)->finished = true;
}

static void take_end(struct reader *r, const char *at)
{
    add_event(r, EVENT_END, -1, NAN, NAN, at);
}

static void take_fault(struct reader *r, const char *at)
{
    (void)at; /* what is before it may name the node or rank */
    add_event(r, EVENT_FAULT, -1, NAN, NAN, r->line + strspn(r->line, " \t"));
}

/* The run ended early with code 75, as planned; any other code is a fault. */
static void take_exit(struct reader *r, const char *at)
{
    bool planned = strtol(at + strlen("the run exited with code "), NULL, 10) == 75;

    (planned ? take_end : take_fault)(r, at);
}

static const struct {
    const char *text;
    void (*take)(struct reader *r, const char *at);
} kinds[] = {
    {" started at 2", take_started},
    {"command line: ", take_command},
    {"- arguments -", take_arguments},
    {"- end of arguments -", end_arguments},
    {"validation loss at ", take_validation},
    {"successfully saved checkpoint from iteration", take_saved},
    {"successfully loaded checkpoint from ", take_loaded},
    {"time to first step:", take_first_step},
    {"memory (GiB): weights", take_planned_memory},
    {"memory (MB) | allocated", take_used_memory},
    {"device cuda (", take_device},
    {"device cpu (", take_device},
    {"using world size: ", take_world},
    {"datetime: 2", take_datetime},
    {"[after training is done]", take_done},
    {"exiting program at iteration ", take_end},
    {"requeueing job ", take_end},
    {"the run exited with code ", take_exit},
    {"megatron train: ", take_fault},
    {"srun: error: ", take_fault},
    {"slurmstepd: error: ", take_fault},
    {"Traceback (most recent call last)", take_fault},
    {"CUDA out of memory", take_fault},
    {"CUDA error: ", take_fault},
};

void reader_log_line(struct reader *r, const char *line, bool whole)
{
    const char *begin, *fields;
    int64_t iteration, total;

    r->line = line;
    fields = find_step(line, &begin, &iteration, &total);
    if (fields) {
        take_step(r, begin, fields, line, iteration, total);
        return;
    }
    if (!whole && strstr(line, "iteration ")) {
        r->torn++;
        return;
    }
    for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
        const char *at = strstr(line, kinds[i].text);

        if (at) {
            kinds[i].take(r, at);
            return;
        }
    }
    if (r->in_arguments)
        take_argument(r, line);
}
