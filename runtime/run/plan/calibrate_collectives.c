/* SPDX-License-Identifier: Apache-2.0 */
#include "calibrate.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "lib/clock.h"
#include "engine/comm/comm.h"
#include "base/core/xmalloc.h"

#define DEADLINE 120.0 /* seconds of one wait */

enum { CALLS = 10, WARM_UP = 3, SMALL = 1 << 12 }; /* SMALL: bytes */

struct bench {
    struct comm *comm;
    struct device_stream *stream;
    void *memory;
    size_t size;
    int64_t *nodes; /* of all ranks */
    int *ranks;
};

/* What memory happens to contain may be slow to add. */
static int clear_memory(struct bench *b, struct device *device, struct error *err)
{
    struct operation fill = {.kind = OPERATION_FILL,
                             .fill = {(int64_t)(b->size / sizeof(float)), TYPE_FP32, 0}};
    struct device_plan *plan = plan_create(device, &fill, err);
    int rc;

    if (!plan)
        return -1;
    run_fill(plan, b->stream, &(struct fill_operands){b->memory});
    rc = device_stream_wait(b->stream, DEADLINE, err);
    plan_destroy(plan);
    return rc;
}

static int open_bench(struct bench *b, struct device *device, const struct world *world,
                      struct error *err)
{
    int gpu = strcmp(device->name, "cpu") != 0;
    struct comm_options options = comm_options_of(world, device, DEADLINE);

    b->size = (size_t)(gpu ? 256 : 4) << 20;
    b->nodes = xcalloc((size_t)world->size, sizeof(*b->nodes));
    b->ranks = xcalloc((size_t)world->size, sizeof(*b->ranks));
    b->comm = comm_open(comm_choose((int)world->size, gpu), &options, err);
    b->stream = b->comm ? device_stream_create(device, 0) : NULL;
    b->memory = b->stream ? device_allocate(device, b->size, err) : NULL;
    if (!b->memory || clear_memory(b, device, err) < 0)
        return -1;
    return comm_host_gather(b->comm, &world->node_rank, b->nodes, sizeof(*b->nodes), err);
}

static void close_bench(struct bench *b, struct device *device)
{
    device_release(device, b->memory);
    comm_close(b->comm);
    device_stream_destroy(b->stream);
    free(b->nodes);
    free(b->ranks);
}

/* Seconds of one all-reduce over the group; the slowest rank's, on all ranks. */
static int time_all_reduce(struct bench *b, struct comm_group *group, size_t bytes, double *seconds,
                           struct error *err)
{
    double mine = 0, *all = xcalloc((size_t)b->comm->size, sizeof(*all));
    int rc = 0;

    for (int i = 0; rc == 0 && i < WARM_UP + CALLS; i++) {
        double begin = clock_now();

        comm_all_reduce(group, b->stream, b->memory, bytes / sizeof(float), TYPE_FP32, COMM_SUM);
        rc = device_stream_wait(b->stream, DEADLINE + 5, err) < 0 ? -1 : comm_check(b->comm, err);
        mine += i < WARM_UP ? 0 : (clock_now() - begin) / CALLS;
    }
    if (rc == 0)
        rc = comm_host_gather(b->comm, &mine, all, sizeof(mine), err);
    *seconds = 0;
    for (int r = 0; rc == 0 && r < b->comm->size; r++)
        *seconds = fmax(*seconds, all[r]);
    free(all);
    return rc;
}

/* Bus bandwidth of large all-reduces over groups of 'count' ranks, and the time of small ones. All
 * groups work at once, as in training. */
static int measure_groups(struct bench *b, const char *name, int count, double *rate,
                          double *latency, struct error *err)
{
    struct comm_group *group = comm_group_create(b->comm, name, b->ranks, count, err);
    double large, small;
    int rc;

    if (!group)
        return -1;
    rc = time_all_reduce(b, group, b->size, &large, err);
    if (rc == 0)
        rc = time_all_reduce(b, group, SMALL, &small, err);
    if (rc == 0) {
        *rate = 2.0 * (count - 1) / count * (double)b->size / large;
        *latency = small / log2(count);
    }
    comm_group_destroy(group);
    return rc;
}

/* How many ranks the smallest node has: groups between nodes need one rank of each. */
static int least_ranks(const struct bench *b, int64_t nodes)
{
    int least = b->comm->size;

    for (int64_t node = 0; node < nodes; node++) {
        int here = 0;

        for (int r = 0; r < b->comm->size; r++)
            here += b->nodes[r] == node;
        least = here < least ? here : least;
    }
    return least;
}

static int measure_node(struct bench *b, struct machine *machine, int known, int64_t node,
                        struct error *err)
{
    struct machine_rates *rates = &machine->gpu.rates;
    double rate, latency;
    int count = 0;

    for (int r = 0; r < b->comm->size; r++)
        if (b->nodes[r] == node)
            b->ranks[count++] = r;
    if (measure_groups(b, "node", count, &rate, &latency, err) < 0)
        return -1;
    if (!known)
        machine->nvlink = rate / rates->nvlink;
    machine->nvlink_efficiency = fmin(2, fmax(0.01, rate / (machine->nvlink * rates->nvlink)));
    rates->latency = latency;
    if (count < machine->gpus) /* the links of such a group were measured, not those of all GPUs */
        machine->nvlink_pair = 1;
    return 0;
}

/* The n-th ranks of all nodes are a group, so that every rank uses its own share of the network. */
static int measure_network(struct bench *b, struct machine *machine, int known,
                           const struct world *world, struct error *err)
{
    struct machine_rates *rates = &machine->gpu.rates;
    double rate, latency;
    int count = 0;

    for (int64_t node = 0; node < world->nodes; node++) {
        int64_t local = 0;

        for (int r = 0; r < b->comm->size; r++)
            if (b->nodes[r] == node && local++ == world->local_rank)
                b->ranks[count++] = r;
    }
    if (measure_groups(b, "network", count, &rate, &latency, err) < 0)
        return -1;
    if (!known)
        machine->network = rate / rates->network;
    rates->network = fmin(2, fmax(0.01, rate / machine->network));
    rates->hop = latency;
    return 0;
}

int calibrate_collectives(struct machine *machine, int known, struct device *device,
                          const struct world *world, struct error *err)
{
    struct bench b = {0};
    int rc = open_bench(&b, device, world, err), ranks;

    ranks = rc == 0 ? least_ranks(&b, world->nodes) : 0;
    if (rc == 0 && ranks * world->nodes != world->size)
        rc = error_set_code(err, ERROR_USAGE,
                            "collectives are measured with equally many ranks on all nodes; start "
                            "them with srun --ntasks-per-node=N");
    if (rc == 0 && ranks > 1)
        rc = measure_node(&b, machine, known, world->node_rank, err);
    if (rc == 0 && world->nodes > 1)
        rc = measure_network(&b, machine, known, world, err);
    if (rc < 0 && b.comm)
        comm_abort(b.comm, err->text);
    close_bench(&b, device);
    return rc;
}
