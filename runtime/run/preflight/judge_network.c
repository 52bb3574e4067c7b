/* SPDX-License-Identifier: Apache-2.0 */
/* Verdicts about pairs of nodes and the NICs. Each node is in two pairs: two bad ones that share a
 * node name it; one bad pair alone is a link between two nodes. */
#include "config.h"
#include "judge.h"
#include "base/core/xmalloc.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A pair as both of its nodes saw it. */
struct pair {
    int left, right; /* ranks */
    double rate, loss, reduce;
    int failed;
    char reason[128];
};

static double loss_of(const struct pair_result *result)
{
    return result->segments > 0 ? (double)result->retransmitted / (double)result->segments : 0;
}

static void combine(const struct job *job, int i, struct pair *pair)
{
    int left = job->leaders[i], right = job->leaders[pairs_right(job->nodes, i)];
    const struct pair_result *a = &job->measures[left].pairs[0];
    const struct pair_result *b = &job->measures[right].pairs[1];
    *pair = (struct pair){
        .left = left,
        .right = right,
        .failed = a->failed || b->failed || !a->tried || !b->tried,
        .rate = fmin(a->rate, b->rate),
        .reduce = fmax(job->measures[left].pair_reduce[0], job->measures[right].pair_reduce[1])};
    pair->loss = fmax(loss_of(a), loss_of(b)); /* packets may be lost in one direction only */
    snprintf(pair->reason, sizeof(pair->reason), "%s",
             a->failed   ? a->reason
             : b->failed ? b->reason
                         : "one of the two nodes did not answer");
}

struct measure {
    const char *check, *advice;
    double (*get)(const struct pair *pair, double median);
    void (*print)(const struct pair *pair, char *text, size_t size);
    double warn, fail;
};

static double get_slowness(const struct pair *pair, double median)
{
    return pair->failed ? 1 : median > 0 ? 1 - pair->rate / median : 0;
}

static double get_loss(const struct pair *pair, double median)
{
    (void)median;
    return pair->failed ? 0 : pair->loss;
}

static void print_rate(const struct pair *pair, char *text, size_t size)
{
    if (pair->failed)
        snprintf(text, size, "%s", pair->reason);
    else
        snprintf(text, size, "%.3g GB/s", pair->rate / 1e9);
}

static void print_loss(const struct pair *pair, char *text, size_t size)
{
    snprintf(text, size, "%.2f %% of the segments were retransmitted", 100 * pair->loss);
}

/* The verdict of node i: the better of its two pairs, since a bad neighbor spoils only one. */
static void judge_node(const struct job *job, const struct measure *measure,
                       const struct pair *pairs, const enum verdict *grades, int i,
                       const char *expected, struct findings *findings)
{
    int count = pairs_count(job->nodes), before = (i + job->nodes - 1) % job->nodes;
    int right = i < count ? i : before, left = before < count ? before : i;
    enum verdict both = grades[left] < grades[right] ? grades[left] : grades[right];
    enum verdict worst = grades[left] > grades[right] ? grades[left] : grades[right];
    int other = grades[right] == worst ? right : left;
    const struct pair *pair = &pairs[other];
    int me = job->leaders[i], peer = pair->left == me ? pair->right : pair->left;
    char text[128];

    if (!judged(job, me))
        return;
    measure->print(pair, text, sizeof(text));
    if (left == right) /* two nodes: there is one pair, and either may be bad */
        judge_say(findings, job->hosts[me], measure->check, worst, expected,
                  "one of the two nodes or the link: test both with a third node", "to %s: %s",
                  job->hosts[peer], text);
    else if (both > VERDICT_OK)
        judge_say(findings, job->hosts[me], measure->check, both, expected, measure->advice,
                  "with both neighbors; to %s: %s", job->hosts[peer], text);
    else if (worst == VERDICT_FAIL) {
        /* The neighbor is named if its other pair is bad, too. */
        int theirs =
            pair->left == me ? (other + 1) % job->nodes : (other + job->nodes - 1) % job->nodes;

        judge_say(findings, job->hosts[me], measure->check,
                  grades[theirs] > VERDICT_OK ? VERDICT_OK : VERDICT_WARN, expected,
                  "only this link is bad: check the cables and switch ports between the two",
                  "to %s: %s", job->hosts[peer], text);
    } else {
        judge_say(findings, job->hosts[me], measure->check, VERDICT_OK, expected, "", "to %s: %s",
                  job->hosts[peer], text);
    }
}

static void judge_measure(const struct job *job, const struct measure *measure,
                          const struct pair *pairs, double median, const char *expected,
                          struct findings *findings)
{
    int count = pairs_count(job->nodes);
    enum verdict *grades = xcalloc((size_t)count, sizeof(*grades));

    /* A pair with a rank that has ended tells nothing about the other node. */
    for (int i = 0; i < count; i++)
        if (judged(job, pairs[i].left) && judged(job, pairs[i].right))
            grades[i] = judge_grade(measure->get(&pairs[i], median), measure->warn, measure->fail);
    for (int i = 0; i < job->nodes; i++)
        judge_node(job, measure, pairs, grades, i, expected, findings);
    free(grades);
}

/* All-reduces within nodes and over pairs, if the machine file has limits. */
static double get_reduce(const struct pair *pair, double limit)
{
    return pair->reduce > 0 && pair->reduce < limit ? 1 : 0;
}

static void print_reduce(const struct pair *pair, char *text, size_t size)
{
    snprintf(text, size, "all-reduce at %.3g GB/s", pair->reduce / 1e9);
}

/* If the machine file has no limit, a tenth of the median counts. */
static double median_reduce(const struct pair *pairs, int count, double *scratch)
{
    size_t known = 0;

    for (int i = 0; i < count; i++)
        if (pairs[i].reduce > 0)
            scratch[known++] = pairs[i].reduce;
    return judge_median(scratch, known);
}

static void judge_pairs(const struct job *job, struct findings *findings)
{
    const struct machine_limits *limits = &job->machine->limits;
    const struct measure rate = {"network",         "check its NIC, cable and switch port",
                                 get_slowness,      print_rate,
                                 limits->link_warn, limits->link_fail};
    const struct measure loss = {
        "network loss",    "packets are lost: check its cable, NIC and switch port",
        get_loss,          print_loss,
        limits->loss_warn, limits->loss_fail};
    const struct measure reduce = {"pair all-reduce",
                                   "check its RDMA NICs (rdma link), cables and switch ports",
                                   get_reduce,
                                   print_reduce,
                                   0.5,
                                   0.5};
    int count = pairs_count(job->nodes);
    struct pair *pairs = xcalloc((size_t)count, sizeof(*pairs));
    double *rates = xcalloc((size_t)count, sizeof(*rates)), median, least;
    char expected[96];
    size_t known = 0;

    for (int i = 0; i < count; i++) {
        combine(job, i, &pairs[i]);
        if (!pairs[i].failed)
            rates[known++] = pairs[i].rate;
    }
    median = judge_median(rates, known);
    snprintf(expected, sizeof(expected), "%.3g GB/s, the job's median", median / 1e9);
    judge_measure(job, &rate, pairs, median, expected, findings);
    snprintf(expected, sizeof(expected), "below %.2g %%", 100 * limits->loss_warn);
    judge_measure(job, &loss, pairs, 0, expected, findings);
    least = limits->pair_all_reduce > 0 ? limits->pair_all_reduce
                                        : median_reduce(pairs, count, rates) / 10;
    snprintf(expected, sizeof(expected), "at least %.3g GB/s", least / 1e9);
    if (least > 0)
        judge_measure(job, &reduce, pairs, least, expected, findings);
    free(pairs);
    free(rates);
}

/* A counter that is lower than before has been reset. */
static uint64_t grown(uint64_t before, uint64_t after)
{
    return after >= before ? after - before : after;
}

/* What the counters of a port have grown by. A port that has vanished went down once. */
static struct port_counters port_growth(const struct port_counters *before,
                                        const struct counter_facts *after)
{
    struct port_counters growth = *before;

    growth.errors = 0;
    growth.downs = 1;
    for (int j = 0; j < after->count; j++)
        if (strcmp(after->ports[j].device, before->device) == 0) {
            growth.errors = grown(before->errors, after->ports[j].errors);
            growth.downs = grown(before->downs, after->ports[j].downs);
        }
    return growth;
}

/* The port that grew worst is named. */
static void judge_counters(const char *host, const struct counter_facts *before,
                           const struct counter_facts *after, struct findings *findings)
{
    struct port_counters worst = {{0}, 0, 0};
    int bad = 0;
    char where[64] = "", others[64] = "";

    /* A rank that did not get that far has no counters. */
    for (int i = 0; i < before->count && after->count > 0; i++) {
        struct port_counters growth = port_growth(&before->ports[i], after);

        bad += growth.errors + growth.downs > 0;
        if (growth.downs > worst.downs ||
            (growth.downs == worst.downs && growth.errors > worst.errors))
            worst = growth;
    }
    if (bad > 0)
        snprintf(where, sizeof(where), "%s: ", worst.device);
    if (bad > 1)
        snprintf(others, sizeof(others), "; other NICs with errors: %d", bad - 1);
    judge_say(findings, host, "nic counters",
              worst.downs > 0 ? VERDICT_FAIL
              : bad > 0       ? VERDICT_WARN
                              : VERDICT_OK,
              "no errors, no link-down events",
              "check the cable of this NIC and its switch port; drain the node if it recurs",
              "%s%llu errors, %llu link-down events during the test%s", where,
              (unsigned long long)worst.errors, (unsigned long long)worst.downs, others);
}

static void judge_nics(const struct job *job, int r, struct findings *findings)
{
    const struct node_facts *node = &job->facts[r].node;
    const char *host = job->hosts[r];

    if (node->nics == 0)
        return;
    judge_say(findings, host, "nic state", node->nics_down > 0 ? VERDICT_FAIL : VERDICT_OK,
              "all ports active", "check the cable and the switch port (rdma link)",
              "%d of %d NICs are down%s%s", node->nics_down, node->nics,
              node->nics_down > 1   ? ", the first of them "
              : node->nics_down > 0 ? ": "
                                    : "",
              node->first_down);
    judge_counters(host, &node->before, &job->measures[r].after, findings);
    if (node->efa > 0)
        judge_say(findings, host, "efa",
                  node->openable == 0   ? VERDICT_FAIL
                  : !node->efa_provider ? VERDICT_FAIL
                  : !node->nccl_plugin  ? VERDICT_WARN
                                        : VERDICT_OK,
                  "devices, libfabric's efa provider, NCCL's plugin",
                  "install the EFA software and aws-ofi-nccl, or NCCL silently uses TCP", "%s",
                  node->openable == 0   ? "the devices cannot be opened"
                  : !node->efa_provider ? "libfabric has no efa provider"
                  : !node->nccl_plugin  ? "NCCL's network plugin was not found"
                                        : "complete");
    if (node->gpudirect >= 0)
        judge_say(findings, host, "gpudirect", node->gpudirect ? VERDICT_OK : VERDICT_WARN,
                  "NICs can access GPU memory",
                  "load nvidia-peermem (modprobe nvidia-peermem) or the open kernel modules",
                  node->gpudirect ? "available" : "missing");
}

/* Did collectives fail on all ranks? Then the set-up is to blame, not a node. */
static bool all_in_trouble(const struct job *job)
{
    for (int r = 0; r < job->size; r++)
        if (judged(job, r) && !job->measures[r].comm_trouble[0])
            return false;
    return true;
}

static void judge_all_reduce(const struct job *job, int r, struct findings *findings)
{
    const struct measures *m = &job->measures[r];
    double limit = job->machine->limits.all_reduce;
    char expected[64];

    if (m->comm_trouble[0])
        judge_say(findings, job->hosts[r], "collectives",
                  all_in_trouble(job) ? VERDICT_WARN : VERDICT_FAIL, "they work",
                  "see the message; set NCCL_DEBUG=INFO for details", "rank %d: %s", r,
                  m->comm_trouble);
    if (m->all_reduce <= 0 || limit <= 0)
        return;
    snprintf(expected, sizeof(expected), "at least %.0f GB/s", limit / 1e9);
    judge_say(findings, job->hosts[r], "node all-reduce",
              m->all_reduce < limit ? VERDICT_FAIL : VERDICT_OK, expected,
              "check NVLink (nvidia-smi nvlink --status) and the fabric manager", "%.0f GB/s",
              m->all_reduce / 1e9);
}

void judge_network(const struct job *job, struct findings *findings)
{
    if (job->full_ring && pairs_count(job->nodes) > 0)
        judge_pairs(job, findings);
    for (int r = 0; r < job->size; r++) {
        if (!judged(job, r))
            continue;
        if (job->facts[r].leads)
            judge_nics(job, r, findings);
        judge_all_reduce(job, r, findings);
    }
}
