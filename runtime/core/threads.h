/* A fixed set of threads that run the parts of one job at a time. */
#ifndef MEGATRON_THREADS_H
#define MEGATRON_THREADS_H

#include <stdint.h>
#include "error.h"

struct threads;

/* Make a set of 'count' threads, the caller's among them; 0: as many as the process may use cores.
 * Returns NULL with 'err' set. Caller must destroy. */
struct threads *threads_create(int count, struct error *err);
void threads_destroy(struct threads *threads);
int threads_count(const struct threads *threads);

/* Call part(context, i) for every i in [0, parts), spread over the threads, and return when all are
 * done. Which thread takes a part is not fixed: results must not depend on it. Not from within a
 * part, and from one thread at a time. */
void threads_run(struct threads *threads, int64_t parts, void (*part)(void *context, int64_t i),
                 void *context);

#endif
