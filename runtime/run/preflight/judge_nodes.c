/* SPDX-License-Identifier: Apache-2.0 */
/* Verdicts about versions, counts, limits, clocks and files of the nodes. */
#include "config.h"
#include "base/core/gib.h"
#include "judge.h"
#include "base/core/xmalloc.h"

#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool leads(const struct job *job, int r)
{
    return judged(job, r) && job->facts[r].leads;
}

/* Versions: the one of most nodes is right -------------------------------------------------------
 */

static const struct version {
    const char *check, *unknown, *advice;
    size_t offset; /* of the text in the facts */
} versions[] = {
    {"program", "unknown", "install the same build of megatron on all nodes",
     offsetof(struct node_facts, program)},
    {"driver", "none", "install the same NVIDIA driver on all nodes",
     offsetof(struct node_facts, driver)},
    {"nccl", "none", "install the same NCCL on all nodes", offsetof(struct node_facts, nccl)},
    {"machine", "unknown", "the node is of a different kind than the others; exclude it",
     offsetof(struct node_facts, kind)},
};

static const char *get(const struct version *version, const struct facts *facts)
{
    const char *text = (const char *)&facts->node + version->offset;

    return text[0] ? text : version->unknown;
}

/* The text that most nodes have; of two equally frequent ones, that of the lower rank. */
static const char *find_usual(const struct job *job, const struct version *version)
{
    const char *usual = "";
    int most = 0;

    for (int r = 0; r < job->size && 2 * most <= job->nodes; r++) {
        int count = 0;

        for (int k = 0; k < job->size && leads(job, r); k++)
            count += leads(job, k) &&
                     strcmp(get(version, &job->facts[r]), get(version, &job->facts[k])) == 0;
        if (count > most) {
            most = count;
            usual = get(version, &job->facts[r]);
        }
    }
    return usual;
}

static void judge_version(const struct job *job, const struct version *version,
                          struct findings *findings)
{
    const char *usual = find_usual(job, version);
    char expected[96];

    snprintf(expected, sizeof(expected), "%s, as on most nodes", usual);
    for (int r = 0; r < job->size; r++) {
        const char *mine = get(version, &job->facts[r]);
        bool equal = strcmp(mine, usual) == 0;

        if (leads(job, r))
            judge_say(findings, job->hosts[r], version->check, equal ? VERDICT_OK : VERDICT_FAIL,
                      equal ? "" : expected, version->advice, "%s", mine);
    }
}

/* Counts of devices ------------------------------------------------------------------------------
 */

struct count {
    const char *check, *advice;
    int usual;     /* of the node kind; 0: unknown */
    size_t offset; /* of the number in the facts */
    size_t
        allocated; /* of the number that Slurm allocated to a job that computes on GPUs; 0: none */
};

static int number_at(const struct facts *facts, size_t offset)
{
    return *(const int32_t *)((const char *)&facts->node + offset);
}

/* As the node kind has; if that is not known, as most nodes have; in any case what the job needs
 * there. */
static void judge_count(const struct job *job, const struct count *row, double *scratch,
                        struct findings *findings)
{
    size_t count = 0;
    int usual = row->usual;
    char text[64];

    for (int r = 0; r < job->size; r++)
        if (leads(job, r))
            scratch[count++] = number_at(&job->facts[r], row->offset);
    if (usual <= 0)
        usual = (int)judge_median(scratch, count);
    findings->in_doubt = job->kind_in_doubt;
    for (int r = 0; r < job->size; r++) {
        const struct facts *facts = &job->facts[r];
        int number = number_at(facts, row->offset), expected = usual;

        if (!leads(job, r))
            continue;
        if (row->allocated && facts->gpu_index >= 0 && number_at(facts, row->allocated) > expected)
            expected = number_at(facts, row->allocated);
        snprintf(text, sizeof(text), "%d", expected);
        judge_say(findings, job->hosts[r], row->check,
                  number < expected   ? VERDICT_FAIL
                  : number > expected ? VERDICT_WARN
                                      : VERDICT_OK,
                  text, row->advice, "%d", number);
    }
    findings->in_doubt = false;
}

/* Limits, clocks, files --------------------------------------------------------------------------
 */

static void judge_limits(const struct job *job, int r, struct findings *findings)
{
    const struct node_facts *node = &job->facts[r].node;
    const double needed = fmax(job->machine->limits.open_files, 0);
    char expected[64];

    if (node->nics > 0)
        judge_say(findings, job->hosts[r], "locked memory",
                  (double)node->locked_memory < job->machine->limits.locked_memory ? VERDICT_FAIL
                                                                                   : VERDICT_OK,
                  "unlimited",
                  "RDMA needs locked memory: set LimitMEMLOCK=infinity in slurmd's unit",
                  node->locked_memory == UINT64_MAX ? "unlimited" : "%.3g MiB",
                  (double)node->locked_memory / 1048576);
    snprintf(expected, sizeof(expected), "at least %.0f", needed);
    judge_say(findings, job->hosts[r], "open files",
              (double)node->open_files < needed ? VERDICT_WARN : VERDICT_OK, expected,
              "raise LimitNOFILE in slurmd's unit or the limit of the user (ulimit -Hn)",
              node->open_files == UINT64_MAX ? "unlimited" : "%.0f", (double)node->open_files);
}

static void judge_clock(const struct job *job, int r, struct findings *findings)
{
    const struct machine_limits *limits = &job->machine->limits;
    double skew = fmax(0, fabs(job->ahead[r]) - job->uncertainty[r]);
    char expected[64];

    if (!isfinite(job->uncertainty[r]))
        return;
    snprintf(expected, sizeof(expected), "within %.3g s of rank 0", limits->skew_warn);
    judge_say(findings, job->hosts[r], "clock",
              judge_grade(skew, limits->skew_warn, limits->skew_fail), expected,
              "synchronize the clock (chronyc tracking)", "%+.3f s", job->ahead[r]);
}

static void judge_files(const struct job *job, int r, double usual_rate, struct findings *findings)
{
    const struct machine_limits *limits = &job->machine->limits;
    const struct measures *m = &job->measures[r];
    char expected[64];

    if (m->sees_files >= 0)
        judge_say(findings, job->hosts[r], "shared files",
                  m->sees_files ? VERDICT_OK : VERDICT_FAIL, "sees a file that rank 0 created",
                  "mount the shared file system on this node, or name its directory with --shared",
                  m->sees_files ? "seen" : "not seen");
    if (m->disk_free >= 0) {
        snprintf(expected, sizeof(expected), "at least %.3g GiB free", gib(limits->disk_bytes));
        judge_say(findings, job->hosts[r], "disk space",
                  (double)m->disk_free < limits->disk_bytes ? VERDICT_WARN : VERDICT_OK, expected,
                  "remove old files from the temporary directory", "%.1f GiB free",
                  gib((double)m->disk_free));
    }
    snprintf(expected, sizeof(expected), "at least %.3g MB/s", limits->disk_bandwidth / 1e6);
    if (m->disk_rate <= 0)
        judge_say(findings, job->hosts[r], "disk", VERDICT_FAIL, expected,
                  "the temporary directory cannot be written; check the disk (dmesg)",
                  "a write failed");
    else
        judge_say(findings, job->hosts[r], "disk",
                  m->disk_rate < limits->disk_bandwidth && m->disk_rate < usual_rate / 4
                      ? VERDICT_WARN
                      : VERDICT_OK,
                  expected, "check the disk (dmesg, smartctl)", "%.0f MB/s", m->disk_rate / 1e6);
}

void judge_nodes(const struct job *job, struct findings *findings)
{
    double *scratch = xcalloc((size_t)job->size, sizeof(*scratch)), rate;
    int gpus = job->machine->name[0] && job->machine->gpus <= FACTS_GPUS ? job->machine->gpus : 0;
    const struct count counts[] = {
        {"gpus",
         job->kind_in_doubt
             ? "correct --node; if the node should have GPUs, all are lost: drain it"
             : "a GPU is missing: check lspci and the kernel log, then reboot or drain the node",
         gpus, offsetof(struct node_facts, gpus), offsetof(struct node_facts, allocated)},
        {"nics", "a NIC is missing: check lspci, the driver and the cable, then drain the node",
         (int)job->machine->nics, offsetof(struct node_facts, nics), 0},
    };
    size_t count = 0;

    for (size_t i = 0; i < sizeof(versions) / sizeof(*versions); i++)
        judge_version(job, &versions[i], findings);
    for (size_t i = 0; i < sizeof(counts) / sizeof(*counts); i++)
        judge_count(job, &counts[i], scratch, findings);
    for (int r = 0; r < job->size; r++)
        if (leads(job, r))
            scratch[count++] = job->measures[r].disk_rate;
    rate = judge_median(scratch, count);
    for (int r = 0; r < job->size; r++)
        if (leads(job, r)) {
            judge_limits(job, r, findings);
            judge_clock(job, r, findings);
            judge_files(job, r, rate, findings);
        }
    free(scratch);
}
