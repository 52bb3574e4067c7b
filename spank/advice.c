/* SPDX-License-Identifier: Apache-2.0 */
#include "advice.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "container/process.h"

/* A submission must not wait longer than this. */
#define PLAN_SECONDS 10

/* Does every task have a GPU of its own, and every node as many? */
static bool one_task_per_gpu(const struct counts *counts)
{
    return counts->gpus_per_node > 0 && counts->gpus_per_node == counts->tasks_per_node &&
           counts->tasks == counts->nodes * counts->tasks_per_node;
}

/* Run `megatron plan` for these nodes and 'batch' samples with the options in 'words', which end
 * with NULL. Returns its exit code, or -1. */
static int run_plan(const struct counts *counts, const char *kind, int64_t batch,
                    const char *const *words, struct process_result *result)
{
    char nodes[24], samples[24], gpus[24];
    const char *argv[32] = {MEGATRON_PROGRAM,      "plan",  "--node", kind, "--nodes", nodes,
                            "--global-batch-size", samples, "--top",  "1"};
    size_t count = 10;
    struct process_request request = {.argv = argv, .timeout = PLAN_SECONDS};

    snprintf(nodes, sizeof(nodes), "%" PRId64, counts->nodes);
    snprintf(samples, sizeof(samples), "%" PRId64, batch);
    snprintf(gpus, sizeof(gpus), "%" PRId64, counts->gpus_per_node);
    if (one_task_per_gpu(counts)) {
        argv[count++] = "--gpus-per-node";
        argv[count++] = gpus;
    }
    while (*words)
        argv[count++] = *words++;
    if (process_run(&request, result, NULL) < 0 || result->timed_out)
        return -1;
    return result->status;
}

/* The same for the model of the job; 'layout' may be NULL. */
static int run_layout(const struct settings *settings, const struct counts *counts,
                      const char *kind, int64_t batch, const char *layout,
                      struct process_result *result)
{
    const char *const words[] = {"--megatron-model", settings->model->name,
                                 layout ? "--layout" : "--json", layout, NULL};

    return run_plan(counts, kind, batch, words, result);
}

/* Does the program refuse the kind of the nodes, or their number of GPUs? If it accepts them, it
 * plans this model; if it can read no machine files, it cannot list the kinds either. */
static bool refuses_nodes(const struct counts *counts, const char *kind,
                          struct process_result *result)
{
    static const char *const smallest[] = {"--num-layers",          "1",  "--hidden-size", "64",
                                           "--num-attention-heads", "1",  "--seq-length",  "64",
                                           "--vocab-size",          "64", "--json",        NULL};

    return run_plan(counts, "list", counts->tasks, smallest, result) == 0 &&
           run_plan(counts, kind, counts->tasks, smallest, result) == 2;
}

/* A number of the JSON that the program prints. */
static int64_t number_after(const char *text, const char *name)
{
    const char *at = strstr(text, name);

    return at ? strtoll(at + strlen(name), NULL, 10) : 0;
}

/* What the program complains about. */
static void explain(const struct process_result *result, struct advice *advice)
{
    static const char prefix[] = "megatron plan: ";
    char line[sizeof(advice->problem)];
    const char *text = line;

    process_complaint(result->errors, line, sizeof(line));
    if (strncmp(text, prefix, sizeof(prefix) - 1) == 0)
        text += sizeof(prefix) - 1;
    snprintf(advice->problem, sizeof(advice->problem), "%s", text);
}

/* Nothing is known, except why. */
static void give_up(int status, const struct process_result *result, struct advice *advice)
{
    if (result->timed_out) {
        snprintf(advice->problem, sizeof(advice->problem),
                 "it took longer than %d s; run `megatron plan` yourself", PLAN_SECONDS);
    } else if (status == 2) {
        explain(result, advice);
    }
}

void advice_plan(const struct settings *settings, const struct counts *counts, const char *kind,
                 struct advice *advice)
{
    const struct layout *layout = &settings->layout;
    int64_t ranks = layout->tp * layout->pp * layout->cp;
    struct process_result *result;
    char sizes[128];
    int status;

    memset(advice, 0, sizeof(*advice));
    if (!settings->model || !kind || counts->tasks <= 0 || counts->nodes <= 0 ||
        counts->tasks % ranks != 0)
        return;
    result = calloc(1, sizeof(*result));
    if (!result)
        return;
    /* Any layout: is there one at all, and does the job use all GPUs? */
    status = run_layout(settings, counts, kind, counts->tasks, NULL, result);
    if (status == 0 && number_after(result->output, "\"gpus\":") != counts->tasks)
        goto out;
    if (status == 0)
        advice->better = (struct layout){.tp = number_after(result->output, "\"tp\":"),
                                         .pp = number_after(result->output, "\"pp\":"),
                                         .cp = number_after(result->output, "\"cp\":")};
    else if (status != 1) {
        give_up(status, result, advice);
        advice->bad_nodes = status == 2 && refuses_nodes(counts, kind, result);
        goto out;
    }
    snprintf(sizes, sizeof(sizes), "tp=%" PRId64 ",pp=%" PRId64 ",cp=%" PRId64, layout->tp,
             layout->pp, layout->cp);
    /* As many micro-batches as stages: fewer would not fill the pipeline. */
    status = run_layout(settings, counts, kind, counts->tasks / ranks * layout->pp, sizes, result);
    advice->known = status == 0 || status == 1;
    advice->fits = status == 0;
    if (status == 1)
        explain(result, advice);
    else if (status != 0)
        give_up(status, result, advice);
    snprintf(advice->plan, sizeof(advice->plan), "%s", result->output);
out:
    free(result);
}
