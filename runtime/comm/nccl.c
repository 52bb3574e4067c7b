/* Communication of GPU ranks over NCCL. Communicators do not block: what NCCL starts is asked for
 * until it is there or the deadline is over. */
#include "nccl_private.h"
#include "clock.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* --- Collectives ---------------------------------------------------------------------------- */

/* Wait for what NCCL does in the background: connections at the first call, and setup. */
static int settle(struct nccl_comm *comm, ncclComm_t nccl, ncclResult_t result, const char *what,
                  const char *group)
{
    double until = clock_now() + comm->base.deadline;
    char why[512];

    /* Some calls (ncclCommSplit) return success while their work goes on. */
    if (result == ncclSuccess)
        result = ncclInProgress;
    while (result == ncclInProgress && !nccl_failure(comm, NULL)) {
        if (ncclCommGetAsyncError(nccl, &result))
            result = ncclInternalError;
        if (result == ncclInProgress && clock_now() > until) {
            nccl_fail(comm, "rank %d: %s in group %s could not begin within %.0f s at step %lld",
                      comm->base.rank, what, group, comm->base.deadline,
                      (long long)comm_step(&comm->base));
            return -1;
        }
        if (result == ncclInProgress)
            usleep(100);
    }
    if (nccl_failure(comm, NULL))
        return -1;
    if (result) {
        nccl_explain(result, why, sizeof(why));
        nccl_fail(comm, "rank %d: %s in group %s failed at step %lld: %s", comm->base.rank, what,
                  group, (long long)comm_step(&comm->base), why);
        return -1;
    }
    return 0;
}

static ncclDataType_t nccl_type(enum device_type type)
{
    static const ncclDataType_t types[] = {
        [TYPE_FP32] = ncclFloat32, [TYPE_BF16] = ncclBfloat16, [TYPE_FP16] = ncclFloat16,
        [TYPE_FP64] = ncclFloat64, [TYPE_INT32] = ncclInt32,   [TYPE_INT64] = ncclInt64};

    return types[type];
}

/* May a collective begin? Groups of one rank have nothing to do. */
static int ready(struct comm_group *base)
{
    struct nccl_group *group = (struct nccl_group *)base;

    return base->size > 1 && !nccl_failure((struct nccl_comm *)base->comm, NULL) && group->comm;
}

static void finish(struct comm_group *base, struct device_stream *stream, ncclResult_t result,
                   const char *what)
{
    struct nccl_group *group = (struct nccl_group *)base;

    if (settle((struct nccl_comm *)base->comm, group->comm, result, what, base->name) == 0)
        nccl_follow(group, device_stream_native(stream), what);
}

static void all_reduce(struct comm_group *group, struct device_stream *stream, void *buffer,
                       size_t count, enum device_type type, enum comm_operator op)
{
    if (ready(group))
        finish(group, stream,
               ncclAllReduce(buffer, buffer, count, nccl_type(type),
                             op == COMM_SUM ? ncclSum : ncclMax, ((struct nccl_group *)group)->comm,
                             device_stream_native(stream)),
               "all-reduce");
}

static void all_gather(struct comm_group *group, struct device_stream *stream, const void *part,
                       void *all, size_t count, enum device_type type)
{
    if (group->size == 1 && part != all)
        device_copy(stream, all, part, count * type_size(type), COPY_ON_DEVICE);
    if (ready(group))
        finish(group, stream,
               ncclAllGather(part, all, count, nccl_type(type), ((struct nccl_group *)group)->comm,
                             device_stream_native(stream)),
               "all-gather");
}

static void reduce_scatter(struct comm_group *group, struct device_stream *stream, const void *all,
                           void *part, size_t count, enum device_type type)
{
    if (group->size == 1 && part != all)
        device_copy(stream, part, all, count * type_size(type), COPY_ON_DEVICE);
    if (ready(group))
        finish(group, stream,
               ncclReduceScatter(all, part, count, nccl_type(type), ncclSum,
                                 ((struct nccl_group *)group)->comm, device_stream_native(stream)),
               "reduce-scatter");
}

static void broadcast(struct comm_group *group, struct device_stream *stream, void *buffer,
                      size_t count, enum device_type type, int root)
{
    if (ready(group))
        finish(group, stream,
               ncclBroadcast(buffer, buffer, count, nccl_type(type), root,
                             ((struct nccl_group *)group)->comm, device_stream_native(stream)),
               "broadcast");
}

static void exchange(struct comm_group *group, struct device_stream *stream,
                     const struct comm_message *messages, size_t count)
{
    ncclComm_t comm = ((struct nccl_group *)group)->comm;
    cudaStream_t native = device_stream_native(stream);
    ncclResult_t result;

    if (count == 0 || !ready(group))
        return;
    result = ncclGroupStart();
    for (size_t i = 0; i < count && !result; i++) {
        const struct comm_message *m = &messages[i];
        ncclDataType_t type = nccl_type(m->type);

        result = m->send ? ncclSend(m->buffer, m->count, type, m->peer, comm, native)
                         : ncclRecv(m->buffer, m->count, type, m->peer, comm, native);
        if (result == ncclInProgress)
            result = ncclSuccess;
    }
    if (!result)
        result = ncclGroupEnd();
    else
        ncclGroupEnd();
    finish(group, stream, result, "send and receive");
}

static void *register_memory(struct comm_group *base, void *memory, size_t bytes)
{
    struct nccl_group *group = (struct nccl_group *)base;
    void *handle = NULL;
    ncclResult_t result;

    if (!ready(base))
        return NULL;
    result = ncclCommRegister(group->comm, memory, bytes, &handle);
    if (result == ncclInProgress &&
        settle((struct nccl_comm *)base->comm, group->comm, result, "registration", base->name))
        return NULL;
    return result == ncclSuccess || result == ncclInProgress ? handle : NULL;
}

static void unregister_memory(struct comm_group *base, void *handle)
{
    struct nccl_group *group = (struct nccl_group *)base;

    if (ready(base))
        ncclCommDeregister(group->comm, handle);
}

/* --- Groups and the world ------------------------------------------------------------------- */

static ncclConfig_t configuration(void)
{
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;

    config.blocking = 0;
    return config;
}

static struct comm_group *group_create(struct comm *base, const char *name, const int *ranks,
                                       int count, struct error *err)
{
    struct nccl_comm *comm = (struct nccl_comm *)base;
    struct nccl_group *group = calloc(1, sizeof(*group));
    ncclConfig_t config = configuration();
    ncclComm_t made = NULL;
    ncclResult_t result;

    if (!group || comm->group_count == MAX_GROUPS) {
        error_set(err, group ? "too many groups" : "out of memory");
        free(group);
        return NULL;
    }
    group->base.comm = base;
    group->base.size = count;
    snprintf(group->base.name, sizeof(group->base.name), "%s", name);
    for (int i = 0; i < count; i++)
        if (ranks[i] == base->rank)
            group->base.rank = i;
    /* Groups of one call do not overlap, so the first rank's number tells them apart. */
    result = ncclCommSplit(comm->world, count > 1 ? ranks[0] : NCCL_SPLIT_NOCOLOR, base->rank,
                           &made, &config);
    if (settle(comm, comm->world, result, "the cut", name) ||
        (made && settle(comm, made, ncclInProgress, "the start", name))) {
        nccl_failure(comm, err);
        free(group);
        return NULL;
    }
    pthread_mutex_lock(&comm->lock);
    group->comm = made;
    comm->groups[comm->group_count++] = group;
    pthread_mutex_unlock(&comm->lock);
    return &group->base;
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
    free(group);
}

static int host_gather(struct comm *base, const void *part, void *all, size_t bytes,
                       struct error *err)
{
    struct nccl_comm *comm = (struct nccl_comm *)base;

    if (nccl_failure(comm, err))
        return -1;
    if (star_gather(comm->star, part, all, bytes, base->deadline, err)) {
        nccl_fail(comm, "%s (at step %lld)", err->text, (long long)comm_step(base));
        return -1;
    }
    return 0;
}

static int host_collect(struct comm *base, const void *part, void *all, size_t bytes, int root,
                        struct error *err)
{
    struct nccl_comm *comm = (struct nccl_comm *)base;

    if (nccl_failure(comm, err))
        return -1;
    if (star_collect(comm->star, part, all, bytes, root, base->deadline, err)) {
        nccl_fail(comm, "%s (at step %lld)", err->text, (long long)comm_step(base));
        return -1;
    }
    return 0;
}

static int host_max(struct comm *base, int64_t *numbers, int count, struct error *err)
{
    struct nccl_comm *comm = (struct nccl_comm *)base;

    if (nccl_failure(comm, err))
        return -1;
    if (star_max(comm->star, numbers, count, base->deadline, err)) {
        nccl_fail(comm, "%s (at step %lld)", err->text, (long long)comm_step(base));
        return -1;
    }
    return 0;
}

static int check(struct comm *base, struct error *err)
{
    return nccl_failure((struct nccl_comm *)base, err);
}

static void abort_all(struct comm *base, const char *reason)
{
    struct nccl_comm *comm = (struct nccl_comm *)base;

    nccl_fail(comm, "rank %d: %s", base->rank, reason);
}

static void close_comm(struct comm *base)
{
    struct nccl_comm *comm = (struct nccl_comm *)base;
    struct error why;

    if (comm->watching) {
        __atomic_store_n(&comm->stop, 1, __ATOMIC_RELEASE);
        pthread_join(comm->watchdog, NULL);
        /* Others may be at their last step, or save: they would take the end of a communicator for
         * a failure. */
        if (!nccl_failure(comm, NULL) &&
            star_gather(comm->star, NULL, NULL, 0, base->deadline, &why))
            star_abort(comm->star, why.text); /* nobody else would tell those that still work */
    }
    /* All work is done by now; NCCL's orderly end would wait for ranks that may be gone. */
    for (int i = 0; i < comm->retired_count; i++)
        ncclCommAbort(comm->retired[i]);
    if (comm->world)
        ncclCommAbort(comm->world);
    for (int i = 0; i < PENDING; i++)
        if (comm->pending[i].event)
            cudaEventDestroy(comm->pending[i].event);
    star_destroy(comm->star);
    pthread_mutex_destroy(&comm->lock);
    free(comm);
}

/* Rank 0 makes the id, all get it, all begin. As numbers of which rank 0 has the greatest: what all
 * gathered from all would cost the square of the ranks. */
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
        return error_set(err, "NCCL does not start: %s", ncclGetErrorString(result));
    memcpy(numbers, &id, sizeof(id));
    for (int i = 0; i < COUNT && comm->base.rank != 0; i++)
        numbers[i] = INT64_MIN;
    for (int i = 0; i < COUNT; i += STAR_NUMBERS)
        if (star_max(comm->star, numbers + i, STAR_NUMBERS, comm->base.deadline, err))
            return -1;
    memcpy(&id, numbers, sizeof(id));
    result = ncclCommInitRankConfig(&comm->world, comm->base.size, id, comm->base.rank, &config);
    if (settle(comm, comm->world, result, "the start", "world"))
        return nccl_failure(comm, err);
    return 0;
}

__attribute__((visibility("default"))) comm_backend_open_function comm_backend_open;

struct comm *comm_backend_open(const struct comm_options *options, struct error *err)
{
    struct nccl_comm *comm = calloc(1, sizeof(*comm));

    if (!comm) {
        error_set(err, "out of memory");
        return NULL;
    }
    comm->base = (struct comm){
        .abi = COMM_ABI,
        .name = "nccl",
        .rank = options->rank,
        .size = options->size,
        .deadline = options->deadline,
        .device = options->device,
        .close = close_comm,
        .group_create = group_create,
        .group_destroy = group_destroy,
        .all_reduce = all_reduce,
        .all_gather = all_gather,
        .reduce_scatter = reduce_scatter,
        .broadcast = broadcast,
        .exchange = exchange,
        .register_memory = register_memory,
        .unregister_memory = unregister_memory,
        .host_gather = host_gather,
        .host_collect = host_collect,
        .host_max = host_max,
        .check = check,
        .abort = abort_all,
    };
    pthread_mutex_init(&comm->lock, NULL);
    cudaGetDevice(&comm->device);
    if (options->deterministic) {
        /* The order of sums must not depend on which algorithm NCCL finds faster today. */
        setenv("NCCL_ALGO", "Ring", 1);
        setenv("NCCL_PROTO", "Simple", 1);
    }
    comm->star = star_create(options->rank, options->size, options->master, options->port,
                             options->deadline, err);
    if (!comm->star) {
        pthread_mutex_destroy(&comm->lock);
        free(comm);
        return NULL;
    }
    if (join_world(comm, err) || nccl_start_watchdog(comm, err)) {
        close_comm(&comm->base);
        return NULL;
    }
    return &comm->base;
}
