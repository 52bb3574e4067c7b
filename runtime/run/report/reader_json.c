/* SPDX-License-Identifier: Apache-2.0 */
/* JSON lines: log lines of --metrics-file, and records (see report_records.h). */
#include "members.h"
#include "reader.h"
#include "base/core/memory_stream.h"
#include "base/core/report_records.h"
#include "base/core/shell_quote.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static void take_step(struct reader *r, struct json_value root, int64_t iteration)
{
    struct step step = step_unknown(iteration);
    struct attempt *a;
    double number;

    step.samples = member_real(root, "consumed_samples");
    step.time = member_real(root, "time");
    step.ms = (float)member_real(root, "milliseconds");
    step.lr = (float)member_real(root, "learning_rate");
    step.loss = (float)member_real(root, "lm_loss");
    step.scale = (float)member_real(root, "loss_scale");
    step.norm = (float)member_real(root, "grad_norm");
    step.tflops = (float)member_real(root, "teraflops");
    step.batch = (float)member_real(root, "global_batch_size");
    number = member_real(root, "skipped");
    step.skipped = isnan(number) ? 0 : (float)number;
    number = member_real(root, "nan");
    step.nans = isnan(number) ? 0 : (float)number;
    a = reader_attempt(r, &r->metric, r->metric && iteration <= attempt_last(r->metric));
    a->from_metrics = true;
    attempt_step(a, &step);
}

static char *command_text(struct json_value root)
{
    struct json_value list, item;
    struct json_iterator at;
    size_t length, size;
    const char *word;
    FILE *stream;
    char *text;

    if (json_member(root, "command", &list) < 0 || json_iterate(list, &at) < 0)
        return member_text(root, "command");
    stream = memory_stream(&text, &size);
    while (json_next(&at, NULL, NULL, &item)) {
        if (json_string(item, &word, &length) < 0)
            continue;
        fputs(ftell(stream) > 0 ? " " : "", stream);
        shell_quote(word, stream);
    }
    memory_stream_close(stream);
    return text;
}

/* Put an allocated text into 'slot'. */
static void own(char **slot, char *text)
{
    free(*slot);
    *slot = text;
}

static void take_start(struct reader *r, struct json_value root)
{
    struct attempt *a = reader_attempt(r, &r->metric, 1);
    double began = member_real(root, "began");

    a->from_metrics = true;
    a->time = isnan(began) ? member_real(root, "time") : began;
    a->world_size = member_integer(root, "world_size", -1);
    a->seq_length = member_integer(root, "seq_length", -1);
    own(&a->command, command_text(root));
    own(&a->program, member_text(root, "program"));
    own(&a->host, member_text(root, "host"));
    own(&a->job, member_text(root, "job"));
    own(&a->device, member_text(root, "device"));
}

static void take_validation(struct reader *r, struct json_value root)
{
    struct validation v = {.iteration = member_integer(root, "iteration", -1),
                           .loss = member_real(root, "lm_loss")};
    struct attempt *a = reader_attempt(r, &r->metric, 0);
    char *set = member_text(root, "set");

    v.test = strcmp(set, "test") == 0;
    free(set);
    attempt_validation(a, &v);
}

static void take_fault(struct reader *r, struct json_value root)
{
    struct event event = {.kind = EVENT_FAULT,
                          .iteration = member_integer(root, "iteration", -1),
                          .seconds = NAN,
                          .stalled = NAN,
                          .time = member_real(root, "time"),
                          .text = member_text(root, "text")};
    struct attempt *a = reader_attempt(r, &r->metric, 0);

    attempt_event(a, &event);
    free(event.text);
}

static void take_record(struct reader *r, struct json_value root, struct json_value kind)
{
    int64_t version = member_integer(root, "version", -1);
    const char *name;
    size_t length;

    if (json_string(kind, &name, &length) < 0)
        return;
    if (version != RECORDS_VERSION) {
        r->foreign++;
        r->foreign_version = version;
        return;
    }
    if (strcmp(name, "start") == 0)
        take_start(r, root);
    else if (strcmp(name, "validation") == 0)
        take_validation(r, root);
    else if (strcmp(name, "fault") == 0)
        take_fault(r, root);
    else
        extras_take(r->extras, name, root);
}

void reader_json_line(struct reader *r, const char *line, size_t length)
{
    struct error trouble;
    struct json *json = json_read(line, length, &trouble);
    struct json_value root, kind;
    int64_t iteration;

    if (!json) {
        r->torn++;
        return;
    }
    root = json_root(json);
    iteration = member_integer(root, "iteration", -1);
    if (json_member(root, "record", &kind) == 0)
        take_record(r, root, kind);
    else if (iteration >= 0)
        take_step(r, root, iteration);
    json_destroy(json);
}
