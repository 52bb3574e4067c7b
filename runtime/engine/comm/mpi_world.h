/* SPDX-License-Identifier: Apache-2.0 */
/* The world and the groups of the MPI backend; only for mpi.c and mpi_operations.c. */
#ifndef MEGATRON_MPI_WORLD_H
#define MEGATRON_MPI_WORLD_H

#include "cpu_comm.h"

#include <mpi.h>
#include <stdatomic.h>

struct mpi_comm {
    struct cpu_comm cpu;
    int started_mpi; /* and therefore finalizes it */
    MPI_Op sum_bf16;
    atomic_int aborting;
};

struct mpi_group {
    struct comm_group base;
    MPI_Comm comm;
    void *space; /* for results that cannot be computed in place */
    size_t space_bytes;
};

/* Fill in the backend's collectives: those on streams and those on the host. */
void mpi_set_operations(struct mpi_comm *comm);

/* Reductions that MPI does not have, between MPI_Init and MPI_Finalize. */
int mpi_create_operators(struct mpi_comm *comm, struct error *err);
void mpi_destroy_operators(struct mpi_comm *comm);

#endif
