/* SPDX-License-Identifier: Apache-2.0 */
/* Memory that the tasks of a node share between fork and exec: each task records what Slurm gave
 * it, the last one to arrive decides for all, and all read the decision. */
#ifndef MEGATRON_SHARE_H
#define MEGATRON_SHARE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "lib/cpuset.h"
#include "lib/error.h"

enum { SHARE_TASKS_MAX = 8192, SHARE_LIST = 4096, SHARE_NUMA_MAX = 1024 };

/* What is needed after a step to clean up after the process that fetched its image. */
struct image_leftovers {
    char temporary[1024];    /* its node-local directory; "" if it never started */
    char environment[16384]; /* for the importer's `release`: "NAME=value" strings,
                                NUL-terminated; "" if it need not run on this node */
};

/* What a task finds in task_init. */
struct share_found {
    uint32_t rank;
    struct cpuset cpus;       /* its affinity */
    char gpus[SHARE_LIST];    /* Slurm's numbers of its GPUs; "" if Slurm lists none */
    char visible[SHARE_LIST]; /* its CUDA_VISIBLE_DEVICES; "" if not set */
    bool confined;            /* a device cgroup hides some GPUs from it */
    char reach[SHARE_LIST];   /* the GPUs that it can open, by the numbers of their device files */
};

/* What the task gets. */
struct share_result {
    struct cpuset cpus;
    uint64_t numa[SHARE_NUMA_MAX / 64];
    bool bind;                /* to 'cpus' */
    bool bind_memory;         /* to 'numa' */
    char gpus[SHARE_LIST];    /* MEGATRON_GPU */
    char pci[SHARE_LIST];     /* MEGATRON_GPU_PCI */
    char nics[SHARE_LIST];    /* MEGATRON_NICS */
    char visible[SHARE_LIST]; /* CUDA_VISIBLE_DEVICES, or "" to leave it alone */
    char ucx[SHARE_LIST];     /* UCX_NET_DEVICES, or "" */
    char cxi[SHARE_LIST];     /* FI_CXI_DEVICE_NAME, or "" */
};

struct share_task {
    uint32_t arrived;
    struct share_found found;
    struct share_result result;
};

enum share_state { SHARE_PENDING, SHARE_DONE, SHARE_FAILED };

struct share {
    uint32_t state;    /* enum share_state; waited for */
    uint32_t arrived;  /* number of tasks */
    uint32_t reported; /* 1: a task is reporting the failure to the user; 2: it was reported */
    uint32_t unbound;  /* a task has warned that memory is not bound */
    uint32_t end_step; /* a task failed; the step must end on all nodes */
    uint32_t tasks;
    struct error error;
    uint32_t image_state;             /* enum share_state */
    int32_t image_leader;             /* the task that starts the container */
    int32_t holder;                   /* the process to join */
    struct image_leftovers leftovers; /* of the leader, for cleanup */
    char master[256];                 /* address of rank 0's node, or "" */
    char first[256];                  /* its name, or "" */
    int64_t port;                     /* 0 if there is none */
    char nccl[SHARE_LIST];            /* NCCL_IB_HCA for all, or "" */
    char gpus[SHARE_LIST];            /* all GPUs of the step on this node, as NVIDIA's tools name
                                         them, or "" */
    bool efa;                         /* some of them are EFA NICs */
    struct share_task task[];
};

/* Write the NUMA nodes of a result as "0,1". */
void share_format_numa(const struct share_result *result, char *text, size_t size);

/* Map memory for 'tasks' tasks. Call before the fork. Returns NULL with a sentence in 'err'. */
struct share *share_create(size_t tasks, struct error *err);

/* 'tasks' as at creation: the memory itself cannot be trusted, since tasks can write to it. */
void share_destroy(struct share *share, size_t tasks);

/* Count in the caller, task 'index'. Returns true for the last one to arrive: it must decide and
 * call share_finish, since the others wait for that. */
bool share_arrive(struct share *share, size_t index);
void share_finish(struct share *share, enum share_state state);

/* Wait until share_finish has been called. Returns 0, or -1 with a sentence in 'err' after
 * 'seconds': a task has died or never arrived. */
int share_wait(struct share *share, int seconds, struct error *err);

/* The same for the container, which takes longer: the leader finishes it, and the others wait for
 * as long as the leader lives, at most 'seconds'. Returns 0 or -1. */
void share_image_finish(struct share *share, enum share_state state);
int share_image_wait(struct share *share, int64_t seconds, struct error *err);

/* True for the first caller only: one task reports a failure for the whole node. */
bool share_claim_report(struct share *share);

/* The reporting task calls the first; the others wait for it, at most 'seconds': srun may end the
 * step when the first task has failed. */
void share_reported(struct share *share);
void share_report_wait(struct share *share, int seconds);

#endif
