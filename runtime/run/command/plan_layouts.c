/* SPDX-License-Identifier: Apache-2.0 */
#include "plan.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "lib/file.h"
#include "base/core/storage.h"
#include "base/core/gib.h"
#include "lib/nearest.h"
#include "lib/parse.h"
#include "run/plan/show.h"
#include "base/core/list.h"
#include "base/core/memory_stream.h"

/* 300B, 1.5T, 26M or plain digits. */
static int parse_tokens(const char *text, double *tokens, struct error *err)
{
    static const char suffixes[] = "kKmMbBtT";
    size_t length = strlen(text);
    const char *suffix = length > 0 ? strchr(suffixes, text[length - 1]) : NULL;
    char digits[64];

    if (length >= sizeof(digits))
        return error_set_code(err, ERROR_USAGE, "--tokens is too long; write 300B, 1.5T or 26M");
    memcpy(digits, text, length + 1);
    if (suffix)
        digits[length - 1] = '\0';
    if (parse_double("--tokens", digits, tokens, err) < 0)
        return error_set_code(err, ERROR_USAGE,
                              "--tokens=%s is not a number; write 300B, 1.5T or 26M", text);
    for (long i = suffix ? (suffix - suffixes) / 2 : -1; i >= 0; i--)
        *tokens *= 1000;
    if (*tokens <= 0)
        return error_set_code(err, ERROR_USAGE,
                              "--tokens=%s must be above 0; write 300B, 1.5T or 26M", text);
    return 0;
}

static int parse_recompute(const char *text, int *recompute, struct error *err)
{
    for (int i = PLAN_RECOMPUTE_NONE; i <= PLAN_RECOMPUTE_FULL; i++)
        if (strcmp(text, show_recompute((enum plan_recompute)i)) == 0) {
            *recompute = i;
            return 0;
        }
    return error_set_code(err, ERROR_USAGE,
                          "--layout: recompute=%s is unknown; use none, selective or full", text);
}

static int parse_size_of(const char *name, const char *text, struct search_request *request,
                         struct error *err)
{
    static const char *const names[] = {"tp", "pp", "vp", "cp", "micro", "recompute"};
    int64_t *const sizes[] = {&request->tp, &request->pp, &request->chunks, &request->cp,
                              &request->micro_batch};
    char what[64], near[64];

    if (strcmp(name, "recompute") == 0)
        return parse_recompute(text, &request->recompute, err);
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++)
        if (strcmp(name, names[i]) == 0) {
            snprintf(what, sizeof(what), "--layout: %s", name);
            return parse_int64(what, text, 1, INT32_MAX, sizes[i], err);
        }
    if (strcmp(name, "dp") == 0)
        return error_set_code(err, ERROR_USAGE,
                              "--layout: dp follows from the number of GPUs and the other sizes; "
                              "leave it out");
    if (nearest_names(name, names, sizeof(names) / sizeof(names[0]), near, sizeof(near)) > 0)
        return error_set_code(err, ERROR_USAGE,
                              "--layout: unknown size \"%.40s\"; did you mean %s?", name, near);
    return error_set_code(
        err, ERROR_USAGE,
        "--layout: unknown size \"%.40s\"; use tp, pp, vp, cp, micro or recompute", name);
}

static int parse_layout(const char *text, struct search_request *request, struct error *err)
{
    char *copy = xstrdup(text), *next = copy, *word;
    int rc = 0;

    while (rc == 0 && (word = strsep(&next, ","))) {
        char *value;

        word += strspn(word, " ");
        value = strchr(word, '=');
        if (value)
            *value++ = '\0';
        rc = value
                 ? parse_size_of(word, value, request, err)
                 : error_set_code(err, ERROR_USAGE,
                                  "--layout: \"%.40s\" must be a size and its value, such as tp=8",
                                  word);
    }
    free(copy);
    if (rc < 0)
        err->code = ERROR_USAGE;
    return rc;
}

/* No layout has the sizes that --layout fixes: say why. */
static int refuse_layout(const struct search *search, const struct search_request *request,
                         struct error *err)
{
    int64_t ranks = request->nodes * request->machine->gpus;
    int64_t tp = request->tp ? request->tp : 1, pp = request->pp ? request->pp : 1;
    int64_t sizes = tp * pp * (request->cp ? request->cp : 1);
    char reasons[SEARCH_REASONS * 320] = "";

    if (ranks % sizes != 0)
        return error_set_code(
            err, ERROR_USAGE,
            "--layout: tp x pp x cp = %lld does not divide the %lld GPUs; change it or --nodes",
            (long long)sizes, (long long)ranks);
    for (int i = 0; i < SEARCH_REASONS; i++)
        if (search->left[i] > 0)
            list_text_add(reasons, sizeof(reasons), "; ", "%s (%.200s)",
                          search_reason((enum search_reason)i), search->why[i]);
    if (reasons[0])
        return error_set_code(err, ERROR_USAGE,
                              "no layout is possible: %s; change the batch size, the nodes or "
                              "--layout",
                              reasons);
    return error_set_code(err, ERROR_USAGE,
                          "no layout is possible; change micro and vp of --layout, which must "
                          "divide the batch of a data-parallel rank and the layers of a stage");
}

static int refuse_memory(const struct search *search, const struct search_request *request,
                         const struct own *own, struct error *err)
{
    struct search_request open = {
        .machine = request->machine, .nodes = request->nodes, .recompute = -1};
    struct search all;
    int rc = search_run(&all, own, &open, err);

    if (rc == 0) {
        const struct own_layout *best =
            all.count > 0 ? &all.items[search_recommended(&all, open.machine)].layout : NULL;

        rc = error_set(err, "no layout fits: the smallest needs %.1f GiB of the GPU's %.1f GiB",
                       gib(search->smallest.memory.total), gib(request->machine->gpu.memory_bytes));
        if (best)
            error_append(
                err, "; --layout tp=%lld,pp=%lld,vp=%lld,cp=%lld,micro=%lld,recompute=%s fits",
                (long long)best->tp, (long long)best->pp, (long long)best->chunks,
                (long long)best->cp, (long long)best->micro_batch, show_recompute(best->recompute));
        else
            error_append(err, "; use more nodes, or nodes with more memory");
    }
    search_clear(&all);
    return rc;
}

/* Output ---------------------------------------------------------------------------------------
 */

static int print_search(const struct plan_options *options, const struct show *show,
                        const struct own *own, struct error *err)
{
    const struct search *search = show->search;
    struct output output;

    if (search->count == 0 && search->smallest.layout.tp == 0)
        return refuse_layout(search, show->request, err);
    if (options->json)
        show_json(show, stdout);
    else if (options->csv)
        show_csv(show, stdout);
    else if (!options->svg || strcmp(options->svg, "-") != 0)
        show_text(show, stdout);
    if (search->count == 0)
        return refuse_memory(search, show->request, own, err);
    if (options->record) {
        output_open(&output);
        show_record(show, output.stream);
        if (output_append(&output, options->record, err) < 0)
            return error_prefix(err, "--record");
    }
    if (!options->svg)
        return 0;
    output_open(&output);
    show_svg(show, output.stream);
    return output_write(&output, options->svg, err);
}

/* The words of `megatron train` ----------------------------------------------------------------
 */

struct train_words {
    const char **items;
    size_t count, room;
};

static void add_option(struct train_words *words, const char *name, const char *value)
{
    if (!value)
        return;
    *list_add(words) = name;
    *list_add(words) = value;
}

static void make_words(const struct plan_options *o, const struct options_result *result,
                       struct train_words *words)
{
    add_option(words, "--megatron-model", o->model);
    add_option(words, "--num-layers", o->layers);
    add_option(words, "--hidden-size", o->hidden);
    add_option(words, "--ffn-hidden-size", o->ffn);
    add_option(words, "--num-attention-heads", o->heads);
    if (o->groups)
        *list_add(words) = "--group-query-attention";
    add_option(words, "--num-query-groups", o->groups);
    if (o->swiglu)
        *list_add(words) = "--swiglu";
    add_option(words, "--seq-length", o->sequence);
    add_option(words, "--max-position-embeddings", o->sequence);
    add_option(words, "--vocab-size", o->vocabulary);
    *list_add(words) = o->precision == PRECISION_FP16 ? "--fp16" : "--bf16";
    if (o->precision == PRECISION_FP8)
        add_option(words, "--fp8-format", "hybrid");
    add_option(words, "--global-batch-size", o->batch);
    list_append(words, result->words, result->word_count);
}

/* The search chooses these sizes: only --layout may fix them. */
static int refuse_sizes(const struct own *own, struct error *err)
{
    static const struct {
        const char *option, *size;
    } rows[] = {{"tensor-model-parallel-size", "tp"},
                {"pipeline-model-parallel-size", "pp"},
                {"context-parallel-size", "cp"},
                {"micro-batch-size", "micro"},
                {"num-layers-per-virtual-pipeline-stage", "vp (the virtual stages per rank)"},
                {"num-virtual-stages-per-pipeline-rank", "vp"},
                {"recompute-granularity", "recompute"},
                {"recompute-activations", "recompute"},
                {"recompute-method", "recompute"}};

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
        if (options_given(&own->given, rows[i].option))
            return error_set_code(err, ERROR_USAGE,
                                  "megatron plan chooses --%s; to set it, use --layout %s=...",
                                  rows[i].option, rows[i].size);
    return 0;
}

/* Apply the options that override the machine file. */
static int adjust_machine(const struct plan_options *o, struct machine *machine, struct error *err)
{
    const struct {
        const char *name;
        double given, unit;
        double *value;
    } rows[] = {{"--save-bandwidth", o->save_bandwidth, 1e9, &machine->save_bandwidth},
                {"--gpu-hours-per-fault", o->fault_hours, 1, &machine->fault_hours},
                {"--price", o->price, 1, &machine->price}};

    if (o->gpus > machine->gpus)
        return error_set_code(err, ERROR_USAGE,
                              "--gpus-per-node=%lld: nodes of kind %s have %d GPUs; use 1 to %d",
                              (long long)o->gpus, machine->name, machine->gpus, machine->gpus);
    if (o->gpus > 0)
        machine->gpus = (int)o->gpus;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        if (isnan(rows[i].given))
            continue;
        if (rows[i].given <= 0)
            return error_set_code(err, ERROR_USAGE, "%s=%g must be above 0", rows[i].name,
                                  rows[i].given);
        *rows[i].value = rows[i].given * rows[i].unit;
    }
    if (!(o->restart_minutes >= 0))
        return error_set_code(err, ERROR_USAGE, "--restart-minutes=%g must not be negative",
                              o->restart_minutes);
    return 0;
}

static int search_and_print(const struct plan_options *options,
                            const struct search_request *request, const struct train_words *words,
                            struct error *err)
{
    const struct machine *machine = request->machine;
    struct search search = {0};
    struct show show = {
        .search = &search,
        .request = request,
        .outlook = {.price = machine->price, .restart_seconds = 60 * options->restart_minutes},
        .model = options->model ? options->model : "The model",
        .words = words->items,
        .word_count = (int)words->count,
        .top = (size_t)options->top,
        .explain = options->explain};
    struct own own;
    int rc = options->tokens ? parse_tokens(options->tokens, &show.outlook.tokens, err) : 0;

    if (rc < 0)
        return rc;
    rc = own_open(&own, words->items, (int)words->count, request->nodes * machine->gpus, err);
    if (rc < 0)
        err->code = ERROR_USAGE;
    if (rc == 0)
        rc = refuse_sizes(&own, err);
    if (rc == 0)
        rc = search_run(&search, &own, request, err);
    if (rc == 0)
        rc = print_search(options, &show, &own, err);
    search_clear(&search);
    own_close(&own);
    return rc;
}

int plan_layouts(const struct plan_options *options, const struct options_result *result,
                 const struct machines *machines, struct error *err)
{
    const struct machine *found;
    struct machine machine;
    struct search_request request = {.machine = &machine, .nodes = options->nodes, .recompute = -1};
    struct train_words words = {0};
    int rc;

    if (!options->node)
        return error_set_code(err, ERROR_USAGE,
                              "--node is required: the kind of the nodes; --node list prints all");
    if (!options->batch)
        return error_set_code(err, ERROR_USAGE,
                              "--global-batch-size is required: the sequences of a step");
    found = machines_find(machines, options->node, err);
    if (!found)
        return -1;
    machine = *found;
    request.fp8_too = options->precision == PRECISION_ALL && machine.gpu.flops[MACHINE_FP8] > 0;
    if (options->precision == PRECISION_FP8 && machine.gpu.flops[MACHINE_FP8] <= 0)
        return error_set_code(
            err, ERROR_USAGE,
            "--precision=fp8: GPUs of type %s do not support fp8; use --precision bf16",
            machine.gpu.name);
    if (adjust_machine(options, &machine, err) < 0 ||
        (options->layout && parse_layout(options->layout, &request, err) < 0))
        return -1;
    make_words(options, result, &words);
    rc = search_and_print(options, &request, &words, err);
    list_free(&words);
    return rc;
}
