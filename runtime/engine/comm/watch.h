/* SPDX-License-Identifier: Apache-2.0 */
/* A thread that watches a star: if another rank is lost, it reports that once and makes sure that
 * this process exits. */
#ifndef MEGATRON_WATCH_H
#define MEGATRON_WATCH_H

#include "star.h"

struct watch;

struct watch_options {
    double told;  /* seconds in which a launcher may end a rank that another one told the reason */
    double grace; /* seconds between the call of 'lost' and the end of the process */
    void (*lost)(void *context, const char *text);
    void *context;
};

/* Watch 'star'. If a rank is lost, 'lost' is called once, from the thread, with the error text; if
 * the process is still running after that, it prints the text and exits with code 1. Rank 0 notices
 * first, and the others give it a moment to report for all. Returns NULL with 'err' set if no
 * thread can be started. */
struct watch *watch_begin(struct star *star, int rank, const struct watch_options *options,
                          struct error *err);

/* Stop watching. NULL is allowed. The star must still exist. */
void watch_end(struct watch *watch);

#endif
