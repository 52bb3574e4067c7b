/* SPDX-License-Identifier: Apache-2.0 */
/* Decide which GPUs, NICs, CPUs and NUMA nodes each task of a node gets. A pure function of the
 * topology and the request, so every task of a node can compute it alone and all agree.
 *
 *     struct topology *node = topology_discover(&err);
 *     struct placement_request request = {.tasks = 8, .bind = "auto"};
 *     struct placement *placement = placement_create(node, &request, &err);
 *
 *     cpuset_bind_thread(&placement->tasks[local_rank].cpus, &err);
 *     placement_destroy(placement);
 *     topology_destroy(node);
 */
#ifndef MEGATRON_PLACEMENT_H
#define MEGATRON_PLACEMENT_H

#include <stdbool.h>
#include <stddef.h>
#include "cpuset.h"
#include "error.h"
#include "topology.h"

/* A GPU, or a MIG instance of one (several may have the same address), that the step may use. */
struct allocated_gpu {
    struct pci_address pci;
    const char *instance; /* NULL, or the caller's name for it (a MIG UUID), passed through */
};

/* What the user chose for one task with --cpu-bind or --gpu-bind; overrides any policy. */
struct placement_override {
    const struct cpuset *cpus; /* NULL: not given */
    const size_t *gpus;        /* positions in request.gpus; NULL: not given */
    size_t gpu_count;          /* 0 with gpus set: this task gets none */
};

struct placement_request {
    size_t tasks; /* on this node, at least 1 */
    /* NULL is "auto".
     *   auto       gpu if the step has GPUs, else core
     *   none       CPUs stay as they are allocated; GPUs and NICs are divided among tasks
     *   gpu        each task gets an equal part of the cores of its GPUs' NUMA nodes
     *   numa       each task gets the whole NUMA nodes of its GPUs, together with its neighbors
     *   core       each task gets an equal part of all cores, then the GPUs nearest to them
     *   0-47       auto, within these CPUs
     *   0-11/12-23 exactly these CPUs, one list per task */
    const char *bind;
    /* 'bind' is meant for steps of any size: a single list may name CPUs that are not allocated. */
    bool bind_is_default;
    /* NULL is "auto".
     *   auto       the NICs nearest to the task's GPUs (without GPUs: to its cores)
     *   none       no NICs
     *   all        all compute NICs of the node
     *   a,b        auto, with these NICs only: names or PCI addresses
     *   a,b/c,d    exactly these NICs, one list per task */
    const char *nics;
    const struct cpuset *cpus;        /* allocated to the step; NULL: all of the topology */
    const struct allocated_gpu *gpus; /* allocated, in any order; NULL: all of the topology */
    size_t gpu_count;                 /* 0 with gpus set: none allocated */
    size_t gpus_per_task;             /* 0: divide all of them */
    const struct placement_override *overrides; /* NULL, or one per task */
};

struct placement_gpu {
    int index;       /* among the node's GPUs in PCI order */
    int number;      /* among the allocated ones in PCI order; CUDA's, if only those are visible */
    size_t position; /* in request.gpus (== index if that is NULL) */
    struct pci_address pci;
    const char *instance; /* as in the request */
};

struct placement_task {
    struct placement_gpu *gpus;
    size_t gpu_count;
    const struct topology_device **nics; /* in PCI order, into the topology */
    size_t nic_count;
    struct cpuset cpus; /* never empty, never outside the allocated (or the task's chosen) CPUs */
    bool bound;         /* 'cpus' is a choice of this library: bind to it, and memory to 'numa' */
    int *numa;          /* OS numbers of the NUMA nodes of 'cpus' */
    size_t numa_count;
};

struct placement {
    struct placement_task *tasks;
    size_t task_count;
    const struct topology_device **nics; /* of all tasks: the same NCCL list on each rank */
    size_t nic_count;
    size_t gpu_count; /* allocated */
    char **warnings;  /* sentences for the user: what is shared, far away or not changed */
    size_t warning_count;
};

/* Place the tasks. The result points into 'topology' and to the request's instance names, which
 * must outlive it. Returns NULL with a sentence in 'err' on failure. Caller must destroy. */
struct placement *placement_create(const struct topology *topology,
                                   const struct placement_request *request, struct error *err);
void placement_destroy(struct placement *placement);

/* Validate 'text' as a value of 'bind' or 'nics' for this number of tasks (0: unknown). For
 * clients, which have no topology. 'what' names the option in the error. Return 0 or -1. */
int placement_check_bind(const char *what, const char *text, size_t tasks, struct error *err);
int placement_check_nics(const char *what, const char *text, size_t tasks, struct error *err);

/* Parse "0-3,6", "0000:53:00.0,0000:64:00.0", "all" or "none" into a new array, which is not NULL
 * even if '*count' is 0. Returns NULL on failure. Caller frees. */
struct allocated_gpu *placement_parse_gpus(const char *what, const char *text,
                                           const struct topology *topology, size_t *count,
                                           struct error *err);

#endif
