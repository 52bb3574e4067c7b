/* SPDX-License-Identifier: Apache-2.0 */
/* Communication between the ranks: groups and stream-ordered collectives behind one interface.
 *
 *     struct comm_options options = comm_options_of(&world, device, deadline);
 *     struct comm *comm = comm_open(comm_choose(size, gpu), &options, &err);
 *     struct comm_group *group = comm_group_create(comm, "world", ranks, size, &err);
 *     comm_all_reduce(group, stream, buffer, count, TYPE_FP32, COMM_SUM);    any number of times
 *     device_stream_wait(stream, deadline, &err);
 *
 * Backends: tcp (CPU memory) and nccl (GPU memory), shared objects that are opened when needed;
 * self, a world of one rank, needs neither. One `struct comm` spans the world; groups are created
 * from it.
 * - Collectives take device memory and a stream and return at once; they run in stream order. All
 *   members of a group must call the same collectives in the same order, and a group uses one
 *   stream at a time.
 * - The order of a sum is fixed by the group, so a repeated run is bit-identical (nccl: in
 *   deterministic mode).
 * - Every wait has a deadline. A timeout is an error (ERROR_RANK) that names this rank, the group,
 *   the operation and the step, and the missing ranks if they are known. Like device errors it is
 *   sticky: comm_check and every later wait return the first one, and later work does nothing.
 *   comm_abort then ends the other ranks.
 * - A group of one rank is allowed everywhere and costs at most a copy.
 *
 * Small data on the host goes over a star of TCP connections (star.h), whatever the backend. */
#ifndef MEGATRON_COMM_H
#define MEGATRON_COMM_H

#include <stddef.h>
#include <stdint.h>
#include "engine/device/device.h"
#include "engine/device/failure.h"
#include "lib/error.h"

#define COMM_ABI 10

struct comm;
struct star;
struct world;
struct comm_group;

enum comm_operator { COMM_SUM, COMM_MAX };

/* One message of comm_exchange. 'peer' is a rank of the group. */
struct comm_message {
    int peer;
    int send; /* 1: send the buffer to peer; 0: receive it from peer */
    void *buffer;
    size_t count;
    enum device_type type;
};

struct comm_options {
    int rank, size;        /* in the world */
    const char *master;    /* address of rank 0's node, for the rendezvous */
    int port;              /* a port there that this job may use */
    const char *secret;    /* what only the ranks of this step know (secret.h); NULL: nothing */
    double deadline;       /* timeout of a single wait in seconds */
    const char *longer;    /* how a user raises it, such as "raise --x"; NULL: not at all */
    struct device *device; /* whose memory and streams are used; not owned */
    int deterministic;
};

/* The first member of every backend's world: its data and its functions (see the calls below). Only
 * groups of two ranks or more get to them. */
struct comm {
    int abi;
    const char *name; /* "self", "tcp", "nccl" */
    int rank, size;
    double deadline;
    const char *longer; /* what a user can do about a timeout */
    struct device *device;
    struct star *star;      /* NULL: one rank */
    struct failure failure; /* the first one */
    int64_t step; /* for messages; use comm_set_step and comm_step, since other threads read it */

    void (*close)(struct comm *comm);
    /* Record a failure, and make the device fail with it. */
    void (*fail)(struct comm *comm, const struct error *failure);
    void (*abort)(struct comm *comm, const char *reason);

    size_t group_size; /* bytes of its structure of a group */
    /* Complete a new group, whose other members are set. */
    int (*group_create)(struct comm_group *group, const int *ranks, struct error *err);
    void (*group_destroy)(struct comm_group *group);
    void (*all_reduce)(struct comm_group *group, struct device_stream *stream, void *buffer,
                       size_t count, enum device_type type, enum comm_operator op);
    void (*all_gather)(struct comm_group *group, struct device_stream *stream, const void *part,
                       void *all, size_t count, enum device_type type);
    void (*reduce_scatter)(struct comm_group *group, struct device_stream *stream, const void *all,
                           void *part, size_t count, enum device_type type);
    void (*broadcast)(struct comm_group *group, struct device_stream *stream, void *buffer,
                      size_t count, enum device_type type, int root);
    void (*exchange)(struct comm_group *group, struct device_stream *stream,
                     const struct comm_message *messages, size_t count);
    /* Both or none. */
    void *(*register_memory)(struct comm_group *group, void *memory, size_t bytes);
    void (*unregister_memory)(struct comm_group *group, void *handle);
};

/* The first member of every backend's group. 'rank' is this process's rank within it. */
struct comm_group {
    struct comm *comm;
    char name[16];
    int rank, size;
};

/* The backend for 'size' ranks: self for one rank, nccl for GPUs, tcp for CPUs. */
const char *comm_choose(int size, int gpu);

/* The options of this rank of 'world', whose texts must outlive them; 'deterministic' is 0. */
struct comm_options comm_options_of(const struct world *world, struct device *device,
                                    double deadline);

/* Open backend 'name' ("self", "tcp", "nccl") and connect to the other ranks (rendezvous).
 * Collective over the world. Returns NULL with 'err' set. Caller must comm_close. */
struct comm *comm_open(const char *name, const struct comm_options *options, struct error *err);

/* The symbol that a backend's shared object exports: "comm_backend_open". */
typedef struct comm *comm_backend_open_function(const struct comm_options *options,
                                                struct error *err);

/* For backends: the members of a world that follow from the options. */
static inline struct comm comm_base(const char *name, const struct comm_options *options)
{
    return (struct comm){.abi = COMM_ABI,
                         .name = name,
                         .rank = options->rank,
                         .size = options->size,
                         .deadline = options->deadline,
                         .longer = options->longer ? options->longer : "run it again",
                         .device = options->device,
                         .failure = {.lock = PTHREAD_MUTEX_INITIALIZER},
                         .group_size = sizeof(struct comm_group)};
}

/* Groups must be destroyed first. Does not wait for other ranks longer than the deadline. */
static inline void comm_close(struct comm *comm)
{
    if (comm)
        comm->close(comm);
}

/* Create a group. Collective over the world: every rank calls it, in the same order, with the ranks
 * (ascending) of its own group of this kind; groups of one call must not overlap. A rank that is
 * not a member of any group passes count 0 and gets a group of size 0, which can only be destroyed.
 */
struct comm_group *comm_group_create(struct comm *comm, const char *name, const int *ranks,
                                     int count, struct error *err);
void comm_group_destroy(struct comm_group *group);

/* buffer = sum or maximum over the group, on every rank. */
static inline void comm_all_reduce(struct comm_group *group, struct device_stream *stream,
                                   void *buffer, size_t count, enum device_type type,
                                   enum comm_operator op)
{
    if (group->size > 1)
        group->comm->all_reduce(group, stream, buffer, count, type, op);
}

/* all = the parts ('count' elements each) of all ranks in order. In place if 'part' is this rank's
 * part of 'all'. */
static inline void comm_all_gather(struct comm_group *group, struct device_stream *stream,
                                   const void *part, void *all, size_t count, enum device_type type)
{
    if (group->size > 1)
        group->comm->all_gather(group, stream, part, all, count, type);
    else if (part != all)
        device_copy(stream, all, part, count * type_size(type), COPY_ON_DEVICE);
}

/* part = this rank's 'count' elements of the sum of 'all' over the group. In place if 'part' is
 * this rank's part of 'all', whose other elements are then undefined. */
static inline void comm_reduce_scatter(struct comm_group *group, struct device_stream *stream,
                                       const void *all, void *part, size_t count,
                                       enum device_type type)
{
    if (group->size > 1)
        group->comm->reduce_scatter(group, stream, all, part, count, type);
    else if (part != all)
        device_copy(stream, part, all, count * type_size(type), COPY_ON_DEVICE);
}

static inline void comm_broadcast(struct comm_group *group, struct device_stream *stream,
                                  void *buffer, size_t count, enum device_type type, int root)
{
    if (group->size > 1)
        group->comm->broadcast(group, stream, buffer, count, type, root);
}

/* Send and receive all messages as one operation of the stream. Sends and receives between two
 * ranks match in order, whatever else is in either list. At most COMM_MESSAGES, and none in a group
 * of one rank. */
#define COMM_MESSAGES 8
static inline void comm_exchange(struct comm_group *group, struct device_stream *stream,
                                 const struct comm_message *messages, size_t count)
{
    if (count > 0)
        group->comm->exchange(group, stream, messages, count);
}

/* Register device memory with the library, so that the group's collectives on it avoid a copy.
 * Every rank of the group calls it for the same buffers in the same order. Returns NULL if nothing
 * can be registered; collectives still work. Unregister before the memory is released or the group
 * is destroyed. */
static inline void *comm_register(struct comm_group *group, void *memory, size_t bytes)
{
    if (group->size < 2 || !memory || !group->comm->register_memory)
        return NULL;
    return group->comm->register_memory(group, memory, bytes);
}

static inline void comm_unregister(struct comm_group *group, void *handle)
{
    if (handle)
        group->comm->unregister_memory(group, handle);
}

/* All ranks' 'bytes' of host memory, in order, on every rank; waits. Not in the training loop. With
 * 0 bytes it is a barrier. */
int comm_host_gather(struct comm *comm, const void *part, void *all, size_t bytes,
                     struct error *err);

/* All ranks' 'bytes', in order, on rank 'root' only, which waits; other ranks may pass NULL for
 * 'all'. Its cost is linear in the number of ranks; that of comm_host_gather is quadratic. */
int comm_host_collect(struct comm *comm, const void *part, void *all, size_t bytes, int root,
                      struct error *err);

/* 'data' of rank 'root' on every rank; waits. */
int comm_host_broadcast(struct comm *comm, void *data, size_t bytes, int root, struct error *err);

/* Replace each of a few numbers by its maximum over all ranks; waits. For occasional agreement
 * among ranks in the training loop: its cost is linear in the number of ranks. */
int comm_host_max(struct comm *comm, int64_t *numbers, int count, struct error *err);

/* Set the step to name in messages. */
static inline void comm_set_step(struct comm *comm, int64_t step)
{
    __atomic_store_n(&comm->step, step, __ATOMIC_RELAXED);
}

static inline int64_t comm_step(const struct comm *comm)
{
    return __atomic_load_n(&comm->step, __ATOMIC_RELAXED);
}

/* Has anything failed? Returns 0, or -1 with the first failure. Never waits. */
static inline int comm_check(const struct comm *comm, struct error *err)
{
    return failure_check(&comm->failure, err);
}

/* Tell all reachable ranks to exit because of 'reason'. May not return (tcp prints the reason
 * and ends the process with exit code 1). */
static inline void comm_abort(struct comm *comm, const char *reason)
{
    if (comm->size > 1)
        comm->abort(comm, reason);
}

#endif
