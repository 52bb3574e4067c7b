/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by the files of the NCCL backend. */
#ifndef MEGATRON_NCCL_PRIVATE_H
#define MEGATRON_NCCL_PRIVATE_H

#include "comm.h"
#include "star.h"

#include <cuda_runtime_api.h>
#include <nccl.h>
#include <pthread.h>

enum { PENDING = 4096, MAX_GROUPS = 64 };

struct nccl_group {
    struct comm_group base;
    ncclComm_t comm; /* NULL for fewer than two ranks */
};

/* A collective in progress. */
struct pending {
    cudaEvent_t event;
    const char *what;
    char group[16];
    int size;
    int64_t step;
};

struct nccl_comm {
    struct comm base;
    ncclComm_t world;
    int device;
    pthread_t watchdog;
    int watching, stop;
    /* Held in every call that uses a communicator: polling one for errors also completes its
     * pending work, which two threads must not do at once. Acquired before 'lock'. */
    pthread_mutex_t calls;
    pthread_mutex_t lock; /* protects all fields below */
    struct nccl_group *groups[MAX_GROUPS];
    int group_count;
    ncclComm_t retired[MAX_GROUPS]; /* of destroyed groups */
    int retired_count;
    struct pending pending[PENDING];
    uint64_t first, next; /* pending ones are first .. next - 1 */
};

/* Record the first failure, tell this process and the other ranks, and abort kernels that wait for
 * a missing rank. */
void nccl_fail_with(struct comm *comm, const struct error *failure);
__attribute__((format(printf, 2, 3))) void nccl_fail(struct nccl_comm *comm, const char *format,
                                                     ...);

/* NCCL's text for a result, with its last error message if there is one. */
void nccl_explain(ncclResult_t result, char *text, size_t size);

/* Start the thread that watches the collectives and the other ranks. */
int nccl_start_watchdog(struct nccl_comm *comm, struct error *err);

/* Let the watchdog track what was just queued on the stream; call from one thread only. If the list
 * is full it is not tracked: the list drains faster than it fills unless something already hangs.
 */
void nccl_follow(struct nccl_group *group, cudaStream_t stream, const char *what);

#endif
