/* SPDX-License-Identifier: Apache-2.0 */
#include "show.h"
#include "base/core/gib.h"
#include "base/core/json_write.h"
#include "base/core/memory_stream.h"
#include "base/core/report_records.h"

#include <stdlib.h>
#include <string.h>

/* One number of a candidate, for both formats. */
struct field {
    const char *name;
    double value;
};

enum { FIELDS = 31 };

static void fill_fields(const struct show *show, const struct candidate *c,
                        struct field fields[FIELDS])
{
    struct outlook o = outlook_of(c, show->request, &show->outlook);
    const struct field all[FIELDS] = {
        {"tp", (double)c->layout.tp},
        {"pp", (double)c->layout.pp},
        {"vpp", (double)c->layout.chunks},
        {"cp", (double)c->layout.cp},
        {"dp", (double)c->run.layout.dp},
        {"micro_batch_size", (double)c->layout.micro_batch},
        {"global_batch_size", (double)c->run.global_batch},
        {"step_s", c->time.total},
        {"step_s_low", o.low},
        {"step_s_high", o.high},
        {"tflops_per_gpu", o.tflops},
        {"mfu", o.mfu},
        {"tokens_per_s", o.tokens_per_second},
        {"tokens_per_day", o.tokens_per_second * 86400},
        {"bubble", o.bubble},
        {"exposed_communication", o.exposed},
        {"weights_bytes", c->memory.weights},
        {"gradients_bytes", c->memory.gradients},
        {"optimizer_bytes", c->memory.optimizer},
        {"activations_bytes", c->memory.activations},
        {"context_bytes", c->memory.context},
        {"memory_bytes", c->memory.total},
        {"memory_share", c->memory.total / show->request->machine->gpu.memory_bytes},
        {"checkpoint_bytes", o.checkpoint},
        {"save_s", o.save_seconds},
        {"hours_between_faults", o.fault_hours},
        {"save_interval_s", o.interval},
        {"save_interval_steps", (double)o.interval_steps},
        {"lost_share", o.lost},
        {"days", o.days},
        {"dollars", o.dollars},
    };

    memcpy(fields, all, sizeof(all));
}

/* Whole numbers are printed in full. */
static int digits_of(double value)
{
    return value == (double)(int64_t)value ? 17 : 6;
}

/* A command line as a JSON string. */
static void put_command(struct json_writer *json, const char *name, const struct show *show,
                        const struct candidate *c, bool plugin)
{
    char *text;
    size_t size;
    FILE *memory = memory_stream(&text, &size);

    show_command(show, c, plugin, memory);
    memory_stream_close(memory);
    json_put_text(json, name, text, size);
    free(text);
}

static const char *fit_of(const struct show *show, const struct candidate *c)
{
    return search_is_tight(c, show->request->machine) ? "tight" : "fits";
}

static void put_candidate(struct json_writer *json, const char *name, const struct show *show,
                          const struct candidate *c)
{
    struct field fields[FIELDS];
    struct show_part parts[SHOW_PARTS];

    fill_fields(show, c, fields);
    show_parts(&c->time, parts);
    json_open(json, name, '{');
    json_put_string(json, "recompute", show_recompute(c->layout.recompute));
    json_put_string(json, "precision", show_precision(&c->run));
    json_put_string(json, "fit", fit_of(show, c));
    for (int i = 0; i < FIELDS; i++)
        json_put_number(json, fields[i].name, fields[i].value, digits_of(fields[i].value));
    json_open(json, "parts_s", '{');
    for (int i = 0; i < SHOW_PARTS; i++)
        json_put_number(json, parts[i].name, parts[i].seconds, 6);
    json_close(json);
    put_command(json, "sbatch", show, c, true);
    put_command(json, "train", show, c, false);
    json_close(json);
}

void show_json(const struct show *show, FILE *stream)
{
    const struct search *search = show->search;
    const struct machine *machine = show->request->machine;
    struct json_writer json = {.stream = stream, .spaced = true};

    json_open_lines(&json, NULL, '{');
    json_put_string(&json, "model", show->model);
    json_put_string(&json, "node", machine->name);
    json_put_integer(&json, "nodes", show->request->nodes);
    json_put_integer(&json, "gpus", show->request->nodes * machine->gpus);
    json_put_integer(&json, "fitting", (int64_t)search->count);
    if (search->count > 0) {
        size_t chosen = search_recommended(search, machine);

        json_put_integer(&json, "recommended_rank", (int64_t)chosen + 1);
        put_candidate(&json, "recommended", show, &search->items[chosen]);
    }
    json_open_lines(&json, "left_out", '[');
    for (int i = 0; i < SEARCH_REASONS; i++)
        if (search->left[i] > 0) {
            json_open(&json, NULL, '{');
            json_put_integer(&json, "count", (int64_t)search->left[i]);
            json_put_string(&json, "reason", search_reason((enum search_reason)i));
            json_put_string(&json, "example", search->why[i]);
            json_close(&json);
        }
    json_close(&json);
    json_open_lines(&json, "layouts", '[');
    for (size_t i = 0; i < search->count && i < show->top; i++)
        put_candidate(&json, NULL, show, &search->items[i]);
    json_close(&json);
    json_close(&json);
    json_end_line(&json);
}

void show_csv(const struct show *show, FILE *stream)
{
    struct field fields[FIELDS];

    for (size_t i = 0; i < show->search->count && i < show->top; i++) {
        const struct candidate *c = &show->search->items[i];

        fill_fields(show, c, fields);
        if (i == 0) {
            fprintf(stream, "rank,recompute,precision,fit");
            for (int k = 0; k < FIELDS; k++)
                fprintf(stream, ",%s", fields[k].name);
            fprintf(stream, "\n");
        }
        fprintf(stream, "%zu,%s,%s,%s", i + 1, show_recompute(c->layout.recompute),
                show_precision(&c->run), fit_of(show, c));
        for (int k = 0; k < FIELDS; k++) {
            fputc(',', stream);
            fprintf(stream, "%.*g", digits_of(fields[k].value), fields[k].value);
        }
        fprintf(stream, "\n");
    }
}

void show_record(const struct show *show, FILE *stream)
{
    const struct search *search = show->search;
    const struct candidate *c = &search->items[search_recommended(search, show->request->machine)];
    struct outlook o = outlook_of(c, show->request, &show->outlook);
    struct json_writer json = {.stream = stream};

    json_open(&json, NULL, '{');
    json_put_string(&json, "record", "plan");
    json_put_integer(&json, "version", RECORDS_VERSION);
    json_put_format(&json, "layout",
                    "tp %lld, pp %lld, cp %lld, dp %lld, micro-batch %lld, recompute %s",
                    (long long)c->layout.tp, (long long)c->layout.pp, (long long)c->layout.cp,
                    (long long)c->run.layout.dp, (long long)c->layout.micro_batch,
                    show_recompute(c->run.recompute));
    json_put_number(&json, "step_s", c->time.total, 6);
    json_put_number(&json, "tflops", o.tflops, 6);
    json_put_number(&json, "tokens_per_s", o.tokens_per_second, 6);
    json_put_number(&json, "memory_gib", gib(c->memory.total - c->memory.context), 6);
    json_close(&json);
    json_end_line(&json);
}
