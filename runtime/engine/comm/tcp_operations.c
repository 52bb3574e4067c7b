/* SPDX-License-Identifier: Apache-2.0 */
/* Collectives of CPU ranks over TCP. Every operation is a list of messages; the stream that it was
 * queued on, or the waiting caller, moves them on with a deadline.
 *
 * Sums are added in the order of the ranks, whatever the size: each element of a result is
 * ((part 0 + part 1) + part 2) + ..., computed by one rank or by all in the same way. */
#include "base/core/xmalloc.h"
#include "lib/clock.h"
#include "tcp_world.h"

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

enum kind { ALL_REDUCE, ALL_GATHER, REDUCE_SCATTER, BROADCAST, EXCHANGE };

static const char *const kind_names[] = {"all-reduce", "all-gather", "reduce-scatter", "broadcast",
                                         "send and receive"};

/* How long waiting callers have waited for an operation. */
struct wait {
    double asked;  /* last time a waiting caller polled; 0: not since */
    double waited; /* seconds */
};

/* The messages of one operation. */
struct tcp_work {
    struct tcp_work *next;
    int count;
    int pending[2]; /* messages of the first and of the second phase */
    struct wait wait;
    int turn;                       /* how often a waiting caller has polled */
    struct mesh_message messages[]; /* up to capacity() */
};

/* The operands of a collective queued on a stream. */
struct call {
    enum kind kind;
    struct comm_group *group;
    const void *from;
    void *to;
    size_t count;
    enum device_type type;
    enum comm_operator op;
    int root;
    int phase;
    struct tcp_work *work; /* NULL: not started */
};

/* The operands of an exchange. */
struct exchange_call {
    struct comm_group *group;
    size_t count;
    struct comm_message messages[COMM_MESSAGES];
    struct tcp_work *work;
};

_Static_assert(sizeof(struct call) <= DEVICE_OPERANDS, "a call fits the operands");
_Static_assert(sizeof(struct exchange_call) <= DEVICE_OPERANDS, "an exchange fits the operands");

static struct tcp_group *group_of(const struct call *c)
{
    return (struct tcp_group *)c->group;
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
        work = xmalloc(sizeof(*work) + capacity(group) * sizeof(work->messages[0]));
    *work = (struct tcp_work){.count = 0};
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
        tcp_fail(comm_of(group),
                 "rank %d: cannot allocate %zu bytes for a reduction; raise the memory limit of "
                 "the job (sbatch --mem)",
                 comm_of(group)->base.rank, bytes);
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

/* Reduce this rank's own 'part' and those of the others, which are in the group's space. */
static void reduce(const struct call *c, void *to, const void *part, size_t count)
{
    struct tcp_group *group = group_of(c);
    size_t bytes = count * type_size(c->type);
    const char *others = group->space;
    int ranks = group->base.size;

    for (int rank = 0, other = 0; rank < ranks; rank++)
        group->parts[rank] = rank == group->base.rank ? part : others + (size_t)other++ * bytes;
    tcp_reduce(to, group->parts, ranks, count, c->type, c->op);
}

static int is_small(const struct call *c)
{
    return c->count * type_size(c->type) <= SMALL_BYTES;
}

/* The elements of a large all-reduce that rank 'rank' reduces. */
static size_t cut(const struct call *c, int rank)
{
    size_t whole = c->count / (size_t)c->group->size;
    size_t rest = c->count % (size_t)c->group->size;

    return whole * (size_t)rank + ((size_t)rank < rest ? (size_t)rank : rest);
}

static char *segment(const struct call *c, int rank, size_t *bytes)
{
    *bytes = (cut(c, rank + 1) - cut(c, rank)) * type_size(c->type);
    return (char *)c->to + cut(c, rank) * type_size(c->type);
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
    size_t bytes = c->count * type_size(c->type);
    char *all = c->to, *own = all + (size_t)group->base.rank * bytes;

    if ((const char *)c->from != own && bytes > 0)
        memcpy(own, c->from, bytes);
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
    size_t bytes = c->count * type_size(c->type);

    if (group->base.rank != c->root)
        receive_part(group, c->work, c->root, 0, c->to, bytes);
    for (int rank = 0; rank < group->base.size && group->base.rank == c->root; rank++)
        if (rank != c->root)
            send_part(group, c->work, rank, 0, c->to, bytes);
}

static void start(struct call *c)
{
    size_t bytes = c->count * type_size(c->type);

    if ((c->kind == ALL_REDUCE || c->kind == REDUCE_SCATTER) && !tcp_is_reducible(c->type))
        tcp_fail(comm_of(group_of(c)),
                 "internal error: rank %d: %s of a data type that CPU ranks cannot reduce; please "
                 "report this bug with the command and its output",
                 c->group->comm->rank, kind_names[c->kind]);
    else if (c->kind == ALL_REDUCE && is_small(c))
        start_reduction(c, c->to, 0, bytes);
    else if (c->kind == ALL_REDUCE)
        start_large(c);
    else if (c->kind == ALL_GATHER)
        start_gather(c);
    else if (c->kind == REDUCE_SCATTER)
        start_reduction(c, c->from, bytes, bytes);
    else
        start_broadcast(c);
}

/* The messages of the first phase have arrived. */
static void finish_first(struct call *c)
{
    int own = c->group->rank;
    size_t bytes;
    char *at;

    if (c->kind == REDUCE_SCATTER)
        reduce(c, c->to, (const char *)c->from + (size_t)own * c->count * type_size(c->type),
               c->count);
    if (c->kind != ALL_REDUCE)
        return;
    if (is_small(c)) {
        reduce(c, c->to, c->to, c->count);
        return;
    }
    at = segment(c, own, &bytes);
    reduce(c, at, at, bytes / type_size(c->type));
    for (int rank = 0; rank < c->group->size; rank++)
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

/* Count a poll. Only waiting time counts: a busy rank must not give up on the others. True if the
 * deadline has passed. */
static bool is_late(const struct tcp_comm *comm, struct wait *wait, int waits)
{
    double now;

    if (!waits) {
        wait->asked = 0;
        return false;
    }
    now = clock_now();
    if (wait->asked > 0)
        wait->waited += now - wait->asked;
    wait->asked = now;
    return wait->waited > comm->base.deadline;
}

static void fail_timeout(const struct comm_group *group, enum kind kind)
{
    struct tcp_comm *comm = (struct tcp_comm *)group->comm;

    tcp_fail(comm,
             "rank %d: %s in group %s of %d ranks timed out after %.0f s at step %lld; another "
             "rank of the group has ended or hangs: see the output of the other ranks, or %s",
             comm->base.rank, kind_names[kind], group->name, group->size, comm->base.deadline,
             (long long)comm_step(&comm->base), comm->base.longer);
}

/* Move messages. Returns 1 when those of the phase are done or something has failed. */
static int proceed(const struct tcp_group *group, struct tcp_work *work, int phase, enum kind kind,
                   int waits)
{
    struct tcp_comm *comm = comm_of(group);
    struct error err;

    if (failure_exists(&comm->base.failure) || work->pending[phase] == 0)
        return 1;
    if (mesh_progress(comm->mesh, waits ? pause_of(work) : 0, &err) < 0) {
        tcp_fail(comm, "rank %d: %s in group %s failed at step %lld: %s", comm->base.rank,
                 kind_names[kind], group->base.name, (long long)comm_step(&comm->base), err.text);
        return 1;
    }
    if (work->pending[phase] == 0)
        return 1;
    if (!is_late(comm, &work->wait, waits))
        return 0;
    fail_timeout(&group->base, kind);
    return 1;
}

/* After a failure the mesh is not used again, but it still refers to messages in progress, so their
 * memory is kept. */
static void end_work(struct tcp_group *group, struct tcp_work *work)
{
    if (work)
        give_back(group, work);
}

static int poll_call(void *operands, int waits)
{
    struct call *c = operands;
    struct tcp_comm *comm = comm_of(group_of(c));

    if (!failure_exists(&comm->base.failure) && !c->work) {
        c->work = take_work(group_of(c));
        start(c);
    }
    while (!failure_exists(&comm->base.failure)) {
        if (!proceed(group_of(c), c->work, c->phase, c->kind, waits))
            return 0;
        if (failure_exists(&comm->base.failure) || c->phase == 1)
            break;
        finish_first(c);
        c->phase = 1;
    }
    end_work(group_of(c), c->work);
    return 1;
}

static void start_exchange(struct exchange_call *c)
{
    struct tcp_group *group = (struct tcp_group *)c->group;

    for (size_t i = 0; i < c->count; i++) {
        const struct comm_message *m = &c->messages[i];
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
    struct tcp_group *group = (struct tcp_group *)c->group;
    struct tcp_comm *comm = comm_of(group);

    if (!failure_exists(&comm->base.failure) && !c->work) {
        c->work = take_work(group);
        start_exchange(c);
    }
    if (!failure_exists(&comm->base.failure) && !proceed(group, c->work, 0, EXCHANGE, waits))
        return 0;
    end_work(group, c->work);
    return 1;
}

/* --- Collectives on streams ------------------------------------------------------------------ */

static void submit(struct device_stream *stream, const struct call *call)
{
    device_stream_poll(stream, poll_call, call, sizeof(*call), 0);
}

static void all_reduce(struct comm_group *group, struct device_stream *stream, void *buffer,
                       size_t count, enum device_type type, enum comm_operator op)
{
    submit(stream, &(struct call){ALL_REDUCE, group, NULL, buffer, count, type, .op = op});
}

static void all_gather(struct comm_group *group, struct device_stream *stream, const void *part,
                       void *all, size_t count, enum device_type type)
{
    submit(stream, &(struct call){ALL_GATHER, group, part, all, count, type});
}

static void reduce_scatter(struct comm_group *group, struct device_stream *stream, const void *all,
                           void *part, size_t count, enum device_type type)
{
    submit(stream, &(struct call){REDUCE_SCATTER, group, all, part, count, type});
}

static void broadcast(struct comm_group *group, struct device_stream *stream, void *buffer,
                      size_t count, enum device_type type, int root)
{
    submit(stream, &(struct call){BROADCAST, group, NULL, buffer, count, type, .root = root});
}

static void exchange(struct comm_group *group, struct device_stream *stream,
                     const struct comm_message *messages, size_t count)
{
    struct exchange_call call = {.group = group, .count = count};

    if (count > COMM_MESSAGES) {
        tcp_fail((struct tcp_comm *)group->comm,
                 "internal error: cannot exchange %zu messages at once, but at most %d; please "
                 "report this bug with the command and its output",
                 count, COMM_MESSAGES);
        return;
    }
    memcpy(call.messages, messages, count * sizeof(*messages));
    device_stream_poll(stream, poll_exchange, &call, sizeof(call), 1);
}

void tcp_set_operations(struct tcp_comm *comm)
{
    comm->base.all_reduce = all_reduce;
    comm->base.all_gather = all_gather;
    comm->base.reduce_scatter = reduce_scatter;
    comm->base.broadcast = broadcast;
    comm->base.exchange = exchange;
}
