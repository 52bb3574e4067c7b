/* SPDX-License-Identifier: Apache-2.0 */
/* Totals that follow from the given numbers. */
#include "request.h"

static int64_t multiply(int64_t a, int64_t b)
{
    int64_t product;

    if (a < 0 || b < 0 || __builtin_mul_overflow(a, b, &product))
        return REQUEST_UNKNOWN;
    return product;
}

static int64_t component_gpus(const struct request_component *c)
{
    return c->gpus >= 0 ? c->gpus : multiply(c->gpus_per_node, c->nodes);
}

static int64_t component_tasks(const struct request *request, const struct request_component *c)
{
    if (c->tasks >= 0)
        return c->tasks;
    if (c->tasks_per_gpu > 0)
        return multiply(component_gpus(c), c->tasks_per_gpu);
    if (c->tasks_per_node >= 0)
        return multiply(c->nodes, c->tasks_per_node);
    if (c->gpus_per_task > 0)
        return c->gpus >= 0 && c->gpus % c->gpus_per_task == 0 ? c->gpus / c->gpus_per_task
                                                               : REQUEST_UNKNOWN;
    /* srun starts one task on each node; what a batch script will start is unknown. */
    return request->program == PROGRAM_SRUN ? c->nodes : REQUEST_UNKNOWN;
}

int64_t request_tasks(const struct request *request)
{
    int64_t sum = 0;

    for (size_t i = 0; i < request->count; i++) {
        int64_t tasks = component_tasks(request, &request->components[i]);

        if (tasks <= 0 || __builtin_add_overflow(sum, tasks, &sum))
            return REQUEST_UNKNOWN;
    }
    return sum;
}

int64_t request_nodes(const struct request *request)
{
    int64_t sum = 0;

    for (size_t i = 0; i < request->count; i++) {
        if (request->components[i].nodes <= 0 ||
            __builtin_add_overflow(sum, request->components[i].nodes, &sum))
            return REQUEST_UNKNOWN;
    }
    return sum;
}

static int64_t component_tasks_per_node(const struct request *request,
                                        const struct request_component *c)
{
    int64_t tasks = component_tasks(request, c);

    if (c->tasks_per_node >= 0 && c->tasks < 0)
        return c->tasks_per_node;
    if (tasks > 0 && c->nodes > 0 && tasks % c->nodes == 0)
        return tasks / c->nodes;
    return REQUEST_UNKNOWN;
}

int64_t request_tasks_per_node(const struct request *request)
{
    int64_t most = REQUEST_UNKNOWN;

    for (size_t i = 0; i < request->count; i++) {
        int64_t tasks = component_tasks_per_node(request, &request->components[i]);

        if (tasks < 0)
            return REQUEST_UNKNOWN;
        most = tasks > most ? tasks : most;
    }
    return most;
}

int64_t request_gpus_per_node(const struct request *request)
{
    int64_t fewest = REQUEST_UNKNOWN;

    for (size_t i = 0; i < request->count; i++) {
        const struct request_component *c = &request->components[i];
        int64_t gpus = c->gpus_per_node;

        if (gpus < 0 && c->gpus >= 0 && c->nodes > 0 && c->gpus % c->nodes == 0)
            gpus = c->gpus / c->nodes;
        if (gpus < 0 && c->gpus_per_task > 0)
            gpus = multiply(component_tasks_per_node(request, c), c->gpus_per_task);
        if (gpus < 0)
            return REQUEST_UNKNOWN;
        fewest = fewest < 0 || gpus < fewest ? gpus : fewest;
    }
    return fewest;
}
