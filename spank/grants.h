/* Which GPUs the tasks of a node have, as far as that is certain: from Slurm's lists, from what a
 * device cgroup lets them open, and from what NVIDIA's driver says of its device files. */
#ifndef MEGATRON_GRANTS_H
#define MEGATRON_GRANTS_H

#include "node.h"
#include "placement.h"
#include "share.h"
#include "topology.h"

enum { GRANTS_MAX = 256 };

struct place_notes;

/* A GPU (or MIG instance) that the step has on this node. */
struct granted {
    int slurm;     /* Slurm's number; -1 where it has none */
    char name[96]; /* its word in CUDA_VISIBLE_DEVICES where that is no number, or "" */
    struct placement_grant grant;
};

struct grants {
    const struct topology *topology;
    struct node_gpu *driver; /* by the word of NVIDIA's driver */
    size_t driver_count;
    struct granted granted[GRANTS_MAX];        /* in PCI order */
    struct placement_grant grants[GRANTS_MAX]; /* the same, for the placement */
    size_t count;
};

/* The number of GPUs that Slurm granted on this node, by all tasks' lists; else what Slurm says. */
size_t grants_count(const struct share *share, int64_t gpus_on_node);

/* Find all GPUs of the step on this node. None, and a note that says why, where that would be a
 * guess. The driver's files are read below 'sysroot'. Caller clears. */
void grants_find(struct grants *grants, const struct topology *topology, const char *sysroot,
                 const struct share *share, int64_t gpus_on_node, struct place_notes *notes);
void grants_clear(struct grants *grants);

/* Does anything say which GPUs are the task's? */
bool grants_has_list(const struct share_found *found);

/* The task's own GPUs as positions among the granted, in the order of its list; in PCI order, which
 * is CUDA's, where the numbers of that list are not CUDA's. Returns how many. */
size_t grants_of_task(struct grants *grants, const struct share_found *found, size_t *positions);

/* CUDA_VISIBLE_DEVICES such that CUDA, in PCI order, sees just the 'count' granted ones at
 * 'positions', in that order; "" where what the task has is to stay. */
void grants_visible(const struct grants *grants, const struct share_found *found,
                    const size_t *positions, size_t count, char visible[SHARE_LIST]);

/* All of them as NVIDIA's tools name them: UUIDs, or numbers in PCI order. */
void grants_names(const struct grants *grants, char names[SHARE_LIST]);

#endif
