/* The ranks' line to rank 0: TCP connections on which they meet, exchange small things outside the
 * training loop, and learn that another rank has ended or that its node is gone (see rendezvous.h).
 */
#ifndef MEGATRON_STAR_H
#define MEGATRON_STAR_H

#include <stddef.h>
#include <stdint.h>

#include "error.h"
#include "rendezvous.h"

struct star;

/* Meet: rank 0 listens on 'port', the others connect to 'master' (NULL: this node). Returns NULL
 * after 'deadline' seconds, saying which ranks were missing. Caller must destroy. */
struct star *star_create(int rank, int size, const char *master, int port, double deadline,
                         struct error *err);

/* The same where rank 0 listens already, by rendezvous_listen, and has told the others its address.
 * 'listener' is rank 0's, and stays its own. */
struct star *star_join(int rank, int size, const struct rendezvous_address *address, int listener,
                       double deadline, struct error *err);

/* Says goodbye first, so that the others do not take the end for a failure. */
void star_destroy(struct star *star);

/* All ranks' 'bytes', in order, on every rank. */
int star_gather(struct star *star, const void *part, void *all, size_t bytes, double deadline,
                struct error *err);

/* The same on rank 'root' alone; 'all' is for no other. */
int star_collect(struct star *star, const void *part, void *all, size_t bytes, int root,
                 double deadline, struct error *err);

/* 'data' of rank 'root' on every rank. */
int star_broadcast(struct star *star, void *data, size_t bytes, int root, double deadline,
                   struct error *err);

/* Each number becomes the greatest that any rank has in its place; at most STAR_NUMBERS. */
#define STAR_NUMBERS 8
int star_max(struct star *star, int64_t *numbers, int count, double deadline, struct error *err);

/* Has another rank failed or vanished? Returns 0; STAR_LOST where one has ended without a word or
 * answers no more; STAR_TOLD where one has told why it fails; both with a sentence. Never waits.
 * From any thread; its cost does not grow with the ranks. */
#define STAR_LOST (-1)
#define STAR_TOLD (-2)
int star_check(struct star *star, struct error *err);

/* The same, but waits until there is such news, 'seconds' are over or star_wake is called. */
int star_wait(struct star *star, double seconds, struct error *err);
void star_wake(struct star *star);

/* Tell all other ranks that this one fails, and why. From any thread. */
void star_abort(struct star *star, const char *reason);

/* How long a node may answer nothing before it counts as gone (RENDEZVOUS_SILENCE). */
void star_set_silence(struct star *star, int seconds);

#endif
