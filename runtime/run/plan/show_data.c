/* SPDX-License-Identifier: Apache-2.0 */
#include "show.h"
#include "base/core/gib.h"
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

static void print_number(double value, FILE *stream)
{
    fprintf(stream, "%.*g", value == (double)(int64_t)value ? 17 : 6, value);
}

static void print_json_text(const char *text, FILE *stream)
{
    fputc('"', stream);
    for (; *text; text++) {
        unsigned char c = (unsigned char)*text;

        if (c == '"' || c == '\\')
            fprintf(stream, "\\%c", c);
        else if (c < 0x20)
            fprintf(stream, "\\u%04x", c);
        else
            fputc(c, stream);
    }
    fputc('"', stream);
}

/* A command line as a JSON string. */
static void print_command(const struct show *show, const struct candidate *c, int plugin,
                          FILE *stream)
{
    char *text = NULL;
    size_t size;
    FILE *memory = open_memstream(&text, &size);

    if (memory) {
        show_command(show, c, plugin, memory);
        fclose(memory);
    }
    print_json_text(text ? text : "", stream);
    free(text);
}

static const char *fit_of(const struct show *show, const struct candidate *c)
{
    return search_is_tight(c, show->request->machine) ? "tight" : "fits";
}

static void print_candidate(const struct show *show, const struct candidate *c, FILE *stream)
{
    struct field fields[FIELDS];
    struct show_part parts[SHOW_PARTS];

    fill_fields(show, c, fields);
    show_parts(&c->time, parts);
    fprintf(stream, "    {\"recompute\": \"%s\", \"precision\": \"%s\", \"fit\": \"%s\"",
            show_recompute(c->layout.recompute), show_precision(&c->run), fit_of(show, c));
    for (int i = 0; i < FIELDS; i++) {
        fprintf(stream, ", \"%s\": ", fields[i].name);
        print_number(fields[i].value, stream);
    }
    fprintf(stream, ", \"parts_s\": {");
    for (int i = 0; i < SHOW_PARTS; i++)
        fprintf(stream, "%s\"%s\": %.6g", i ? ", " : "", parts[i].name, parts[i].seconds);
    fprintf(stream, "}, \"sbatch\": ");
    print_command(show, c, 1, stream);
    fprintf(stream, ", \"train\": ");
    print_command(show, c, 0, stream);
    fprintf(stream, "}");
}

void show_json(const struct show *show, FILE *stream)
{
    const struct search *search = show->search;

    fprintf(stream, "{\n  \"model\": ");
    print_json_text(show->model, stream);
    fprintf(stream, ",\n  \"node\": ");
    print_json_text(show->request->machine->name, stream);
    fprintf(stream, ",\n  \"nodes\": %lld,\n  \"gpus\": %lld,\n  \"fitting\": %zu,\n",
            (long long)show->request->nodes,
            (long long)show->request->nodes * show->request->machine->gpus, search->count);
    if (search->count > 0) {
        size_t chosen = search_recommended(search, show->request->machine);

        fprintf(stream, "  \"recommended_rank\": %zu,\n  \"recommended\":\n", chosen + 1);
        print_candidate(show, &search->items[chosen], stream);
        fprintf(stream, ",\n");
    }
    fprintf(stream, "  \"left_out\": [");
    for (int i = 0, written = 0; i < SEARCH_REASONS; i++)
        if (search->left[i] > 0) {
            fprintf(stream, "%s\n    {\"count\": %zu, \"reason\": \"%s\", \"example\": ",
                    written++ ? "," : "", search->left[i], search_reason((enum search_reason)i));
            print_json_text(search->why[i], stream);
            fprintf(stream, "}");
        }
    fprintf(stream, "],\n  \"layouts\": [");
    for (size_t i = 0; i < search->count && i < show->top; i++) {
        fprintf(stream, "%s\n", i ? "," : "");
        print_candidate(show, &search->items[i], stream);
    }
    fprintf(stream, "]\n}\n");
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
            print_number(fields[k].value, stream);
        }
        fprintf(stream, "\n");
    }
}

void show_record(const struct show *show, FILE *stream)
{
    const struct search *search = show->search;
    const struct candidate *c = &search->items[search_recommended(search, show->request->machine)];
    struct outlook o = outlook_of(c, show->request, &show->outlook);

    fprintf(stream,
            "{\"record\":\"plan\",\"version\":%d,\"layout\":\"tp %lld, pp %lld, cp %lld, dp %lld, "
            "micro-batch %lld, recompute %s\",\"step_s\":%.6g,\"tflops\":%.6g,"
            "\"tokens_per_s\":%.6g,\"memory_gib\":%.6g}\n",
            RECORDS_VERSION, (long long)c->layout.tp, (long long)c->layout.pp,
            (long long)c->layout.cp, (long long)c->run.layout.dp, (long long)c->layout.micro_batch,
            show_recompute(c->run.recompute), c->time.total, o.tflops, o.tokens_per_second,
            gib(c->memory.total - c->memory.context));
}
