/* Communication of CPU ranks over MPI. Every operation is started without blocking and then asked
 * for with a deadline, within the stream it was given to. Calls that MPI has only as blocking ones
 * are guarded: a rank that waits in them for ever ends with a sentence. MPI itself may never notice
 * that a rank is lost, with its slurmstepd or its node: TCP connections to rank 0 tell. */
#include "comm.h"
#include "clock.h"
#include "guard.h"
#include "launcher.h"
#include "mpi_star.h"
#include "watch.h"

#include <mpi.h>
#include <pthread.h>
#include <sched.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>

struct mpi_comm {
    struct comm base;
    atomic_int failed;
    pthread_mutex_t lock; /* of the failure */
    struct error failure;
    int started_mpi; /* and so ends it */
    struct star *star;
    struct watch *watch;
};

struct mpi_group {
    struct comm_group base;
    MPI_Comm comm;
    void *space; /* for results that cannot be made in place */
    size_t space_bytes;
};

enum { GRACE = 3 }; /* seconds that rank 0 has to end all ranks before another does */

enum kind { ALL_REDUCE, ALL_GATHER, REDUCE_SCATTER, BROADCAST, EXCHANGE };

static const char *const kind_names[] = {"all-reduce", "all-gather", "reduce-scatter", "broadcast",
                                         "send and receive"};

/* An operation under way. */
struct progress {
    int count; /* of requests; 0: it has not begun */
    MPI_Request requests[COMM_MESSAGES];
    int64_t turn;
    double asked; /* by somebody who waits, last; 0: by nobody since */
    double waited;
};

/* What goes through the stream. */
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

__attribute__((format(printf, 2, 3))) static void fail(struct mpi_comm *comm, const char *format,
                                                       ...)
{
    struct error err;
    va_list args;

    va_start(args, format);
    vsnprintf(err.text, sizeof(err.text), format, args);
    va_end(args);
    pthread_mutex_lock(&comm->lock);
    if (!comm->failed)
        comm->failure = err;
    comm->failed = 1;
    pthread_mutex_unlock(&comm->lock);
    device_fail(comm->base.device, err.text);
}

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

/* Ask once for all requests. Whoever waits yields and then sleeps, so that ranks may outnumber the
 * cores, and only its time counts: this rank's own work is no reason to give another up. Returns 1
 * when nothing more will come of it: they are 'done', failed with 'rc', or the deadline is over. A
 * rank that is lost meanwhile ends the wait, too. */
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
        fail(comm, "rank %d: %s in group %s of %d ranks failed at step %lld: %s", comm->base.rank,
             kind_names[kind], group->base.name, group->base.size,
             (long long)comm_step(&comm->base), text);
    } else if (!done) {
        fail(comm,
             "rank %d: %s in group %s of %d ranks was not done after %.0f s at step %lld; another "
             "rank of the group has ended or hangs",
             comm->base.rank, kind_names[kind], group->base.name, group->base.size,
             comm->base.deadline, (long long)comm_step(&comm->base));
    }
}

/* Room for a result of 'bytes'; grown only the first times. */
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
            fail(comm, "rank %d: %s of %zu elements in this type is beyond MPI", comm->base.rank,
                 kind_names[c->kind], c->count);
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
            fail(comm, "rank %d: a message of %zu elements in this type is beyond MPI",
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
        fail((struct mpi_comm *)group->comm, "an exchange of %zu messages; at most %d are possible",
             count, COMM_MESSAGES);
        return;
    }
    memcpy(call.messages, messages, count * sizeof(*messages));
    device_stream_poll(stream, poll_exchange, &call, sizeof(call), 1);
}

static struct comm_group *group_create(struct comm *base, const char *name, const int *ranks,
                                       int count, struct error *err)
{
    struct mpi_group *group = calloc(1, sizeof(*group));
    struct guard *guard;
    int rc;

    if (!group) {
        error_set(err, "out of memory");
        return NULL;
    }
    guard = guard_begin(base->deadline, err,
                        "rank %d: making the %s groups of %d ranks was not done after %.0f s at "
                        "step %lld; another rank has ended or hangs",
                        base->rank, name, base->size, base->deadline, (long long)comm_step(base));
    if (!guard) {
        free(group);
        return NULL;
    }
    group->base.comm = base;
    group->base.size = count;
    snprintf(group->base.name, sizeof(group->base.name), "%s", name);
    /* Groups of one call do not overlap, so the first rank's number tells them apart. */
    rc = MPI_Comm_split(MPI_COMM_WORLD, count > 0 ? ranks[0] : MPI_UNDEFINED, base->rank,
                        &group->comm);
    guard_end(guard);
    if (rc != MPI_SUCCESS) {
        error_set(err, "MPI could not make the %s groups", name);
        free(group);
        return NULL;
    }
    if (count > 0) {
        MPI_Comm_rank(group->comm, &group->base.rank);
        MPI_Comm_set_errhandler(group->comm, MPI_ERRORS_RETURN);
    }
    return &group->base;
}

/* The run is over; a rank that cannot leave must still say so and end. */
static struct guard *guard_at_end(const struct mpi_comm *comm)
{
    struct error ignored;

    return guard_begin(comm->base.deadline, &ignored,
                       "rank %d: not all %d ranks met at the end within %.0f s; another rank has "
                       "ended or hangs",
                       comm->base.rank, comm->base.size, comm->base.deadline);
}

static void group_destroy(struct comm_group *base)
{
    struct mpi_group *group = (struct mpi_group *)base;
    struct mpi_comm *comm = (struct mpi_comm *)base->comm;

    /* Freeing waits for the others, who may be gone. */
    if (group->comm != MPI_COMM_NULL && !comm->failed) {
        struct guard *guard = guard_at_end(comm);

        MPI_Comm_free(&group->comm);
        guard_end(guard);
    }
    free(group->space);
    free(group);
}

static int check(struct comm *base, struct error *err)
{
    struct mpi_comm *comm = (struct mpi_comm *)base;

    if (!comm->failed)
        return 0;
    pthread_mutex_lock(&comm->lock);
    *err = comm->failure;
    pthread_mutex_unlock(&comm->lock);
    return -1;
}

/* Wait for what all ranks have to join in; 'rc' says whether it could be begun. */
static int meet(struct comm *base, int rc, const MPI_Request *request, struct error *err)
{
    struct mpi_comm *comm = (struct mpi_comm *)base;
    struct progress progress = {.count = 1, .requests = {*request}};
    int done = 0;

    while (rc == MPI_SUCCESS && !ask(comm, &progress, 1, &rc, &done))
        ;
    if (rc == MPI_SUCCESS && done)
        return 0;
    if (comm->failed)
        return check(base, err);
    fail(
        comm,
        "rank %d: not all %d ranks met within %.0f s at step %lld; another rank has ended or hangs",
        base->rank, base->size, base->deadline, (long long)comm_step(base));
    return check(base, err);
}

static int host_gather(struct comm *base, const void *part, void *all, size_t bytes,
                       struct error *err)
{
    MPI_Request request;
    int rc;

    if (check(base, err) < 0)
        return -1;
    if (bytes == 0)
        rc = MPI_Ibarrier(MPI_COMM_WORLD, &request);
    else
        rc = MPI_Iallgather(part, (int)bytes, MPI_BYTE, all, (int)bytes, MPI_BYTE, MPI_COMM_WORLD,
                            &request);
    return meet(base, rc, &request, err);
}

static int host_collect(struct comm *base, const void *part, void *all, size_t bytes, int root,
                        struct error *err)
{
    MPI_Request request;

    if (check(base, err) < 0)
        return -1;
    return meet(base,
                MPI_Igather(part, (int)bytes, MPI_BYTE, all, (int)bytes, MPI_BYTE, root,
                            MPI_COMM_WORLD, &request),
                &request, err);
}

static int host_max(struct comm *base, int64_t *numbers, int count, struct error *err)
{
    MPI_Request request;

    if (check(base, err) < 0)
        return -1;
    return meet(base,
                MPI_Iallreduce(MPI_IN_PLACE, numbers, count, MPI_INT64_T, MPI_MAX, MPI_COMM_WORLD,
                               &request),
                &request, err);
}

/* Wait until who reads standard error has taken all of it, within a moment, and another moment for
 * its way on: mpirun forgets what is still with it when it ends the ranks. */
static void drain_errors(void)
{
    int left = 0;

    fflush(stderr);
    for (int turn = 0; turn < 400; turn++) {
        if (ioctl(STDERR_FILENO, FIONREAD, &left) < 0 || left == 0)
            break;
        nanosleep(&(struct timespec){0, 5000000}, NULL);
    }
    nanosleep(&(struct timespec){0, 200000000}, NULL);
}

static void abort_all(struct comm *base, const char *reason)
{
    struct mpi_comm *comm = (struct mpi_comm *)base;
    struct error ignored;
    struct guard *guard;

    fflush(stdout);
    /* What goes wrong on all ranks is said by rank 0: the others have ended before their turn. */
    if (base->rank > 0)
        nanosleep(&(struct timespec){GRACE, 0}, NULL);
    fprintf(stderr, "megatron: rank %d ends all ranks: %s\n", base->rank, reason);
    drain_errors();
    guard = guard_begin(10, &ignored, "rank %d: MPI did not end the ranks; this one ends alone",
                        base->rank);
    if (comm->star)
        star_abort(comm->star, reason);
    if (launcher_abort() < 0)
        MPI_Abort(MPI_COMM_WORLD, 1);
    guard_end(guard);
    _exit(1);
}

static void close_comm(struct comm *base)
{
    struct mpi_comm *comm = (struct mpi_comm *)base;
    struct error ignored;

    /* Finalizing waits for all ranks without end: only where they have all come this far. */
    if (comm->started_mpi && !comm->failed && host_gather(base, NULL, NULL, 0, &ignored) == 0) {
        struct guard *guard = guard_at_end(comm);

        MPI_Finalize();
        guard_end(guard);
    }
    watch_end(comm->watch);
    star_destroy(comm->star);
    pthread_mutex_destroy(&comm->lock);
    free(comm);
}

static void on_lost(void *context, const char *text)
{
    struct mpi_comm *comm = context;

    fail(comm, "%s, at step %lld", text, (long long)comm_step(&comm->base));
}

/* Follow the other ranks. Where they cannot be reached the run goes without: the deadlines are
 * still there. */
static int watch_others(struct mpi_comm *comm, const struct comm_options *options,
                        struct error *err)
{
    if (mpi_star(options, &comm->star, err) < 0)
        return -1;
    if (comm->star)
        comm->watch = watch_begin(comm->star, options->rank, on_lost, comm, err);
    return comm->star && !comm->watch ? -1 : 0;
}

static int start_mpi(const struct comm_options *options, int *started, struct error *err)
{
    int initialized = 0, provided, rank, size, rc = MPI_SUCCESS, met = 0;

    MPI_Initialized(&initialized);
    if (!initialized && launcher_missing()) {
        error_set(err, "srun started the ranks without PMIx, by which MPI lets them meet; use "
                       "`srun --mpi=pmix`, or MpiDefault=pmix in slurm.conf");
        if (options->rank > 0)
            err->text[0] = '\0'; /* rank 0 says it */
        return -1;
    }
    if (!initialized) {
        struct guard *guard =
            guard_begin(options->deadline, err,
                        "rank %d of %d: MPI did not start within %.0f s; another rank has ended, "
                        "hangs or was not started",
                        options->rank, options->size, options->deadline);

        if (!guard)
            return -1;
        rc = MPI_Init_thread(NULL, NULL, MPI_THREAD_FUNNELED, &provided);
        if (rc == MPI_SUCCESS)
            met = launcher_barrier(err);
        guard_end(guard);
    }
    if (rc != MPI_SUCCESS)
        return error_set(err, "MPI could not start");
    if (met < 0)
        return -1;
    *started = !initialized;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    if (rank != options->rank || size != options->size)
        return error_set(err,
                         "the environment says rank %d of %d, MPI says %d of %d; start the ranks "
                         "with `srun --mpi=pmix` or mpirun",
                         options->rank, options->size, rank, size);
    return 0;
}

__attribute__((visibility("default"))) comm_backend_open_function comm_backend_open;

struct comm *comm_backend_open(const struct comm_options *options, struct error *err)
{
    struct mpi_comm *comm = calloc(1, sizeof(*comm));

    if (!comm) {
        error_set(err, "out of memory");
        return NULL;
    }
    pthread_mutex_init(&comm->lock, NULL);
    comm->base = (struct comm){
        .abi = COMM_ABI,
        .name = "mpi",
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
        .host_gather = host_gather,
        .host_collect = host_collect,
        .host_max = host_max,
        .check = check,
        .abort = abort_all,
    };
    /* Last: from here on the watch may find a rank lost. */
    if (start_mpi(options, &comm->started_mpi, err) < 0 || watch_others(comm, options, err) < 0) {
        star_destroy(comm->star);
        pthread_mutex_destroy(&comm->lock);
        free(comm);
        return NULL;
    }
    return &comm->base;
}
