/* SPDX-License-Identifier: Apache-2.0 */
#include "rendezvous.h"

#include <inttypes.h>
#include <slurm/slurm.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "controller.h"
#include "deadline.h"
#include "lib/parse.h"
#include "lib/port.h"
#include "rendezvous_port.h"

enum { CONTROLLER_SECONDS = 8 };

/* Where to look up rank 0. */
struct lookup {
    struct share *share;
    uint32_t job, step; /* of the component that has rank 0 */
    uint32_t component; /* NO_VAL: any, which is safe if only one has this step */
    char first[256];    /* its first node, in case the step itself is already over */
};

/* Ask the controller for the node of task 0. Runs in a child; the result goes to shared memory. */
static int look_up_master(void *argument)
{
    struct lookup *lookup = argument;
    struct controller_node node;

    if (controller_first_node(lookup->job, lookup->step, lookup->component, &node) &&
        controller_first_node(lookup->job, lookup->step, 0, &node)) {
        if (!lookup->first[0])
            return 1;
        controller_node(lookup->first, &node);
    }
    snprintf(lookup->share->master, sizeof(lookup->share->master), "%s", node.address);
    snprintf(lookup->share->first, sizeof(lookup->share->first), "%s", node.name);
    return 0;
}

/* Is every node of list 'part' in list 'whole'? Puts the first one into 'first'. */
static bool nodes_within(const char *part, const char *whole, char *first, size_t size)
{
    __auto_type all = slurm_hostlist_create(whole); /* its type changed in 23.11 */
    __auto_type some = slurm_hostlist_create(part);
    bool inside = all && some;
    char *host;

    first[0] = '\0';
    while (inside && (host = slurm_hostlist_shift(some))) {
        if (!first[0])
            snprintf(first, size, "%s", host);
        inside = slurm_hostlist_find(all, host) >= 0;
        free(host);
    }
    if (all)
        slurm_hostlist_destroy(all);
    if (some)
        slurm_hostlist_destroy(some);
    return inside && first[0];
}

/* The component of a het job with rank 0: the first one whose nodes are all in the step. */
static void first_component(spank_t spank, struct lookup *lookup)
{
    static const char *const groups[] = {"HET", "PACK"};
    char name[64], nodes[4096], step[4096], number[32];
    int64_t job;

    facts_variable(spank, "SLURM_STEP_NODELIST", step, sizeof(step));
    for (size_t g = 0; g < 2; g++)
        for (int i = 0; i < 128; i++) {
            snprintf(name, sizeof(name), "SLURM_JOB_NODELIST_%s_GROUP_%d", groups[g], i);
            if (!facts_variable(spank, name, nodes, sizeof(nodes))[0])
                break;
            if (!nodes_within(nodes, step, lookup->first, sizeof(lookup->first)))
                continue;
            snprintf(name, sizeof(name), "SLURM_JOB_ID_%s_GROUP_%d", groups[g], i);
            facts_variable(spank, name, number, sizeof(number));
            if (parse_int64(name, number, 1, UINT32_MAX, &job, NULL) == 0)
                lookup->job = (uint32_t)job;
            return;
        }
    lookup->first[0] = '\0';
}

static void find_master(spank_t spank, const struct facts *facts, struct share *share)
{
    struct lookup lookup = {.share = share, .job = facts->job, .step = facts->step};

    if (facts_variable(spank, "MASTER_ADDR", share->master, sizeof(share->master))[0])
        return;
    if (facts->handoff.master[0]) {
        strcpy(share->master, facts->handoff.master);
        strcpy(share->first, facts->handoff.first);
        return;
    }
    first_component(spank, &lookup);
    /* A het step of a plain job: if its first component is over, "any" would find another. */
    lookup.component = facts->het && !lookup.first[0] ? 0 : NO_VAL;
    with_deadline(look_up_master, &lookup, CONTROLLER_SECONDS);
}

/* Every node computes the same port: the user's, one reserved by Slurm, srun's choice, or one
 * derived from the job and step ids. The node of rank 0 checks that it is free. */
static int find_port(spank_t spank, const struct facts *facts, const struct config *config,
                     struct share *share, struct error *err)
{
    struct rendezvous_step step = {
        .cluster = facts->cluster,
        .job = facts->job,
        .step = facts->step,
        .restarts = facts->restarts,
        .low = config->ports.low,
        .high = config->ports.high,
    };
    const char *given;
    char text[256];
    bool here = false;

    for (uint32_t i = 0; i < share->tasks; i++)
        here |= share->task[i].found.rank == 0;
    given = facts_variable(spank, "MASTER_PORT", text, sizeof(text));
    if (given[0] && parse_int64("MASTER_PORT", given, 1, 65535, &share->port, NULL) == 0)
        return 0;
    if (given[0] && here) /* one node's line is enough */
        return error_set(err,
                         "MASTER_PORT=%.60s is not a port; set it to a number from 1 to 65535, or "
                         "unset it",
                         given);
    /* Each component of a het job has its own reserved ports. */
    if (!facts->het)
        share->port =
            rendezvous_reserved(facts_variable(spank, "SLURM_STEP_RESV_PORTS", text, sizeof(text)));
    if (share->port == 0)
        share->port = facts->handoff.port > 0 ? facts->handoff.port : rendezvous_port(&step, 0);
    if (here && !port_is_free(share->port))
        return error_set(err,
                         "the rendezvous port %" PRId64
                         " is in use on %s; start the step again, or set MASTER_PORT to a free "
                         "port",
                         share->port, facts->node);
    return 0;
}

int rendezvous_find(spank_t spank, const struct facts *facts, const struct config *config,
                    struct share *share, struct error *err)
{
    find_master(spank, facts, share);
    return find_port(spank, facts, config, share, err);
}
