/* A loop shared by threads. */
#ifndef MEGATRON_WORKERS_H
#define MEGATRON_WORKERS_H

#include <stdint.h>
#include "error.h"

/* Call task(arg, i) for i in [0, count), each once, by up to 'threads' threads including this one.
 * The first task that returns -1 keeps further ones from starting; its error is the result's. Where
 * threads cannot be started those that run do the work. */
int workers_run(int threads, int64_t count, int (*task)(void *arg, int64_t i, struct error *err),
                void *arg, struct error *err);

/* The threads to use where the caller asks for 'wanted': that many, or one per CPU this process may
 * run on, 16 at most, where 'wanted' is 0. */
int workers_count(int wanted);

#endif
