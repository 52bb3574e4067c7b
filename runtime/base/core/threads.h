/* SPDX-License-Identifier: Apache-2.0 */
/* A thread pool: a fixed set of threads that run the tasks of one job at a time. */
#ifndef MEGATRON_THREADS_H
#define MEGATRON_THREADS_H

#include <stdint.h>
#include "lib/error.h"

struct threads;

/* Create a pool of 'count' threads including the caller's; 0: one per CPU that this thread may run
 * on. Returns NULL with 'err' set. Caller must destroy. */
struct threads *threads_create(int count, struct error *err);
void threads_destroy(struct threads *threads);
int threads_count(const struct threads *threads);

/* Call task(context, i) for every i in [0, count), spread over the threads, and return when all are
 * done. Any thread may run any task: results must not depend on it. Only one thread may call this
 * at a time, and not from within a task. */
void threads_run(struct threads *threads, int64_t count, void (*task)(void *context, int64_t i),
                 void *context);

/* Call task(context, i, err) once for each i in [0, count), with a pool of up to 'threads' threads
 * that exists for this call only. After a task has returned -1, no further ones are started, and
 * its error is the result. If fewer threads can be started, those do all the work. */
int threads_loop(int threads, int64_t count,
                 int (*task)(void *context, int64_t i, struct error *err), void *context,
                 struct error *err);

#endif
