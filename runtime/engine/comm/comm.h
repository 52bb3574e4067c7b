/* SPDX-License-Identifier: Apache-2.0 */
/* Communication between the ranks: groups and stream-ordered collectives behind one interface.
 *
 * Backends: self (one rank, nothing to do), tcp (CPU memory), nccl (GPU memory); all but self are
 * shared objects that are opened when needed. One `struct comm` spans the world; groups
 * are created from it.
 * - Collectives take device memory and a stream and return at once; they run in stream order. All
 *   members of a group must call the same collectives in the same order, and a group uses one
 *   stream at a time.
 * - The order of a sum is fixed by the group, so a repeated run is bit-identical (nccl: in
 *   deterministic mode).
 * - Every wait has a deadline. A timeout is an error (ERROR_RANK) that names this rank, the group,
 *   the operation and the step, and the missing ranks if they are known. Like device errors it is
 *   sticky: comm_check and every later wait return the first one, and later work does nothing.
 *   comm_abort then ends the other ranks.
 * - A group of one rank is allowed everywhere and costs at most a copy. */
#ifndef MEGATRON_COMM_H
#define MEGATRON_COMM_H

#include <stddef.h>
#include <stdint.h>
#include "engine/device/device.h"
#include "lib/error.h"

#ifdef __cplusplus
extern "C" {
#endif

#define COMM_ABI 9

struct comm;
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

/* The first member of every backend's world: its data and its functions (see the calls below). */
struct comm {
    int abi;
    const char *name; /* "self", "tcp", "nccl" */
    int rank, size;
    double deadline;
    const char *longer; /* what a user can do about a timeout */
    struct device *device;
    int64_t step; /* for messages; use comm_set_step and comm_step, since other threads read it */

    void (*close)(struct comm *comm);
    struct comm_group *(*group_create)(struct comm *comm, const char *name, const int *ranks,
                                       int count, struct error *err);
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
    int (*host_gather)(struct comm *comm, const void *part, void *all, size_t bytes,
                       struct error *err);
    int (*host_collect)(struct comm *comm, const void *part, void *all, size_t bytes, int root,
                        struct error *err);
    int (*host_broadcast)(struct comm *comm, void *data, size_t bytes, int root, struct error *err);
    int (*host_max)(struct comm *comm, int64_t *numbers, int count, struct error *err);
    int (*check)(struct comm *comm, struct error *err);
    void (*abort)(struct comm *comm, const char *reason);
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
static inline struct comm_group *comm_group_create(struct comm *comm, const char *name,
                                                   const int *ranks, int count, struct error *err)
{
    return comm->group_create(comm, name, ranks, count, err);
}

static inline void comm_group_destroy(struct comm_group *group)
{
    if (group)
        group->comm->group_destroy(group);
}

/* buffer = sum or maximum over the group, on every rank. */
static inline void comm_all_reduce(struct comm_group *group, struct device_stream *stream,
                                   void *buffer, size_t count, enum device_type type,
                                   enum comm_operator op)
{
    group->comm->all_reduce(group, stream, buffer, count, type, op);
}

/* all = the parts ('count' elements each) of all ranks in order. In place if 'part' is this rank's
 * part of 'all'. */
static inline void comm_all_gather(struct comm_group *group, struct device_stream *stream,
                                   const void *part, void *all, size_t count, enum device_type type)
{
    group->comm->all_gather(group, stream, part, all, count, type);
}

/* part = this rank's 'count' elements of the sum of 'all' over the group. In place if 'part' is
 * this rank's part of 'all', whose other elements are then undefined. */
static inline void comm_reduce_scatter(struct comm_group *group, struct device_stream *stream,
                                       const void *all, void *part, size_t count,
                                       enum device_type type)
{
    group->comm->reduce_scatter(group, stream, all, part, count, type);
}

static inline void comm_broadcast(struct comm_group *group, struct device_stream *stream,
                                  void *buffer, size_t count, enum device_type type, int root)
{
    group->comm->broadcast(group, stream, buffer, count, type, root);
}

/* Send and receive all messages as one operation of the stream. Sends and receives between two
 * ranks match in order, whatever else is in either list. At most COMM_MESSAGES. */
#define COMM_MESSAGES 8
static inline void comm_exchange(struct comm_group *group, struct device_stream *stream,
                                 const struct comm_message *messages, size_t count)
{
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
static inline int comm_host_gather(struct comm *comm, const void *part, void *all, size_t bytes,
                                   struct error *err)
{
    return comm->host_gather(comm, part, all, bytes, err);
}

/* All ranks' 'bytes', in order, on rank 'root' only, which waits; other ranks may pass NULL for
 * 'all'. Its cost is linear in the number of ranks; that of comm_host_gather is quadratic. */
static inline int comm_host_collect(struct comm *comm, const void *part, void *all, size_t bytes,
                                    int root, struct error *err)
{
    return comm->host_collect(comm, part, all, bytes, root, err);
}

/* 'data' of rank 'root' on every rank; waits. */
static inline int comm_host_broadcast(struct comm *comm, void *data, size_t bytes, int root,
                                      struct error *err)
{
    return comm->host_broadcast(comm, data, bytes, root, err);
}

/* Replace each of a few numbers by its maximum over all ranks; waits. For occasional agreement
 * among ranks in the training loop: its cost is linear in the number of ranks. */
static inline int comm_host_max(struct comm *comm, int64_t *numbers, int count, struct error *err)
{
    return comm->host_max(comm, numbers, count, err);
}

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
static inline int comm_check(struct comm *comm, struct error *err)
{
    return comm->check(comm, err);
}

/* Tell all reachable ranks to exit because of 'reason'. May not return (tcp prints the reason
 * and ends the process with exit code 1). */
static inline void comm_abort(struct comm *comm, const char *reason)
{
    comm->abort(comm, reason);
}

#ifdef __cplusplus
}
#endif

#endif
