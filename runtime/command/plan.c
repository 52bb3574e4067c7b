/* SPDX-License-Identifier: Apache-2.0 */
#include "calibrate.h"
#include "calibrate_collectives.h"
#include "calibrate_steps.h"
#include "commands.h"
#include "file.h"
#include "gib.h"
#include "nearest.h"
#include "nvml_gpus.h"
#include "option.h"
#include "parse.h"
#include "ranks.h"
#include "rows.h"
#include "show.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct plan_options {
    const char *model, *layers, *hidden, *ffn, *heads, *groups, *sequence, *vocabulary, *batch;
    int swiglu, precision, explain, json, csv;
    const char *node, *machines, *tokens, *layout, *svg, *record, *rows, *calibrate;
    int device;
    int64_t nodes, top;
    double price, save_bandwidth, fault_hours, restart_minutes;
};

enum { PRECISION_BF16, PRECISION_FP16, PRECISION_FP8, PRECISION_ALL };

#define AT(field) offsetof(struct plan_options, field)
/* clang-format off */
static const struct option table[] = {
    {"The model, as for megatron train", OPTION_HEADING, 0, NULL, NULL, NULL, 0, 0},
    {"megatron-model", OPTION_TEXT, AT(model), "NAME", "model preset; \"list\" prints all", NULL, 0, 0},
    {"num-layers", OPTION_TEXT, AT(layers), "N", "number of transformer layers", NULL, 0, 0},
    {"hidden-size", OPTION_TEXT, AT(hidden), "N", "transformer hidden size", NULL, 0, 0},
    {"ffn-hidden-size", OPTION_TEXT, AT(ffn), "N", "hidden size of the feed-forward network (default: 4 x hidden-size)", NULL, 0, 0},
    {"num-attention-heads", OPTION_TEXT, AT(heads), "N", "number of attention heads", NULL, 0, 0},
    {"num-query-groups", OPTION_TEXT, AT(groups), "N", "number of query groups (default: num-attention-heads)", NULL, 0, 0},
    {"swiglu", OPTION_FLAG, AT(swiglu), NULL, "use SwiGLU instead of GELU", NULL, 0, 0},
    {"seq-length", OPTION_TEXT, AT(sequence), "N", "sequence length (default: the preset's)", NULL, 0, 0},
    {"vocab-size", OPTION_TEXT, AT(vocabulary), "N", "vocabulary size, without padding", NULL, 0, 0},
    {"global-batch-size", OPTION_TEXT, AT(batch), "N", "global batch size, in samples", NULL, 0, 0},
    {"tokens", OPTION_TEXT, AT(tokens), "N", "number of tokens to train on, such as 300B; prints days and cost", NULL, 0, 0},
    {"precision", OPTION_CHOICE, AT(precision), NULL, "precision of weights and activations; fp8: in linear layers; all: compare bf16 and fp8 (default: bf16; fp16 on a V100)", "bf16|fp16|fp8|all", 0, 0},

    {"The cluster", OPTION_HEADING, 0, NULL, NULL, NULL, 0, 0},
    {"node", OPTION_TEXT, AT(node), "KIND", "kind of the nodes, such as p5.48xlarge; \"list\" prints all", NULL, 0, 0},
    {"nodes", OPTION_INT, AT(nodes), "N", "number of nodes (default: 1)", NULL, 1, 1000000},
    {"price", OPTION_REAL, AT(price), "DOLLARS", "price per node and hour (default: the machine file's)", NULL, 0, 0},
    {"save-bandwidth", OPTION_REAL, AT(save_bandwidth), "GB/S", "rate at which each node writes a checkpoint (default: the machine file's, or 2)", NULL, 0, 0},
    {"gpu-hours-per-fault", OPTION_REAL, AT(fault_hours), "HOURS", "GPU hours between faults that stop the job (default: the machine file's, or 46000)", NULL, 0, 0},
    {"restart-minutes", OPTION_REAL, AT(restart_minutes), "MINUTES", "time from a fault to the first new step (default: 10)", NULL, 0, 0},
    {"machines", OPTION_TEXT, AT(machines), "DIR", "directory of machine files (default: MEGATRON_MACHINES, or those installed)", NULL, 0, 0},

    {"Layouts", OPTION_HEADING, 0, NULL, NULL, NULL, 0, 0},
    {"layout", OPTION_TEXT, AT(layout), "SIZES", "fix sizes, such as tp=8,pp=2,vp=2,cp=1,micro=4,recompute=full", NULL, 0, 0},
    {"top", OPTION_INT, AT(top), "N", "number of layouts to print (default: 10)", NULL, 1, 1000000},

    {"Output", OPTION_HEADING, 0, NULL, NULL, NULL, 0, 0},
    {"explain", OPTION_FLAG, AT(explain), NULL, "print the step time by component", NULL, 0, 0},
    {"json", OPTION_FLAG, AT(json), NULL, "print JSON", NULL, 0, 0},
    {"csv", OPTION_FLAG, AT(csv), NULL, "print CSV, one line per layout", NULL, 0, 0},
    {"svg", OPTION_TEXT, AT(svg), "FILE", "draw the step time of the best layouts by component (- writes to standard output)", NULL, 0, 0},
    {"record", OPTION_TEXT, AT(record), "FILE", "append the best layout to FILE (*.jsonl), for megatron report", NULL, 0, 0},
    {"rows", OPTION_TEXT, AT(rows), "FILE", "add predictions to the rows of a CSV file of published runs", NULL, 0, 0},

    {"Measure this machine", OPTION_HEADING, 0, NULL, NULL, NULL, 0, 0},
    {"calibrate", OPTION_TEXT, AT(calibrate), "FILE", "measure matrix products, attention, copies and training steps on this machine; write a machine file", NULL, 0, 0},
    {"device", OPTION_CHOICE, AT(device), NULL, "device to measure (default: cuda if there is a GPU)", "auto|cpu|cuda", 0, 0},
    {NULL, OPTION_HEADING, 0, NULL, NULL, NULL, 0, 0},
};
/* clang-format on */
#undef AT

static void print_help(void)
{
    printf("Usage: megatron plan --megatron-model NAME --node KIND --nodes N "
           "--global-batch-size N [OPTION...] [-- OPTION OF MEGATRON TRAIN...]\n"
           "       megatron plan --rows FILE.csv\n"
           "       megatron plan --calibrate FILE.json [--node KIND]\n"
           "Rank all layouts of a model on a cluster by predicted step time, with memory and cost. "
           "Needs no GPU.\n");
    options_print(table, stdout);
}

static void list_nodes(const struct machines *machines)
{
    printf("%-18s %4s  %-15s %9s %9s %9s  %s\n", "node", "GPUs", "GPU", "GiB", "NVLink", "network",
           "$/hour");
    for (size_t i = 0; i < machines_count(machines); i++) {
        const struct machine *m = machines_at(machines, i);

        printf("%-18s %4d  %-15s %9.0f %9.0f %9.2f  ", m->name, m->gpus, m->gpu.name,
               gib(m->gpu.memory_bytes), m->nvlink / 1e9, m->network / 1e9);
        m->price > 0 ? printf("%.2f\n", m->price) : printf("-\n");
    }
    printf("NVLink and network: GB/s per GPU and direction\n");
}

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
    if (parse_double("--tokens", digits, tokens, err) < 0) {
        err->code = ERROR_USAGE;
        return error_append(err, "; write 300B, 1.5T or 26M");
    }
    for (long i = suffix ? (suffix - suffixes) / 2 : -1; i >= 0; i--)
        *tokens *= 1000;
    if (*tokens <= 0)
        return error_set_code(err, ERROR_USAGE, "--tokens=%s must be above 0", text);
    return 0;
}

/* Measured machines ----------------------------------------------------------------------------
 */

/* The machine file's kind for a device: the one named, or the first whose GPU the device's name
 * contains; NULL if there is none. */
static const struct machine *find_kind(const struct plan_options *options,
                                       const struct machines *machines, const struct device *device,
                                       struct error *err)
{
    if (options->node)
        return machines_find(machines, options->node, err);
    for (size_t i = 0; i < machines_count(machines); i++) {
        char name[32];

        snprintf(name, sizeof(name), "%s", machines_at(machines, i)->gpu.name);
        name[strcspn(name, "-")] = '\0';
        if (strstr(device->model, name))
            return machines_at(machines, i);
    }
    return NULL;
}

/* What is known of a device whose kind no machine file has. */
static int unknown_kind(struct machine *machine, struct device *device, struct error *err)
{
    struct device_memory memory;

    if (device_memory(device, &memory, err) < 0)
        return -1;
    *machine = machine_usual();
    machine->gpu.processors = 1;
    machine->gpu.memory_bytes = (double)memory.total;
    machine->nvlink = 10e9;
    machine->network = 1e9;
    return 0;
}

/* What is known of this node itself rather than of its kind. */
static int describe_node(struct machine *machine, struct device *device, struct error *err)
{
    struct error none;
    struct nvml_gpus *gpus = nvml_gpus_open(&none);
    int cpu = strcmp(device->name, "cpu") == 0;
    struct device_memory memory;

    if (gpus && !cpu && nvml_gpus_count(gpus) > 0)
        machine->gpus = nvml_gpus_count(gpus);
    nvml_gpus_close(gpus);
    if (device_memory(device, &memory, err) < 0)
        return -1;
    if (!cpu)
        machine->gpu.memory_bytes = (double)memory.total;
    return 0;
}

/* What was measured between ranks. */
static void print_links(const struct machine *machine, const struct world *world)
{
    const struct machine_rates *rates = &machine->gpu.rates;

    printf("%lld ranks on %lld nodes:", (long long)world->size, (long long)world->nodes);
    if (world->size > world->nodes)
        printf(" links of a node %.4g GB/s",
               machine->nvlink * rates->nvlink * machine->nvlink_efficiency / 1e9);
    if (world->nodes > 1)
        printf(" network %.4g GB/s per rank", machine->network * rates->network / 1e9);
    printf("\n");
}

static int calibrate_here(const struct plan_options *options, const struct machines *machines,
                          struct device *device, const struct world *world, struct error *err)
{
    const struct machine *kind = find_kind(options, machines, device, err);
    struct machine machine;

    if (!kind && options->node)
        return -1;
    if (kind)
        machine = *kind;
    else if (unknown_kind(&machine, device, err) < 0)
        return -1;
    machine.gpu.rates = machine.gpu.own; /* what is measured is this program */
    if (world->size > 1 && calibrate_collectives(&machine, kind != NULL, device, world, err) < 0)
        return -1;
    if (world->rank > 0)
        return 0;
    if (describe_node(&machine, device, err) < 0 || calibrate(&machine, device, err) < 0 ||
        calibrate_steps(&machine, strcmp(device->name, "cpu") != 0, err) < 0)
        return -1;
    snprintf(machine.name, sizeof(machine.name), "calibrated");
    snprintf(machine.gpu.name, sizeof(machine.gpu.name), "%.31s", device->model);
    if (machine_write(&machine, options->calibrate, err) < 0)
        return -1;
    if (world->size > 1)
        print_links(&machine, world);
    printf("%s, based on %s: products %.4g TFLOP/s, attention %.4g TFLOP/s, copies %.0f GB/s, "
           "%d models; %s has node kind \"calibrated\"\n",
           device->model, kind ? kind->name : "no known kind",
           machine.gpu.flops[MACHINE_BF16] * machine.gpu.rates.product * machine.efficiency / 1e12,
           machine.gpu.flops[MACHINE_BF16] * machine.gpu.rates.flash / 1e12,
           machine.gpu.memory_bandwidth * machine.gpu.rates.hbm / 1e9, machine.gpu.step_count,
           options->calibrate);
    return 0;
}

/* Measuring takes minutes: a file that cannot be written is refused before. */
static int check_directory(const char *path, struct error *err)
{
    char directory[PATH_MAX];
    char *slash;

    if (snprintf(directory, sizeof(directory), "%s", path) >= (int)sizeof(directory))
        return error_set_code(err, ERROR_USAGE,
                              "--calibrate: the path is too long; use a shorter one");
    slash = strrchr(directory, '/');
    if (!slash)
        snprintf(directory, sizeof(directory), ".");
    else
        slash[slash == directory] = '\0';
    if (access(directory, W_OK) == 0)
        return 0;
    error_set_errno(err, errno, "--calibrate %s", path);
    return file_path_error(err);
}

static int open_and_calibrate(const struct plan_options *options, const struct machines *machines,
                              struct error *err)
{
    struct ranks_config config = {.device = (enum device_choice)options->device};
    struct device *device;
    struct world world;
    int rc;

    if (world_read(&world, err) < 0 || check_directory(options->calibrate, err) < 0)
        return -1;
    device = ranks_open_device(&config, &world, err);
    if (!device)
        return -1;
    rc = calibrate_here(options, machines, device, &world, err);
    device_close(device);
    return rc;
}

/* Layouts --------------------------------------------------------------------------------------
 */

static int parse_recompute(const char *text, int *recompute, struct error *err)
{
    for (int i = PLAN_RECOMPUTE_NONE; i <= PLAN_RECOMPUTE_FULL; i++)
        if (strcmp(text, show_recompute((enum plan_recompute)i)) == 0) {
            *recompute = i;
            return 0;
        }
    return error_set_code(err, ERROR_USAGE,
                          "--layout: recompute=%s must be none, selective or full", text);
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
    if (nearest_names(name, names, sizeof(names) / sizeof(names[0]), near, sizeof(near)) > 0)
        return error_set_code(err, ERROR_USAGE,
                              "--layout: unknown size \"%.40s\"; did you mean %s?", name, near);
    return error_set_code(err, ERROR_USAGE,
                          "--layout: unknown size \"%.40s\"; known are tp, pp, vp, cp, micro and "
                          "recompute",
                          name);
}

static int parse_layout(const char *text, struct search_request *request, struct error *err)
{
    char *copy = strdup(text), *next = copy, *word;
    int rc = copy ? 0 : error_set(err, "out of memory");

    while (rc == 0 && (word = strsep(&next, ","))) {
        char *value = strchr(word, '=');

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

/* The search is about fixed sizes that nothing came of: say why. */
static int refuse_layout(const struct search *search, const struct search_request *request,
                         struct error *err)
{
    int64_t ranks = request->nodes * request->machine->gpus;
    int64_t tp = request->tp ? request->tp : 1, pp = request->pp ? request->pp : 1;
    int64_t sizes = tp * pp * (request->cp ? request->cp : 1);

    if (ranks % sizes != 0)
        return error_set_code(
            err, ERROR_USAGE,
            "--layout: tp x pp x cp = %lld does not divide the %lld GPUs; change it or --nodes",
            (long long)sizes, (long long)ranks);
    for (int i = 0; i < SEARCH_REASONS; i++)
        if (search->left[i] > 0)
            return error_set_code(err, ERROR_USAGE, "no layout is possible: %s", search->why[i]);
    return error_set_code(err, ERROR_USAGE,
                          "no layout is possible: micro and vp of --layout must divide the batch "
                          "of a data-parallel rank and the layers of a stage");
}

static int refuse_memory(const struct search *search, const struct search_request *request,
                         const struct own *own, struct error *err)
{
    struct search_request open = {
        .machine = request->machine, .nodes = request->nodes, .recompute = -1};
    struct search all;
    int rc = search_run(&all, own, &open, err);

    if (rc == 0) {
        const struct own_layout *best = all.count > 0 ? &all.items[0].layout : NULL;

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

static int write_svg(const struct show *show, const char *path, struct error *err)
{
    char *text = NULL;
    size_t size = 0;
    FILE *memory;
    int rc;

    if (strcmp(path, "-") == 0) {
        show_svg(show, stdout);
        return 0;
    }
    memory = open_memstream(&text, &size);
    if (!memory)
        return error_set(err, "out of memory");
    show_svg(show, memory);
    rc = fclose(memory) == 0 ? file_write_whole(path, text, size, 0, err)
                             : error_set(err, "out of memory");
    if (rc < 0)
        file_path_error(err);
    free(text);
    return rc;
}

static int append_record(const struct show *show, const char *path, struct error *err)
{
    FILE *file = fopen(path, "ae");

    if (!file) {
        error_set_errno(err, errno, "--record %s", path);
        return file_path_error(err);
    }
    show_record(show, file);
    return fclose(file) == 0 ? 0 : error_set_errno(err, errno, "--record %s", path);
}

static int print_search(const struct plan_options *options, const struct show *show,
                        const struct own *own, struct error *err)
{
    const struct search *search = show->search;

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
    if (options->record && append_record(show, options->record, err) < 0)
        return -1;
    return options->svg ? write_svg(show, options->svg, err) : 0;
}

/* The words of `megatron train` ----------------------------------------------------------------
 */

struct words {
    const char **items;
    int count;
};

static void add_word(struct words *words, const char *name, const char *value)
{
    if (!value)
        return;
    words->items[words->count++] = name;
    words->items[words->count++] = value;
}

static int make_words(const struct plan_options *o, const struct options_result *result, int fp16,
                      struct words *words, struct error *err)
{
    enum { OWN_WORDS = 32 };

    words->count = 0;
    words->items = calloc(OWN_WORDS + result->word_count, sizeof(*words->items));
    if (!words->items)
        return error_set(err, "out of memory");
    add_word(words, "--megatron-model", o->model);
    add_word(words, "--num-layers", o->layers);
    add_word(words, "--hidden-size", o->hidden);
    add_word(words, "--ffn-hidden-size", o->ffn);
    add_word(words, "--num-attention-heads", o->heads);
    if (o->groups)
        words->items[words->count++] = "--group-query-attention";
    add_word(words, "--num-query-groups", o->groups);
    if (o->swiglu)
        words->items[words->count++] = "--swiglu";
    add_word(words, "--seq-length", o->sequence);
    add_word(words, "--max-position-embeddings", o->sequence);
    add_word(words, "--vocab-size", o->vocabulary);
    words->items[words->count++] = o->precision == PRECISION_FP16 || fp16 ? "--fp16" : "--bf16";
    if (o->precision == PRECISION_FP8)
        add_word(words, "--fp8-format", "hybrid");
    add_word(words, "--global-batch-size", o->batch);
    for (size_t i = 0; i < result->word_count; i++)
        words->items[words->count++] = result->words[i];
    return 0;
}

/* A machine with what the command line says otherwise. */
static int adjust_machine(const struct plan_options *o, struct machine *machine, struct error *err)
{
    const struct {
        const char *name;
        double given, unit;
        double *value;
    } rows[] = {{"--save-bandwidth", o->save_bandwidth, 1e9, &machine->save_bandwidth},
                {"--gpu-hours-per-fault", o->fault_hours, 1, &machine->fault_hours},
                {"--price", o->price, 1, &machine->price}};

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        if (rows[i].given < 0)
            continue;
        if (!(rows[i].given > 0))
            return error_set_code(err, ERROR_USAGE, "%s must be above 0", rows[i].name);
        *rows[i].value = rows[i].given * rows[i].unit;
    }
    if (!(o->restart_minutes >= 0))
        return error_set_code(err, ERROR_USAGE, "--restart-minutes=%g must not be negative",
                              o->restart_minutes);
    return 0;
}

static int search_and_print(const struct plan_options *options,
                            const struct search_request *request, const struct words *words,
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
        .word_count = words->count,
        .top = (size_t)options->top,
        .explain = options->explain};
    struct own own;
    int rc = options->tokens ? parse_tokens(options->tokens, &show.outlook.tokens, err) : 0;

    if (rc < 0)
        return rc;
    rc = own_open(&own, words->items, words->count, request->nodes * machine->gpus, err);
    if (rc < 0)
        err->code = ERROR_USAGE;
    if (rc == 0)
        rc = search_run(&search, &own, request, err);
    if (rc == 0)
        rc = print_search(options, &show, &own, err);
    search_clear(&search);
    own_close(&own);
    return rc;
}

static int plan_layouts(const struct plan_options *options, const struct options_result *result,
                        const struct machines *machines, struct error *err)
{
    const struct machine *found;
    struct machine machine;
    struct search_request request = {.machine = &machine, .nodes = options->nodes, .recompute = -1};
    struct words words = {0};
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
    rc = make_words(options, result, machine.gpu.only_classic, &words, err);
    if (rc == 0)
        rc = search_and_print(options, &request, &words, err);
    free(words.items);
    return rc;
}

static int run_options(const struct plan_options *options, const struct options_result *result,
                       struct error *err)
{
    struct machines *machines;
    int rc = 0;

    if (options->model && strcmp(options->model, "list") == 0) {
        preset_print(stdout);
        return 0;
    }
    machines = machines_open(options->machines, err);
    if (!machines)
        return -1;
    if (options->node && strcmp(options->node, "list") == 0)
        list_nodes(machines);
    else if (options->calibrate)
        rc = open_and_calibrate(options, machines, err);
    else if (options->rows)
        rc = rows_predict(options->rows, machines, stdout, err);
    else
        rc = plan_layouts(options, result, machines, err);
    machines_destroy(machines);
    return rc;
}

static int run_plan(int argc, const char *const *argv, struct error *err)
{
    struct plan_options options = {.nodes = 1,
                                   .top = 10,
                                   .price = -1,
                                   .save_bandwidth = -1,
                                   .fault_hours = -1,
                                   .restart_minutes = 10};
    struct options_result result;
    int rc = options_parse(table, &options, argc, argv, &result, err);

    if (rc < 0)
        err->code = ERROR_USAGE;
    else if (result.help)
        print_help();
    else
        rc = run_options(&options, &result, err);
    options_result_clear(&result);
    return rc < 0 && err->code == ERROR_USAGE ? COMMAND_USAGE : rc;
}

const struct command command_plan = {
    .name = "plan",
    .summary = "rank the layouts of a model on a cluster by time, memory and cost",
    .run = run_plan,
};
