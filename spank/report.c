/* SPDX-License-Identifier: Apache-2.0 */
#include "report.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "lib/contract.h"

/* "4 nodes", "1 GPU per node", or "unknown". */
static void print_count(FILE *stream, int64_t count, const char *one, const char *per,
                        const char *comma)
{
    if (count < 0)
        fprintf(stream, "%ss%s not known yet%s", one, per, comma);
    else
        fprintf(stream, "%" PRId64 " %s%s%s%s", count, one, count == 1 ? "" : "s", per, comma);
}

/* The components of a het job differ, or one is unknown. */
static void print_components(FILE *stream, const struct counts *counts)
{
    for (size_t i = 0; i < counts->components; i++) {
        fprintf(stream, "component %zu: ", i);
        print_count(stream, counts->component[i].tasks_per_node, "task", " per node", ", ");
        print_count(stream, counts->component[i].gpus_per_node, "GPU", " per node",
                    i + 1 < counts->components ? ", " : "");
    }
}

static void print_counts(FILE *stream, const struct settings *settings, const struct counts *counts)
{
    const struct layout *layout = &settings->layout;

    fprintf(stream, "  job          ");
    print_count(stream, counts->nodes, "node", "", ", ");
    print_count(stream, counts->tasks, "task", "", ", ");
    if (counts->components > 1 && (counts->tasks_per_node < 0 || counts->gpus_per_node < 0))
        print_components(stream, counts);
    else {
        print_count(stream, counts->tasks_per_node, "task", " per node", ", ");
        print_count(stream, counts->gpus_per_node, "GPU", " per node", "");
    }
    fprintf(stream, "\n  layout       tp %" PRId64 " x cp %" PRId64 " x ", layout->tp, layout->cp);
    if (layout->dp > 0)
        fprintf(stream, "dp %" PRId64, layout->dp);
    else
        fprintf(stream, "dp (tasks / %" PRId64 ")", layout->tp * layout->cp * layout->pp);
    fprintf(stream, " x pp %" PRId64 "\n", layout->pp);
}

/* A task uses one GPU, so the others have nothing to do. */
static void print_idle(FILE *stream, const struct counts *counts)
{
    int64_t gpus;

    if (counts->gpus_per_node <= 0 || counts->nodes <= 0 || counts->tasks <= 0 ||
        __builtin_mul_overflow(counts->gpus_per_node, counts->nodes, &gpus) ||
        gpus <= counts->tasks)
        return;
    fprintf(stream,
            "  note         %" PRId64 " of %" PRId64 " GPUs stay idle: %" PRId64
            " tasks use one each; use --ntasks-per-node=%" PRId64 " to use all\n",
            gpus - counts->tasks, gpus, counts->tasks, counts->gpus_per_node);
}

static int print_checks(FILE *stream, struct settings *settings, const struct counts *counts)
{
    static const char *const words[] = {
        [CHECK_OK] = "ok",
        [CHECK_NOTHING] = "not checked without --megatron-model",
        [CHECK_UNKNOWN] = "not known before the job runs",
    };
    const char *what;
    struct error err;
    int status, rc = 0;

    for (size_t i = 0; (status = check_one(i, settings, counts, &what, &err)) >= 0; i++) {
        if (status == CHECK_FAILED) {
            fprintf(stream, "  check        FAILED: %s\n", err.text);
            rc = 1;
        } else
            fprintf(stream, "  check        %s: %s\n", what, words[status]);
    }
    return rc;
}

/* The variables that are the same for all ranks of the step. */
static void print_environment(FILE *stream, const struct settings *settings,
                              const struct counts *counts)
{
    const struct {
        enum contract_variable variable;
        int64_t value;
    } rows[] = {
        {CONTRACT_CONTRACT, CONTRACT_VERSION}, {CONTRACT_WORLD_SIZE, counts->tasks},
        {CONTRACT_NODES, counts->nodes},       {CONTRACT_TP, settings->layout.tp},
        {CONTRACT_PP, settings->layout.pp},    {CONTRACT_CP, settings->layout.cp},
        {CONTRACT_DP, settings->layout.dp},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
        if (rows[i].value > 0)
            fprintf(stream, "  environment  %s=%" PRId64 "\n", contract_name(rows[i].variable),
                    rows[i].value);
    if (settings->model)
        fprintf(stream, "  environment  %s=%s\n", contract_name(CONTRACT_MODEL),
                settings->model->name);
}

int report_check(FILE *stream, const char *version, const char *slurm, struct settings *settings,
                 const struct config *config, const struct counts *counts)
{
    struct error err;
    char line[256];
    int rc;

    fprintf(stream, "megatron %s for Slurm %s: check only, nothing is submitted\n", version, slurm);
    if (settings->model) {
        preset_describe(settings->model, line, sizeof(line));
        fprintf(stream, "  model        %s\n", line);
    }
    check_counts(settings, counts, &err); /* for the data-parallel size */
    print_counts(stream, settings, counts);
    fprintf(stream, "  placement    bind %s, NICs %s%s\n", settings->bind, settings->nics,
            config->off & (PART_BIND | PART_NICS) ? " (parts are switched off by plugstack.conf)"
                                                  : "");
    if (settings->image.used)
        fprintf(stream, "  image        %s, %zu mounts%s\n", settings->image.reference.text,
                settings->image.mounts.count, settings->image.readonly ? ", read-only" : "");
    print_idle(stream, counts);
    rc = print_checks(stream, settings, counts);
    if (rc == 0)
        print_environment(stream, settings, counts);
    return rc;
}

void report_verdict(FILE *stream, int rc, bool too_large, struct settings *settings,
                    const struct counts *counts)
{
    const char *what;
    struct error ignored;
    int status, unknown = 0;

    for (size_t i = 0; (status = check_one(i, settings, counts, &what, &ignored)) >= 0; i++)
        unknown += status == CHECK_UNKNOWN;
    fprintf(stream, "  verdict      ");
    if (rc)
        fprintf(stream, "rejected: see FAILED above\n");
    else if (too_large)
        fprintf(stream, "accepted, but the model does not fit: see plan above\n");
    else if (unknown > 0)
        fprintf(stream, "accepted; %d check%s not possible before the job runs\n", unknown,
                unknown == 1 ? " is" : "s are");
    else
        fprintf(stream, "ok: accepted\n");
}

/* --- --megatron-show ------------------------------------------------------------------------ */

/* Split 'name' around its first number that differs from that in 'next', if 'next' is the same name
 * with that number plus one. Returns the number, or -1. */
static long next_in_row(const char *name, const char *next, size_t *prefix, size_t *suffix)
{
    size_t same = 0;
    char *end_a, *end_b;
    long a, b;

    while (name[same] && name[same] == next[same])
        same++;
    while (same > 0 && name[same - 1] >= '0' && name[same - 1] <= '9')
        same--;
    if (name[same] < '0' || name[same] > '9' || next[same] < '0' || next[same] > '9')
        return -1;
    a = strtol(name + same, &end_a, 10);
    b = strtol(next + same, &end_b, 10);
    if (b != a + 1 || strcmp(end_a, end_b) != 0)
        return -1;
    *prefix = same;
    *suffix = (size_t)(end_a - name);
    return a;
}

/* Write "rdmap79s0,rdmap80s0,rdmap81s0" as "rdmap[79-81]s0": Slurm forwards 1 KiB at a time, and a
 * node's block should fit into one piece. */
static void print_names(FILE *stream, const char *list)
{
    char copy[SHARE_LIST], *names[SHARE_LIST / 2], *rest = copy, *name;
    size_t count = 0;

    snprintf(copy, sizeof(copy), "%s", list);
    while ((name = strsep(&rest, ",")))
        names[count++] = name;
    for (size_t i = 0, end; i < count; i = end) {
        size_t prefix = 0, suffix = 0, p, s;
        long first = i + 1 < count ? next_in_row(names[i], names[i + 1], &prefix, &suffix) : -1;

        end = i + 1;
        while (first >= 0 && end < count && next_in_row(names[end - 1], names[end], &p, &s) >= 0 &&
               p == prefix)
            end++;
        if (i > 0)
            fputc(',', stream);
        if (end == i + 1)
            fprintf(stream, "%s", names[i]);
        else
            fprintf(stream, "%.*s[%ld-%ld]%s", (int)prefix, names[i], first,
                    first + (long)(end - i) - 1, names[i] + suffix);
    }
}

static void print_task(FILE *stream, const char *node, uint32_t local,
                       const struct share_task *task)
{
    const struct share_result *result = &task->result;
    char cpus[SHARE_LIST], numa[SHARE_LIST];

    cpuset_format(&result->cpus, cpus, sizeof(cpus));
    share_format_numa(result, numa, sizeof(numa));
    fprintf(stream, "%s: task %u rank %u GPU %s", node, local, task->found.rank,
            result->gpus[0] ? result->gpus : "-");
    if (result->pci[0])
        fprintf(stream, " (%s)", result->pci);
    fprintf(stream, " NICs ");
    print_names(stream, result->nics[0] ? result->nics : "-");
    fprintf(stream, " CPUs %s%s NUMA %s\n", cpus, result->bind ? "" : " (left alone)", numa);
}

char *report_show(const struct share *share, const char *node, const char *version,
                  const char *slurm)
{
    char *text = NULL;
    size_t size = 0;
    FILE *stream = open_memstream(&text, &size);

    if (!stream)
        return NULL;
    fprintf(stream, "%s: megatron %s for Slurm %s, %u task%s", node, version, slurm, share->tasks,
            share->tasks == 1 ? "" : "s");
    if (share->master[0])
        fprintf(stream, ", rendezvous at %s:%" PRId64 "%s%s", share->master, share->port,
                share->first[0] ? " on " : "", share->first);
    fputc('\n', stream);
    for (uint32_t i = 0; i < share->tasks; i++)
        print_task(stream, node, i, &share->task[i]);
    if (fclose(stream) != 0) {
        free(text);
        return NULL;
    }
    return text;
}
