/* SPDX-License-Identifier: Apache-2.0 */
/* Communication of GPU ranks over NCCL. Communicators are nonblocking: operations are polled until
 * they complete or the deadline passes. */
#include "base/core/xmalloc.h"
#include "nccl_private.h"
#include "lib/clock.h"

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* --- Collectives ---------------------------------------------------------------------------- */

static const double YIELD_SECONDS = 200e-6; /* most waits end within this time */

/* The state of NCCL's work on a communicator. */
static ncclResult_t ask(struct nccl_comm *comm, ncclComm_t nccl)
{
    ncclResult_t result = ncclInProgress;

    pthread_mutex_lock(&comm->calls);
    if (!comm_check(&comm->base, NULL) && ncclCommGetAsyncError(nccl, &result))
        result = ncclInternalError;
    pthread_mutex_unlock(&comm->calls);
    return result;
}

/* Pause briefly, after waiting for 'seconds'. Before the watchdog runs, lost ranks are detected
 * here. */
static void pass_time(struct nccl_comm *comm, double seconds)
{
    struct error err;

    if (seconds < YIELD_SECONDS) {
        sched_yield();
        return;
    }
    clock_sleep(100e-6);
    if (!comm->watching && star_wait(comm->base.star, 0, &err))
        nccl_fail(comm, "%s", err.text);
}

/* Wait for NCCL's background work: setup, and connecting at the first call. */
static int settle(struct nccl_comm *comm, ncclComm_t nccl, ncclResult_t result, const char *what,
                  const char *group)
{
    double since = clock_now();
    char why[512];

    /* Some calls (ncclCommSplit) return success while their work continues. */
    if (result == ncclSuccess)
        result = ncclInProgress;
    while (result == ncclInProgress && !comm_check(&comm->base, NULL)) {
        result = ask(comm, nccl);
        if (result != ncclInProgress)
            break;
        if (clock_now() - since > comm->base.deadline) {
            nccl_fail(
                comm,
                "rank %d: %s in group %s could not start within %.0f s at step %lld; another "
                "rank of the group has ended or hangs: see the output of the other ranks, or %s",
                comm->base.rank, what, group, comm->base.deadline,
                (long long)comm_step(&comm->base), comm->base.longer);
            return -1;
        }
        pass_time(comm, clock_now() - since);
    }
    if (comm_check(&comm->base, NULL))
        return -1;
    if (result) {
        nccl_explain(result, why, sizeof(why));
        nccl_fail(comm,
                  "rank %d: %s in group %s failed at step %lld: %s; set NCCL_DEBUG=INFO and run "
                  "again to see why",
                  comm->base.rank, what, group, (long long)comm_step(&comm->base), why);
        return -1;
    }
    return 0;
}

static ncclDataType_t nccl_type(enum device_type type)
{
    static const ncclDataType_t types[] = {
        [TYPE_FP32] = ncclFloat32, [TYPE_BF16] = ncclBfloat16, [TYPE_FP16] = ncclFloat16,
        [TYPE_FP64] = ncclFloat64, [TYPE_INT32] = ncclInt32,   [TYPE_INT64] = ncclInt64,
        [TYPE_E4M3] = ncclUint8,   [TYPE_E5M2] = ncclUint8}; /* are not added, only moved */

    return types[type];
}

/* Get the communicator of a group, for use until 'leave'. NULL after a failure. */
static ncclComm_t enter(struct comm_group *base)
{
    struct nccl_comm *comm = (struct nccl_comm *)base->comm;
    ncclComm_t nccl;

    pthread_mutex_lock(&comm->calls);
    nccl = comm_check(&comm->base, NULL) ? NULL : ((struct nccl_group *)base)->comm;
    if (!nccl)
        pthread_mutex_unlock(&comm->calls);
    return nccl;
}

static void leave(struct comm_group *base)
{
    pthread_mutex_unlock(&((struct nccl_comm *)base->comm)->calls);
}

/* Release the communicator, and track what was started. */
static void finish(struct comm_group *base, ncclComm_t nccl, struct device_stream *stream,
                   ncclResult_t result, const char *what)
{
    leave(base);
    if (settle((struct nccl_comm *)base->comm, nccl, result, what, base->name) == 0)
        nccl_follow((struct nccl_group *)base, device_stream_native(stream), what);
}

static void all_reduce(struct comm_group *group, struct device_stream *stream, void *buffer,
                       size_t count, enum device_type type, enum comm_operator op)
{
    ncclComm_t nccl = enter(group);

    if (nccl)
        finish(group, nccl, stream,
               ncclAllReduce(buffer, buffer, count, nccl_type(type),
                             op == COMM_SUM ? ncclSum : ncclMax, nccl,
                             device_stream_native(stream)),
               "all-reduce");
}

static void all_gather(struct comm_group *group, struct device_stream *stream, const void *part,
                       void *all, size_t count, enum device_type type)
{
    ncclComm_t nccl = enter(group);

    if (nccl)
        finish(group, nccl, stream,
               ncclAllGather(part, all, count, nccl_type(type), nccl, device_stream_native(stream)),
               "all-gather");
}

static void reduce_scatter(struct comm_group *group, struct device_stream *stream, const void *all,
                           void *part, size_t count, enum device_type type)
{
    ncclComm_t nccl = enter(group);

    if (nccl)
        finish(group, nccl, stream,
               ncclReduceScatter(all, part, count, nccl_type(type), ncclSum, nccl,
                                 device_stream_native(stream)),
               "reduce-scatter");
}

static void broadcast(struct comm_group *group, struct device_stream *stream, void *buffer,
                      size_t count, enum device_type type, int root)
{
    ncclComm_t nccl = enter(group);

    if (nccl)
        finish(group, nccl, stream,
               ncclBroadcast(buffer, buffer, count, nccl_type(type), root, nccl,
                             device_stream_native(stream)),
               "broadcast");
}

static void exchange(struct comm_group *group, struct device_stream *stream,
                     const struct comm_message *messages, size_t count)
{
    ncclComm_t nccl = enter(group);
    cudaStream_t native = device_stream_native(stream);
    ncclResult_t result;

    if (!nccl)
        return;
    result = ncclGroupStart();
    for (size_t i = 0; i < count && !result; i++) {
        const struct comm_message *m = &messages[i];
        ncclDataType_t type = nccl_type(m->type);

        result = m->send ? ncclSend(m->buffer, m->count, type, m->peer, nccl, native)
                         : ncclRecv(m->buffer, m->count, type, m->peer, nccl, native);
        if (result == ncclInProgress)
            result = ncclSuccess;
    }
    if (!result)
        result = ncclGroupEnd();
    else
        ncclGroupEnd();
    finish(group, nccl, stream, result, "send and receive");
}

static void *register_memory(struct comm_group *group, void *memory, size_t bytes)
{
    ncclComm_t nccl = enter(group);
    void *handle = NULL;
    ncclResult_t result;

    if (!nccl)
        return NULL;
    result = ncclCommRegister(nccl, memory, bytes, &handle);
    leave(group);
    if (result == ncclInProgress &&
        settle((struct nccl_comm *)group->comm, nccl, result, "registration", group->name))
        return NULL;
    return result == ncclSuccess || result == ncclInProgress ? handle : NULL;
}

static void unregister_memory(struct comm_group *group, void *handle)
{
    ncclComm_t nccl = enter(group);

    if (!nccl)
        return;
    ncclCommDeregister(nccl, handle);
    leave(group);
}

/* --- Groups and the world ------------------------------------------------------------------- */

static ncclConfig_t configuration(void)
{
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;

    config.blocking = 0;
    return config;
}

/* Split the group's communicator from the world's: group->comm, which other threads do not use yet.
 */
static int cut(struct nccl_comm *comm, struct nccl_group *group, int color)
{
    ncclConfig_t config = configuration();
    const char *name = group->base.name;
    ncclResult_t result;

    pthread_mutex_lock(&comm->calls);
    if (comm_check(&comm->base, NULL)) {
        pthread_mutex_unlock(&comm->calls);
        return -1;
    }
    result = ncclCommSplit(comm->world, color, comm->base.rank, &group->comm, &config);
    pthread_mutex_unlock(&comm->calls);
    if (settle(comm, comm->world, result, "ncclCommSplit", name))
        return -1;
    return group->comm ? settle(comm, group->comm, ncclInProgress, "initialization", name) : 0;
}

static int group_create(struct comm_group *base, const int *ranks, struct error *err)
{
    struct nccl_comm *comm = (struct nccl_comm *)base->comm;
    struct nccl_group *group = (struct nccl_group *)base;

    if (comm->group_count == MAX_GROUPS)
        return error_bug(err, "cannot create the NCCL group %s: this rank already has %d groups",
                         base->name, MAX_GROUPS);
    /* Groups of one call do not overlap, so the first rank identifies them. */
    if (cut(comm, group, base->size > 1 ? ranks[0] : NCCL_SPLIT_NOCOLOR))
        return comm_check(&comm->base, err);
    pthread_mutex_lock(&comm->lock);
    comm->groups[comm->group_count++] = group;
    pthread_mutex_unlock(&comm->lock);
    return 0;
}

static void group_destroy(struct comm_group *base)
{
    struct nccl_group *group = (struct nccl_group *)base;
    struct nccl_comm *comm = (struct nccl_comm *)base->comm;

    pthread_mutex_lock(&comm->lock);
    for (int i = 0; i < comm->group_count; i++)
        if (comm->groups[i] == group)
            comm->groups[i] = comm->groups[--comm->group_count];
    if (group->comm && comm->retired_count < MAX_GROUPS) {
        comm->retired[comm->retired_count++] = group->comm;
        group->comm = NULL;
    }
    pthread_mutex_unlock(&comm->lock);
    if (group->comm)
        ncclCommAbort(group->comm);
}

static void abort_all(struct comm *base, const char *reason)
{
    struct nccl_comm *comm = (struct nccl_comm *)base;

    nccl_fail(comm, "rank %d: %s", base->rank, reason);
}

static void free_comm(struct nccl_comm *comm)
{
    pthread_mutex_destroy(&comm->calls);
    pthread_mutex_destroy(&comm->lock);
    free(comm);
}

static void close_comm(struct comm *base)
{
    struct nccl_comm *comm = (struct nccl_comm *)base;
    struct error why;

    if (comm->watching) {
        __atomic_store_n(&comm->stop, 1, __ATOMIC_RELEASE);
        pthread_join(comm->watchdog, NULL);
        /* Other ranks may be in their last step, or saving: they would see the end of a
         * communicator as a failure. */
        if (!comm_check(&comm->base, NULL) &&
            star_gather(comm->base.star, NULL, NULL, 0, base->deadline, &why))
            star_abort(comm->base.star, why.text); /* ranks that are still working would not learn
                                                 of it otherwise */
    }
    /* All work is done by now; ncclCommFinalize would wait for ranks that may be gone. */
    for (int i = 0; i < comm->retired_count; i++)
        ncclCommAbort(comm->retired[i]);
    if (comm->world)
        ncclCommAbort(comm->world);
    for (int i = 0; i < PENDING; i++)
        if (comm->pending[i].event)
            cudaEventDestroy(comm->pending[i].event);
    star_destroy(comm->base.star);
    free_comm(comm);
}

/* Rank 0 creates the id, all ranks receive it, all ranks initialize. It is sent as numbers of which
 * rank 0 has the maximum: gathering it from all ranks would cost the square of their number. */
static int join_world(struct nccl_comm *comm, struct error *err)
{
    ncclConfig_t config = configuration();
    ncclUniqueId id;
    int64_t numbers[sizeof(id) / sizeof(int64_t)];
    enum { COUNT = sizeof(numbers) / sizeof(*numbers) };
    ncclResult_t result;

    _Static_assert(COUNT % STAR_NUMBERS == 0, "an id goes in whole rounds");
    memset(&id, 0, sizeof(id));
    if (comm->base.rank == 0 && (result = ncclGetUniqueId(&id)))
        return error_set(err,
                         "cannot initialize NCCL: %s; set NCCL_DEBUG=INFO and run again to see why",
                         ncclGetErrorString(result));
    memcpy(numbers, &id, sizeof(id));
    for (int i = 0; i < COUNT && comm->base.rank != 0; i++)
        numbers[i] = INT64_MIN;
    for (int i = 0; i < COUNT; i += STAR_NUMBERS)
        if (star_max(comm->base.star, numbers + i, STAR_NUMBERS, comm->base.deadline, err))
            return -1;
    memcpy(&id, numbers, sizeof(id));
    result = ncclCommInitRankConfig(&comm->world, comm->base.size, id, comm->base.rank, &config);
    if (settle(comm, comm->world, result, "initialization", "world"))
        return comm_check(&comm->base, err);
    return 0;
}

__attribute__((visibility("default"))) comm_backend_open_function comm_backend_open;

struct comm *comm_backend_open(const struct comm_options *options, struct error *err)
{
    struct nccl_comm *comm;
    struct secret_key key;

    if (secret_derive(options->secret, &key, err) < 0)
        return NULL;
    comm = xcalloc(1, sizeof(*comm));
    comm->base = comm_base("nccl", options);
    comm->base.close = close_comm;
    comm->base.fail = nccl_fail_with;
    comm->base.abort = abort_all;
    comm->base.group_size = sizeof(struct nccl_group);
    comm->base.group_create = group_create;
    comm->base.group_destroy = group_destroy;
    comm->base.all_reduce = all_reduce;
    comm->base.all_gather = all_gather;
    comm->base.reduce_scatter = reduce_scatter;
    comm->base.broadcast = broadcast;
    comm->base.exchange = exchange;
    comm->base.register_memory = register_memory;
    comm->base.unregister_memory = unregister_memory;
    pthread_mutex_init(&comm->calls, NULL);
    pthread_mutex_init(&comm->lock, NULL);
    cudaGetDevice(&comm->device);
    setenv("NCCL_COMM_BLOCKING", "0", 1); /* it would override our setting, and no wait would end */
    if (options->deterministic) {
        /* The order of sums must not depend on which algorithm NCCL measures to be faster. */
        setenv("NCCL_ALGO", "Ring", 1);
        setenv("NCCL_PROTO", "Simple", 1);
    }
    comm->base.star = star_create(options->rank, options->size, options->master, options->port,
                                  &key, options->deadline, err);
    if (!comm->base.star) {
        free_comm(comm);
        return NULL;
    }
    if (join_world(comm, err) || nccl_start_watchdog(comm, err)) {
        close_comm(&comm->base);
        return NULL;
    }
    return &comm->base;
}
