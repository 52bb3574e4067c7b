/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"
#include "preflight_private.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/clock.h"
#include "engine/comm/comm.h"
#include "base/core/xmalloc.h"

enum { CALLS = 4, CHECKED = 256 };

struct fabric {
    struct comm *comm;
    struct device_stream *stream;
    float *buffer, *host;
    size_t count; /* of elements */
    double deadline;
    const int32_t *node_of;
    int *ranks;
};

static int fill_ones(struct fabric *f, struct error *err)
{
    struct operation fill = {.kind = OPERATION_FILL, .fill = {(int64_t)f->count, TYPE_FP32, 1}};
    struct device_plan *plan = plan_create(f->comm->device, &fill, err);
    int rc;

    if (!plan)
        return -1;
    run_fill(plan, f->stream, &(struct fill_operands){f->buffer});
    rc = device_stream_wait(f->stream, f->deadline, err);
    plan_destroy(plan);
    return rc;
}

static int finish(struct fabric *f, struct error *err)
{
    return device_stream_wait(f->stream, f->deadline + 5, err) < 0 || comm_check(f->comm, err) < 0
               ? -1
               : 0;
}

/* The sum of ones over the group, at both ends of the buffer. */
static int check_sum(struct fabric *f, int size, struct error *err)
{
    const float *ends[2] = {f->buffer, f->buffer + f->count - CHECKED};

    for (int end = 0; end < 2; end++) {
        device_copy(f->stream, f->host, ends[end], CHECKED * sizeof(float), COPY_TO_HOST);
        if (finish(f, err) < 0)
            return -1;
        for (int i = 0; i < CHECKED; i++)
            if (f->host[i] != (float)size)
                return error_set(err,
                                 "an all-reduce over %d ranks returned %g instead of %d; check the "
                                 "GPUs and NICs of these nodes",
                                 size, (double)f->host[i], size);
    }
    return 0;
}

/* Bus bandwidth of an all-reduce over the ranks of nodes 'a' and 'b' (b may be a); the best of a
 * few calls, of which the first is checked. All ranks call it; those of other nodes pass a = -1. */
static int measure_group(struct fabric *f, const char *name, int a, int b, double *rate,
                         struct error *err)
{
    struct comm_group *group;
    int count = 0, rc = 0, size;

    for (int r = 0; a >= 0 && r < f->comm->size; r++)
        if (f->node_of[r] == a || f->node_of[r] == b)
            f->ranks[count++] = r;
    group = comm_group_create(f->comm, name, f->ranks, count, err);
    if (!group)
        return -1;
    size = group->size;
    for (int i = 0; rc == 0 && size > 1 && i < CALLS; i++) {
        double begin, took;

        rc = i < 2 ? fill_ones(f, err) : 0;
        begin = clock_now();
        if (rc == 0) {
            comm_all_reduce(group, f->stream, f->buffer, f->count, TYPE_FP32, COMM_SUM);
            rc = finish(f, err);
        }
        took = clock_now() - begin;
        if (rc == 0 && i == 0)
            rc = check_sum(f, size, err);
        else if (rc == 0)
            *rate = fmax(*rate, 2.0 * (size - 1) / size * (double)f->count * sizeof(float) / took);
    }
    comm_group_destroy(group);
    return rc;
}

static int measure_all(struct fabric *f, int mine, int nodes, struct measures *m, struct error *err)
{
    if (measure_group(f, "node", mine, mine, &m->all_reduce, err) < 0)
        return -1;
    for (int round = 0; round < PAIRS_ROUNDS && nodes > 1; round++) {
        int pair = pairs_of_round(nodes, mine, round);
        double rate = 0;

        if (measure_group(f, "pair", pair, pair < 0 ? -1 : pairs_right(nodes, pair), &rate, err) <
            0)
            return -1;
        if (pair >= 0)
            m->pair_reduce[pair == mine ? 0 : 1] = rate;
    }
    return 0;
}

static int open_fabric(struct fabric *f, struct device *device, const struct world *world,
                       struct error *err)
{
    int gpu = strcmp(device->name, "cpu") != 0;
    struct comm_options options = comm_options_of(world, device, f->deadline);

    f->count = (size_t)(gpu ? 256 : 4) << 18; /* 256 or 4 MiB */
    f->ranks = xcalloc((size_t)world->size, sizeof(*f->ranks));
    f->comm = comm_open(comm_choose((int)world->size, gpu), &options, err);
    if (f->comm)
        f->stream = device_stream_create(device, 0);
    if (f->stream)
        f->buffer = device_allocate(device, f->count * sizeof(float), err);
    if (f->buffer)
        f->host = device_host_allocate(device, CHECKED * sizeof(float), err);
    return f->host ? 0 : -1;
}

static void close_fabric(struct fabric *f, struct device *device)
{
    device_host_release(device, f->host);
    device_release(device, f->buffer);
    device_stream_destroy(f->stream);
    comm_close(f->comm);
    free(f->ranks);
}

int fabric_measure(struct hub *hub, struct device *device, const struct world *world,
                   const int32_t *node_of, int nodes, double deadline, struct measures *m,
                   struct error *err)
{
    size_t size = (size_t)world->size;
    int32_t *all = xcalloc(size + 1, sizeof(*all));
    struct fabric fabric = {.deadline = deadline, .node_of = all};
    struct error why = {0};
    int rc;

    if (world->rank == 0) {
        memcpy(all, node_of, size * sizeof(*all));
        all[size] = 1;
        for (int r = 0; r < world->size; r++)
            all[size] &= hub_state(hub, r) == HUB_ALIVE && all[r] >= 0;
    }
    rc = hub_share(hub, all, (size + 1) * sizeof(*all), deadline, err);
    if (rc == 0 && all[size] && device && size > 1) {
        if (open_fabric(&fabric, device, world, &why) < 0 ||
            measure_all(&fabric, all[world->rank], nodes, m, &why) < 0)
            snprintf(m->comm_trouble, sizeof(m->comm_trouble), "%s",
                     why.text[0] ? why.text : "failed");
        close_fabric(&fabric, device);
    }
    free(all);
    return rc;
}
