/* SPDX-License-Identifier: Apache-2.0 */
/* Collectives of CPU ranks over MPI. Every operation is started without blocking and then polled
 * with a deadline, by the stream it was queued on or by the waiting caller. */
#include "mpi_world.h"
#include "lib/clock.h"
#include "base/core/half.h"

#include <sched.h>
#include <stdlib.h>
#include <string.h>

/* An operation in progress. */
struct progress {
    int count; /* number of requests; 0: not started */
    MPI_Request requests[COMM_MESSAGES];
    int64_t turn;
    struct cpu_wait wait;
};

/* The operands of a collective and of an exchange. */
struct call {
    struct cpu_call what;
    struct progress progress;
};

struct exchange_call {
    struct cpu_exchange what;
    struct progress progress;
};

_Static_assert(sizeof(struct call) <= DEVICE_OPERANDS, "a call fits the operands");
_Static_assert(sizeof(struct exchange_call) <= DEVICE_OPERANDS, "an exchange fits the operands");

static struct mpi_group *group_of(struct comm_group *group)
{
    return (struct mpi_group *)group;
}

static int mpi_type(enum device_type type, MPI_Datatype *out)
{
    switch (type) {
    case TYPE_FP32:
        *out = MPI_FLOAT;
        return 0;
    case TYPE_BF16:
        *out = MPI_UINT16_T;
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
    case TYPE_E4M3:
    case TYPE_E5M2:
        *out = MPI_UINT8_T;
        return 0;
    default:
        return -1;
    }
}

/* Test all requests once. A waiting caller yields and then sleeps, so that there can be more ranks
 * than cores. Returns 1 when there is nothing left to wait for: the requests are 'done' or failed
 * with 'rc', the deadline has passed, or a rank was lost. */
static int ask(const struct mpi_comm *comm, struct progress *p, int waits, int *rc, int *done)
{
    *done = 0;
    *rc = MPI_Testall(p->count, p->requests, done, MPI_STATUSES_IGNORE);
    if (*rc != MPI_SUCCESS || *done || comm->cpu.failed)
        return 1;
    if (cpu_wait_count(&comm->cpu, &p->wait, waits))
        return 1;
    if (!waits)
        return 0;
    p->turn++;
    if (p->turn > 3000)
        clock_sleep(50e-6);
    else if (p->turn > 50)
        sched_yield();
    return 0;
}

static void report(struct mpi_group *group, enum cpu_kind kind, int rc, int done)
{
    struct mpi_comm *comm = (struct mpi_comm *)group->base.comm;
    char text[MPI_MAX_ERROR_STRING] = "";
    int length = 0;

    if (comm->cpu.failed)
        return;
    if (rc != MPI_SUCCESS) {
        MPI_Error_string(rc, text, &length);
        cpu_fail(&comm->cpu,
                 "rank %d: %s in group %s of %d ranks failed at step %lld: %s; see the output of "
                 "the other ranks, and check the network of these nodes",
                 comm->cpu.base.rank, cpu_kind_name(kind), group->base.name, group->base.size,
                 (long long)comm_step(&comm->cpu.base), text);
    } else if (!done) {
        cpu_fail_timeout(&group->base, kind);
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

/* MPI has no such type: its elements are sent as integers. */
static void add_bf16(void *from, void *to, int *count, MPI_Datatype *type)
{
    const uint16_t *x = from;
    uint16_t *y = to;

    (void)type;
    for (int i = 0; i < *count; i++)
        y[i] = float_to_bfloat(bfloat_to_float(x[i]) + bfloat_to_float(y[i]));
}

/* There is no maximum of bf16, and fp8 is only moved: MPI rejects the call. */
static MPI_Op operator_of(const struct call *c)
{
    const struct mpi_comm *comm = (const struct mpi_comm *)c->what.group->comm;

    if (type_size(c->what.type) == 1)
        return MPI_OP_NULL;
    if (c->what.kind == CPU_ALL_REDUCE && c->what.op != COMM_SUM)
        return c->what.type == TYPE_BF16 ? MPI_OP_NULL : MPI_MAX;
    return c->what.type == TYPE_BF16 ? comm->sum_bf16 : MPI_SUM;
}

static int start(const struct call *c, MPI_Datatype type, MPI_Request *request)
{
    MPI_Comm comm = group_of(c->what.group)->comm;
    size_t bytes = c->what.count * type_size(c->what.type);
    const char *own = (const char *)c->what.to + (size_t)c->what.group->rank * bytes;
    int count = (int)c->what.count;

    switch (c->what.kind) {
    case CPU_ALL_REDUCE:
        return MPI_Iallreduce(MPI_IN_PLACE, c->what.to, count, type, operator_of(c), comm, request);
    case CPU_ALL_GATHER:
        return MPI_Iallgather((const char *)c->what.from == own ? MPI_IN_PLACE : c->what.from,
                              count, type, c->what.to, count, type, comm, request);
    case CPU_REDUCE_SCATTER:
        if (!space(group_of(c->what.group), bytes))
            return MPI_ERR_NO_MEM;
        return MPI_Ireduce_scatter_block(c->what.from, group_of(c->what.group)->space, count, type,
                                         operator_of(c), comm, request);
    default:
        return MPI_Ibcast(c->what.to, count, type, c->what.root, comm, request);
    }
}

static int poll_call(void *operands, int waits)
{
    struct call *c = operands;
    struct mpi_comm *comm = (struct mpi_comm *)c->what.group->comm;
    MPI_Datatype type;
    int rc = MPI_SUCCESS, done = 0;

    if (comm->cpu.failed)
        return 1;
    if (c->progress.count == 0) {
        if (mpi_type(c->what.type, &type) < 0 || c->what.count > INT32_MAX) {
            cpu_fail(&comm->cpu,
                     "rank %d: %s of %zu elements of this type is larger than MPI allows; set "
                     "MEGATRON_COMM=tcp",
                     comm->cpu.base.rank, cpu_kind_name(c->what.kind), c->what.count);
            return 1;
        }
        rc = start(c, type, &c->progress.requests[0]);
        c->progress.count = 1;
    }
    if (rc == MPI_SUCCESS && !ask(comm, &c->progress, waits, &rc, &done))
        return 0;
    report(group_of(c->what.group), c->what.kind, rc, done);
    if (c->what.kind == CPU_REDUCE_SCATTER && rc == MPI_SUCCESS && done)
        memcpy(c->what.to, group_of(c->what.group)->space, c->what.count * type_size(c->what.type));
    return 1;
}

static int start_exchange(struct exchange_call *c)
{
    struct mpi_comm *comm = (struct mpi_comm *)c->what.group->comm;
    struct progress *p = &c->progress;
    MPI_Datatype type = MPI_FLOAT;
    int rc = MPI_SUCCESS;

    for (size_t i = 0; i < c->what.count && rc == MPI_SUCCESS; i++) {
        const struct comm_message *m = &c->what.messages[i];

        if (mpi_type(m->type, &type) < 0 || m->count > INT32_MAX) {
            cpu_fail(&comm->cpu,
                     "rank %d: a message of %zu elements of this type is larger than MPI allows; "
                     "set MEGATRON_COMM=tcp",
                     comm->cpu.base.rank, m->count);
            return rc;
        }
        rc = m->send ? MPI_Isend(m->buffer, (int)m->count, type, m->peer, 0,
                                 group_of(c->what.group)->comm, &p->requests[p->count])
                     : MPI_Irecv(m->buffer, (int)m->count, type, m->peer, 0,
                                 group_of(c->what.group)->comm, &p->requests[p->count]);
        p->count++;
    }
    return rc;
}

static int poll_exchange(void *operands, int waits)
{
    struct exchange_call *c = operands;
    struct mpi_comm *comm = (struct mpi_comm *)c->what.group->comm;
    int rc = MPI_SUCCESS, done = 0;

    if (!comm->cpu.failed && c->progress.count == 0)
        rc = start_exchange(c);
    if (comm->cpu.failed)
        return 1;
    if (rc == MPI_SUCCESS && !ask(comm, &c->progress, waits, &rc, &done))
        return 0;
    report(group_of(c->what.group), CPU_EXCHANGE, rc, done);
    return 1;
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
    if (comm->cpu.failed)
        return comm_check(base, err);
    cpu_fail(&comm->cpu,
             "rank %d: not all of the %d ranks arrived within %.0f s at step %lld; another rank "
             "has ended or hangs: see the output of the other ranks, or %s",
             base->rank, base->size, base->deadline, (long long)comm_step(base), base->longer);
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

int mpi_create_operators(struct mpi_comm *comm, struct error *err)
{
    if (MPI_Op_create(add_bf16, 1, &comm->sum_bf16) != MPI_SUCCESS)
        return error_set(err, "MPI cannot add numbers of type bf16; set MEGATRON_COMM=tcp");
    return 0;
}

void mpi_destroy_operators(struct mpi_comm *comm)
{
    MPI_Op_free(&comm->sum_bf16);
}

void mpi_set_operations(struct mpi_comm *comm)
{
    comm->cpu.poll_call = poll_call;
    comm->cpu.poll_exchange = poll_exchange;
    comm->cpu.call_bytes = sizeof(struct call);
    comm->cpu.exchange_bytes = sizeof(struct exchange_call);
    comm->cpu.base.host_gather = host_gather;
    comm->cpu.base.host_collect = host_collect;
    comm->cpu.base.host_broadcast = host_broadcast;
    comm->cpu.base.host_max = host_max;
}
