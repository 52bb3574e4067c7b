/* SPDX-License-Identifier: Apache-2.0 */
/* Collectives as training uses them, NCCL between GPUs and TCP between CPU ranks: an all-reduce
 * within each node, then over each pair of nodes. */
#ifndef MEGATRON_FABRIC_H
#define MEGATRON_FABRIC_H

#include "hub.h"
#include "judge.h"
#include "base/core/world.h"

/* Called by all ranks alive. 'nodes' is the size of the ring and 'node_of' the place in it of every
 * rank (of rank 0; other ranks pass NULL). If a rank is missing nothing is tested: collectives
 * would wait for it. What goes wrong is in measures->comm_trouble. Returns -1 if rank 0 is gone. */
int fabric_measure(struct hub *hub, struct device *device, const struct world *world,
                   const int32_t *node_of, int nodes, double deadline, struct measures *measures,
                   struct error *err);

#endif
