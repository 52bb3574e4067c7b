/* The port at which the ranks of a step meet. Every node must come to the same one without asking.
 */
#ifndef MEGATRON_RENDEZVOUS_H
#define MEGATRON_RENDEZVOUS_H

#include <stdint.h>

/* A step, as far as it tells ports apart. */
struct rendezvous {
    const char *cluster;
    uint32_t job, step, restarts;
    int64_t low, high; /* the range to choose from, both included */
};

/* Port number 'attempt' (0, 1, ...) of the step. Neighbours in time get ports of their own: the
 * steps of a job, and jobs whose numbers are near, never share the port of attempt 0 (8 steps of
 * each job in a row, as many jobs as a 16th of the range); other clusters are moved by a hash of
 * their name. */
int64_t rendezvous_port(const struct rendezvous *step, unsigned attempt);

/* The first port of SLURM_STEP_RESV_PORTS ("21001-21004"), or 0 where it has none. */
int64_t rendezvous_reserved(const char *text);

/* Can this process listen on 'port'? Returns 1 or 0; 1 also where it cannot be found out. */
int rendezvous_port_free(int64_t port);

#endif
