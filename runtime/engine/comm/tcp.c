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

void tcp_fail(struct tcp_comm *comm, const char *format, ...)
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

static int check(struct comm *base, struct error *err)
{
    struct tcp_comm *comm = (struct tcp_comm *)base;

    if (!comm->failed)
        return 0;
    pthread_mutex_lock(&comm->lock);
    *err = comm->failure;
    pthread_mutex_unlock(&comm->lock);
    return -1;
}

static void group_destroy(struct comm_group *base)
{
    struct tcp_group *group = (struct tcp_group *)base;

    tcp_release_work(group);
    free(group->ranks);
    free(group->parts);
    free(group->space);
    free(group);
}

static struct comm_group *group_create(struct comm *base, const char *name, const int *ranks,
                                       int count, struct error *err)
{
    struct tcp_comm *comm = (struct tcp_comm *)base;
    struct tcp_group *group = xcalloc(1, sizeof(*group));

    (void)err;
    group->base.comm = base;
    group->base.size = count;
    snprintf(group->base.name, sizeof(group->base.name), "%s", name);
    group->ranks = xcalloc((size_t)count, sizeof(*group->ranks));
    group->parts = xcalloc((size_t)count, sizeof(*group->parts));
    for (int i = 0; i < count; i++) {
        group->ranks[i] = ranks[i];
        if (ranks[i] == base->rank)
            group->base.rank = i;
    }
    /* Groups of one call do not overlap: two ranks share at most one of them. */
    group->channel = 2 * comm->groups++;
    return &group->base;
}

/* The result of an operation of the star, as a failure of the world. */
static int host_result(struct tcp_comm *comm, int rc, struct error *err)
{
    if (rc == 0)
        return 0;
    tcp_fail(comm, "at step %lld: %.900s", (long long)comm_step(&comm->base), err->text);
    return comm_check(&comm->base, err);
}

static int host_gather(struct comm *base, const void *part, void *all, size_t bytes,
                       struct error *err)
{
    struct tcp_comm *comm = (struct tcp_comm *)base;

    if (comm_check(base, err) < 0)
        return -1;
    return host_result(comm, star_gather(comm->star, part, all, bytes, base->deadline, err), err);
}

static int host_collect(struct comm *base, const void *part, void *all, size_t bytes, int root,
                        struct error *err)
{
    struct tcp_comm *comm = (struct tcp_comm *)base;

    if (comm_check(base, err) < 0)
        return -1;
    return host_result(comm, star_collect(comm->star, part, all, bytes, root, base->deadline, err),
                       err);
}

static int host_broadcast(struct comm *base, void *data, size_t bytes, int root, struct error *err)
{
    struct tcp_comm *comm = (struct tcp_comm *)base;

    if (comm_check(base, err) < 0)
        return -1;
    return host_result(comm, star_broadcast(comm->star, data, bytes, root, base->deadline, err),
                       err);
}

static int host_max(struct comm *base, int64_t *numbers, int count, struct error *err)
{
    struct tcp_comm *comm = (struct tcp_comm *)base;

    if (comm_check(base, err) < 0)
        return -1;
    return host_result(comm, star_max(comm->star, numbers, count, base->deadline, err), err);
}

static void abort_all(struct comm *base, const char *reason)
{
    struct tcp_comm *comm = (struct tcp_comm *)base;
    char text[512];

    log_error("rank %d aborts all ranks: %s", base->rank, reason);
    log_drain();
    snprintf(text, sizeof(text), "rank %d has failed: %.480s", base->rank, reason);
    star_abort(comm->star, text);
    _exit(1);
}

static void free_comm(struct tcp_comm *comm)
{
    watch_end(comm->watch);
    star_destroy(comm->star);
    mesh_destroy(comm->mesh);
    pthread_mutex_destroy(&comm->lock);
    free(comm);
}

static void close_comm(struct comm *base)
{
    struct tcp_comm *comm = (struct tcp_comm *)base;
    struct error ignored;

    /* Another rank may still be in its last step and would see the end of this one as a failure. */
    if (!comm->failed)
        host_gather(base, NULL, NULL, 0, &ignored);
    free_comm(comm);
}

static void on_lost(void *context, const char *text)
{
    struct tcp_comm *comm = context;

    tcp_fail(comm, "at step %lld: %s", (long long)comm_step(&comm->base), text);
    /* Only rank 0 is connected to all and must tell them. */
    if (comm->base.rank == 0)
        star_abort(comm->star, text);
}

static int connect_ranks(struct tcp_comm *comm, const struct comm_options *options,
                         struct error *err)
{
    struct secret_key key;

    if (secret_derive(options->secret, &key, err) < 0)
        return -1;
    comm->star = star_create(options->rank, options->size, options->master, options->port, &key,
                             options->deadline, err);
    if (comm->star)
        comm->mesh =
            mesh_create(comm->star, options->rank, options->size, &key, options->deadline, err);
    /* Last: from now on the watch may report a lost rank. */
    if (comm->mesh)
        comm->watch = watch_begin(
            comm->star, options->rank,
            &(struct watch_options){
                .told = TOLD_SECONDS, .grace = GRACE_SECONDS, .lost = on_lost, .context = comm},
            err);
    return comm->watch ? 0 : -1;
}

__attribute__((visibility("default"))) comm_backend_open_function comm_backend_open;

struct comm *comm_backend_open(const struct comm_options *options, struct error *err)
{
    struct tcp_comm *comm = xcalloc(1, sizeof(*comm));

    pthread_mutex_init(&comm->lock, NULL);
    comm->base = (struct comm){
        .abi = COMM_ABI,
        .name = "tcp",
        .rank = options->rank,
        .size = options->size,
        .deadline = options->deadline,
        .longer = options->longer ? options->longer : "run it again",
        .device = options->device,
        .close = close_comm,
        .group_create = group_create,
        .group_destroy = group_destroy,
        .host_gather = host_gather,
        .host_collect = host_collect,
        .host_broadcast = host_broadcast,
        .host_max = host_max,
        .check = check,
        .abort = abort_all,
    };
    tcp_set_operations(comm);
    if (connect_ranks(comm, options, err) < 0) {
        free_comm(comm);
        return NULL;
    }
    return &comm->base;
}
