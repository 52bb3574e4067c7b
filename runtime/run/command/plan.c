/* SPDX-License-Identifier: Apache-2.0 */
#include "plan.h"

#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "commands.h"
#include "base/core/gib.h"
#include "lib/preset.h"

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
    {"precision", OPTION_CHOICE, AT(precision), NULL, "precision of weights and activations; fp8: in linear layers; all: compare bf16 and fp8 (default: bf16)", "bf16|fp16|fp8|all", 0, 0},

    {"The cluster", OPTION_HEADING, 0, NULL, NULL, NULL, 0, 0},
    {"node", OPTION_TEXT, AT(node), "KIND", "kind of the nodes, such as p5.48xlarge; \"list\" prints all", NULL, 0, 0},
    {"nodes", OPTION_INT, AT(nodes), "N", "number of nodes (default: 1)", NULL, 1, 1000000},
    {"gpus-per-node", OPTION_INT, AT(gpus), "N", "number of GPUs that the job uses of each node (default: all)", NULL, 1, 1000},
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

    {"Measure this machine", OPTION_HEADING, 0, NULL, NULL, NULL, 0, 0},
    {"calibrate", OPTION_TEXT, AT(calibrate), "FILE", "measure matrix products, attention, copies and training steps on this machine; write a machine file", NULL, 0, 0},
    {"device", OPTION_CHOICE, AT(device), NULL, "device to measure (default: cuda if there is a GPU)", "auto|cpu|cuda", 0, 0},
    {NULL, OPTION_HEADING, 0, NULL, NULL, NULL, 0, 0},
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
