/* The drawing behind `megatron topo --svg`. */
#ifndef MEGATRON_TOPO_H
#define MEGATRON_TOPO_H

#include <stdio.h>
#include "placement.h"

/* Draw the node with its GPUs, NICs and cores, coloured by task, as SVG. 'title' is the heading.
 * Returns 0 or -1. */
int topo_draw(const char *title, const struct topology *topology, const struct placement *placement,
              FILE *file, struct error *err);

#endif
