/* SPDX-License-Identifier: Apache-2.0 */
/* This process's rank and the size of the world: from the plugin's environment variables, otherwise
 * from those of srun, mpirun or torchrun. */
#ifndef MEGATRON_WORLD_H
#define MEGATRON_WORLD_H

#include <stdint.h>
#include "lib/error.h"

struct world {
    int64_t rank, size;             /* 0 and 1 by default */
    int64_t local_rank, local_size; /* among the ranks of this node */
    int64_t node_rank, nodes;
    int64_t tp, pp, cp;      /* 0: not set */
    const char *model;       /* NULL: not set; not owned */
    const char *master_addr; /* NULL: not set */
    int64_t master_port;     /* 0: not set */
    const char *secret;      /* MEGATRON_SECRET; NULL: not set */
    const char *gpus;        /* MEGATRON_GPU; NULL: not set */
    int64_t job_end;         /* seconds since 1970; 0: no limit */
    int64_t restarts;
    const char *source; /* "MEGATRON", "SLURM", "OMPI", "RANK" or "default" */
};

/* Read the environment. The source is the first of MEGATRON_*, SLURM_* (only under srun: a batch
 * script and an allocation's shell are one rank), OMPI_* and RANK-style variables that sets a rank;
 * all ranks and sizes come from this source alone. Returns 0, or -1 if a value is not a number or
 * out of range, if the plugin's contract has another version, or if world_check_plugin fails (then
 * one rank prints the error, as with world_say_once). */
int world_read(struct world *world, struct error *err);

/* Has a launcher started this process as a rank? */
int world_is_rank(void);

/* Is this a task of srun without the plugin? */
int world_is_plain_srun(void);

/* Did the step ask for the plugin, and the plugin did not run on this node? Returns 0, or -1 if
 * so. */
int world_check_plugin(struct error *err);

/* All ranks get the same command line, so an error in it is printed once: by rank 0 or, if
 * 'of_node' is set, by the first rank of each node (a file may be wrong on one node only). On the
 * others 'err' is silenced. Returns -1. */
int world_say_once(int of_node, struct error *err);

/* Terminate this process when its parent (slurmstepd, mpirun) exits: a rank must not outlive it.
 * Returns 0, or -1, also if the parent has already exited. */
int world_die_with_parent(struct error *err);

#endif
