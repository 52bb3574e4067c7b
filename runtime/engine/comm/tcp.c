/* SPDX-License-Identifier: Apache-2.0 */
/* The TCP backend for CPU ranks that no MPI launcher has started: in pods, under `megatron launch`
 * and under srun without PMIx. All ranks connect to rank 0 (star.h), which also detects lost ranks,
 * and then connect to each other (mesh.h); collectives are in tcp_operations.c. */
#include "tcp_world.h"
#include "base/core/log.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* No launcher ends the ranks of other nodes; one on this node may. */
#define TOLD_SECONDS 0.5

/* For an error to reach main(), which ends the process. */
#define GRACE_SECONDS 10.0

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
    struct tcp_group *group = calloc(1, sizeof(*group));

    if (group) {
        group->base.comm = base;
        group->base.size = count;
        snprintf(group->base.name, sizeof(group->base.name), "%s", name);
        group->ranks = malloc(((size_t)count + 1) * sizeof(*group->ranks));
        group->parts = malloc(((size_t)count + 1) * sizeof(*group->parts));
    }
    if (!group || !group->ranks || !group->parts) {
        error_set(err, "out of memory");
        if (group)
            group_destroy(&group->base);
        return NULL;
    }
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
    cpu_fail(&comm->cpu, "at step %lld: %.900s", (long long)comm_step(&comm->cpu.base), err->text);
    return comm_check(&comm->cpu.base, err);
}

static int host_gather(struct comm *base, const void *part, void *all, size_t bytes,
                       struct error *err)
{
    struct tcp_comm *comm = (struct tcp_comm *)base;

    if (comm_check(base, err) < 0)
        return -1;
    return host_result(comm, star_gather(comm->cpu.star, part, all, bytes, base->deadline, err),
                       err);
}

static int host_collect(struct comm *base, const void *part, void *all, size_t bytes, int root,
                        struct error *err)
{
    struct tcp_comm *comm = (struct tcp_comm *)base;

    if (comm_check(base, err) < 0)
        return -1;
    return host_result(
        comm, star_collect(comm->cpu.star, part, all, bytes, root, base->deadline, err), err);
}

static int host_broadcast(struct comm *base, void *data, size_t bytes, int root, struct error *err)
{
    struct tcp_comm *comm = (struct tcp_comm *)base;

    if (comm_check(base, err) < 0)
        return -1;
    return host_result(comm, star_broadcast(comm->cpu.star, data, bytes, root, base->deadline, err),
                       err);
}

static int host_max(struct comm *base, int64_t *numbers, int count, struct error *err)
{
    struct tcp_comm *comm = (struct tcp_comm *)base;

    if (comm_check(base, err) < 0)
        return -1;
    return host_result(comm, star_max(comm->cpu.star, numbers, count, base->deadline, err), err);
}

static void abort_all(struct comm *base, const char *reason)
{
    struct tcp_comm *comm = (struct tcp_comm *)base;
    char text[512];

    log_error("rank %d aborts all ranks: %s", base->rank, reason);
    log_drain();
    snprintf(text, sizeof(text), "rank %d has failed: %.480s", base->rank, reason);
    star_abort(comm->cpu.star, text);
    _exit(1);
}

static void free_comm(struct tcp_comm *comm)
{
    cpu_comm_clear(&comm->cpu);
    mesh_destroy(comm->mesh);
    free(comm);
}

static void close_comm(struct comm *base)
{
    struct tcp_comm *comm = (struct tcp_comm *)base;
    struct error ignored;

    /* Another rank may still be in its last step and would see the end of this one as a failure. */
    if (!comm->cpu.failed)
        host_gather(base, NULL, NULL, 0, &ignored);
    free_comm(comm);
}

static void on_lost(void *context, const char *text)
{
    struct tcp_comm *comm = context;

    cpu_fail(&comm->cpu, "at step %lld: %s", (long long)comm_step(&comm->cpu.base), text);
    /* Only rank 0 is connected to all and must tell them. */
    if (comm->cpu.base.rank == 0)
        star_abort(comm->cpu.star, text);
}

static int connect_ranks(struct tcp_comm *comm, const struct comm_options *options,
                         struct error *err)
{
    struct secret_key key;

    if (secret_derive(options->secret, &key, err) < 0)
        return -1;
    comm->cpu.star = star_create(options->rank, options->size, options->master, options->port, &key,
                                 options->deadline, err);
    if (comm->cpu.star)
        comm->mesh =
            mesh_create(comm->cpu.star, options->rank, options->size, &key, options->deadline, err);
    /* Last: from now on the watch may report a lost rank. */
    if (comm->mesh)
        comm->cpu.watch = watch_begin(
            comm->cpu.star, options->rank,
            &(struct watch_options){
                .told = TOLD_SECONDS, .grace = GRACE_SECONDS, .lost = on_lost, .context = comm},
            err);
    return comm->cpu.watch ? 0 : -1;
}

__attribute__((visibility("default"))) comm_backend_open_function comm_backend_open;

struct comm *comm_backend_open(const struct comm_options *options, struct error *err)
{
    struct tcp_comm *comm = calloc(1, sizeof(*comm));

    if (!comm) {
        error_set(err, "out of memory");
        return NULL;
    }
    cpu_comm_init(&comm->cpu, "tcp", options);
    comm->cpu.base.close = close_comm;
    comm->cpu.base.group_create = group_create;
    comm->cpu.base.group_destroy = group_destroy;
    comm->cpu.base.host_gather = host_gather;
    comm->cpu.base.host_collect = host_collect;
    comm->cpu.base.host_broadcast = host_broadcast;
    comm->cpu.base.host_max = host_max;
    comm->cpu.base.abort = abort_all;
    tcp_set_operations(comm);
    if (connect_ranks(comm, options, err) < 0) {
        free_comm(comm);
        return NULL;
    }
    return &comm->cpu.base;
}
