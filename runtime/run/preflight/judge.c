/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"
#include "base/core/gib.h"
#include "judge.h"
#include "base/core/xmalloc.h"

#include <math.h>
#include <stddef.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void judge_say(struct findings *findings, const char *host, const char *check, enum verdict verdict,
               const char *expected, const char *advice, const char *value, ...)
{
    struct finding f = {.verdict = verdict, .in_doubt = findings->in_doubt};
    va_list args;

    snprintf(f.host, sizeof(f.host), "%.63s", host);
    snprintf(f.check, sizeof(f.check), "%.23s", check);
    snprintf(f.expected, sizeof(f.expected), "%s", expected);
    snprintf(f.advice, sizeof(f.advice), "%s", advice);
    va_start(args, value);
    vsnprintf(f.value, sizeof(f.value), value, args);
    va_end(args);
    findings_add(findings, &f);
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

double judge_median(double *numbers, size_t count)
{
    if (count == 0)
        return 0;
    qsort(numbers, count, sizeof(*numbers), by_value);
    return numbers[count / 2];
}

/* Ranks that do not answer ----------------------------------------------------------------------
 */

static void judge_answers(const struct job *job, struct findings *findings)
{
    static const char *const words[] = {
        [HUB_ABSENT] = "did not start or cannot reach rank 0",
        [HUB_ENDED] = "ended during the test",
        [HUB_SILENT] = "stopped answering",
        [HUB_EXCLUDED] = "runs another version of this program",
    };

    for (int r = 0; r < job->size; r++) {
        char unknown[32];
        const char *host = job->hosts[r];

        if (!host[0]) {
            snprintf(unknown, sizeof(unknown), "rank %d", r);
            host = unknown;
        }
        if (job->states[r] == HUB_EXCLUDED)
            judge_say(findings, host, "program", VERDICT_FAIL, "that of rank 0",
                      "install the same release of megatron on all nodes", "rank %d %s", r,
                      words[HUB_EXCLUDED]);
        else if (job->states[r] != HUB_ALIVE)
            judge_say(findings, host, "answers", VERDICT_FAIL, "an answer",
                      "check that the node is up and its network works, then drain it",
                      "rank %d %s", r, words[job->states[r]]);
        else
            judge_say(findings, host, "answers", VERDICT_OK, "an answer", "", "yes");
    }
}

/* Speeds ---------------------------------------------------------------------------------------
 */

struct speed {
    const char *check, *unit;
    double scale; /* from the measured number to 'unit' */
    double warn, fail;
    const char *advice;
    size_t offset; /* of the number in the measures, more is better; 0: not measured */
};

static double get(const struct speed *speed, const struct measures *measures)
{
    return *(const double *)((const char *)measures + speed->offset);
}

/* The median over the ranks whose device is of the model of rank 'like'. */
static double median_like(const struct job *job, const struct speed *speed, int like,
                          double *scratch)
{
    size_t count = 0;

    for (int r = 0; r < job->size; r++) {
        double value = get(speed, &job->measures[r]);

        if (judged(job, r) && value > 0 && strcmp(job->facts[r].model, job->facts[like].model) == 0)
            scratch[count++] = value;
    }
    return judge_median(scratch, count);
}

static void judge_one_speed(const struct job *job, const struct speed *speed, double *scratch,
                            struct findings *findings)
{
    double median = 0;
    int like = -1;

    for (int r = 0; r < job->size; r++) {
        double value = get(speed, &job->measures[r]), below;
        enum verdict verdict;
        char expected[96], slower[32] = "";

        if (!judged(job, r) || value <= 0)
            continue;
        if (like < 0 || strcmp(job->facts[r].model, job->facts[like].model) != 0) {
            median = median_like(job, speed, r, scratch);
            like = r;
        }
        below = 1 - value / median;
        verdict = judge_grade(below, speed->warn, speed->fail);
        snprintf(expected, sizeof(expected), "%.3g %s, the job's median", median * speed->scale,
                 speed->unit);
        if (verdict != VERDICT_OK)
            snprintf(slower, sizeof(slower), ", %.0f %% slower", 100 * below);
        judge_say(findings, job->hosts[r], speed->check, verdict, expected, speed->advice,
                  "rank %d: %.3g %s%s", r, value * speed->scale, speed->unit, slower);
    }
}

/* Was a rank kept from running for longer than the others? */
static void judge_running(const struct job *job, double *scratch, struct findings *findings)
{
    const struct machine_limits *limits = &job->machine->limits;
    double held, waiting;
    size_t count = 0;

    for (int r = 0; r < job->size; r++)
        if (judged(job, r))
            scratch[count++] = job->measures[r].processor.held;
    held = judge_median(scratch, count);
    if (count <= 2) /* the smaller of two, since here less is better */
        held = count == 2 ? scratch[0] : 0;
    count = 0;
    for (int r = 0; r < job->size; r++)
        if (judged(job, r))
            scratch[count++] = job->measures[r].processor.waiting;
    waiting = judge_median(scratch, count);
    for (int r = 0; r < job->size; r++) {
        const struct processor *p = &job->measures[r].processor;
        double more = p->held - held;

        if (!judged(job, r))
            continue;
        judge_say(findings, job->hosts[r], "held back",
                  judge_grade(more, limits->held_warn, limits->held_fail),
                  "runs whenever a core is free",
                  "look for a CPU limit of the cgroup (cpu.max), a stopped process or a hypervisor "
                  "that takes the CPU away",
                  "rank %d was kept from running for %.0f %% of the time", r, 100 * p->held);
        /* More than the others, or so much that training is slow even if all wait alike. */
        judge_say(findings, job->hosts[r], "waiting",
                  p->waiting > fmin(0.25 + 3 * waiting, 0.5) ? VERDICT_WARN : VERDICT_OK,
                  "its cores are free",
                  "look for other processes on this node (top), and give each rank cores of its "
                  "own (srun --cpus-per-task --cpu-bind=cores)",
                  "rank %d waited for a core for %.0f %% of the time", r, 100 * p->waiting);
    }
}

/* Results --------------------------------------------------------------------------------------
 */

/* What is compared between all pairs of ranks, close together in memory. */
struct outcome {
    uint64_t hash;
    int like; /* the first rank with the same model of device; -1: no result */
};

static bool same_model(const struct job *job, int a, int b)
{
    return strcmp(job->facts[a].model, job->facts[b].model) == 0;
}

static void collect_outcomes(const struct job *job, struct outcome *outcomes)
{
    int last = -1;

    for (int r = 0; r < job->size; r++) {
        outcomes[r] = (struct outcome){job->measures[r].layer.hash, -1};
        if (!judged(job, r) || job->measures[r].layer.steps <= 0)
            continue;
        if (last >= 0 && same_model(job, r, last)) {
            outcomes[r].like = outcomes[last].like;
        } else {
            int first = 0;

            while (first < r && (outcomes[first].like != first || !same_model(job, r, first)))
                first++;
            outcomes[r].like = first;
        }
        last = r;
    }
}

static void judge_result(const struct job *job, int r, const struct outcome *outcomes,
                         struct findings *findings)
{
    const struct layer_result *mine = &job->measures[r].layer;
    int all = 0, equal = 0;

    for (int other = 0; other < job->size; other++)
        if (outcomes[other].like == outcomes[r].like) {
            all++;
            equal += outcomes[other].hash == mine->hash;
        }
    if (mine->unstable > 0)
        judge_say(findings, job->hosts[r], "results", VERDICT_FAIL, "the same in every step",
                  "the device computes wrong numbers: drain the node",
                  "rank %d: %lld steps of %lld differ from the first", r, (long long)mine->unstable,
                  (long long)mine->steps);
    else if (equal == all)
        judge_say(findings, job->hosts[r], "results", VERDICT_OK, "equal on all ranks", "",
                  "equal");
    else if (2 * equal > all)
        judge_say(findings, job->hosts[r], "results", VERDICT_OK, "equal on most ranks", "",
                  "equal on %d of %d", equal, all);
    else if (2 * equal == all && all == 2)
        judge_say(findings, job->hosts[r], "results", VERDICT_FAIL, "equal on both ranks",
                  "one of the two computes wrong numbers: test both with a third node",
                  "rank %d: differs from the other rank", r);
    else
        judge_say(findings, job->hosts[r], "results", VERDICT_FAIL, "the same result on all ranks",
                  "the device computes wrong numbers: drain the node",
                  "rank %d computed a result (hash %016llx) that only %d of %d ranks have", r,
                  (unsigned long long)mine->hash, equal, all);
}

static void judge_device(const struct job *job, int r, const struct outcome *outcomes,
                         struct findings *findings)
{
    const struct measures *m = &job->measures[r];

    findings->in_doubt = job->kind_in_doubt;
    if (m->trouble[0])
        judge_say(findings, job->hosts[r], "device", VERDICT_FAIL, "can compute",
                  "see the message, nvidia-smi and the kernel log", "rank %d: %s", r, m->trouble);
    findings->in_doubt = false;
    if (m->layer.steps > 0)
        judge_result(job, r, outcomes, findings);
    if (m->tested_bytes > 0)
        judge_say(findings, job->hosts[r], "device memory",
                  m->wrong_blocks > 0 ? VERDICT_FAIL : VERDICT_OK, "no wrong bits",
                  "drain the node and have the GPU replaced",
                  "rank %d: %lld wrong blocks in %.1f GiB", r, (long long)m->wrong_blocks,
                  gib(m->tested_bytes));
    if (m->copy_rate > 0 && job->machine->limits.host_bandwidth > 0) {
        char expected[64];

        snprintf(expected, sizeof(expected), "at least %.0f GB/s",
                 job->machine->limits.host_bandwidth / 1e9);
        judge_say(findings, job->hosts[r], "host copies",
                  m->copy_rate < job->machine->limits.host_bandwidth ? VERDICT_FAIL : VERDICT_OK,
                  expected, "check the PCIe link of this GPU (nvidia-smi -q -d PCIE)",
                  "rank %d: %.1f GB/s", r, m->copy_rate / 1e9);
    }
}

void judge_speed(const struct job *job, struct findings *findings)
{
    const struct machine_limits *limits = &job->machine->limits;
#define AT(member) offsetof(struct measures, member)
    const struct speed speeds[] = {
        {"core speed", "Gop/s", 1e-9, limits->core_warn, limits->core_fail,
         "check the CPU's clock and temperature (turbostat), and its power profile",
         AT(processor.core)},
        {"memory speed", "GB/s", 1e-9, limits->memory_warn, limits->memory_fail,
         "check for a missing or slow memory module (dmidecode -t memory)", AT(processor.memory)},
        {"layer speed", "steps/s", 1, limits->layer_warn, limits->layer_fail,
         "exclude this node: the whole job waits for its slowest rank", AT(layer.rate)},
        {"host copy speed", "GB/s", 1e-9, 0.2, 0.4,
         "check the PCIe link of this GPU (nvidia-smi -q -d PCIE)", AT(copy_rate)},
    };
#undef AT
    double *scratch = xcalloc((size_t)job->size, sizeof(*scratch));
    struct outcome *outcomes = xcalloc((size_t)job->size, sizeof(*outcomes));

    collect_outcomes(job, outcomes);
    for (size_t i = 0; i < sizeof(speeds) / sizeof(*speeds); i++)
        judge_one_speed(job, &speeds[i], scratch, findings);
    judge_running(job, scratch, findings);
    for (int r = 0; r < job->size; r++)
        if (judged(job, r))
            judge_device(job, r, outcomes, findings);
    free(scratch);
    free(outcomes);
}

void judge(const struct job *job, struct findings *findings)
{
    judge_answers(job, findings);
    judge_nodes(job, findings);
    judge_gpus(job, findings);
    judge_speed(job, findings);
    judge_network(job, findings);
    findings_sort(findings);
}

void measures_limit(struct measures *m)
{
    m->trouble[sizeof(m->trouble) - 1] = '\0';
    m->comm_trouble[sizeof(m->comm_trouble) - 1] = '\0';
    for (int i = 0; i < 2; i++) {
        m->pairs[i].reason[sizeof(m->pairs[i].reason) - 1] = '\0';
        facts_limit_number(&m->pairs[i].segments);
        facts_limit_number(&m->pairs[i].retransmitted);
    }
    facts_limit_number(&m->layer.steps);
    facts_limit_number(&m->layer.unstable);
    facts_limit_number(&m->disk_free);
    facts_limit_number(&m->wrong_blocks);
    facts_limit_gpus(m->gpu);
    facts_limit_counters(&m->after);
}
