/* SPDX-License-Identifier: Apache-2.0 */
/* The TCP backend for CPU ranks. All ranks connect to rank 0 (star.h), which also detects lost
 * ranks, and then connect to each other (mesh.h); collectives are in tcp_operations.c. */
#include "base/core/xmalloc.h"
#include "tcp_world.h"
#include "base/core/log.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* No launcher ends the ranks of other nodes; one on this node may. */
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

static void free_comm(struct tcp_comm *comm)
{
    watch_end(comm->watch);
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

static void on_lost(void *context, const char *text)
{
    struct tcp_comm *comm = context;

    tcp_fail(comm, "at step %lld: %s", (long long)comm_step(&comm->base), text);
    /* Only rank 0 is connected to all and must tell them. */
    if (comm->base.rank == 0)
        star_abort(comm->base.star, text);
}

static int connect_ranks(struct tcp_comm *comm, const struct comm_options *options,
                         struct error *err)
{
    const struct watch_options watch = {
        .told = TOLD_SECONDS, .grace = GRACE_SECONDS, .lost = on_lost, .context = comm};
    struct secret_key key;

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
    /* Last: from now on the watch may report a lost rank. */
    comm->watch = watch_begin(comm->base.star, options->rank, &watch, err);
    return comm->watch ? 0 : -1;
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
