/* SPDX-License-Identifier: Apache-2.0 */
/* The star for ranks that were started by MPI. */
#ifndef MEGATRON_MPI_STAR_H
#define MEGATRON_MPI_STAR_H

#include "comm.h"
#include "star.h"

/* Connect all ranks to rank 0, whose address MPI broadcasts. Collective over the world. If a rank
 * cannot connect within less than a minute, *star is NULL on all ranks and 'warning' is set on the
 * lowest rank that cannot. Returns -1 with 'err' set if the attempt itself fails. */
int mpi_star(const struct comm_options *options, struct star **star, struct error *warning,
             struct error *err);

#endif
