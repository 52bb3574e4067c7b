/* SPDX-License-Identifier: Apache-2.0 */
/* Verdicts about GPUs, from NVML and the kernel log. */
#include "config.h"
#include "judge.h"
#include "facts.h"

#include <stdio.h>
#include <string.h>

static void judge_memory(const char *host, const struct gpu_state *gpu, struct findings *findings)
{
    if (gpu->uncorrected >= 0)
        judge_say(findings, host, "ecc", gpu->uncorrected > 0 ? VERDICT_FAIL : VERDICT_OK,
                  "0 uncorrected errors",
                  "reset the GPU (nvidia-smi --gpu-reset), and drain the node if they recur",
                  "%s: %lld uncorrected errors", gpu->bus, (long long)gpu->uncorrected);
    if (gpu->rows_spent > 0)
        judge_say(findings, host, "remapped rows", VERDICT_FAIL, "spare rows are left",
                  "drain the node and have the GPU replaced", "%s: remapping failed", gpu->bus);
    else if (gpu->rows_pending >= 0)
        judge_say(findings, host, "remapped rows",
                  gpu->rows_pending > 0 ? VERDICT_WARN : VERDICT_OK, "none pending",
                  "reset the GPU (nvidia-smi --gpu-reset) when the node is free", "%s: %s",
                  gpu->bus, gpu->rows_pending > 0 ? "remapping is pending" : "none pending");
}

/* What to check if a GPU has lowered its clocks for these reasons. */
static const char *slow_advice(uint64_t reasons)
{
    if (reasons & (SLOW_HARD_HEAT | SLOW_SOFT_HEAT))
        return "check fans, air flow and the cooling of this node";
    return reasons & SLOW_POWER_BRAKE ? "check the node's power supplies"
                                      : "check the cooling and the power supplies of this node";
}

static void judge_clocks(const char *host, const struct gpu_state *gpu, struct findings *findings)
{
    const char *reason = gpu_slow_reason(gpu->slow_reasons);
    char clock[48] = "";

    if (gpu->megahertz > 0 && gpu->most_megahertz > 0)
        snprintf(clock, sizeof(clock), "; %d of %d MHz", gpu->megahertz, gpu->most_megahertz);
    judge_say(findings, host, "clocks", reason[0] ? VERDICT_FAIL : VERDICT_OK, "not lowered",
              slow_advice(gpu->slow_reasons), "%s: %s%s%s", gpu->bus,
              reason[0] ? "lowered by " : "not lowered", reason, clock);
}

/* A PCIe link saves power when idle: what counts is the best that was seen under load. */
static void judge_links(const char *host, const struct gpu_state *gpu, int under_load,
                        struct findings *findings)
{
    char expected[64];
    int narrow = gpu->width > 0 && gpu->width < gpu->most_width;
    int slow = under_load && gpu->generation > 0 && gpu->generation < gpu->most_generation;

    if (gpu->width > 0) {
        snprintf(expected, sizeof(expected), "x%d, generation %d", gpu->most_width,
                 gpu->most_generation);
        judge_say(findings, host, "pcie", narrow || slow ? VERDICT_FAIL : VERDICT_OK, expected,
                  "the link trained badly: reboot the node; have the GPU reseated if it recurs",
                  "%s: x%d, generation %d", gpu->bus, gpu->width, gpu->generation);
    }
    if (gpu->links_up + gpu->links_down == 0)
        return;
    judge_say(findings, host, "nvlink",
              gpu->links_up > 0 && gpu->links_down > 0 ? VERDICT_FAIL : VERDICT_OK, "all up",
              "check nvidia-smi nvlink --status; reset the GPUs and the fabric manager",
              "%s: %d of %d links are down", gpu->bus, gpu->links_down,
              gpu->links_up + gpu->links_down);
}

static void judge_errors(const char *host, const struct gpu_state *before,
                         const struct gpu_state *after, struct findings *findings)
{
    long long grown = (long long)(after->link_errors - before->link_errors);

    if (before->links_up > 0)
        judge_say(findings, host, "nvlink errors",
                  grown > 0                ? VERDICT_FAIL
                  : after->link_errors > 0 ? VERDICT_WARN
                                           : VERDICT_OK,
                  "none", "reset the GPUs; drain the node if the errors grow",
                  "%s: %lld since boot, %lld during the test", after->bus,
                  (long long)after->link_errors, grown);
}

static void judge_xids(const char *host, const struct node_facts *node, struct findings *findings)
{
    if (node->gpus > 0 && node->xid_count == 0)
        judge_say(findings, host, "xid", VERDICT_OK, "none since boot", "", "none since boot");
    for (int i = 0; i < node->xid_count; i++) {
        const struct xid_facts *xid = &node->xids[i];
        enum xid_action action = xid_action(xid->number);

        judge_say(findings, host, "xid",
                  action >= XID_RESET     ? VERDICT_FAIL
                  : action == XID_RESTART ? VERDICT_WARN
                                          : VERDICT_OK,
                  "none since boot", xid_advice(action), "%s: Xid %d, %d times since boot",
                  xid->bus, xid->number, xid->count);
    }
}

void judge_gpus(const struct job *job, struct findings *findings)
{
    for (int r = 0; r < job->size; r++) {
        const struct node_facts *node = &job->facts[r].node;
        const char *host = job->hosts[r];
        int loaded = job->measures[r].layer.steps > 0 && job->facts[r].gpu_index >= 0;

        if (!judged(job, r) || !job->facts[r].leads)
            continue;
        if (node->gpus > 0 && node->nvml[0])
            judge_say(findings, host, "nvml", VERDICT_WARN, "reports the GPUs' state",
                      "make the driver's library available "
                      "(NVIDIA_DRIVER_CAPABILITIES=compute,utility)",
                      "%s", node->nvml);
        if (node->gpus_lost > 0)
            judge_say(findings, host, "gpus", VERDICT_FAIL, "all answer",
                      "a GPU has fallen off the bus: reboot or drain the node", "%d of %d lost",
                      node->gpus_lost, node->gpu_count);
        for (int i = 0; i < node->gpu_count; i++) {
            const struct gpu_state *after = &job->measures[r].gpu[i];

            judge_memory(host, after, findings);
            judge_clocks(host, after, findings);
            judge_links(host, after, loaded, findings);
            judge_errors(host, &node->gpu[i], after, findings);
        }
        judge_xids(host, node, findings);
    }
}
