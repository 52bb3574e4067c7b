/* SPDX-License-Identifier: Apache-2.0 */
/* The ranks of a run: the position of this one in the layout and the groups it belongs to. */
#ifndef MEGATRON_PARALLEL_H
#define MEGATRON_PARALLEL_H

#include "engine/comm/comm.h"
#include "ranges.h"

struct parallel {
    struct comm *comm; /* not owned */
    struct layout layout;
    struct layout_position at;
    struct comm_group *world;
    struct comm_group *tensor;    /* ranks that share a layer */
    struct comm_group *shared;    /* the ranks of 'tensor', for gradients of replicated parameters,
                                     which are all-reduced on another stream */
    struct comm_group *context;   /* ranks that share a sequence */
    struct comm_group *data;      /* ranks with the same weights: data- and context-parallel */
    struct comm_group *pipeline;  /* the stages, first to last */
    struct comm_group *upstream;  /* the ranks of 'pipeline', for gradients, which are sent on
                                     another  stream: neither direction may wait for the other */
    struct comm_group *embedding; /* first and last stage, which share a tied embedding; size 0 on
                                     the stages between, 1 if there is one stage */
};

/* Create the groups of 'layout', whose product must be the size of 'comm'. Collective. Returns 0 or
 * -1; parallel_destroy in both cases. */
int parallel_create(struct parallel *parallel, struct comm *comm, const struct layout *layout,
                    struct error *err);
void parallel_destroy(struct parallel *parallel);

static inline int parallel_first_stage(const struct parallel *parallel)
{
    return parallel->at.pp == 0;
}

static inline int parallel_last_stage(const struct parallel *parallel)
{
    return parallel->at.pp == parallel->layout.pp - 1;
}

#endif
