/* The star of ranks that MPI has started. */
#ifndef MEGATRON_MPI_STAR_H
#define MEGATRON_MPI_STAR_H

#include "comm.h"
#include "star.h"

/* Connect all ranks to rank 0, whose address MPI brings to them. Collective over the world. Where a
 * rank cannot connect, within less than a minute, it warns and *star is NULL on all of them.
 * Returns -1 with 'err' set where it cannot even be tried. */
int mpi_star(const struct comm_options *options, struct star **star, struct error *err);

#endif
