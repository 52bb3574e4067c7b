/* SPDX-License-Identifier: Apache-2.0 */
/* The world and the groups of the MPI backend; only for mpi.c and mpi_operations.c. */
#ifndef MEGATRON_MPI_WORLD_H
#define MEGATRON_MPI_WORLD_H

#include "comm.h"
#include "star.h"
#include "watch.h"

#include <mpi.h>
#include <pthread.h>
#include <stdatomic.h>

struct mpi_comm {
    struct comm base;
    atomic_int failed;
    pthread_mutex_t lock; /* protects the failure */
    struct error failure;
    int started_mpi; /* and therefore finalizes it */
    struct star *star;
    struct watch *watch;
};

struct mpi_group {
    struct comm_group base;
    MPI_Comm comm;
    void *space; /* for results that cannot be computed in place */
    size_t space_bytes;
};

/* Record the first failure for comm_check and make the device fail with it. Callable from any
 * thread. */
__attribute__((format(printf, 2, 3))) void mpi_fail(struct mpi_comm *comm, const char *format, ...);

/* Fill in the backend's collectives: those on streams and those on the host. */
void mpi_set_operations(struct mpi_comm *comm);

#endif
