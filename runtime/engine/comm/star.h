/* SPDX-License-Identifier: Apache-2.0 */
/* A star of TCP connections between rank 0 and all other ranks. They exchange small data outside
 * the training loop and detect that another rank has exited or its node is gone (see rendezvous.h).
 */
#ifndef MEGATRON_STAR_H
#define MEGATRON_STAR_H

#include <stddef.h>
#include <stdint.h>

#include "lib/error.h"
#include "rendezvous.h"

struct star;

/* Rendezvous: rank 0 listens on 'port', the others connect to 'master' (NULL: this node). All have
 * the same key. Returns NULL after 'deadline' seconds with an error that names the missing ranks.
 * Caller must destroy. */
struct star *star_create(int rank, int size, const char *master, int port,
                         const struct secret_key *key, double deadline, struct error *err);

/* Rendezvous with a socket on which rank 0 already listens (rendezvous_listen) and whose address
 * the others know. 'listener' is that socket, which stays open; only rank 0 uses it. */
struct star *star_join(int rank, int size, const struct rendezvous_address *address, int listener,
                       double deadline, struct error *err);

/* Tell the other ranks that this one leaves on purpose, and close the connections. */
void star_destroy(struct star *star);

/* All ranks' 'bytes', in order, on every rank. */
int star_gather(struct star *star, const void *part, void *all, size_t bytes, double deadline,
                struct error *err);

/* All ranks' 'bytes', in order, on rank 'root' only; others may pass NULL for 'all'. */
int star_collect(struct star *star, const void *part, void *all, size_t bytes, int root,
                 double deadline, struct error *err);

/* 'data' of rank 'root' on every rank. */
int star_broadcast(struct star *star, void *data, size_t bytes, int root, double deadline,
                   struct error *err);

/* Replace each number by its maximum over all ranks; at most STAR_NUMBERS. */
#define STAR_NUMBERS 8
int star_max(struct star *star, int64_t *numbers, int count, double deadline, struct error *err);

/* Has another rank failed or vanished? */
enum star_news {
    STAR_QUIET = 0,
    STAR_LOST = -1, /* one has exited without a goodbye or does not answer; 'err' is set */
    STAR_TOLD = -2, /* one has sent the reason for its failure, which is in 'err' */
};

/* Wait for such news, up to 'seconds' or until star_wake is called. With 0 seconds it never waits.
 * Callable from any thread; the cost does not grow with the number of ranks. */
enum star_news star_wait(struct star *star, double seconds, struct error *err);
void star_wake(struct star *star);

/* Tell all other ranks that this one failed, and why. Callable from any thread. */
void star_abort(struct star *star, const char *reason);

/* The address of this node's end of the connection to another rank, unless that is a loopback
 * address: then "". */
void star_address(const struct star *star, char *text, size_t size);

#endif
