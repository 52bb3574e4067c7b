/* SPDX-License-Identifier: Apache-2.0 */
/* The TCP backend for CPU ranks. All ranks connect to rank 0 (star.h), which also detects lost
 * ranks, and then connect to each other (mesh.h); collectives are in tcp_operations.c. */
#include "base/core/xmalloc.h"
#include "tcp_world.h"
#include "base/core/last_resort.h"
#include "base/core/log.h"
#include "lib/clock.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Rank 0 terminates the others; if rank 0 is lost, the lowest remaining rank goes first. */
#define TURN_SECONDS  0.02
#define TURNS_SECONDS 5.0

/* A launcher may end a rank that another one has told the reason of its failure. */
#define TOLD_SECONDS 0.5

/* For an error to reach main(), which ends the process. */
#define GRACE_SECONDS 10.0

static void fail(struct comm *comm, const struct error *failure)
{
    failure_record(&comm->failure, failure);
    device_fail(comm->device, failure);
}

void tcp_fail(struct tcp_comm *comm, const char *format, ...)
{
    struct error err = {.code = ERROR_RANK};
    va_list args;

    va_start(args, format);
    vsnprintf(err.text, sizeof(err.text), format, args);
    va_end(args);
    fail(&comm->base, &err);
}

static void group_destroy(struct comm_group *base)
{
    struct tcp_group *group = (struct tcp_group *)base;

    tcp_release_work(group);
    free(group->ranks);
    free(group->parts);
    free(group->space);
}

static int group_create(struct comm_group *base, const int *ranks, struct error *err)
{
    struct tcp_group *group = (struct tcp_group *)base;
    size_t count = (size_t)base->size;

    (void)err;
    group->ranks = xcalloc(count, sizeof(*group->ranks));
    group->parts = xcalloc(count, sizeof(*group->parts));
    for (size_t i = 0; i < count; i++)
        group->ranks[i] = ranks[i];
    /* Groups of one call do not overlap: two ranks share at most one of them. */
    group->channel = 2 * ((struct tcp_comm *)base->comm)->groups++;
    return 0;
}

static void abort_all(struct comm *base, const char *reason)
{
    char text[512];

    log_error("rank %d aborts all ranks: %s", base->rank, reason);
    log_drain();
    snprintf(text, sizeof(text), "rank %d has failed: %.480s", base->rank, reason);
    star_abort(base->star, text);
    _exit(1);
}

/* --- Lost ranks ------------------------------------------------------------------------------ */

/* Returns false if the watch is stopped meanwhile. */
static bool pause_for(struct tcp_comm *comm, double seconds)
{
    double until = clock_now() + seconds;

    while (!atomic_load(&comm->ended) && clock_now() < until)
        clock_sleep(0.01);
    return !atomic_load(&comm->ended);
}

static double turn_of(const struct tcp_comm *comm, enum star_news news)
{
    double turn = comm->base.rank * TURN_SECONDS;

    if (news == STAR_TOLD)
        return TOLD_SECONDS;
    return turn < TURNS_SECONDS ? turn : TURNS_SECONDS;
}

/* Watches the star: if another rank is lost, the thread reports that and makes sure that this
 * process exits. */
static void *watch(void *argument)
{
    struct tcp_comm *comm = argument;
    enum star_news news = STAR_QUIET;
    struct error err;

    while (news == STAR_QUIET && !atomic_load(&comm->ended))
        news = star_wait(comm->base.star, 1, &err);
    if (news == STAR_QUIET || !pause_for(comm, turn_of(comm, news)))
        return NULL;
    tcp_fail(comm, "at step %lld: %s", (long long)comm_step(&comm->base), err.text);
    /* Only rank 0 is connected to all and must tell them. */
    if (comm->base.rank == 0)
        star_abort(comm->base.star, err.text);
    if (!pause_for(comm, GRACE_SECONDS))
        return NULL;
    /* A call that waits for a lost rank may never return, and then main() cannot end the process.
     */
    last_resort(err.text);
}

/* --- The world ------------------------------------------------------------------------------- */

static void free_comm(struct tcp_comm *comm)
{
    if (comm->watched) {
        atomic_store(&comm->ended, 1);
        star_wake(comm->base.star);
        pthread_join(comm->watch, NULL);
    }
    star_destroy(comm->base.star);
    mesh_destroy(comm->mesh);
    free(comm);
}

static void close_comm(struct comm *base)
{
    struct error ignored;

    /* Another rank may still be in its last step and would see the end of this one as a failure. */
    if (comm_check(base, NULL) == 0)
        star_gather(base->star, NULL, NULL, 0, base->deadline, &ignored);
    free_comm((struct tcp_comm *)base);
}

static int connect_ranks(struct tcp_comm *comm, const struct comm_options *options,
                         struct error *err)
{
    struct secret_key key;
    int rc;

    if (secret_derive(options->secret, &key, err) < 0)
        return -1;
    comm->base.star = star_create(options->rank, options->size, options->master, options->port,
                                  &key, options->deadline, err);
    if (!comm->base.star)
        return -1;
    comm->mesh =
        mesh_create(comm->base.star, options->rank, options->size, &key, options->deadline, err);
    if (!comm->mesh)
        return -1;
    /* Last: from now on a lost rank may be reported. */
    rc = pthread_create(&comm->watch, NULL, watch, comm);
    comm->watched = rc == 0;
    return rc ? error_set_errno(err, rc, "cannot start a thread") : 0;
}

__attribute__((visibility("default"))) comm_backend_open_function comm_backend_open;

struct comm *comm_backend_open(const struct comm_options *options, struct error *err)
{
    struct tcp_comm *comm = xcalloc(1, sizeof(*comm));

    comm->base = comm_base("tcp", options);
    comm->base.close = close_comm;
    comm->base.fail = fail;
    comm->base.abort = abort_all;
    comm->base.group_size = sizeof(struct tcp_group);
    comm->base.group_create = group_create;
    comm->base.group_destroy = group_destroy;
    tcp_set_operations(comm);
    if (connect_ranks(comm, options, err) < 0) {
        free_comm(comm);
        return NULL;
    }
    return &comm->base;
}
