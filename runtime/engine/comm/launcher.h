/* SPDX-License-Identifier: Apache-2.0 */
/* Services of the PMIx server (in slurmstepd or mpirun) that started the ranks. */
#ifndef MEGATRON_LAUNCHER_H
#define MEGATRON_LAUNCHER_H

#include "lib/error.h"

/* Did srun start this rank without a PMIx server, as with --mpi=none, the default of many clusters?
 * MPI_Init would fail with twenty lines that do not say what to do. */
int launcher_missing(void);

/* A barrier of all ranks, after MPI_Init and before the first message. Open MPI ends MPI_Init with
 * a PMIx fence without data, which Slurm (seen in 22.05) lets pass at once: a rank that leaves
 * early then sends to one that cannot receive yet and crashes it (in btl/tcp, a callback is still
 * NULL). A fence that collects data does wait for all. Does nothing if MPI was started without
 * PMIx. */
int launcher_barrier(struct error *err);

/* Will launcher_abort have a function to call once MPI has started? */
int launcher_can_abort(void);

/* Ask the server to end all ranks, as MPI_Abort does, but without the eight lines that it prints on
 * every rank. Returns -1 if MPI was started without PMIx or the server refuses. */
int launcher_abort(void);

#endif
