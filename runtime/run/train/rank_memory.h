/* SPDX-License-Identifier: Apache-2.0 */
/* The memory that each rank will need: computed and printed before the first step. */
#ifndef MEGATRON_RANK_MEMORY_H
#define MEGATRON_RANK_MEMORY_H

#include "arguments.h"

#include <stdio.h>

/* The memory that one rank needs. In host memory: 'copy' is what a checkpoint
 * takes while it is written; 'offloaded' is the optimizer's state that is there; 'sums' is the
 * other ranks' parts of the largest gradient bucket, which CPU ranks add up; 'workspace' is that of
 * the CPU device's products. */
struct rank_memory {
    struct model_memory device;
    int64_t parameters;
    size_t copy, sums, offloaded, workspace;
};

/* The memory of the rank at 'at', from the functions that lay out its arenas. Needs no device. */
int rank_memory_of(const struct arguments *arguments, const struct layout_position *at,
                   struct rank_memory *memory, struct error *err);

/* Print the run and its memory (on the rank where 'speaks' is set) and check that all memory fits
 * the device. */
int rank_memory_check(const struct arguments *arguments, const struct world *world,
                      struct device *device, const struct parallel *parallel, int speaks,
                      struct error *err);

/* Print the part of that which needs no device: the run, and one rank of each kind. */
void rank_memory_print_run(const struct arguments *arguments);
int rank_memory_print_ranks(const struct arguments *arguments, struct error *err);

/* Extend an out-of-memory error with advice how to reduce memory use. Returns -1. */
int rank_memory_advise(const struct arguments *arguments, struct error *err);

#endif
