/* SPDX-License-Identifier: Apache-2.0 */
/* What the backends for CPU ranks (mpi and tcp) share: the first failure, and how collectives get
 * into a stream. */
#ifndef MEGATRON_CPU_COMM_H
#define MEGATRON_CPU_COMM_H

#include "comm.h"
#include "star.h"
#include "watch.h"

#include <pthread.h>
#include <stdatomic.h>

/* The first member of the backend's world. */
struct cpu_comm {
    struct comm base;
    atomic_int failed;
    pthread_mutex_t lock; /* protects the failure */
    struct error failure;
    struct star *star;
    struct watch *watch;
    /* Poll a collective or an exchange as device_stream_poll describes it. The operands are a
     * struct cpu_call or cpu_exchange and zeros after it, in all as many bytes as follow here. */
    int (*poll_call)(void *operands, int waits);
    int (*poll_exchange)(void *operands, int waits);
    size_t call_bytes, exchange_bytes;
};

enum cpu_kind { CPU_ALL_REDUCE, CPU_ALL_GATHER, CPU_REDUCE_SCATTER, CPU_BROADCAST, CPU_EXCHANGE };

/* "all-reduce" and so on, for messages. */
const char *cpu_kind_name(enum cpu_kind kind);

/* A collective queued on the stream. */
struct cpu_call {
    enum cpu_kind kind;
    struct comm_group *group;
    const void *from;
    void *to;
    size_t count;
    enum device_type type;
    enum comm_operator op;
    int root;
};

struct cpu_exchange {
    struct comm_group *group;
    size_t count;
    struct comm_message messages[COMM_MESSAGES];
};

/* Fill in what follows from the options, the collectives on streams, and check. */
void cpu_comm_init(struct cpu_comm *comm, const char *name, const struct comm_options *options);

/* Release what cpu_comm_init has made. */
void cpu_comm_clear(struct cpu_comm *comm);

/* Record the first failure for comm_check and make the device fail with it. Callable from any
 * thread. */
__attribute__((format(printf, 2, 3))) void cpu_fail(struct cpu_comm *comm, const char *format, ...);

/* The failure of an operation that has waited for the deadline. */
void cpu_fail_timeout(const struct comm_group *group, enum cpu_kind kind);

/* Time that a waiting caller has spent on an operation. */
struct cpu_wait {
    double asked;  /* last time a waiting caller polled; 0: not since */
    double waited; /* seconds */
};

/* Count a poll. Only waiting time counts: a busy rank must not give up on the others. Returns 1 if
 * the deadline has passed. */
int cpu_wait_count(const struct cpu_comm *comm, struct cpu_wait *wait, int waits);

#endif
