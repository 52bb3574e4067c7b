/* SPDX-License-Identifier: Apache-2.0 */
#include "plan.h"

#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "commands.h"
#include "base/core/option_rows.h"
#include "base/core/gib.h"
#include "lib/preset.h"

#define AT(field) offsetof(struct plan_options, field)
/* clang-format off */
static const struct option table[] = {
    HEADING("The model, as for megatron train"),
    TEXT("megatron-model", model, "NAME", "model preset; \"list\" prints all"),
    TEXT("num-layers", layers, "N", "number of transformer layers"),
    TEXT("hidden-size", hidden, "N", "transformer hidden size"),
    TEXT("ffn-hidden-size", ffn, "N", "hidden size of the feed-forward network (default: 4 x hidden-size)"),
    TEXT("num-attention-heads", heads, "N", "number of attention heads"),
    TEXT("num-query-groups", groups, "N", "number of query groups (default: num-attention-heads)"),
    FLAG("swiglu", swiglu, "use SwiGLU instead of GELU"),
    TEXT("seq-length", sequence, "N", "sequence length (default: the preset's)"),
    TEXT("vocab-size", vocabulary, "N", "vocabulary size, without padding"),
    TEXT("global-batch-size", batch, "N", "global batch size, in samples"),
    TEXT("tokens", tokens, "N", "number of tokens to train on, such as 300B; prints days and cost"),
    CHOICE("precision", precision, "bf16|fp16|fp8|all", "precision of weights and activations; fp8: in linear layers; all: compare bf16 and fp8"),

    HEADING("The cluster"),
    TEXT("node", node, "KIND", "kind of the nodes, such as p5.48xlarge; \"list\" prints all"),
    RANGE("nodes", nodes, 1, 1000000, "number of nodes"),
    RANGE("gpus-per-node", gpus, 1, 1000, "number of GPUs that the job uses of each node (default: all)"),
    QUANTITY("price", price, "DOLLARS", "price per node and hour (default: the machine file's)"),
    QUANTITY("save-bandwidth", save_bandwidth, "GB/S", "rate at which each node writes a checkpoint (default: the machine file's, or 2)"),
    QUANTITY("gpu-hours-per-fault", fault_hours, "HOURS", "GPU hours between faults that stop the job (default: the machine file's, or 46000)"),
    QUANTITY("restart-minutes", restart_minutes, "MINUTES", "time from a fault to the first new step"),
    TEXT("machines", machines, "DIR", "directory of machine files (default: MEGATRON_MACHINES, or those installed)"),

    HEADING("Layouts"),
    TEXT("layout", layout, "SIZES", "fix sizes, such as tp=8,pp=2,vp=2,cp=1,micro=4,recompute=full"),
    RANGE("top", top, 1, 1000000, "number of layouts to print"),

    HEADING("Output"),
    FLAG("explain", explain, "print the step time by component"),
    FLAG("json", json, "print JSON", .refuses = "csv"),
    FLAG("csv", csv, "print CSV, one line per layout"),
    TEXT("svg", svg, "FILE", "draw the step time of the best layouts by component (- writes to standard output)"),
    TEXT("record", record, "FILE", "append the best layout to FILE (*.jsonl), for megatron report"),

    HEADING("Measure this machine"),
    TEXT("calibrate", calibrate, "FILE", "measure matrix products, attention, copies and training steps on this machine; write a machine file"),
    CHOICE("device", device, "auto|cpu|cuda", "device to measure", .otherwise = "cuda if there is a GPU"),
    {0},
};
/* clang-format on */
#undef AT

static void list_nodes(const struct machines *machines)
{
    printf("%-18s %4s  %-15s %9s %9s %9s  %s\n", "node", "GPUs", "GPU", "GiB", "NVLink", "network",
           "$/hour");
    for (size_t i = 0; i < machines_count(machines); i++) {
        const struct machine *m = machines_at(machines, i);

        printf("%-18s %4d  %-15s %9.1f %9.0f %9.2f  ", m->name, m->gpus, m->gpu.name,
               gib(m->gpu.memory_bytes), m->nvlink / 1e9, m->network / 1e9);
        m->price > 0 ? printf("%.2f\n", m->price) : printf("-\n");
    }
    printf("NVLink and network: GB/s per GPU and direction\n");
}

/* Any other option would be ignored. */
static int refuse_others(const struct options_result *result, struct error *err)
{
    static const char *const used[] = {"calibrate", "node", "machines", "device"};

    for (size_t i = 0; table[i].name; i++) {
        bool is_used = !options_given(result, table[i].name);

        for (size_t k = 0; k < sizeof(used) / sizeof(used[0]); k++)
            is_used |= strcmp(table[i].name, used[k]) == 0;
        if (!is_used)
            return error_set_code(err, ERROR_USAGE,
                                  "--calibrate measures this machine and plans nothing; drop --%s",
                                  table[i].name);
    }
    if (result->word_count > 0)
        return error_set_code(err, ERROR_USAGE,
                              "--calibrate measures this machine and plans nothing; drop %s",
                              result->words[0]);
    return 0;
}

static int run_mode(const struct plan_options *options, const struct options_result *result,
                    const struct machines *machines, struct error *err)
{
    if (options->calibrate)
        return refuse_others(result, err) < 0 ? -1 : plan_calibrate(options, machines, err);
    if (options_given(result, "device"))
        return error_set_code(err, ERROR_USAGE, "--device is only used with --calibrate; drop it");
    return plan_layouts(options, result, machines, err);
}

static int run_plan(void *given, const struct options_result *result, struct error *err)
{
    const struct plan_options *options = given;
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
    else
        rc = run_mode(options, result, machines, err);
    machines_destroy(machines);
    return rc;
}

const struct command command_plan = {
    .name = "plan",
    .summary = "rank the layouts of a model on a cluster by time, memory and cost",
    .usage =
        "Usage: megatron plan --megatron-model NAME --node KIND --nodes N --global-batch-size N "
        "[OPTION...] [-- OPTION OF MEGATRON TRAIN...]\n"
        "       megatron plan --calibrate FILE.json [--node KIND] [--machines DIR] [--device "
        "DEVICE]\n"
        "Rank all layouts of a model on a cluster by predicted step time, with memory and cost. "
        "Needs no GPU.\n",
    .options = table,
    .size = sizeof(struct plan_options),
    .defaults = &(const struct plan_options){.nodes = 1,
                                             .top = 10,
                                             .price = NAN,
                                             .save_bandwidth = NAN,
                                             .fault_hours = NAN,
                                             .restart_minutes = 10},
    .run = run_plan,
};
