/* SPDX-License-Identifier: Apache-2.0 */
/* The parts of preflight_run. */
#ifndef MEGATRON_PREFLIGHT_PRIVATE_H
#define MEGATRON_PREFLIGHT_PRIVATE_H

#include <pthread.h>
#include <stdatomic.h>

#include "judge.h"
#include "preflight.h"

/* What rank 0 tells all ranks after the facts are known. */
struct order {
    char shared_file[1024];   /* "": do not test */
    int32_t nodes;            /* of the ring */
    char mistake[ERROR_TEXT]; /* in the command line: the test ends; or "" */
};

/* This rank's position in the ring. */
struct ring_position {
    int32_t node; /* -1: not a first rank */
    struct rendezvous_address right;
};

/* One run of the tests on this rank. */
struct run {
    const struct preflight_options *options;
    const struct world *world;
    struct hub *hub;
    struct device *device;
    struct layer *layer;
    struct nvml_gpus *nvml;
    struct facts facts;
    struct measures measures;
    struct order order;
    struct ring_position position;
    int listener;
    pthread_t sampler;
    int sampling;
    atomic_int stop;
    /* on rank 0 */
    struct facts *all_facts;
    struct measures *all_measures;
    double *ahead, *uncertainty;
    int *leaders;
};

/* Measure this rank's processor and device and, on the first rank of a node, its disk; look for the
 * shared file. */
void preflight_measure(struct run *run);

/* The errno value of creating a file in a directory, or 0. */
int preflight_try_scratch(const char *directory);

/* Which host runs a rank, from Slurm's variables (hosts.c). */

/* The host and port on which rank 0 listens. The plugin names them. Without it: the first node of
 * the step, and a port computed from the numbers of job and step. */
int hosts_rank_0(const struct world *world, char *host, size_t size, int *port, struct error *err);

/* The host that 'rank' should be on, for ranks that never connected; "" if unknown. Slurm fills
 * node after node unless it says otherwise. */
void hosts_of_rank(int rank, const struct world *world, char *host, size_t size);

/* Collectives as training uses them, NCCL between GPUs and TCP between CPU ranks: an all-reduce
 * within each node, then over each pair of nodes (fabric.c). */

/* Every live rank calls it. 'nodes' is the size of the ring, and 'node_of' has the node of each
 * rank on rank 0 (NULL on others). If a rank is missing, nothing is tested: collectives would wait
 * for it. Errors are in measures->comm_trouble. Returns -1 if rank 0 is gone. */
int fabric_measure(struct hub *hub, struct device *device, const struct world *world,
                   const int32_t *node_of, int nodes, double deadline, struct measures *measures,
                   struct error *err);

/* Mistakes in the command line of a test, which must not be held against the nodes: they look the
 * same on all nodes, whereas a fault is one node's (mistakes.c). */

/* Is it impossible on all nodes to test what the options ask for? 'facts' are those of 'size'
 * ranks, zero for ranks that are not alive; 'machine' is the kind of the nodes, and 'trouble' says
 * why the first rank cannot open its device, or is "". Returns 0, or -1 with code ERROR_USAGE. */
int mistakes_check(const struct preflight_options *options, const struct facts *facts, int size,
                   const struct machine *machine, const char *trouble, struct error *err);

/* Do the nodes not look like the kind that was named: another product name, and no GPUs although
 * nodes of this kind have some? Either the name is wrong, or the node has lost all its GPUs. */
int mistakes_doubt_kind(const struct preflight_options *options, const struct facts *facts,
                        int size, const struct machine *machine);

#endif
