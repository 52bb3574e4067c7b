/* SPDX-License-Identifier: Apache-2.0 */
/* Collectives of CPU ranks over TCP. Every operation is a list of messages; the stream that it was
 * queued on, or the waiting caller, moves them on with a deadline.
 *
 * Sums are added in the order of the ranks, whatever the size: each element of a result is
 * ((part 0 + part 1) + part 2) + ..., computed by one rank or by all in the same way. */
#include "tcp_world.h"
#include "base/core/half.h"

#include <sched.h>
#include <stdlib.h>
#include <string.h>

/* A waiting caller polls a few times, since sleeping costs more than a short wait, and then sleeps
 * until data arrives, at first only briefly: work of another stream may have to proceed first. In
 * the end it checks this often whether a rank was lost. */
enum { POLLS = 64 };
enum { FIRST_WAIT = 100, LONGEST_WAIT = 20000 }; /* microseconds */

/* Up to this size all ranks add all parts: one exchange instead of two. */
enum { SMALL_BYTES = 16384 };

/* The messages of one operation. */
struct tcp_work {
    struct tcp_work *next;
    int count;
    int pending[2]; /* messages of the first and of the second phase */
    struct cpu_wait wait;
    int turn;                       /* how often a waiting caller has polled */
    struct mesh_message messages[]; /* up to capacity() */
};

/* The operands of a collective and of an exchange. */
struct call {
    struct cpu_call what;
    int phase;
    struct tcp_work *work; /* NULL: not started */
};

struct exchange_call {
    struct cpu_exchange what;
    struct tcp_work *work;
};

_Static_assert(sizeof(struct call) <= DEVICE_OPERANDS, "a call fits the operands");
_Static_assert(sizeof(struct exchange_call) <= DEVICE_OPERANDS, "an exchange fits the operands");

static struct tcp_group *group_of(const struct call *c)
{
    return (struct tcp_group *)c->what.group;
}

static struct tcp_comm *comm_of(const struct tcp_group *group)
{
    return (struct tcp_comm *)group->base.comm;
}

/* --- Memory and messages --------------------------------------------------------------------- */

static size_t capacity(const struct tcp_group *group)
{
    size_t most = 4 * (size_t)group->base.size;

    return most > COMM_MESSAGES ? most : COMM_MESSAGES;
}

static struct tcp_work *take_work(struct tcp_group *group)
{
    struct tcp_work *work = group->idle;

    if (work)
        group->idle = work->next;
    else
        work = malloc(sizeof(*work) + capacity(group) * sizeof(work->messages[0]));
    if (work)
        *work = (struct tcp_work){.count = 0};
    else
        cpu_fail(&comm_of(group)->cpu,
                 "rank %d: out of memory; raise the memory limit of the job (sbatch --mem)",
                 comm_of(group)->cpu.base.rank);
    return work;
}

static void give_back(struct tcp_group *group, struct tcp_work *work)
{
    work->next = group->idle;
    group->idle = work;
}

void tcp_release_work(struct tcp_group *group)
{
    while (group->idle) {
        struct tcp_work *work = group->idle;

        group->idle = work->next;
        free(work);
    }
}

/* A buffer for the parts of the others; it is only grown during the first steps. */
static char *space(struct tcp_group *group, size_t bytes)
{
    if (group->space_bytes < bytes) {
        free(group->space);
        group->space = malloc(bytes);
        group->space_bytes = group->space ? bytes : 0;
    }
    if (!group->space && bytes > 0)
        cpu_fail(&comm_of(group)->cpu,
                 "rank %d: cannot allocate %zu bytes for a reduction; raise the memory limit of "
                 "the job (sbatch --mem)",
                 comm_of(group)->cpu.base.rank, bytes);
    return group->space;
}

static struct mesh_message *add(struct tcp_group *group, struct tcp_work *work, int peer, int phase,
                                const void *data, size_t bytes)
{
    struct mesh_message *message = &work->messages[work->count++];

    *message = (struct mesh_message){.peer = group->ranks[peer],
                                     .channel = group->channel,
                                     .data = (void *)(uintptr_t)data,
                                     .bytes = bytes,
                                     .pending = &work->pending[phase]};
    work->pending[phase]++;
    return message;
}

/* 'peer' is a rank of the group. An empty message is not sent. */
static void send_part(struct tcp_group *group, struct tcp_work *work, int peer, int phase,
                      const void *data, size_t bytes)
{
    if (bytes > 0)
        mesh_send(comm_of(group)->mesh, add(group, work, peer, phase, data, bytes));
}

static void receive_part(struct tcp_group *group, struct tcp_work *work, int peer, int phase,
                         void *data, size_t bytes)
{
    if (bytes > 0)
        mesh_receive(comm_of(group)->mesh, add(group, work, peer, phase, data, bytes));
}

/* --- Reductions ------------------------------------------------------------------------------ */

enum { BLOCK = 1024 };

/* to = op over parts[0 .. ranks - 1], in this order. 'to' may be one of the parts. */
#define DEFINE_REDUCE(name, type)                                                 \
    static void name(type *to, const void *const *parts, int ranks, size_t count, \
                     enum comm_operator op)                                       \
    {                                                                             \
        type block[BLOCK];                                                        \
                                                                                  \
        for (size_t first = 0; first < count; first += BLOCK) {                   \
            size_t length = count - first < BLOCK ? count - first : BLOCK;        \
                                                                                  \
            memcpy(block, (const type *)parts[0] + first, length * sizeof(type)); \
            for (int rank = 1; rank < ranks; rank++) {                            \
                const type *part = (const type *)parts[rank] + first;             \
                                                                                  \
                for (size_t i = 0; i < length && op == COMM_SUM; i++)             \
                    block[i] += part[i];                                          \
                for (size_t i = 0; i < length && op == COMM_MAX; i++)             \
                    block[i] = part[i] > block[i] ? part[i] : block[i];           \
            }                                                                     \
            memcpy(to + first, block, length * sizeof(type));                     \
        }                                                                         \
    }

DEFINE_REDUCE(reduce_fp32, float)
DEFINE_REDUCE(reduce_fp64, double)
DEFINE_REDUCE(reduce_int32, int32_t)
DEFINE_REDUCE(reduce_int64, int64_t)

/* Added up in fp32 and rounded once. */
static void reduce_bf16(uint16_t *to, const void *const *parts, int ranks, size_t count,
                        enum comm_operator op)
{
    for (size_t i = 0; i < count; i++) {
        float sum = bfloat_to_float(((const uint16_t *)parts[0])[i]);

        for (int rank = 1; rank < ranks; rank++) {
            float part = bfloat_to_float(((const uint16_t *)parts[rank])[i]);

            sum = op == COMM_SUM ? sum + part : part > sum ? part : sum;
        }
        to[i] = float_to_bfloat(sum);
    }
}

static int is_reducible(enum device_type type)
{
    return type == TYPE_FP32 || type == TYPE_BF16 || type == TYPE_FP64 || type == TYPE_INT32 ||
           type == TYPE_INT64;
}

/* Reduce this rank's own 'part' and those of the others, which are in the group's space. */
static void reduce(const struct call *c, void *to, const void *part, size_t count)
{
    struct tcp_group *group = group_of(c);
    size_t bytes = count * type_size(c->what.type);
    const char *others = group->space;
    int ranks = group->base.size;

    for (int rank = 0, other = 0; rank < ranks; rank++)
        group->parts[rank] = rank == group->base.rank ? part : others + (size_t)other++ * bytes;
    if (count == 0)
        return;
    if (c->what.type == TYPE_FP32)
        reduce_fp32(to, group->parts, ranks, count, c->what.op);
    else if (c->what.type == TYPE_BF16)
        reduce_bf16(to, group->parts, ranks, count, c->what.op);
    else if (c->what.type == TYPE_FP64)
        reduce_fp64(to, group->parts, ranks, count, c->what.op);
    else if (c->what.type == TYPE_INT32)
        reduce_int32(to, group->parts, ranks, count, c->what.op);
    else
        reduce_int64(to, group->parts, ranks, count, c->what.op);
}

static int is_small(const struct call *c)
{
    return c->what.count * type_size(c->what.type) <= SMALL_BYTES;
}

/* The elements of a large all-reduce that rank 'rank' reduces. */
static size_t cut(const struct call *c, int rank)
{
    size_t whole = c->what.count / (size_t)c->what.group->size;
    size_t rest = c->what.count % (size_t)c->what.group->size;

    return whole * (size_t)rank + ((size_t)rank < rest ? (size_t)rank : rest);
}

static char *segment(const struct call *c, int rank, size_t *bytes)
{
    *bytes = (cut(c, rank + 1) - cut(c, rank)) * type_size(c->what.type);
    return (char *)c->what.to + cut(c, rank) * type_size(c->what.type);
}

/* Every rank gets its segment from all, reduces it, and sends the result to all. The result of
 * another rank overwrites the segment that was sent to it: that rank sends it only after it has
 * received the segment from all. */
static void start_large(const struct call *c)
{
    struct tcp_group *group = group_of(c);
    int own = group->base.rank, slot = 0;
    size_t own_bytes, bytes;
    char *others;

    segment(c, own, &own_bytes);
    others = space(group, own_bytes * (size_t)(group->base.size - 1) + 1);
    if (!others)
        return;
    for (int rank = 0; rank < group->base.size; rank++)
        if (rank != own)
            receive_part(group, c->work, rank, 0, others + (size_t)slot++ * own_bytes, own_bytes);
    for (int rank = 0; rank < group->base.size; rank++) {
        char *at = segment(c, rank, &bytes);

        if (rank == own)
            continue;
        receive_part(group, c->work, rank, 1, at, bytes);
        send_part(group, c->work, rank, 0, at, bytes);
    }
}

/* Every rank sends 'bytes' at 'from' (+ stride x the other's rank) to all others and gets theirs
 * into the group's space. */
static void start_reduction(const struct call *c, const char *from, size_t stride, size_t bytes)
{
    struct tcp_group *group = group_of(c);
    char *others = space(group, bytes * (size_t)(group->base.size - 1) + 1);
    int slot = 0;

    for (int rank = 0; others && rank < group->base.size; rank++) {
        if (rank == group->base.rank)
            continue;
        receive_part(group, c->work, rank, 0, others + (size_t)slot++ * bytes, bytes);
        send_part(group, c->work, rank, 0, from + (size_t)rank * stride, bytes);
    }
}

static void start_gather(const struct call *c)
{
    struct tcp_group *group = group_of(c);
    size_t bytes = c->what.count * type_size(c->what.type);
    char *all = c->what.to, *own = all + (size_t)group->base.rank * bytes;

    if ((const char *)c->what.from != own && bytes > 0)
        memcpy(own, c->what.from, bytes);
    for (int rank = 0; rank < group->base.size; rank++) {
        if (rank == group->base.rank)
            continue;
        receive_part(group, c->work, rank, 0, all + (size_t)rank * bytes, bytes);
        send_part(group, c->work, rank, 0, own, bytes);
    }
}

static void start_broadcast(const struct call *c)
{
    struct tcp_group *group = group_of(c);
    size_t bytes = c->what.count * type_size(c->what.type);

    if (group->base.rank != c->what.root)
        receive_part(group, c->work, c->what.root, 0, c->what.to, bytes);
    for (int rank = 0; rank < group->base.size && group->base.rank == c->what.root; rank++)
        if (rank != c->what.root)
            send_part(group, c->work, rank, 0, c->what.to, bytes);
}

static void start(struct call *c)
{
    size_t bytes = c->what.count * type_size(c->what.type);

    if ((c->what.kind == CPU_ALL_REDUCE || c->what.kind == CPU_REDUCE_SCATTER) &&
        !is_reducible(c->what.type))
        cpu_fail(&comm_of(group_of(c))->cpu,
                 "internal error: rank %d: %s of a data type that CPU ranks cannot reduce; please "
                 "report this bug with the command and its output",
                 c->what.group->comm->rank, cpu_kind_name(c->what.kind));
    else if (c->what.kind == CPU_ALL_REDUCE && is_small(c))
        start_reduction(c, c->what.to, 0, bytes);
    else if (c->what.kind == CPU_ALL_REDUCE)
        start_large(c);
    else if (c->what.kind == CPU_ALL_GATHER)
        start_gather(c);
    else if (c->what.kind == CPU_REDUCE_SCATTER)
        start_reduction(c, c->what.from, bytes, bytes);
    else
        start_broadcast(c);
}

/* The messages of the first phase have arrived. */
static void finish_first(struct call *c)
{
    int own = c->what.group->rank;
    size_t bytes;
    char *at;

    if (c->what.kind == CPU_REDUCE_SCATTER)
        reduce(c, c->what.to,
               (const char *)c->what.from + (size_t)own * c->what.count * type_size(c->what.type),
               c->what.count);
    if (c->what.kind != CPU_ALL_REDUCE)
        return;
    if (is_small(c)) {
        reduce(c, c->what.to, c->what.to, c->what.count);
        return;
    }
    at = segment(c, own, &bytes);
    reduce(c, at, at, bytes / type_size(c->what.type));
    for (int rank = 0; rank < c->what.group->size; rank++)
        if (rank != own)
            send_part(group_of(c), c->work, rank, 1, at, bytes);
}

/* --- Progress -------------------------------------------------------------------------------- */

/* How many microseconds to wait for data. */
static int pause_of(struct tcp_work *work)
{
    int pause = FIRST_WAIT * (1 + (work->turn - POLLS) / 16);

    if (work->turn < POLLS) {
        work->turn++;
        sched_yield();
        return 0;
    }
    if (pause >= LONGEST_WAIT)
        return LONGEST_WAIT;
    work->turn++;
    return pause;
}

/* Move messages. Returns 1 when those of the phase are done or something has failed. */
static int proceed(const struct tcp_group *group, struct tcp_work *work, int phase,
                   enum cpu_kind kind, int waits)
{
    struct tcp_comm *comm = comm_of(group);
    struct error err;

    if (comm->cpu.failed || work->pending[phase] == 0)
        return 1;
    if (mesh_progress(comm->mesh, waits ? pause_of(work) : 0, &err) < 0) {
        cpu_fail(&comm->cpu, "rank %d: %s in group %s failed at step %lld: %s", comm->cpu.base.rank,
                 cpu_kind_name(kind), group->base.name, (long long)comm_step(&comm->cpu.base),
                 err.text);
        return 1;
    }
    if (work->pending[phase] == 0)
        return 1;
    if (!cpu_wait_count(&comm->cpu, &work->wait, waits))
        return 0;
    cpu_fail_timeout(&group->base, kind);
    return 1;
}

/* After a failure the mesh is not used again, but it still refers to unfinished messages. */
static void end_work(struct tcp_group *group, struct tcp_work *work)
{
    if (work)
        give_back(group, work);
}

static int poll_call(void *operands, int waits)
{
    struct call *c = operands;
    struct tcp_comm *comm = comm_of(group_of(c));

    if (!comm->cpu.failed && !c->work) {
        c->work = take_work(group_of(c));
        if (c->work)
            start(c);
    }
    while (!comm->cpu.failed) {
        if (!proceed(group_of(c), c->work, c->phase, c->what.kind, waits))
            return 0;
        if (comm->cpu.failed || c->phase == 1)
            break;
        finish_first(c);
        c->phase = 1;
    }
    end_work(group_of(c), c->work);
    return 1;
}

static void start_exchange(struct exchange_call *c)
{
    struct tcp_group *group = (struct tcp_group *)c->what.group;

    for (size_t i = 0; i < c->what.count; i++) {
        const struct comm_message *m = &c->what.messages[i];
        struct mesh_message *message =
            add(group, c->work, m->peer, 0, m->buffer, m->count * type_size(m->type));

        message->channel = group->channel + 1;
        if (m->send)
            mesh_send(comm_of(group)->mesh, message);
        else
            mesh_receive(comm_of(group)->mesh, message);
    }
}

static int poll_exchange(void *operands, int waits)
{
    struct exchange_call *c = operands;
    struct tcp_group *group = (struct tcp_group *)c->what.group;
    struct tcp_comm *comm = comm_of(group);

    if (!comm->cpu.failed && !c->work) {
        c->work = take_work(group);
        if (c->work)
            start_exchange(c);
    }
    if (!comm->cpu.failed && !proceed(group, c->work, 0, CPU_EXCHANGE, waits))
        return 0;
    end_work(group, c->work);
    return 1;
}

void tcp_set_operations(struct tcp_comm *comm)
{
    comm->cpu.poll_call = poll_call;
    comm->cpu.poll_exchange = poll_exchange;
    comm->cpu.call_bytes = sizeof(struct call);
    comm->cpu.exchange_bytes = sizeof(struct exchange_call);
}
