/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by the parts of `megatron topo`: the table and the drawing. */
#ifndef MEGATRON_TOPO_H
#define MEGATRON_TOPO_H

#include <stdio.h>
#include "lib/placement.h"

/* Write "96 cores, 192 CPUs, 2 NUMA nodes, 8 GPUs, 32 compute NICs". */
void topo_summarize(const struct topology *topology, char *text, size_t size);

/* Draw the node with its GPUs, NICs and cores as SVG, colored by task. 'title' is the heading. */
void topo_draw(const char *title, const struct topology *topology,
               const struct placement *placement, FILE *file);

#endif
