/* Communication of GPU ranks over NCCL. Communicators do not block: what NCCL starts is asked for
 * until it is there or the deadline is over. A watchdog follows the collectives on their streams,
 * and the connections to the other ranks, and aborts all communicators when one is missing. */
#include "comm.h"
#include "clock.h"
#include "star.h"

#include <cuda_runtime_api.h>
#include <nccl.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { PENDING = 4096, MAX_GROUPS = 64, WATCH_MICROSECONDS = 20000, GRACE_SECONDS = 10 };

struct nccl_group {
    struct comm_group base;
    ncclComm_t comm; /* NULL for fewer than two ranks */
};

/* A collective on its way. */
struct pending {
    cudaEvent_t event;
    const char *what;
    char group[16];
    int size;
    int64_t step;
};

struct nccl_comm {
    struct comm base;
    struct star *star;
    ncclComm_t world;
    int device;
    pthread_t watchdog;
    int watching, stop;
    pthread_mutex_t lock; /* of all below */
    int failed;
    struct error failure;
    struct nccl_group *groups[MAX_GROUPS];
    int group_count;
    ncclComm_t retired[MAX_GROUPS]; /* of groups that are gone */
    int retired_count;
    struct pending pending[PENDING];
    uint64_t first, next; /* pending ones are first .. next - 1 */
};

/* Take the communicators out of the groups. The lock is held. */
static int take_communicators(struct nccl_comm *comm, ncclComm_t *taken)
{
    int count = 0;

    for (int i = 0; i < comm->group_count; i++) {
        if (comm->groups[i]->comm)
            taken[count++] = comm->groups[i]->comm;
        comm->groups[i]->comm = NULL;
    }
    if (comm->world)
        taken[count++] = comm->world;
    comm->world = NULL;
    return count;
}

/* What waits for a rank that is gone, in NCCL or on the GPU, may never come back, and then main
 * cannot end this process. */
static void *last_resort(void *text)
{
    sleep(GRACE_SECONDS);
    fprintf(stderr, "megatron: %s\n", (const char *)text);
    _exit(1);
    return NULL;
}

static void start_last_resort(const char *text)
{
    char *copy = strdup(text);
    pthread_t thread;

    if (copy && pthread_create(&thread, NULL, last_resort, copy) == 0)
        pthread_detach(thread);
}

/* Keep the first failure, tell this process and the others, and free kernels that wait for somebody
 * who will not come. */
__attribute__((format(printf, 2, 3))) static void fail(struct nccl_comm *comm, const char *format,
                                                       ...)
{
    ncclComm_t taken[MAX_GROUPS + 1];
    struct error err;
    va_list args;
    int first, count = 0;

    va_start(args, format);
    vsnprintf(err.text, sizeof(err.text), format, args);
    va_end(args);
    pthread_mutex_lock(&comm->lock);
    first = !comm->failed;
    if (first) {
        comm->failure = err;
        count = take_communicators(comm, taken);
    }
    comm->failed = 1;
    pthread_mutex_unlock(&comm->lock);
    if (!first)
        return;
    start_last_resort(err.text);
    device_fail(comm->base.device, err.text);
    star_abort(comm->star, err.text);
    for (int i = 0; i < count; i++)
        ncclCommAbort(taken[i]);
}

static int failure(struct nccl_comm *comm, struct error *err)
{
    int failed;

    pthread_mutex_lock(&comm->lock);
    failed = comm->failed;
    if (failed && err)
        *err = comm->failure;
    pthread_mutex_unlock(&comm->lock);
    return failed ? -1 : 0;
}

/* --- The watchdog --------------------------------------------------------------------------- */

/* Drop what is done; say how long the oldest has been the oldest. */
static int oldest(struct nccl_comm *comm, struct pending *copy, uint64_t *seen, double *since)
{
    int waiting;

    pthread_mutex_lock(&comm->lock);
    while (comm->first < comm->next &&
           cudaEventQuery(comm->pending[comm->first % PENDING].event) == cudaSuccess)
        comm->first++;
    waiting = comm->first < comm->next;
    if (waiting)
        *copy = comm->pending[comm->first % PENDING];
    if (!waiting || comm->first != *seen)
        *since = clock_now();
    *seen = comm->first;
    pthread_mutex_unlock(&comm->lock);
    return waiting;
}

/* What this rank waits for, in 'group' or, if that is NULL, in any: behind a message, for people.
 */
static void say_waiting(struct nccl_comm *comm, const char *group, char *text, size_t size)
{
    text[0] = '\0';
    pthread_mutex_lock(&comm->lock);
    for (uint64_t i = comm->first; i < comm->next && !text[0]; i++) {
        const struct pending *p = &comm->pending[i % PENDING];

        if (cudaEventQuery(p->event) != cudaErrorNotReady)
            continue;
        if (!group)
            snprintf(text, size, ", in %s in group %s of %d ranks", p->what, p->group, p->size);
        else if (strcmp(group, p->group) == 0)
            snprintf(text, size, ", in %s", p->what);
    }
    pthread_mutex_unlock(&comm->lock);
}

/* NCCL's words for a result, with the more exact ones that it may have beside them. */
static void explain(ncclResult_t result, char *text, size_t size)
{
    const char *more = ncclGetLastError(NULL);
    int length = more ? (int)strcspn(more, "\n") : 0;

    snprintf(text, size, "%s", ncclGetErrorString(result));
    if (length > 0)
        snprintf(text + strlen(text), size - strlen(text), " (%.*s)", length, more);
}

/* The first communicator with an error of its own. */
static ncclResult_t async_error(struct nccl_comm *comm, char *name, size_t size)
{
    ncclResult_t result = ncclSuccess;

    pthread_mutex_lock(&comm->lock);
    snprintf(name, size, "world");
    if (comm->world && ncclCommGetAsyncError(comm->world, &result))
        result = ncclInternalError;
    for (int i = 0; i < comm->group_count && (!result || result == ncclInProgress); i++) {
        snprintf(name, size, "%s", comm->groups[i]->base.name);
        if (comm->groups[i]->comm && ncclCommGetAsyncError(comm->groups[i]->comm, &result))
            result = ncclInternalError;
    }
    pthread_mutex_unlock(&comm->lock);
    return result == ncclInProgress ? ncclSuccess : result;
}

static void *watch(void *argument)
{
    struct nccl_comm *comm = argument;
    struct pending late;
    uint64_t seen = UINT64_MAX;
    double since = clock_now();

    cudaSetDevice(comm->device);
    while (!__atomic_load_n(&comm->stop, __ATOMIC_ACQUIRE)) {
        struct error err;
        char name[32], waiting[96], why[512];
        ncclResult_t result;
        int news;

        usleep(WATCH_MICROSECONDS);
        if (failure(comm, NULL))
            return NULL;
        news = star_check(comm->star, &err);
        if (news) {
            say_waiting(comm, NULL, waiting, sizeof(waiting));
            if (news == STAR_LOST)
                fail(comm, "%s, at step %lld%s", err.text, (long long)comm_step(&comm->base),
                     waiting);
            else
                fail(comm, "%s", err.text);
            return NULL;
        }
        result = async_error(comm, name, sizeof(name));
        if (result) {
            say_waiting(comm, name, waiting, sizeof(waiting));
            explain(result, why, sizeof(why));
            fail(comm, "rank %d: NCCL reports an error in group %s at step %lld%s: %s",
                 comm->base.rank, name, (long long)comm_step(&comm->base), waiting, why);
            return NULL;
        }
        if (oldest(comm, &late, &seen, &since) && clock_now() - since > comm->base.deadline) {
            fail(comm,
                 "rank %d: %s in group %s of %d ranks was not done after %.0f s at step %lld; "
                 "another rank of the group has ended or hangs",
                 comm->base.rank, late.what, late.group, late.size, comm->base.deadline,
                 (long long)late.step);
            return NULL;
        }
    }
    return NULL;
}

static int start_watchdog(struct nccl_comm *comm, struct error *err)
{
    int rc = pthread_create(&comm->watchdog, NULL, watch, comm);

    comm->watching = rc == 0;
    return rc ? error_set_errno(err, rc, "cannot start a thread") : 0;
}

/* Let the watchdog follow what was just put on the stream. A full list follows no more: it is
 * emptied faster than it fills unless something hangs already. */
static void follow(struct nccl_group *group, cudaStream_t stream, const char *what)
{
    struct nccl_comm *comm = (struct nccl_comm *)group->base.comm;
    enum cudaStreamCaptureStatus capturing = cudaStreamCaptureStatusNone;
    struct pending *p;

    cudaStreamIsCapturing(stream, &capturing);
    if (capturing != cudaStreamCaptureStatusNone)
        return;
    pthread_mutex_lock(&comm->lock);
    if (comm->next - comm->first < PENDING) {
        p = &comm->pending[comm->next % PENDING];
        if (!p->event)
            cudaEventCreateWithFlags(&p->event, cudaEventDisableTiming);
        p->what = what;
        p->size = group->base.size;
        p->step = comm_step(&comm->base);
        memcpy(p->group, group->base.name, sizeof(p->group));
        if (cudaEventRecord(p->event, stream) == cudaSuccess)
            comm->next++;
    }
    pthread_mutex_unlock(&comm->lock);
}

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
    while (result == ncclInProgress && !failure(comm, NULL)) {
        if (ncclCommGetAsyncError(nccl, &result))
            result = ncclInternalError;
        if (result == ncclInProgress && clock_now() > until) {
            fail(comm, "rank %d: %s in group %s could not begin within %.0f s at step %lld",
                 comm->base.rank, what, group, comm->base.deadline,
                 (long long)comm_step(&comm->base));
            return -1;
        }
        if (result == ncclInProgress)
            usleep(100);
    }
    if (failure(comm, NULL))
        return -1;
    if (result) {
        explain(result, why, sizeof(why));
        fail(comm, "rank %d: %s in group %s failed at step %lld: %s", comm->base.rank, what, group,
             (long long)comm_step(&comm->base), why);
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

    return base->size > 1 && !failure((struct nccl_comm *)base->comm, NULL) && group->comm;
}

static void finish(struct comm_group *base, struct device_stream *stream, ncclResult_t result,
                   const char *what)
{
    struct nccl_group *group = (struct nccl_group *)base;

    if (settle((struct nccl_comm *)base->comm, group->comm, result, what, base->name) == 0)
        follow(group, device_stream_native(stream), what);
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
        failure(comm, err);
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

    if (failure(comm, err))
        return -1;
    if (star_gather(comm->star, part, all, bytes, base->deadline, err)) {
        fail(comm, "%s (at step %lld)", err->text, (long long)comm_step(base));
        return -1;
    }
    return 0;
}

static int host_collect(struct comm *base, const void *part, void *all, size_t bytes, int root,
                        struct error *err)
{
    struct nccl_comm *comm = (struct nccl_comm *)base;

    if (failure(comm, err))
        return -1;
    if (star_collect(comm->star, part, all, bytes, root, base->deadline, err)) {
        fail(comm, "%s (at step %lld)", err->text, (long long)comm_step(base));
        return -1;
    }
    return 0;
}

static int host_max(struct comm *base, int64_t *numbers, int count, struct error *err)
{
    struct nccl_comm *comm = (struct nccl_comm *)base;

    if (failure(comm, err))
        return -1;
    if (star_max(comm->star, numbers, count, base->deadline, err)) {
        fail(comm, "%s (at step %lld)", err->text, (long long)comm_step(base));
        return -1;
    }
    return 0;
}

static int check(struct comm *base, struct error *err)
{
    return failure((struct nccl_comm *)base, err);
}

static void abort_all(struct comm *base, const char *reason)
{
    struct nccl_comm *comm = (struct nccl_comm *)base;

    fail(comm, "rank %d: %s", base->rank, reason);
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
        if (!failure(comm, NULL) && star_gather(comm->star, NULL, NULL, 0, base->deadline, &why))
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
        return failure(comm, err);
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
    if (join_world(comm, err) || start_watchdog(comm, err)) {
        close_comm(&comm->base);
        return NULL;
    }
    return &comm->base;
}
