/* SPDX-License-Identifier: Apache-2.0 */
/* A watchdog for ranks that communicate over NCCL: it tracks the collectives on their streams and
 * the connections to the other ranks, and aborts all communicators when a rank is missing. */
#include "nccl_private.h"
#include "lib/clock.h"
#include "base/core/last_resort.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { WATCH_MICROSECONDS = 20000, GRACE_SECONDS = 10, LEAVE_SECONDS = 1, PAUSE_SECONDS = 5 };

/* Remove the communicators from the groups. The lock is held. */
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

/* A call that waits for a lost rank, in NCCL or on the GPU, may never return, and then main()
 * cannot end this process. */
static void *end_later(void *text)
{
    clock_sleep(GRACE_SECONDS);
    last_resort(text);
}

static void start_last_resort(const char *text)
{
    char *copy = strdup(text);
    pthread_t thread;

    if (copy && pthread_create(&thread, NULL, end_later, copy) == 0)
        pthread_detach(thread);
}

/* Wait until no thread is inside NCCL. After a failure none enters again; a thread that does not
 * return is waiting for a lost rank, and only an abort frees it. */
static void await_leave(struct nccl_comm *comm)
{
    struct timespec until = clock_after(CLOCK_REALTIME, LEAVE_SECONDS);

    if (pthread_mutex_timedlock(&comm->calls, &until) == 0)
        pthread_mutex_unlock(&comm->calls);
}

void nccl_fail_with(struct comm *base, const struct error *failure)
{
    struct nccl_comm *comm = (struct nccl_comm *)base;
    ncclComm_t taken[MAX_GROUPS + 1];
    int count;

    pthread_mutex_lock(&comm->lock);
    if (!failure_record(&base->failure, failure)) {
        pthread_mutex_unlock(&comm->lock);
        return;
    }
    count = take_communicators(comm, taken);
    pthread_mutex_unlock(&comm->lock);
    start_last_resort(failure->text);
    device_fail(base->device, failure);
    star_abort(base->star, failure->text);
    await_leave(comm);
    for (int i = 0; i < count; i++)
        ncclCommAbort(taken[i]);
}

void nccl_fail(struct nccl_comm *comm, const char *format, ...)
{
    struct error err = {.code = ERROR_RANK};
    va_list args;

    va_start(args, format);
    vsnprintf(err.text, sizeof(err.text), format, args);
    va_end(args);
    nccl_fail_with(&comm->base, &err);
}

/* Drop completed collectives; return how long the oldest has been the oldest. */
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

/* Append to a message what this rank waits for, in 'group' or, if that is NULL, in any group. */
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

void nccl_explain(ncclResult_t result, char *text, size_t size)
{
    const char *more = ncclGetLastError(NULL);
    int length = more ? (int)strcspn(more, "\n") : 0;

    snprintf(text, size, "%s", ncclGetErrorString(result));
    if (length > 0)
        snprintf(text + strlen(text), size - strlen(text), " (%.*s)", length, more);
}

/* The first communicator that reports an error. Threads inside NCCL check for themselves. */
static ncclResult_t async_error(struct nccl_comm *comm, char *name, size_t size)
{
    ncclResult_t result = ncclSuccess;

    if (pthread_mutex_trylock(&comm->calls))
        return ncclSuccess;
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
    pthread_mutex_unlock(&comm->calls);
    return result == ncclInProgress ? ncclSuccess : result;
}

static void *watch(void *argument)
{
    struct nccl_comm *comm = argument;
    struct pending late;
    uint64_t seen = UINT64_MAX;
    double since = clock_now(), last = since;

    cudaSetDevice(comm->device);
    while (!__atomic_load_n(&comm->stop, __ATOMIC_ACQUIRE)) {
        struct error err;
        char name[32], waiting[96], why[512];
        ncclResult_t result;
        enum star_news news;

        clock_sleep(WATCH_MICROSECONDS * 1e-6);
        /* Do not count time during which the job was suspended. */
        if (clock_now() - last > PAUSE_SECONDS)
            since += clock_now() - last;
        last = clock_now();
        if (comm_check(&comm->base, NULL))
            return NULL;
        news = star_wait(comm->base.star, 0, &err);
        if (news) {
            say_waiting(comm, NULL, waiting, sizeof(waiting));
            if (news == STAR_LOST)
                nccl_fail(comm, "at step %lld%s: %s", (long long)comm_step(&comm->base), waiting,
                          err.text);
            else
                nccl_fail(comm, "%s", err.text);
            return NULL;
        }
        result = async_error(comm, name, sizeof(name));
        if (result) {
            say_waiting(comm, name, waiting, sizeof(waiting));
            nccl_explain(result, why, sizeof(why));
            nccl_fail(comm,
                      "rank %d: NCCL reports an error in group %s at step %lld%s: %s; set "
                      "NCCL_DEBUG=INFO and run again to see why",
                      comm->base.rank, name, (long long)comm_step(&comm->base), waiting, why);
            return NULL;
        }
        if (oldest(comm, &late, &seen, &since) && clock_now() - since > comm->base.deadline) {
            nccl_fail(
                comm,
                "rank %d: %s in group %s of %d ranks timed out after %.0f s at step %lld; another "
                "rank of the group has ended or hangs: see the output of the other ranks, or %s",
                comm->base.rank, late.what, late.group, late.size, comm->base.deadline,
                (long long)late.step, comm->base.longer);
            return NULL;
        }
    }
    return NULL;
}

int nccl_start_watchdog(struct nccl_comm *comm, struct error *err)
{
    int rc = pthread_create(&comm->watchdog, NULL, watch, comm);

    comm->watching = rc == 0;
    return rc ? error_set_errno(err, rc, "cannot start a thread") : 0;
}

void nccl_follow(struct nccl_group *group, cudaStream_t stream, const char *what)
{
    struct nccl_comm *comm = (struct nccl_comm *)group->base.comm;
    enum cudaStreamCaptureStatus capturing = cudaStreamCaptureStatusNone;
    struct pending *p = &comm->pending[comm->next % PENDING];
    int full;

    cudaStreamIsCapturing(stream, &capturing);
    if (capturing != cudaStreamCaptureStatusNone)
        return;
    pthread_mutex_lock(&comm->lock);
    full = comm->next - comm->first == PENDING;
    pthread_mutex_unlock(&comm->lock);
    if (full)
        return;
    /* No other thread uses this event yet. Without the lock: this call blocks if the stream is full
     * because another rank hangs, and the watchdog must not block. */
    if (!p->event)
        cudaEventCreateWithFlags(&p->event, cudaEventDisableTiming);
    p->what = what;
    p->size = group->base.size;
    p->step = comm_step(&comm->base);
    memcpy(p->group, group->base.name, sizeof(p->group));
    if (cudaEventRecord(p->event, stream) != cudaSuccess)
        return;
    pthread_mutex_lock(&comm->lock);
    comm->next++;
    pthread_mutex_unlock(&comm->lock);
}
