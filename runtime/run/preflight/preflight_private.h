/* SPDX-License-Identifier: Apache-2.0 */
/* The parts of preflight_run. */
#ifndef MEGATRON_PREFLIGHT_PRIVATE_H
#define MEGATRON_PREFLIGHT_PRIVATE_H

#include <pthread.h>
#include <stdatomic.h>

#include "judge.h"
#include "preflight.h"

/* What rank 0 tells all ranks after the facts are known. */
struct order {
    char shared_file[1024];   /* "": do not test */
    int32_t nodes;            /* of the ring */
    char mistake[ERROR_TEXT]; /* in the command line: the test ends; or "" */
};

/* This rank's position in the ring. */
struct ring_position {
    int32_t node; /* -1: not a first rank */
    struct rendezvous_address right;
};

/* One run of the tests on this rank. */
struct run {
    const struct preflight_options *options;
    const struct world *world;
    struct hub *hub;
    struct device *device;
    struct layer *layer;
    struct nvml_gpus *nvml;
    struct facts facts;
    struct measures measures;
    struct order order;
    struct ring_position position;
    int listener;
    pthread_t sampler;
    int sampling;
    atomic_int stop;
    /* on rank 0 */
    struct facts *all_facts;
    struct measures *all_measures;
    double *ahead, *uncertainty;
    int *leaders;
};

/* Measure this rank's processor and device and, on the first rank of a node, its disk; look for the
 * shared file. */
void preflight_measure(struct run *run);

/* The errno value of creating a file in a directory, or 0. */
int preflight_try_scratch(const char *directory);

#endif
