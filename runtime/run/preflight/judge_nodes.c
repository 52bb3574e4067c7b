/* SPDX-License-Identifier: Apache-2.0 */
/* Verdicts about versions, counts, limits, clocks and files of the nodes. */
#include "config.h"
#include "base/core/gib.h"
#include "judge_private.h"
#include "base/core/xmalloc.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int leads(const struct job *job, int r)
{
    return judged(job, r) && job->facts[r].leads;
}

/* Versions: the one of most nodes is right -------------------------------------------------------
 */

struct version {
    const char *check, *advice;
    void (*get)(const struct node_facts *node, char *text, size_t size);
};

static void get_program(const struct node_facts *node, char *text, size_t size)
{
    snprintf(text, size, "checksum %016" PRIx64, node->program);
}

static void get_driver(const struct node_facts *node, char *text, size_t size)
{
    snprintf(text, size, "%s", node->driver[0] ? node->driver : "none");
}

static void get_nccl(const struct node_facts *node, char *text, size_t size)
{
    snprintf(text, size, "%s", node->nccl[0] ? node->nccl : "none");
}

static void get_kind(const struct node_facts *node, char *text, size_t size)
{
    snprintf(text, size, "%s", node->kind[0] ? node->kind : "unknown");
}

static const struct version versions[] = {
    {"program", "install the same build of megatron on all nodes", get_program},
    {"driver", "install the same NVIDIA driver on all nodes", get_driver},
    {"nccl", "install the same NCCL on all nodes", get_nccl},
    {"machine", "the node is of a different kind than the others; exclude it", get_kind},
};

/* The text that most nodes have; of two equally frequent ones, that of the lower rank. */
static void find_usual(const struct job *job, const struct version *version, char *usual,
                       size_t size)
{
    int most = 0;

    usual[0] = '\0';
    for (int r = 0; r < job->size; r++) {
        char mine[FACTS_NAME], theirs[FACTS_NAME];
        int count = 0;

        if (!leads(job, r))
            continue;
        version->get(&job->facts[r].node, mine, sizeof(mine));
        for (int k = 0; k < job->size; k++)
            if (leads(job, k)) {
                version->get(&job->facts[k].node, theirs, sizeof(theirs));
                count += strcmp(mine, theirs) == 0;
            }
        if (count > most) {
            most = count;
            snprintf(usual, size, "%s", mine);
        }
        if (2 * most > job->nodes)
            break;
    }
}

static void judge_version(const struct job *job, const struct version *version,
                          struct findings *findings)
{
    char usual[FACTS_NAME], mine[FACTS_NAME], expected[96];

    find_usual(job, version, usual, sizeof(usual));
    snprintf(expected, sizeof(expected), "%s, as on most nodes", usual);
    for (int r = 0; r < job->size; r++) {
        int equal;

        if (!leads(job, r))
            continue;
        version->get(&job->facts[r].node, mine, sizeof(mine));
        equal = strcmp(mine, usual) == 0;
        judge_say(findings, job->hosts[r], version->check, equal ? VERDICT_OK : VERDICT_FAIL,
                  equal ? "" : expected, version->advice, "%s", mine);
    }
}

/* Counts of devices ------------------------------------------------------------------------------
 */

static int get_gpus(const struct node_facts *node)
{
    return node->gpus;
}

static int get_nics(const struct node_facts *node)
{
    return node->nics;
}

/* A job that computes on CPUs needs no GPUs that it was allocated. */
static int needed_gpus(const struct facts *facts)
{
    return facts->gpu_index >= 0 ? facts->node.allocated : 0;
}

static int needed_nics(const struct facts *facts)
{
    (void)facts;
    return 0;
}

/* As the node kind has; if that is not known, as most nodes have; in any case what the job needs
 * there. */
static void judge_count(const struct job *job, const char *check, int usual,
                        int (*get)(const struct node_facts *node),
                        int (*needed)(const struct facts *facts), double *scratch,
                        const char *advice, struct findings *findings)
{
    size_t count = 0;
    char text[64];

    for (int r = 0; r < job->size; r++)
        if (leads(job, r))
            scratch[count++] = get(&job->facts[r].node);
    if (usual <= 0)
        usual = (int)judge_median(scratch, count);
    for (int r = 0; r < job->size; r++) {
        int number, expected = usual;

        if (!leads(job, r))
            continue;
        number = get(&job->facts[r].node);
        if (needed(&job->facts[r]) > expected)
            expected = needed(&job->facts[r]);
        snprintf(text, sizeof(text), "%d", expected);
        judge_say(findings, job->hosts[r], check,
                  number < expected   ? VERDICT_FAIL
                  : number > expected ? VERDICT_WARN
                                      : VERDICT_OK,
                  text, advice, "%d", number);
        if (job->kind_in_doubt)
            findings_doubt(findings, job->hosts[r], check);
    }
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
              limits->skew_fail > 0 && skew > limits->skew_fail   ? VERDICT_FAIL
              : limits->skew_warn > 0 && skew > limits->skew_warn ? VERDICT_WARN
                                                                  : VERDICT_OK,
              expected, "synchronize the clock (chronyc tracking)", "%+.3f s", job->ahead[r]);
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
    size_t count = 0;

    for (size_t i = 0; i < sizeof(versions) / sizeof(*versions); i++)
        judge_version(job, &versions[i], findings);
    judge_count(job, "gpus", gpus, get_gpus, needed_gpus, scratch,
                job->kind_in_doubt
                    ? "correct --node; if the node should have GPUs, all are lost: drain it"
                    : "a GPU is missing: check lspci and the kernel log, then reboot or drain the "
                      "node",
                findings);
    judge_count(job, "nics", (int)job->machine->nics, get_nics, needed_nics, scratch,
                "a NIC is missing: check lspci, the driver and the cable, then drain the node",
                findings);
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
