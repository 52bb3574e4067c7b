/* SPDX-License-Identifier: Apache-2.0 */
/* Which host runs a rank, from Slurm's variables. */
#ifndef MEGATRON_HOSTS_H
#define MEGATRON_HOSTS_H

#include <stddef.h>

#include "lib/error.h"
#include "base/core/world.h"

/* The host and port on which rank 0 listens. The plugin names them. Without it: the first node of
 * the step, and a port computed from the numbers of job and step. */
int hosts_rank_0(const struct world *world, char *host, size_t size, int *port, struct error *err);

/* The host that 'rank' should be on, for ranks that never connected; "" if unknown. Slurm fills
 * node after node unless it says otherwise. */
void hosts_of_rank(int rank, const struct world *world, char *host, size_t size);

#endif
