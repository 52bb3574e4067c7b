/* SPDX-License-Identifier: Apache-2.0 */
/* The port of a step's rendezvous. Every node must compute the same one without communication. */
#ifndef MEGATRON_RENDEZVOUS_PORT_H
#define MEGATRON_RENDEZVOUS_PORT_H

#include <stdint.h>

/* What the port of a step depends on. */
struct rendezvous_step {
    const char *cluster;
    uint32_t job, step, restarts;
    int64_t low, high; /* the range to choose from, both included */
};

/* Port number 'attempt' (0, 1, ...) of the step. Steps that run at about the same time get
 * different ports: consecutive steps of a job, and jobs with nearby numbers, never share the port
 * of attempt 0 (8 steps of each job in a row, as many jobs as a 16th of the range). A hash of the
 * cluster's name separates clusters. */
int64_t rendezvous_port(const struct rendezvous_step *step, unsigned attempt);

/* The first port of SLURM_STEP_RESV_PORTS ("21001-21004"), or 0 if there is none. */
int64_t rendezvous_reserved(const char *text);

#endif
