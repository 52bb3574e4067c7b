/* SPDX-License-Identifier: Apache-2.0 */
/* TCP connections between every two ranks, and messages over them. One thread uses a mesh; nothing
 * moves unless it calls mesh_progress.
 *
 * Messages between two ranks on one channel match in the order in which they were sent and
 * expected. A message that arrives before it is expected is kept, in memory that grows as its data
 * arrives. */
#ifndef MEGATRON_COMM_MESH_H
#define MEGATRON_COMM_MESH_H

#include <stddef.h>
#include <stdint.h>

#include "lib/error.h"
#include "star.h"

struct mesh;

/* The largest message. A header that announces more is an error: it does not come from a rank. */
#define MESH_MOST_BYTES ((uint64_t)1 << 40)

/* A message to send or to receive. It and its data belong to the caller and must stay where they
 * are until it is done; then *pending has been reduced by 1. */
struct mesh_message {
    int peer; /* a rank of the world */
    uint32_t channel;
    void *data;
    size_t bytes;
    int *pending;
    struct mesh_message *next; /* used by the mesh */
};

/* Connect all ranks of 'star' with each other. All listening sockets are closed at the end. Returns
 * NULL with 'err' set, which names the missing ranks, after 'deadline' seconds. Caller must
 * destroy. */
struct mesh *mesh_create(struct star *star, int rank, int size, const struct secret_key *key,
                         double deadline, struct error *err);

/* Forgets all messages. NULL is allowed. */
void mesh_destroy(struct mesh *mesh);

/* Begin to send or to receive a message. *pending has already been counted by the caller. */
void mesh_send(struct mesh *mesh, struct mesh_message *message);
void mesh_receive(struct mesh *mesh, struct mesh_message *message);

/* Move what can be moved; if there is nothing, wait for at most 'microseconds'. Returns 0, or -1 if
 * two ranks disagree about the size of a message or one is larger than MESH_MOST_BYTES. The end of
 * a connection is not an error here: the star reports which rank has ended, and why. */
int mesh_progress(struct mesh *mesh, int microseconds, struct error *err);

#endif
