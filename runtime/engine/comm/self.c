/* SPDX-License-Identifier: Apache-2.0 */
/* A world of one rank: collectives are copies, and messages to itself are rejected. */
#include "base/core/xmalloc.h"
#include "self.h"

#include <stdio.h>
#include <stdlib.h>

static void self_close(struct comm *comm)
{
    free(comm);
}

static struct comm_group *self_group_create(struct comm *comm, const char *name, const int *ranks,
                                            int count, struct error *err)
{
    struct comm_group *group;

    if (count > 1 || (count == 1 && ranks[0] != 0)) {
        error_bug(err, "group %s: there is only rank 0", name);
        return NULL;
    }
    group = xcalloc(1, sizeof(*group));
    group->comm = comm;
    snprintf(group->name, sizeof(group->name), "%s", name);
    group->size = count;
    return group;
}

static void self_group_destroy(struct comm_group *group)
{
    free(group);
}

static void self_all_reduce(struct comm_group *group, struct device_stream *stream, void *buffer,
                            size_t count, enum device_type type, enum comm_operator op)
{
    (void)group, (void)stream, (void)buffer, (void)count, (void)type, (void)op;
}

static void self_copy(struct comm_group *group, struct device_stream *stream, const void *from,
                      void *to, size_t count, enum device_type type)
{
    (void)group;
    if (from != to)
        device_copy(stream, to, from, count * type_size(type), COPY_ON_DEVICE);
}

static void self_broadcast(struct comm_group *group, struct device_stream *stream, void *buffer,
                           size_t count, enum device_type type, int root)
{
    (void)group, (void)stream, (void)buffer, (void)count, (void)type, (void)root;
}

static void self_exchange(struct comm_group *group, struct device_stream *stream,
                          const struct comm_message *messages, size_t count)
{
    (void)stream, (void)messages;
    if (count > 0)
        device_fail(
            group->comm->device,
            &(struct error){.text = "internal error: a message to another rank, but there is only "
                                    "one; please report this bug with the command and its output"});
}

static int self_host_gather(struct comm *comm, const void *part, void *all, size_t bytes,
                            struct error *err)
{
    (void)comm, (void)err;
    for (size_t i = 0; i < bytes; i++)
        ((char *)all)[i] = ((const char *)part)[i];
    return 0;
}

static int self_host_collect(struct comm *comm, const void *part, void *all, size_t bytes, int root,
                             struct error *err)
{
    (void)root;
    return self_host_gather(comm, part, all, bytes, err);
}

static int self_host_broadcast(struct comm *comm, void *data, size_t bytes, int root,
                               struct error *err)
{
    (void)comm, (void)data, (void)bytes, (void)root, (void)err;
    return 0;
}

static int self_host_max(struct comm *comm, int64_t *numbers, int count, struct error *err)
{
    (void)comm, (void)numbers, (void)count, (void)err;
    return 0;
}

static int self_check(struct comm *comm, struct error *err)
{
    (void)comm, (void)err;
    return 0;
}

static void self_abort(struct comm *comm, const char *reason)
{
    (void)comm, (void)reason;
}

struct comm *self_comm_open(const struct comm_options *options, struct error *err)
{
    struct comm *comm;

    if (options->size != 1) {
        error_set(err, "%d ranks need TCP or NCCL", options->size);
        return NULL;
    }
    comm = xmalloc(sizeof(*comm));
    *comm = (struct comm){
        .abi = COMM_ABI,
        .name = "self",
        .size = 1,
        .deadline = options->deadline,
        .longer = options->longer ? options->longer : "run it again",
        .device = options->device,
        .close = self_close,
        .group_create = self_group_create,
        .group_destroy = self_group_destroy,
        .all_reduce = self_all_reduce,
        .all_gather = self_copy,
        .reduce_scatter = self_copy,
        .broadcast = self_broadcast,
        .exchange = self_exchange,
        .host_gather = self_host_gather,
        .host_collect = self_host_collect,
        .host_broadcast = self_host_broadcast,
        .host_max = self_host_max,
        .check = self_check,
        .abort = self_abort,
    };
    return comm;
}
