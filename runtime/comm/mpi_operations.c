/* SPDX-License-Identifier: Apache-2.0 */
/* Collectives of CPU ranks over MPI. Every operation is started without blocking and then polled
 * with a deadline, by the stream it was queued on or by the waiting caller. */
#include "mpi_world.h"
#include "clock.h"

#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum kind { ALL_REDUCE, ALL_GATHER, REDUCE_SCATTER, BROADCAST, EXCHANGE };

static const char *const kind_names[] = {"all-reduce", "all-gather", "reduce-scatter", "broadcast",
                                         "send and receive"};

/* An operation in progress. */
struct progress {
    int count; /* number of requests; 0: not started */
    MPI_Request requests[COMM_MESSAGES];
    int64_t turn;
    double asked; /* last time a waiting caller polled; 0: not since */
    double waited;
};

/* An operation queued on the stream. */
struct call {
    enum kind kind;
    struct mpi_group *group;
    const void *from;
    void *to;
    size_t count;
    enum device_type type;
    enum comm_operator op;
    int root;
    struct progress progress;
};

struct exchange_call {
    struct mpi_group *group;
    size_t count;
    struct comm_message messages[COMM_MESSAGES];
    struct progress progress;
};

_Static_assert(sizeof(struct call) <= DEVICE_OPERANDS, "a call fits the operands");
_Static_assert(sizeof(struct exchange_call) <= DEVICE_OPERANDS, "an exchange fits the operands");

static int mpi_type(enum device_type type, MPI_Datatype *out)
{
    switch (type) {
    case TYPE_FP32:
        *out = MPI_FLOAT;
        return 0;
    case TYPE_FP64:
        *out = MPI_DOUBLE;
        return 0;
    case TYPE_INT32:
        *out = MPI_INT32_T;
        return 0;
    case TYPE_INT64:
        *out = MPI_INT64_T;
        return 0;
    default:
        return -1;
    }
}

/* Test all requests once. A waiting caller yields and then sleeps, so that there can be more ranks
 * than cores. Only waiting time counts: a busy rank must not give up on the others. Returns 1 when
 * there is nothing left to wait for: the requests are 'done' or failed with 'rc', the deadline has
 * passed, or a rank was lost. */
static int ask(const struct mpi_comm *comm, struct progress *p, int waits, int *rc, int *done)
{
    double now;

    *done = 0;
    *rc = MPI_Testall(p->count, p->requests, done, MPI_STATUSES_IGNORE);
    if (*rc != MPI_SUCCESS || *done || comm->failed)
        return 1;
    if (!waits) {
        p->asked = 0;
        return 0;
    }
    now = clock_now();
    if (p->asked > 0)
        p->waited += now - p->asked;
    p->asked = now;
    if (p->waited > comm->base.deadline)
        return 1;
    p->turn++;
    if (p->turn > 3000)
        nanosleep(&(struct timespec){0, 50000}, NULL);
    else if (p->turn > 50)
        sched_yield();
    return 0;
}

static void report(struct mpi_group *group, enum kind kind, int rc, int done)
{
    struct mpi_comm *comm = (struct mpi_comm *)group->base.comm;
    char text[MPI_MAX_ERROR_STRING] = "";
    int length = 0;

    if (comm->failed)
        return;
    if (rc != MPI_SUCCESS) {
        MPI_Error_string(rc, text, &length);
        mpi_fail(comm, "rank %d: %s in group %s of %d ranks failed at step %lld: %s",
                 comm->base.rank, kind_names[kind], group->base.name, group->base.size,
                 (long long)comm_step(&comm->base), text);
    } else if (!done) {
        mpi_fail(comm,
                 "rank %d: %s in group %s of %d ranks timed out after %.0f s at step %lld; another "
                 "rank of the group has ended or hangs",
                 comm->base.rank, kind_names[kind], group->base.name, group->base.size,
                 comm->base.deadline, (long long)comm_step(&comm->base));
    }
}

/* A buffer for a result of 'bytes'; it is only grown during the first steps. */
static void *space(struct mpi_group *group, size_t bytes)
{
    if (group->space_bytes < bytes) {
        free(group->space);
        group->space = malloc(bytes);
        group->space_bytes = group->space ? bytes : 0;
    }
    return group->space;
}

static int start(const struct call *c, MPI_Datatype type, MPI_Request *request)
{
    MPI_Comm comm = c->group->comm;
    size_t bytes = c->count * type_size(c->type);
    const char *own = (const char *)c->to + (size_t)c->group->base.rank * bytes;
    int count = (int)c->count;

    switch (c->kind) {
    case ALL_REDUCE:
        return MPI_Iallreduce(MPI_IN_PLACE, c->to, count, type,
                              c->op == COMM_SUM ? MPI_SUM : MPI_MAX, comm, request);
    case ALL_GATHER:
        return MPI_Iallgather((const char *)c->from == own ? MPI_IN_PLACE : c->from, count, type,
                              c->to, count, type, comm, request);
    case REDUCE_SCATTER:
        if (!space(c->group, bytes))
            return MPI_ERR_NO_MEM;
        return MPI_Ireduce_scatter_block(c->from, c->group->space, count, type, MPI_SUM, comm,
                                         request);
    default:
        return MPI_Ibcast(c->to, count, type, c->root, comm, request);
    }
}

static int poll_call(void *operands, int waits)
{
    struct call *c = operands;
    struct mpi_comm *comm = (struct mpi_comm *)c->group->base.comm;
    MPI_Datatype type;
    int rc = MPI_SUCCESS, done = 0;

    if (comm->failed)
        return 1;
    if (c->progress.count == 0) {
        if (mpi_type(c->type, &type) < 0 || c->count > INT32_MAX) {
            mpi_fail(comm, "rank %d: %s of %zu elements of this type is larger than MPI allows",
                     comm->base.rank, kind_names[c->kind], c->count);
            return 1;
        }
        rc = start(c, type, &c->progress.requests[0]);
        c->progress.count = 1;
    }
    if (rc == MPI_SUCCESS && !ask(comm, &c->progress, waits, &rc, &done))
        return 0;
    report(c->group, c->kind, rc, done);
    if (c->kind == REDUCE_SCATTER && rc == MPI_SUCCESS && done)
        memcpy(c->to, c->group->space, c->count * type_size(c->type));
    return 1;
}

static int start_exchange(struct exchange_call *c)
{
    struct mpi_comm *comm = (struct mpi_comm *)c->group->base.comm;
    struct progress *p = &c->progress;
    MPI_Datatype type = MPI_FLOAT;
    int rc = MPI_SUCCESS;

    for (size_t i = 0; i < c->count && rc == MPI_SUCCESS; i++) {
        const struct comm_message *m = &c->messages[i];

        if (mpi_type(m->type, &type) < 0 || m->count > INT32_MAX) {
            mpi_fail(comm,
                     "rank %d: a message of %zu elements of this type is larger than MPI allows",
                     comm->base.rank, m->count);
            return rc;
        }
        rc = m->send ? MPI_Isend(m->buffer, (int)m->count, type, m->peer, 0, c->group->comm,
                                 &p->requests[p->count])
                     : MPI_Irecv(m->buffer, (int)m->count, type, m->peer, 0, c->group->comm,
                                 &p->requests[p->count]);
        p->count++;
    }
    return rc;
}

static int poll_exchange(void *operands, int waits)
{
    struct exchange_call *c = operands;
    struct mpi_comm *comm = (struct mpi_comm *)c->group->base.comm;
    int rc = MPI_SUCCESS, done = 0;

    if (!comm->failed && c->progress.count == 0)
        rc = start_exchange(c);
    if (comm->failed)
        return 1;
    if (rc == MPI_SUCCESS && !ask(comm, &c->progress, waits, &rc, &done))
        return 0;
    report(c->group, EXCHANGE, rc, done);
    return 1;
}

static void submit(struct comm_group *group, struct device_stream *stream, struct call call)
{
    call.group = (struct mpi_group *)group;
    if (group->size > 1)
        device_stream_poll(stream, poll_call, &call, sizeof(call), 0);
}

static void all_reduce(struct comm_group *group, struct device_stream *stream, void *buffer,
                       size_t count, enum device_type type, enum comm_operator op)
{
    submit(group, stream,
           (struct call){.kind = ALL_REDUCE, .to = buffer, .count = count, .type = type, .op = op});
}

static void all_gather(struct comm_group *group, struct device_stream *stream, const void *part,
                       void *all, size_t count, enum device_type type)
{
    if (group->size == 1 && part != all)
        device_copy(stream, all, part, count * type_size(type), COPY_ON_DEVICE);
    submit(
        group, stream,
        (struct call){.kind = ALL_GATHER, .from = part, .to = all, .count = count, .type = type});
}

static void reduce_scatter(struct comm_group *group, struct device_stream *stream, const void *all,
                           void *part, size_t count, enum device_type type)
{
    if (group->size == 1 && part != all)
        device_copy(stream, part, all, count * type_size(type), COPY_ON_DEVICE);
    submit(group, stream,
           (struct call){
               .kind = REDUCE_SCATTER, .from = all, .to = part, .count = count, .type = type});
}

static void broadcast(struct comm_group *group, struct device_stream *stream, void *buffer,
                      size_t count, enum device_type type, int root)
{
    submit(
        group, stream,
        (struct call){.kind = BROADCAST, .to = buffer, .count = count, .type = type, .root = root});
}

static void exchange(struct comm_group *group, struct device_stream *stream,
                     const struct comm_message *messages, size_t count)
{
    struct exchange_call call = {.group = (struct mpi_group *)group, .count = count};

    if (count == 0)
        return;
    if (count > COMM_MESSAGES) {
        mpi_fail((struct mpi_comm *)group->comm,
                 "an exchange of %zu messages; at most %d are possible", count, COMM_MESSAGES);
        return;
    }
    memcpy(call.messages, messages, count * sizeof(*messages));
    device_stream_poll(stream, poll_exchange, &call, sizeof(call), 1);
}

/* Wait for a collective on the host; 'rc' tells whether it could be started. */
static int wait_for_all(struct comm *base, int rc, const MPI_Request *request, struct error *err)
{
    struct mpi_comm *comm = (struct mpi_comm *)base;
    struct progress progress = {.count = 1, .requests = {*request}};
    int done = 0;

    while (rc == MPI_SUCCESS && !ask(comm, &progress, 1, &rc, &done))
        ;
    if (rc == MPI_SUCCESS && done)
        return 0;
    if (comm->failed)
        return comm_check(base, err);
    mpi_fail(comm,
             "rank %d: not all of the %d ranks arrived within %.0f s at step %lld; another rank "
             "has ended or hangs",
             base->rank, base->size, base->deadline, (long long)comm_step(base));
    return comm_check(base, err);
}

static int host_gather(struct comm *base, const void *part, void *all, size_t bytes,
                       struct error *err)
{
    MPI_Request request;
    int rc;

    if (comm_check(base, err) < 0)
        return -1;
    if (bytes == 0)
        rc = MPI_Ibarrier(MPI_COMM_WORLD, &request);
    else
        rc = MPI_Iallgather(part, (int)bytes, MPI_BYTE, all, (int)bytes, MPI_BYTE, MPI_COMM_WORLD,
                            &request);
    return wait_for_all(base, rc, &request, err);
}

static int host_collect(struct comm *base, const void *part, void *all, size_t bytes, int root,
                        struct error *err)
{
    MPI_Request request;

    if (comm_check(base, err) < 0)
        return -1;
    return wait_for_all(base,
                        MPI_Igather(part, (int)bytes, MPI_BYTE, all, (int)bytes, MPI_BYTE, root,
                                    MPI_COMM_WORLD, &request),
                        &request, err);
}

static int host_broadcast(struct comm *base, void *data, size_t bytes, int root, struct error *err)
{
    const size_t most = (size_t)1 << 30; /* MPI counts in int */
    char *at = data;

    for (size_t left = bytes; left > 0;) {
        size_t size = left < most ? left : most;
        MPI_Request request;

        if (comm_check(base, err) < 0 ||
            wait_for_all(base, MPI_Ibcast(at, (int)size, MPI_BYTE, root, MPI_COMM_WORLD, &request),
                         &request, err) < 0)
            return -1;
        at += size;
        left -= size;
    }
    return 0;
}

static int host_max(struct comm *base, int64_t *numbers, int count, struct error *err)
{
    MPI_Request request;

    if (comm_check(base, err) < 0)
        return -1;
    return wait_for_all(base,
                        MPI_Iallreduce(MPI_IN_PLACE, numbers, count, MPI_INT64_T, MPI_MAX,
                                       MPI_COMM_WORLD, &request),
                        &request, err);
}

void mpi_set_operations(struct mpi_comm *comm)
{
    comm->base.all_reduce = all_reduce;
    comm->base.all_gather = all_gather;
    comm->base.reduce_scatter = reduce_scatter;
    comm->base.broadcast = broadcast;
    comm->base.exchange = exchange;
    comm->base.host_gather = host_gather;
    comm->base.host_collect = host_collect;
    comm->base.host_broadcast = host_broadcast;
    comm->base.host_max = host_max;
}
