/* SPDX-License-Identifier: Apache-2.0 */
/* Turns arguments into the configuration of the layers below, and prints the plan before the first
 * step. */
#ifndef MEGATRON_PLAN_H
#define MEGATRON_PLAN_H

#include "arguments.h"

#include <stdio.h>

/* Memory needs of one rank. In host memory: 'copy' is its shard while a checkpoint is written;
 * 'offloaded' is the optimizer's state that is there; 'sums' is the largest gradient bucket, which MPI reduces before each rank gets its part. */
struct rank_plan {
    struct model_memory memory;
    int64_t parameters;
    size_t copy, sums, offloaded;
};

/* The memory of the rank at 'at', from the functions that lay out its arenas. Needs no device. */
int plan_rank(const struct arguments *arguments, const struct layout_position *at,
              struct rank_plan *plan, struct error *err);

struct engine_config plan_engine(const struct arguments *arguments);

/* The result points into 'arguments'. */
void plan_dataset(const struct arguments *arguments, struct dataset_config *config);

/* Print the plan (on the rank where 'speaks' is set) and check that all memory fits the device. */
int plan_print(const struct arguments *arguments, const struct world *world, struct device *device,
               const struct parallel *parallel, int speaks, struct error *err);

/* The parts of plan_print that need no device: the run, and one rank of each kind. */
void plan_print_run(const struct arguments *arguments);
int plan_print_ranks(const struct arguments *arguments, struct error *err);

/* Extend an out-of-memory error with advice how to reduce memory use. Returns -1. */
int plan_advise(const struct arguments *arguments, struct error *err);

#endif
