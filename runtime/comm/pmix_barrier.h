/* A barrier of all ranks by way of the PMIx server that started them. */
#ifndef MEGATRON_PMIX_BARRIER_H
#define MEGATRON_PMIX_BARRIER_H

#include "error.h"

/* After MPI_Init and before the first message. Open MPI ends MPI_Init with a PMIx fence without
 * data, which Slurm (seen in 22.05) lets pass at once: a rank that leaves early then sends to one
 * that cannot receive yet and crashes it (in btl/tcp, a callback that is still NULL). A fence that
 * collects data does wait for all. Does nothing where MPI came without PMIx. */
int pmix_barrier(struct error *err);

#endif
