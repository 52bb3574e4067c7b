/* SPDX-License-Identifier: Apache-2.0 */
/* Connections between rank 0 and all other ranks that outlive the loss of some of them: a star (see
 * comm/star.h) fails as a whole, but here the point is to name the rank that does not answer.
 *
 * Every rank makes the same calls in the same order. Rank 0 drops a rank that has ended or misses
 * the deadline and continues with the others. */
#ifndef MEGATRON_HUB_H
#define MEGATRON_HUB_H

#include <stddef.h>
#include "lib/error.h"

enum hub_state {
    HUB_ALIVE,
    HUB_ABSENT,   /* never connected */
    HUB_ENDED,    /* its connection was closed */
    HUB_SILENT,   /* missed a deadline */
    HUB_EXCLUDED, /* dropped by hub_drop */
};

struct hub;

/* Rank 0 waits up to 'deadline' seconds for the others and continues with those that came. Returns
 * NULL if rank 0 cannot listen or cannot be reached. Caller must close. */
struct hub *hub_open(int rank, int size, const char *host, int port, const char *secret,
                     double deadline, struct error *err);
void hub_close(struct hub *hub);

/* On rank 0: what became of a rank, and the host it connected from ("" if it never did). */
enum hub_state hub_state(const struct hub *hub, int rank);
const char *hub_host(const struct hub *hub, int rank);

/* On rank 0: exclude a rank from all further calls; it sees its connection end. */
void hub_drop(struct hub *hub, int rank);

/* Gather 'bytes' of every rank in 'all' on rank 0; the parts of ranks that are not alive are zero.
 * Returns -1 on another rank if rank 0 is gone. */
int hub_collect(struct hub *hub, const void *part, void *all, size_t bytes, double deadline,
                struct error *err);

/* Broadcast 'data' of rank 0 to all live ranks. */
int hub_share(struct hub *hub, void *data, size_t bytes, double deadline, struct error *err);

/* Scatter: each other live rank r gets part r of rank 0's 'all' in 'mine'. */
int hub_give(struct hub *hub, const void *all, void *mine, size_t bytes, double deadline,
             struct error *err);

/* How far the wall clock of each rank in 'asked' is ahead of rank 0's, in seconds, and the
 * uncertainty of that, which is half of the shortest round trip. All arrays have an element per
 * rank and are for rank 0 only. Called by rank 0 and by the ranks that it asks. */
int hub_compare_clocks(struct hub *hub, const char *asked, double *ahead, double *uncertainty,
                       double deadline, struct error *err);

#endif
