/* SPDX-License-Identifier: Apache-2.0 */
/* Internal to the placement library: a placement under construction, that is, which CPUs, GPUs and
 * NICs are bound to which task. */
#ifndef MEGATRON_PLACEMENT_BINDING_H
#define MEGATRON_PLACEMENT_BINDING_H

#include <stdbool.h>
#include "lib/placement.h"

enum bind_policy { BIND_AUTO, BIND_NONE, BIND_GPU, BIND_NUMA, BIND_CORE, BIND_LIST };
enum nic_policy { NICS_AUTO, NICS_NONE, NICS_ALL, NICS_LIST };

/* A core with at least one allocated CPU. */
struct binding_core {
    int core; /* in the topology */
    int numa;
};

/* A allocated GPU, in PCI order. */
struct binding_gpu {
    const struct topology_device *device;
    struct placement_gpu gpu;
};

struct binding {
    const struct topology *topology;
    const struct placement_request *request;
    size_t tasks;
    enum bind_policy bind;
    struct cpuset *lists; /* BIND_LIST with several: one per task */
    enum nic_policy nic_policy;
    const struct topology_device ***nic_lists; /* NICS_LIST with several: one per task */
    size_t *nic_list_counts;

    struct cpuset cpus; /* allocated, and known to the topology */
    struct binding_core *cores;
    size_t core_count;
    struct binding_gpu *gpus;
    size_t gpu_count;
    const struct topology_device **nics; /* that may be used, in PCI order */
    size_t nic_count;

    /* Divide CPUs first, then assign GPUs to the nearest tasks. */
    bool cpus_first;
    /* tasks x gpu_count: may a task use a GPU? The result of bind_gpus. */
    unsigned char *owns;
    struct placement *result;
};

/* policy.c: parse the policies of the request. Return 0 or -1. */
int binding_read_bind(struct binding *binding, struct error *err);
int binding_read_nics(struct binding *binding, struct error *err);

/* gpus.c, cpus.c, nics.c: fill in 'owns', the CPUs and the NICs of every task. Return 0 or -1. */
int bind_gpus(struct binding *binding, struct error *err);
int bind_cpus(struct binding *binding, struct error *err);
int bind_nics(struct binding *binding, struct error *err);

/* The number of allocated CPUs of a core. */
size_t binding_threads(const struct binding *binding, const struct binding_core *core);
/* Place 'count' tasks on 'core_count' cores, which are fewer: no two tasks share a hardware thread
 * while there are enough of them. Returns 0 or -1. */
int bind_oversubscribed(struct binding *binding, const struct binding_core *cores,
                        size_t core_count, const size_t *tasks, size_t count, struct error *err);

/* Warn about tasks whose CPUs are not near their GPUs, once both are known. */
void binding_warn_distance(struct binding *binding);

/* Has the user chosen the CPUs, or the GPUs, of 'task'? */
bool binding_has_cpus(const struct binding *binding, size_t task);
bool binding_has_gpus(const struct binding *binding, size_t task);

/* Has bind_gpus given 'task' a GPU? */
bool binding_uses_gpu(const struct binding *binding, size_t task);

/* Record a warning for the user. It is lost if out of memory. */
void binding_warn(struct binding *binding, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* tree.c: 'place' or its nearest ancestor that is not a bridge. */
int tree_home(const struct topology *topology, int place);
bool tree_is_below(const struct topology *topology, int place, int above);
/* The distance of two places: 0 if they are the same, then by what they have in common: a bridge, a
 * group, a package, the machine. */
int tree_distance(const struct topology *topology, int a, int b);

/* divide.c: split a row of 'items' into 'parts' of equal size (they differ by at most one item), at
 * least one item each, at the widest gaps: gaps[i] is the gap before item i. Writes parts + 1
 * boundaries to 'cuts', from 0 to items. Needs items >= parts >= 1. Returns 0 or -1. */
int divide_row(size_t items, size_t parts, const int *gaps, size_t *cuts, struct error *err);

/* Split 'items' into 'parts' in proportion to 'weights', at least one item each. Needs items >=
 * parts. */
void divide_weighted(size_t items, size_t parts, const size_t *weights, size_t *cuts);

#endif
