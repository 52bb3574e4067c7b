/* SPDX-License-Identifier: Apache-2.0 */
/* Which host runs a rank, from Slurm's variables and lists of hosts such as "n[1-3,07],login". */
#ifndef MEGATRON_HOSTS_H
#define MEGATRON_HOSTS_H

#include <stddef.h>
#include <stdint.h>

#include "error.h"
#include "world.h"

/* Write host number 'index' of the list into 'name'. Returns 0, or -1 if there is none or the list
 * is malformed. */
int hosts_at(const char *list, int64_t index, char *name, size_t size);

/* The host and port on which rank 0 listens. The plugin names them. Without it: the first node of
 * the step, and a port computed from the numbers of job and step. */
int hosts_rank_0(const struct world *world, char *host, size_t size, int *port, struct error *err);

/* The host that 'rank' should be on, for ranks that never connected; "" if unknown. Slurm fills
 * node after node unless it says otherwise. */
void hosts_of_rank(int rank, const struct world *world, char *host, size_t size);

#endif
