/* SPDX-License-Identifier: Apache-2.0 */
#include "comm.h"
#include "base/core/log.h"
#include "base/core/module.h"
#include "base/core/world.h"
#include "base/core/xmalloc.h"
#include "secret.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char *comm_choose(int size, int gpu)
{
    if (size == 1)
        return "self";
    return gpu ? "nccl" : "tcp";
}

struct comm_options comm_options_of(const struct world *world, struct device *device,
                                    double deadline)
{
    return (struct comm_options){.rank = (int)world->rank,
                                 .size = (int)world->size,
                                 .master = world->master_addr,
                                 .port = (int)world->master_port,
                                 .secret = world->secret,
                                 .deadline = deadline,
                                 .device = device};
}

static int check_address(const struct comm_options *options, struct error *err)
{
    if (options->port > 0)
        return 0;
    if (world_is_plain_srun())
        return error_set_code(err, ERROR_USAGE,
                              "cannot determine which node runs rank 0 of %d; add a --megatron "
                              "option to srun, such as --megatron-tp=1, or set MASTER_ADDR and "
                              "MASTER_PORT for all ranks",
                              options->size);
    return error_set_code(err, ERROR_USAGE,
                          "cannot determine which node runs rank 0 of %d; start the ranks with "
                          "srun and the plugin or with megatron launch, or set MASTER_ADDR and "
                          "MASTER_PORT for all of them (mpirun -x MASTER_ADDR=HOST -x "
                          "MASTER_PORT=29500)",
                          options->size);
}

static void note_no_secret(const struct comm_options *options)
{
    if (!options->secret || !options->secret[0])
        log_note("MEGATRON_SECRET is not set: any process on the hosts of this job may connect to "
                 "port %d and claim to be a rank; set it to the same random text for all ranks",
                 options->port);
    else if (strcmp(options->secret, SECRET_NONE) == 0)
        log_note("MEGATRON_SECRET=" SECRET_NONE
                 ": any process that can connect to port %d may claim to be a rank",
                 options->port);
}

/* A world of one rank. */
static void self_close(struct comm *comm)
{
    free(comm);
}

static struct comm *self_open(const struct comm_options *options, struct error *err)
{
    struct comm *comm;

    if (options->size != 1) {
        error_set(err, "%d ranks need TCP or NCCL", options->size);
        return NULL;
    }
    comm = xmalloc(sizeof(*comm));
    *comm = comm_base("self", options);
    comm->close = self_close;
    return comm;
}

struct comm *comm_open(const char *name, const struct comm_options *options, struct error *err)
{
    int gpus = strcmp(name, "nccl") == 0;
    comm_backend_open_function *open;
    struct comm *comm;
    char file[64];

    if (strcmp(name, "self") == 0)
        return self_open(options, err);
    if (strcmp(name, "tcp") != 0 && !gpus) {
        error_set(err, "unknown communication backend %s; use self, tcp or nccl", name);
        return NULL;
    }
    if (check_address(options, err) < 0) {
        if (options->rank > 0)
            error_silence(err); /* rank 0 prints it */
        return NULL;
    }
    snprintf(file, sizeof(file), "comm_%s.so", name);
    open = (comm_backend_open_function *)module_symbol(
        file, "comm_backend_open", gpus ? "several GPUs" : "several ranks on CPUs", err);
    if (!open)
        return NULL;
    if (options->rank == 0)
        note_no_secret(options);
    comm = open(options, err);
    if (comm && comm->abi != COMM_ABI) {
        error_set(err, "%s belongs to another version of megatron; install them together", file);
        comm_close(comm);
        return NULL;
    }
    return comm;
}

struct comm_group *comm_group_create(struct comm *comm, const char *name, const int *ranks,
                                     int count, struct error *err)
{
    struct comm_group *group = xcalloc(1, comm->group_size);

    group->comm = comm;
    group->size = count;
    snprintf(group->name, sizeof(group->name), "%s", name);
    for (int i = 0; i < count; i++)
        if (ranks[i] == comm->rank)
            group->rank = i;
    if (comm->group_create && comm->group_create(group, ranks, err) < 0)
        return NULL; /* the group is kept: NCCL may still write to it */
    return group;
}

void comm_group_destroy(struct comm_group *group)
{
    if (group && group->comm->group_destroy)
        group->comm->group_destroy(group);
    free(group);
}
