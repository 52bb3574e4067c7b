/* SPDX-License-Identifier: Apache-2.0 */
/* A thread that watches a star: if another rank is lost, it reports that once and makes sure that
 * this process exits. */
#ifndef MEGATRON_WATCH_H
#define MEGATRON_WATCH_H

#include "star.h"

struct watch;

/* Watch 'star'. If a rank is lost, 'lost' is called once, from the thread, with the error text; if
 * the process is still running a few seconds later, it exits with code 1. Rank 0 notices first, and
 * the others give it a moment to report for all. A rank that was told the reason by another one
 * waits for 'told' seconds, in which a launcher may end it. Returns NULL with 'err' set if no
 * thread can be started. */
struct watch *watch_begin(struct star *star, int rank, double told,
                          void (*lost)(void *context, const char *text), void *context,
                          struct error *err);

/* Stop watching. NULL is allowed. The star must still exist. */
void watch_end(struct watch *watch);

#endif
