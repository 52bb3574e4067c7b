/* SPDX-License-Identifier: Apache-2.0 */
/* How fast this rank's cores and memory are, and how much of the time it is not running.
 *
 * Speeds are the best of many short runs, in CPU time: other processes on the same core, which on a
 * busy test machine are normal, do not change them. What keeps a rank from running is reported
 * separately, by cause: it waits for a core that another process uses, or it is held back (stopped,
 * or limited by a cgroup) although a core is free. */
#ifndef MEGATRON_PROCESSOR_H
#define MEGATRON_PROCESSOR_H

#include "lib/error.h"

struct processor {
    double core;    /* operations per second of the slowest core that this rank may use ... */
    int slowest;    /* ... and its number */
    double memory;  /* bytes per second of a copy, read and written */
    double waiting; /* share of the time that this rank waited for a core */
    double held;    /* share of the time that it was held back otherwise */
};

/* Measure for about 'seconds'. */
void processor_measure(struct processor *processor, double seconds);

/* Shares of the time since 'begin' that the calling thread did not run. */
struct shares {
    double wall, cpu, delay, limited; /* seconds */
};
void shares_begin(struct shares *begin);
void shares_end(const struct shares *begin, double *waiting, double *held);

#endif
