/* SPDX-License-Identifier: Apache-2.0 */
/* What Slurm tells a task about itself and its step ("facts", as opposed to the user's choices). */
#ifndef MEGATRON_FACTS_H
#define MEGATRON_FACTS_H

#include <slurm/spank.h>
#include <stdbool.h>
#include <stdint.h>

#include "lib/error.h"
#include "handoff.h"

struct facts {
    uint32_t job, step, restarts;
    uint32_t rank, world, node_rank, nodes; /* over all components of a het job */
    uint32_t local, local_size;             /* on this node */
    char node[256];                         /* NodeName of this node */
    char cluster[256];
    bool het;               /* for a het job: srun cannot know the node of task 0 */
    struct handoff handoff; /* as reported by srun */
};

/* Collect the facts in task_init. Returns 0 or -1. */
int facts_read(struct facts *facts, spank_t spank, struct error *err);

/* The task's variable 'name', or "" if it is not set or does not fit. */
const char *facts_variable(spank_t spank, const char *name, char *buffer, size_t size);

#endif
