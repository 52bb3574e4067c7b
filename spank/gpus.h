/* SPDX-License-Identifier: Apache-2.0 */
/* Determine which GPUs the tasks of a node have: from Slurm's lists, from the device files that a
 * cgroup lets them open, and from what the NVIDIA driver reports about them. Uncertain results are
 * not used. */
#ifndef MEGATRON_STEP_GPUS_H
#define MEGATRON_STEP_GPUS_H

#include "lib/node.h"
#include "lib/placement.h"
#include "share.h"
#include "lib/topology.h"

enum { GPUS_MAX = 256 };

struct place_notes;

/* A GPU (or MIG instance) that the step has on this node. */
struct step_gpu {
    int slurm;     /* Slurm's number, or -1 */
    char name[96]; /* its name in CUDA_VISIBLE_DEVICES, or "" for a number */
    struct allocated_gpu gpu;
};

struct gpus {
    const struct topology *topology;
    struct node_gpu *driver; /* as the NVIDIA driver reports them */
    size_t driver_count;
    struct step_gpu items[GPUS_MAX];        /* in PCI order */
    struct allocated_gpu request[GPUS_MAX]; /* the same, for the placement */
    size_t count;
};

/* The number of GPUs that Slurm allocated on this node, from the lists of all tasks; without lists
 * 'gpus_on_node'. */
size_t gpus_count(const struct share *share, int64_t gpus_on_node);

/* Find all GPUs of the step on this node. If the result would be a guess, there are none, and a
 * note gives the reason. The driver's files are read below 'sysroot'. The caller clears the result.
 */
void gpus_find(struct gpus *gpus, const struct topology *topology, const char *sysroot,
               const struct share *share, int64_t gpus_on_node, struct place_notes *notes);
void gpus_clear(struct gpus *gpus);

/* Is it known which GPUs belong to the task? */
bool gpus_has_list(const struct share_found *found);

/* The task's own GPUs as positions among the allocated GPUs, in the order of its list; in PCI order
 * (CUDA's) if the numbers in that list are not CUDA's. Returns their number. */
size_t gpus_of_task(struct gpus *gpus, const struct share_found *found, size_t *positions);

/* The value of CUDA_VISIBLE_DEVICES that makes CUDA see exactly the 'count' allocated GPUs at
 * 'positions', in that order; "" if the task keeps its value. */
void gpus_visible(const struct gpus *gpus, const struct share_found *found, const size_t *positions,
                  size_t count, char visible[SHARE_LIST]);

/* All allocated GPUs as NVIDIA's tools name them: UUIDs, or numbers in PCI order. */
void gpus_names(const struct gpus *gpus, char names[SHARE_LIST]);

#endif
