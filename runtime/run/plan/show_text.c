/* SPDX-License-Identifier: Apache-2.0 */
#include "show.h"
#include "base/core/gib.h"

#include <inttypes.h>

static void print_table(const struct show *show, FILE *stream)
{
    const struct search *search = show->search;

    fprintf(stream, "%3s %4s %4s %3s %4s %5s %5s  %-9s %7s %22s %8s %6s %8s %8s  %s\n", "", "tp",
            "pp", "vp", "cp", "dp", "micro", "recompute", "GiB", "step s (range)", "TFLOP/s", "MFU",
            "bubble", "exposed", "precision");
    for (size_t i = 0; i < search->count && i < show->top; i++) {
        const struct candidate *c = &search->items[i];
        struct outlook o = outlook_of(c, show->request, &show->outlook);
        char range[64];

        /* Three digits, but no exponent. */
        if (o.high < 999.5)
            snprintf(range, sizeof(range), "%.3g (%.3g - %.3g)", c->time.total, o.low, o.high);
        else
            snprintf(range, sizeof(range), "%.0f (%.0f - %.0f)", c->time.total, o.low, o.high);
        fprintf(stream,
                "%3zu %4" PRId64 " %4" PRId64 " %3" PRId64 " %4" PRId64 " %5" PRId64 " %5" PRId64
                "  %-9s %7.1f%c%22s %8.1f %5.1f%% %7.1f%% %7.1f%%  %s\n",
                i + 1, c->layout.tp, c->layout.pp, c->layout.chunks, c->layout.cp, c->run.layout.dp,
                c->layout.micro_batch, show_recompute(c->layout.recompute), gib(c->memory.total),
                search_is_tight(c, show->request->machine) ? '!' : ' ', range, o.tflops,
                100 * o.mfu, 100 * o.bubble, 100 * o.exposed, show_precision(&c->run));
    }
}

/* The first layout that is tight, or is not; the number of layouts if there is none. */
static size_t find_tight(const struct show *show, int tight)
{
    const struct search *search = show->search;
    size_t i = 0;

    while (i < search->count && search_is_tight(&search->items[i], show->request->machine) != tight)
        i++;
    return i;
}

/* What the exclamation mark means, if the table has one, and which layout does without it. If that
 * is recommended, the line about it says so. */
static void print_tight(const struct show *show, size_t chosen, FILE *stream)
{
    size_t first = find_tight(show, 1), other = find_tight(show, 0);

    if (first >= show->search->count || first >= show->top)
        return;
    fprintf(stream, "! tight: leaves less than 4%% of %.1f GiB and may run out of memory",
            gib(show->request->machine->gpu.memory_bytes));
    if (other > chosen && other < show->search->count)
        fprintf(stream, "; number %zu%s is the fastest that is not", other + 1,
                other >= show->top ? ", below this table," : "");
    fputc('\n', stream);
}

static void print_memory(const struct candidate *c, const struct machine *machine, FILE *stream)
{
    const struct plan_memory *m = &c->memory;

    fprintf(stream,
            "memory of the fullest rank (GiB): weights %.2f, gradients %.2f, optimizer %.2f, "
            "activations %.2f, context and workspace %.2f; together %.2f of %.1f (%.0f%%)%s\n",
            gib(m->weights), gib(m->gradients), gib(m->optimizer), gib(m->activations),
            gib(m->context), gib(m->total), gib(machine->gpu.memory_bytes),
            100 * m->total / machine->gpu.memory_bytes,
            m->total <= machine->gpu.memory_bytes && search_is_tight(c, machine) ? ": tight" : "");
}

static void print_parts(const struct candidate *c, FILE *stream)
{
    struct show_part parts[SHOW_PARTS];

    show_parts(&c->time, parts);
    fprintf(stream, "time of a step by part:\n");
    for (int i = 0; i < SHOW_PARTS; i++)
        if (parts[i].seconds > 0)
            fprintf(stream, "  %-16s %10.4f s %6.1f%%\n", parts[i].name, parts[i].seconds,
                    100 * parts[i].seconds / c->time.total);
}

static void print_outlook(const struct show *show, const struct candidate *c, FILE *stream)
{
    struct outlook o = outlook_of(c, show->request, &show->outlook);

    fprintf(stream, "tokens: %.4g per second, %.4g billion per day\n", o.tokens_per_second,
            o.tokens_per_second * 86400 / 1e9);
    fprintf(stream,
            "faults: one every %.*f hours expected; a checkpoint of %.4g GB takes %.3g s; save "
            "every %" PRId64 " steps (%.3g min); %.2g%% of the time is lost to faults and saves\n",
            o.fault_hours < 10 ? 2 : 0, o.fault_hours, o.checkpoint / 1e9, o.save_seconds,
            o.interval_steps, o.interval / 60, 100 * o.lost);
    if (show->outlook.tokens > 0) {
        double error = show->request->machine->gpu.time_error;

        fprintf(stream, "whole run: %.4g billion tokens in %.3g days (%.3g - %.3g)",
                show->outlook.tokens / 1e9, o.days, o.days * (1 - error), o.days * (1 + error));
        if (o.dollars > 0)
            fprintf(stream, ", $%.0f at $%.2f per node and hour", o.dollars, show->outlook.price);
        else
            fprintf(stream, "; %s", "set --price to see the cost");
        fprintf(stream, "\n");
    }
}

/* The recommended layout; if none fits, the smallest. */
static const struct candidate *best_of(const struct show *show)
{
    const struct search *search = show->search;

    return search->count > 0 ? &search->items[search_recommended(search, show->request->machine)]
                             : &search->smallest;
}

static void print_left(const struct show *show, FILE *stream)
{
    const struct search *search = show->search;
    const struct machine_gpu *gpu = &show->request->machine->gpu;
    const struct candidate *best = best_of(show);

    for (int i = 0, heading = 0; i < SEARCH_REASONS; i++)
        if (search->left[i] > 0)
            fprintf(stream, "%s  %6zu  %s, such as: %s\n", heading++ ? "" : "left out:\n",
                    search->left[i], search_reason((enum search_reason)i), search->why[i]);
    fprintf(stream, "always on: sequence parallelism (with tp) and the distributed optimizer");
    if (gpu->flops[MACHINE_FP8] > 0 && !show->request->fp8_too)
        fprintf(stream, "; not compared: %s",
                best->run.precision == MACHINE_FP8 ? "16-bit products" : "fp8");
    fprintf(stream, "\n");
}

void show_text(const struct show *show, FILE *stream)
{
    const struct search *search = show->search;
    const struct search_request *request = show->request;
    const struct candidate *best = best_of(show);
    const size_t chosen = search->count > 0 ? (size_t)(best - search->items) : 0;

    fprintf(stream,
            "%s on %" PRId64 " %s node%s (%" PRId64 " %s): global batch %" PRId64 ", %" PRId64
            " tokens each; %zu layouts fit\n\n",
            show->model, request->nodes, request->machine->name, request->nodes == 1 ? "" : "s",
            request->nodes * request->machine->gpus, request->machine->gpu.name,
            best->run.global_batch, best->run.shape.sequence, search->count);
    if (search->count > 0) {
        print_table(show, stream);
        print_tight(show, chosen, stream);
    }
    if (search->count == 0)
        fprintf(stream, "smallest layout: does not fit\n");
    else if (chosen > 0)
        fprintf(
            stream,
            "\nrecommended layout: number %zu, the fastest that is not tight (%.1f%% slower than "
            "number 1)\n",
            chosen + 1, 100 * (best->time.total / search->items[0].time.total - 1));
    else
        fprintf(stream, "\nrecommended layout: number 1\n");
    print_memory(best, request->machine, stream);
    if (show->explain)
        print_parts(best, stream);
    if (search->count > 0) {
        print_outlook(show, best, stream);
        show_command(show, best, 1, stream);
        fprintf(stream, "\n");
        show_command(show, best, 0, stream);
        fprintf(stream, "\n");
    }
    print_left(show, stream);
}
