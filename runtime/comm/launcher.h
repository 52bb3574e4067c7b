/* What the PMIx server that started the ranks (slurmstepd or mpirun) does for them. */
#ifndef MEGATRON_LAUNCHER_H
#define MEGATRON_LAUNCHER_H

#include "error.h"

/* Did srun start this rank without a server that MPI could meet the others by, as --mpi=none does,
 * the default of many clusters? MPI_Init would end it with twenty lines that do not say what to do.
 */
int launcher_missing(void);

/* A barrier of all ranks, after MPI_Init and before the first message. Open MPI ends MPI_Init with
 * a PMIx fence without data, which Slurm (seen in 22.05) lets pass at once: a rank that leaves
 * early then sends to one that cannot receive yet and crashes it (in btl/tcp, a callback that is
 * still NULL). A fence that collects data does wait for all. Does nothing where MPI came without
 * PMIx. */
int launcher_barrier(struct error *err);

/* Ask for the end of all ranks: what MPI_Abort does, without the eight lines it prints on every
 * rank. Returns -1 where MPI came without PMIx, or the server refuses. */
int launcher_abort(void);

#endif
