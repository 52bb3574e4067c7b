/* SPDX-License-Identifier: Apache-2.0 */
/* The parts of `megatron launch`: which pod this is, where its ranks run, and the ranks
 * themselves. A pod is a node of the run, or a container on one: whatever has its own launcher. */
#ifndef MEGATRON_LAUNCH_H
#define MEGATRON_LAUNCH_H

#include <signal.h>
#include <stddef.h>
#include <stdint.h>

#include "lib/error.h"
#include "lib/placement.h"
#include "supervise.h"

/* Values of the command line; NULL or -1: not given. */
struct launch_options {
    const char *nproc, *kind, *master, *secret_file, *bind, *nics, *topology;
    int64_t nodes, node_rank, port, starts, pause, timeout;
    int no_secret, no_label, dry_run;
};

/* This pod, from the options and the environment. */
struct launch_pod {
    int64_t nodes;      /* number of pods */
    int64_t node_rank;  /* of this pod */
    const char *nproc;  /* NPROC_PER_NODE, ranks per pod, or NULL */
    char master[256];   /* where rank 0 listens */
    int64_t port;       /* 0: any free port; one pod only */
    int64_t world_size; /* WORLD_SIZE, the number of ranks or of pods; 0: not set */
};

/* Determine it from the options and the environment. Errors are usage errors. */
int launch_find_pod(const struct launch_options *given, struct launch_pod *pod, struct error *err);

/* Compare the number of ranks with WORLD_SIZE of the environment. */
int launch_check_world(const struct launch_pod *pod, int64_t nproc, struct error *err);

/* Wait until the master's name can be resolved: the name of a pod appears some time after the pod
 * has started. Returns 0, 1 if a signal of 'mask' arrives, or -1 after 'seconds'. */
int launch_wait_for_name(const char *master, int64_t seconds, const sigset_t *mask,
                         struct error *err);

/* Where the ranks of this pod run. */
struct launch_places {
    struct topology *topology;
    struct placement *placement; /* NULL: unknown, and ranks are not bound */
    char nccl[4096];             /* NCCL_IB_HCA, or "" */
    int efa;                     /* some of the NICs are EFA */
};

/* The number of GPUs that this pod may use. */
int launch_count_gpus(const struct launch_options *given, int64_t *count, struct error *err);

/* Place 'ranks' ranks on what this pod may use. Without hwloc there is no placement, with a note.
 * The caller clears the result in any case. */
int launch_place(const struct launch_options *given, int64_t ranks, struct launch_places *places,
                 struct error *err);
void launch_places_clear(struct launch_places *places);

/* Everything needed to start the ranks of this pod. */
struct launch_run {
    const struct launch_pod *pod;
    const struct launch_places *places;
    const char *secret; /* NULL: none */
    int64_t ranks;      /* of this pod */
    int64_t port;
    bool label; /* begin each line of output with the rank */
    int64_t restarts;
};

/* Call 'put' for each variable of a rank's environment that differs from this process's own. */
typedef void launch_put(const char *name, const char *value);
void launch_environment(const struct launch_run *run, int64_t local_rank, launch_put *put);

/* Start the ranks of this pod, forward their output and this process's signals, and wait until all
 * have ended. If one fails, the others are ended. Returns the exit code of the first that failed,
 * as a shell reports it; 0 if none did; -1 if they cannot be started. */
int launch_ranks(const struct launch_run *run, const char *const *words,
                 struct supervise_signals *signals, struct error *err);

#endif
