/* SPDX-License-Identifier: Apache-2.0 */
/* Measures collectives between the ranks of a job: within a node, and between nodes. */
#ifndef MEGATRON_CALIBRATE_COLLECTIVES_H
#define MEGATRON_CALIBRATE_COLLECTIVES_H

#include "engine/device/device.h"
#include "machine.h"
#include "base/core/world.h"

/* Replace the rates of the links in 'machine': those within a node if a node has several ranks, and
 * those of the network if there are several nodes. All ranks of the job call it; all get the same
 * rates. 'known': the bandwidths in 'machine' are those of a data sheet, which stay; otherwise they
 * follow from what is measured. */
int calibrate_collectives(struct machine *machine, int known, struct device *device,
                          const struct world *world, struct error *err);

#endif
