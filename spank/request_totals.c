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

int64_t request_component_tasks_per_node(const struct request *request, size_t component)
{
    const struct request_component *c = &request->components[component];
    int64_t tasks = component_tasks(request, c);

    if (c->tasks_per_node >= 0 && c->tasks < 0)
        return c->tasks_per_node;
    if (tasks > 0 && c->nodes > 0 && tasks % c->nodes == 0)
        return tasks / c->nodes;
    return REQUEST_UNKNOWN;
}

int64_t request_component_gpus_per_node(const struct request *request, size_t component)
{
    const struct request_component *c = &request->components[component];

    if (c->gpus_per_node >= 0)
        return c->gpus_per_node;
    if (c->gpus >= 0 && c->nodes > 0 && c->gpus % c->nodes == 0)
        return c->gpus / c->nodes;
    if (c->gpus_per_task > 0)
        return multiply(request_component_tasks_per_node(request, component), c->gpus_per_task);
    return REQUEST_UNKNOWN;
}

static int64_t common_number(const struct request *request,
                             int64_t (*number_of)(const struct request *, size_t))
{
    int64_t number = number_of(request, 0);

    for (size_t i = 1; i < request->count; i++)
        if (number_of(request, i) != number)
            return REQUEST_UNKNOWN;
    return number;
}

int64_t request_tasks_per_node(const struct request *request)
{
    return common_number(request, request_component_tasks_per_node);
}

int64_t request_gpus_per_node(const struct request *request)
{
    return common_number(request, request_component_gpus_per_node);
}
