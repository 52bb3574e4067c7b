/* Who am I among the ranks: from the contract, else from what srun, mpirun or torchrun exported. */
#ifndef MEGATRON_WORLD_H
#define MEGATRON_WORLD_H

#include <stdint.h>
#include "error.h"

struct world {
    int64_t rank, size;             /* 0 and 1 where nothing says otherwise */
    int64_t local_rank, local_size; /* among the ranks of this node */
    int64_t node_rank, nodes;
    int64_t tp, pp, cp;      /* 0 where the environment does not say */
    const char *model;       /* NULL where the environment does not say; not owned */
    const char *master_addr; /* NULL likewise */
    int64_t master_port;     /* 0 likewise */
    const char *gpus;        /* MEGATRON_GPU; NULL likewise */
    int64_t job_end;         /* seconds since 1970, 0 where there is no limit */
    int64_t restarts;
    const char *source; /* "MEGATRON", "SLURM", "OMPI", "RANK" or "default" */
};

/* Read the environment. The source is the first of MEGATRON_*, SLURM_* (only under srun: a batch
 * script and an allocation's shell are one rank), OMPI_* and RANK-style variables that names a
 * rank; all numbers of rank and size come from it alone. Returns 0, or -1 where a value is not a
 * number, is out of range, or is of a contract this program does not know. */
int world_read(struct world *world, struct error *err);

/* All ranks are given the same command line, so what is wrong with it is said once: keep 'err' on
 * rank 0, or where 'of_node' is set on the first rank of each node (what stands in files may be
 * wrong on one node alone), and empty it on the others; main() then lets that one speak first.
 * Returns -1. */
int world_say_once(int of_node, struct error *err);

/* Take the process down with its parent (slurmstepd, mpirun): a rank whose parent died must not
 * live on. Returns 0 or -1; it fails where the parent is gone already. */
int world_die_with_parent(struct error *err);

#endif
