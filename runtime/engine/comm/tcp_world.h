/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by the files of the TCP backend. */
#ifndef MEGATRON_TCP_WORLD_H
#define MEGATRON_TCP_WORLD_H

#include "comm.h"
#include "mesh.h"
#include "star.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

struct tcp_work;

struct tcp_comm {
    struct comm base;
    pthread_t watch; /* the thread that watches the other ranks */
    bool watched;
    atomic_int ended; /* the thread stops */
    struct mesh *mesh;
    uint32_t groups; /* created so far; all ranks count alike */
};

struct tcp_group {
    struct comm_group base;
    uint32_t channel;      /* for collectives; the next one is for exchanges */
    int *ranks;            /* of its members, in the world */
    struct tcp_work *idle; /* to be used again */
    void *space;           /* parts of the other ranks */
    size_t space_bytes;
    const void **parts; /* one per rank */
};

/* Record the first failure for comm_check and make the device fail with it. Callable from any
 * thread. */
__attribute__((format(printf, 2, 3))) void tcp_fail(struct tcp_comm *comm, const char *format, ...);

/* Set the collectives on streams. */
void tcp_set_operations(struct tcp_comm *comm);

/* Release the memory of the group's operations. */
void tcp_release_work(struct tcp_group *group);

/* tcp_reduce.c: sums and maxima. */
bool tcp_is_reducible(enum device_type type);

/* to = op over parts[0 .. ranks - 1], in this order. 'to' may be one of the parts. */
void tcp_reduce(void *to, const void *const *parts, int ranks, size_t count, enum device_type type,
                enum comm_operator op);

#endif
