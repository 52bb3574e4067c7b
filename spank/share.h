/* Memory that the tasks of a node share between fork and exec: each records what Slurm gave it,
 * the last to arrive decides for all, and all read the decision. */
#ifndef MEGATRON_SHARE_H
#define MEGATRON_SHARE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "cpuset.h"
#include "error.h"
#include "image_places.h"

enum { SHARE_TASKS_MAX = 8192, SHARE_LIST = 4096, SHARE_NUMA_MAX = 1024 };

/* What a task found in task_init. */
struct share_found {
    uint32_t rank;
    struct cpuset cpus;       /* its affinity */
    char gpus[SHARE_LIST];    /* Slurm's numbers of its GPUs; "" if Slurm names none */
    char visible[SHARE_LIST]; /* its CUDA_VISIBLE_DEVICES; "" if not set */
    bool confined;            /* a device cgroup hides some GPUs from it */
    char reach[SHARE_LIST];   /* the GPUs that it can open, by the numbers of their device files */
};

/* What it gets. */
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
    uint32_t reported; /* 1: someone tells the user about the failure; 2: the user was told */
    uint32_t unbound;  /* a task has warned that memory is not bound */
    uint32_t end_step; /* a task failed; the step is to end on all nodes */
    uint32_t tasks;
    struct error error;
    uint32_t image_state;       /* enum share_state */
    int32_t image_leader;       /* the task that starts the container */
    int32_t holder;             /* the process to join */
    struct image_places places; /* of the leading task, for clean-up */
    char master[256];           /* address of the node of rank 0, or "" */
    char first[256];            /* its name, or "" */
    int64_t port;               /* 0 if there is none */
    char nccl[SHARE_LIST];      /* NCCL_IB_HCA for all, or "" */
    char gpus[SHARE_LIST];      /* all GPUs of the step here, as NVIDIA's tools name them, or "" */
    bool efa;                   /* EFA NICs are among them */
    struct share_task task[];
};

/* Add a word to a list that is separated by commas, unless it has no room. */
void share_list_add(char list[SHARE_LIST], const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* Map memory for 'tasks' tasks. Returns NULL with a sentence in 'err'. Before the fork. */
struct share *share_create(size_t tasks, struct error *err);

/* 'tasks' as at creation: the memory itself cannot be trusted, since tasks can write to it. */
void share_destroy(struct share *share, size_t tasks);

/* Count the caller, task 'index', in. Returns true for the one that came last: it must decide and
 * call share_finish, since the others wait for that. */
bool share_arrive(struct share *share, size_t index);
void share_finish(struct share *share, enum share_state state);

/* Wait until someone has called share_finish. Returns 0, or -1 with a sentence in 'err' when
 * 'seconds' have passed: a task has died, or never came. */
int share_wait(struct share *share, int seconds, struct error *err);

/* The same for the container, which takes longer: the leader ends it, the others wait for as long
 * as the leader lives and at most 'seconds'. Returns 0 or -1. */
void share_image_finish(struct share *share, enum share_state state);
int share_image_wait(struct share *share, int64_t seconds, struct error *err);

/* True for the first caller only: one task reports a failure for the node. */
bool share_claim_report(struct share *share);

/* The task that reports calls the first; the others wait for that, and at the latest until
 * 'seconds': srun may end the step when the first task has failed. */
void share_reported(struct share *share);
void share_report_wait(struct share *share, int seconds);

#endif
