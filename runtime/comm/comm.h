/* Communication between the ranks: groups and stream-ordered collectives behind one interface.
 *
 * Backends: self (one rank, nothing to do), mpi (CPU memory), nccl (GPU memory); the last two are
 * shared objects opened when needed. One `struct comm` spans the world; groups are cut from it.
 *
 * - Collectives take device memory and a stream and return at once; they run in the order of the
 *   stream. All members of a group must call the same collectives in the same order, and a group
 *   keeps to one stream at a time.
 * - Sums run in an order fixed by the group, so a repeated run gives the same bits (nccl: in
 *   deterministic mode).
 * - No wait is without end: what is not done within the deadline is an error that names this rank,
 *   the group, the operation and the step, and the ranks that are missing where that is known. Like
 *   errors of a device it is sticky: the first one comes out of comm_check and of every later wait;
 *   work after it does nothing. comm_abort then ends the other ranks.
 * - A group of one rank is legal everywhere and costs at most a copy. */
#ifndef MEGATRON_COMM_H
#define MEGATRON_COMM_H

#include <stddef.h>
#include <stdint.h>
#include "device.h"
#include "error.h"

#ifdef __cplusplus
extern "C" {
#endif

#define COMM_ABI 5

struct comm;
struct comm_group;

enum comm_operator { COMM_SUM, COMM_MAX };

/* One message of comm_exchange. 'peer' is a rank of the group. */
struct comm_message {
    int peer;
    int send; /* 1: buffer goes to peer; 0: buffer is filled by peer */
    void *buffer;
    size_t count;
    enum device_type type;
};

struct comm_options {
    int rank, size;        /* in the world */
    const char *master;    /* address of rank 0's node, for the rendezvous */
    int port;              /* a port on it that is ours */
    double deadline;       /* seconds any single wait may take */
    struct device *device; /* whose memory and streams are used; not owned */
    int deterministic;
};

/* The head of every backend's world and what it implements; see the calls below. */
struct comm {
    int abi;
    const char *name; /* "self", "mpi", "nccl" */
    int rank, size;
    double deadline;
    struct device *device;
    struct error warning; /* what is wrong but no failure, for comm_open to log; or "" */
    int64_t step; /* for messages; by comm_set_step and comm_step, since other threads read it */

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

/* The head of every backend's group. 'rank' is this process's number within it. */
struct comm_group {
    struct comm *comm;
    char name[16];
    int rank, size;
};

/* Open backend 'name' ("self", "mpi", "nccl") and meet the other ranks. Collective over the world.
 * Returns NULL with a sentence. Caller must comm_close. */
struct comm *comm_open(const char *name, const struct comm_options *options, struct error *err);

/* The symbol a backend's shared object exports: "comm_backend_open". */
typedef struct comm *comm_backend_open_function(const struct comm_options *options,
                                                struct error *err);

/* Groups must be gone. Does not wait for other ranks longer than the deadline. */
static inline void comm_close(struct comm *comm)
{
    if (comm)
        comm->close(comm);
}

/* Cut a group out of the world. Collective over the world: every rank calls, in the same order,
 * with the ranks (ascending) of its own group of this kind; groups of one call must not overlap. A
 * rank that belongs to none passes count 0 and gets a group of size 0 that only destroy may take.
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

/* all = the parts ('count' elements each) of all ranks in order. 'part' may be this rank's own
 * place within 'all'. */
static inline void comm_all_gather(struct comm_group *group, struct device_stream *stream,
                                   const void *part, void *all, size_t count, enum device_type type)
{
    group->comm->all_gather(group, stream, part, all, count, type);
}

/* part = this rank's 'count' elements of the sum of 'all' over the group. 'part' may be this rank's
 * own place within 'all', whose other elements are then undefined. */
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

/* Start all messages together and count as one operation of the stream: sends and receives between
 * two ranks match in order, whatever else is in either list. At most COMM_MESSAGES of them. */
#define COMM_MESSAGES 8
static inline void comm_exchange(struct comm_group *group, struct device_stream *stream,
                                 const struct comm_message *messages, size_t count)
{
    group->comm->exchange(group, stream, messages, count);
}

/* Let the library prepare device memory that the group's collectives will use again and again, so
 * that it need not be copied. Every rank of the group calls, for the same purposes in the same
 * order. Returns NULL where nothing can be prepared; collectives work on it all the same.
 * Unregister before the memory or the group goes. */
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

/* All ranks' 'bytes' of host memory, in order, on every rank; waits. Outside the loop only. With
 * 0 bytes it is a barrier. */
static inline int comm_host_gather(struct comm *comm, const void *part, void *all, size_t bytes,
                                   struct error *err)
{
    return comm->host_gather(comm, part, all, bytes, err);
}

/* All ranks' 'bytes', in order, on rank 'root' alone, which waits; 'all' is for no other. Its cost
 * grows with the ranks, where that of comm_host_gather grows with their square. */
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

/* Replace each of a few numbers by the greatest that any rank has in its place; waits. What ranks
 * agree on inside the loop, now and then: its cost grows with the ranks, not with their square. */
static inline int comm_host_max(struct comm *comm, int64_t *numbers, int count, struct error *err)
{
    return comm->host_max(comm, numbers, count, err);
}

/* The step that messages name from now on. */
static inline void comm_set_step(struct comm *comm, int64_t step)
{
    __atomic_store_n(&comm->step, step, __ATOMIC_RELAXED);
}

static inline int64_t comm_step(const struct comm *comm)
{
    return __atomic_load_n(&comm->step, __ATOMIC_RELAXED);
}

/* Has anything failed so far? Returns 0, or -1 with the first failure. Never waits. */
static inline int comm_check(struct comm *comm, struct error *err)
{
    return comm->check(comm, err);
}

/* Tell the other ranks to end, as far as they can be reached, because of 'reason'. May not return
 * (mpi ends the process with exit code 1 after printing the reason). */
static inline void comm_abort(struct comm *comm, const char *reason)
{
    comm->abort(comm, reason);
}

#ifdef __cplusplus
}
#endif

#endif
