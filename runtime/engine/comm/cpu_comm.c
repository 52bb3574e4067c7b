/* SPDX-License-Identifier: Apache-2.0 */
#include "cpu_comm.h"
#include "lib/clock.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

const char *cpu_kind_name(enum cpu_kind kind)
{
    static const char *const names[] = {"all-reduce", "all-gather", "reduce-scatter", "broadcast",
                                        "send and receive"};

    return names[kind];
}

/* --- Failures -------------------------------------------------------------------------------- */

void cpu_fail(struct cpu_comm *comm, const char *format, ...)
{
    struct error err = {.code = ERROR_RANK};
    va_list args;

    va_start(args, format);
    vsnprintf(err.text, sizeof(err.text), format, args);
    va_end(args);
    pthread_mutex_lock(&comm->lock);
    if (!comm->failed)
        comm->failure = err;
    comm->failed = 1;
    pthread_mutex_unlock(&comm->lock);
    device_fail(comm->base.device, &err);
}

void cpu_fail_timeout(const struct comm_group *group, enum cpu_kind kind)
{
    struct cpu_comm *comm = (struct cpu_comm *)group->comm;

    cpu_fail(comm,
             "rank %d: %s in group %s of %d ranks timed out after %.0f s at step %lld; another "
             "rank of the group has ended or hangs: see the output of the other ranks, or %s",
             comm->base.rank, cpu_kind_name(kind), group->name, group->size, comm->base.deadline,
             (long long)comm_step(&comm->base), comm->base.longer);
}

int cpu_wait_count(const struct cpu_comm *comm, struct cpu_wait *wait, int waits)
{
    double now;

    if (!waits) {
        wait->asked = 0;
        return 0;
    }
    now = clock_now();
    if (wait->asked > 0)
        wait->waited += now - wait->asked;
    wait->asked = now;
    return wait->waited > comm->base.deadline;
}

static int check(struct comm *base, struct error *err)
{
    struct cpu_comm *comm = (struct cpu_comm *)base;

    if (!comm->failed)
        return 0;
    pthread_mutex_lock(&comm->lock);
    *err = comm->failure;
    pthread_mutex_unlock(&comm->lock);
    return -1;
}

/* --- Collectives on streams ------------------------------------------------------------------ */

/* Queue the call, with zeros after it for the backend. */
static void submit(const struct comm_group *group, struct device_stream *stream,
                   const struct cpu_call *call)
{
    const struct cpu_comm *comm = (const struct cpu_comm *)group->comm;
    _Alignas(max_align_t) char operands[DEVICE_OPERANDS] = {0};

    if (group->size < 2)
        return;
    memcpy(operands, call, sizeof(*call));
    device_stream_poll(stream, comm->poll_call, operands, comm->call_bytes, 0);
}

static void all_reduce(struct comm_group *group, struct device_stream *stream, void *buffer,
                       size_t count, enum device_type type, enum comm_operator op)
{
    submit(group, stream,
           &(struct cpu_call){.kind = CPU_ALL_REDUCE,
                              .group = group,
                              .to = buffer,
                              .count = count,
                              .type = type,
                              .op = op});
}

/* A group of one rank needs a copy only. */
static void copy_alone(const struct comm_group *group, struct device_stream *stream,
                       const void *from, void *to, size_t count, enum device_type type)
{
    if (group->size == 1 && from != to)
        device_copy(stream, to, from, count * type_size(type), COPY_ON_DEVICE);
}

static void all_gather(struct comm_group *group, struct device_stream *stream, const void *part,
                       void *all, size_t count, enum device_type type)
{
    copy_alone(group, stream, part, all, count, type);
    submit(group, stream,
           &(struct cpu_call){.kind = CPU_ALL_GATHER,
                              .group = group,
                              .from = part,
                              .to = all,
                              .count = count,
                              .type = type});
}

static void reduce_scatter(struct comm_group *group, struct device_stream *stream, const void *all,
                           void *part, size_t count, enum device_type type)
{
    copy_alone(group, stream, all, part, count, type);
    submit(group, stream,
           &(struct cpu_call){.kind = CPU_REDUCE_SCATTER,
                              .group = group,
                              .from = all,
                              .to = part,
                              .count = count,
                              .type = type});
}

static void broadcast(struct comm_group *group, struct device_stream *stream, void *buffer,
                      size_t count, enum device_type type, int root)
{
    submit(group, stream,
           &(struct cpu_call){.kind = CPU_BROADCAST,
                              .group = group,
                              .to = buffer,
                              .count = count,
                              .type = type,
                              .root = root});
}

static void exchange(struct comm_group *group, struct device_stream *stream,
                     const struct comm_message *messages, size_t count)
{
    struct cpu_comm *comm = (struct cpu_comm *)group->comm;
    struct cpu_exchange call = {.group = group, .count = count};
    _Alignas(max_align_t) char operands[DEVICE_OPERANDS] = {0};

    if (count == 0)
        return;
    if (count > COMM_MESSAGES) {
        cpu_fail(comm,
                 "internal error: cannot exchange %zu messages at once, but at most %d; please "
                 "report this bug with the command and its output",
                 count, COMM_MESSAGES);
        return;
    }
    memcpy(call.messages, messages, count * sizeof(*messages));
    memcpy(operands, &call, sizeof(call));
    device_stream_poll(stream, comm->poll_exchange, operands, comm->exchange_bytes, 1);
}

/* --- Beginning and end ----------------------------------------------------------------------- */

void cpu_comm_init(struct cpu_comm *comm, const char *name, const struct comm_options *options)
{
    pthread_mutex_init(&comm->lock, NULL);
    comm->base = (struct comm){
        .abi = COMM_ABI,
        .name = name,
        .rank = options->rank,
        .size = options->size,
        .deadline = options->deadline,
        .longer = options->longer ? options->longer : "run it again",
        .device = options->device,
        .all_reduce = all_reduce,
        .all_gather = all_gather,
        .reduce_scatter = reduce_scatter,
        .broadcast = broadcast,
        .exchange = exchange,
        .check = check,
    };
}

void cpu_comm_clear(struct cpu_comm *comm)
{
    watch_end(comm->watch);
    star_destroy(comm->star);
    pthread_mutex_destroy(&comm->lock);
}
