/* SPDX-License-Identifier: Apache-2.0 */
/* Turns arguments into the configuration of the layers below, and prints the plan before the first
 * step. */
#ifndef MEGATRON_PLAN_H
#define MEGATRON_PLAN_H

#include "arguments.h"

#include <stdio.h>

struct engine_config plan_engine(const struct arguments *arguments);

/* The result points into 'arguments'. */
void plan_dataset(const struct arguments *arguments, struct dataset_config *config);

/* Print the plan (on the rank where 'speaks' is set) and check that all memory fits the device. */
int plan_print(const struct arguments *arguments, const struct world *world, struct device *device,
               const struct parallel *parallel, int speaks, struct error *err);

/* Extend an out-of-memory error with advice how to reduce memory use. Returns -1. */
int plan_advise(const struct arguments *arguments, struct error *err);

#endif
