/* SPDX-License-Identifier: Apache-2.0 */
#include "plan.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_TASKS = 65536, MAX_WARNINGS = 64 };

void plan_warn(struct plan *plan, const char *format, ...)
{
    struct placement *result = plan->result;
    char text[512], **grown;
    va_list args;

    if (result->warning_count == MAX_WARNINGS)
        return;
    va_start(args, format);
    vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    grown = realloc(result->warnings, (result->warning_count + 1) * sizeof(*grown));
    if (!grown)
        return;
    result->warnings = grown;
    result->warnings[result->warning_count] = strdup(text);
    result->warning_count += result->warnings[result->warning_count] != NULL;
}

int plan_has_cpus(const struct plan *plan, size_t task)
{
    const struct placement_wish *wishes = plan->request->wishes;

    return wishes && wishes[task].cpus && !cpuset_is_empty(wishes[task].cpus);
}

int plan_has_gpus(const struct plan *plan, size_t task)
{
    return plan->request->wishes && plan->request->wishes[task].gpus;
}

/* Assign CPUs before GPUs if cores are divided evenly, or if all CPUs are already chosen. */
static int is_cpus_first(const struct plan *plan)
{
    size_t settled = 0;

    for (size_t task = 0; task < plan->tasks; task++)
        settled += (size_t)plan_has_cpus(plan, task);
    return plan->bind == BIND_CORE || plan->lists || settled == plan->tasks;
}

static int by_address(const void *a, const void *b)
{
    const struct plan_gpu *left = a, *right = b;
    int order = pci_compare(&left->gpu.pci, &right->gpu.pci);

    /* Instances of one GPU keep the caller's order. */
    return order ? order
                 : (left->gpu.grant > right->gpu.grant) - (left->gpu.grant < right->gpu.grant);
}

static int find_gpus(struct plan *plan, struct error *err)
{
    const struct placement_request *request = plan->request;
    size_t count = request->gpus ? request->gpu_count : plan->topology->gpu_count;

    plan->gpus = calloc(count + 1, sizeof(*plan->gpus));
    if (!plan->gpus)
        return error_set(err, "out of memory");
    for (size_t i = 0; i < count; i++) {
        struct placement_gpu *gpu = &plan->gpus[i].gpu;
        char text[PCI_TEXT];

        gpu->grant = i;
        gpu->index = (int)i;
        if (request->gpus) {
            gpu->index = topology_gpu_index(plan->topology, &request->gpus[i].pci);
            gpu->instance = request->gpus[i].instance;
        }
        plan->gpus[i].device =
            gpu->index < 0 ? NULL : topology_gpu(plan->topology, (size_t)gpu->index);
        if (!plan->gpus[i].device)
            return error_set(err, "the topology has no GPU at %s; is it that of another node?",
                             pci_format(&request->gpus[i].pci, text));
        gpu->pci = plan->gpus[i].device->pci;
    }
    qsort(plan->gpus, count, sizeof(*plan->gpus), by_address);
    for (size_t i = 0; i < count; i++)
        plan->gpus[i].gpu.number = (int)i;
    plan->gpu_count = count;
    plan->result->gpu_count = count;
    plan->owns = calloc(plan->tasks * (count + 1), 1);
    return plan->owns ? 0 : error_set(err, "out of memory");
}

/* The CPUs that are allocated to the step and known to the topology. Returns 0, or -1 if there are
 * none. */
static int find_cpus(struct plan *plan, struct error *err)
{
    topology_cpus(plan->topology, &plan->cpus);
    if (plan->request->cpus)
        cpuset_intersect(&plan->cpus, plan->request->cpus);
    if (cpuset_is_empty(&plan->cpus))
        return error_set(err,
                         "the topology has none of the CPUs that are allocated to this step; is it "
                         "that of another node?");
    return 0;
}

static int find_cores(struct plan *plan, struct error *err)
{
    const struct topology *topology = plan->topology;

    plan->cores = calloc(topology->core_count, sizeof(*plan->cores));
    if (!plan->cores)
        return error_set(err, "out of memory");
    for (size_t i = 0; i < topology->core_count; i++) {
        const struct topology_core *core = &topology->cores[i];
        int granted = 0;

        for (int k = 0; k < core->cpu_count; k++)
            granted |= cpuset_has(&plan->cpus, topology->cpus[core->first_cpu + k]);
        if (granted)
            plan->cores[plan->core_count++] = (struct plan_core){(int)i, core->numa};
    }
    return 0;
}

static int list_gpus(struct plan *plan, struct error *err)
{
    for (size_t t = 0; t < plan->tasks; t++) {
        struct placement_task *task = &plan->result->tasks[t];

        task->gpus = calloc(plan->gpu_count + 1, sizeof(*task->gpus));
        if (!task->gpus)
            return error_set(err, "out of memory");
        for (size_t gpu = 0; gpu < plan->gpu_count; gpu++)
            if (plan->owns[t * plan->gpu_count + gpu])
                task->gpus[task->gpu_count++] = plan->gpus[gpu].gpu;
    }
    return 0;
}

static int by_number(const void *a, const void *b)
{
    const int *left = a, *right = b;

    return (*left > *right) - (*left < *right);
}

static int list_numa(struct plan *plan, struct error *err)
{
    const struct topology *topology = plan->topology;

    for (size_t t = 0; t < plan->tasks; t++) {
        struct placement_task *task = &plan->result->tasks[t];

        task->numa = calloc(topology->numa_count + 1, sizeof(int));
        if (!task->numa)
            return error_set(err, "out of memory");
        for (size_t numa = 0; numa < topology->numa_count; numa++) {
            int used = 0;

            for (size_t i = 0; i < topology->core_count && !used; i++)
                for (int k = 0;
                     (size_t)topology->cores[i].numa == numa && k < topology->cores[i].cpu_count;
                     k++)
                    used |=
                        cpuset_has(&task->cpus, topology->cpus[topology->cores[i].first_cpu + k]);
            if (used)
                task->numa[task->numa_count++] = topology->numas[numa].os;
        }
        qsort(task->numa, task->numa_count, sizeof(int), by_number);
    }
    return 0;
}

/* The NICs of all tasks, in PCI order. */
static int list_nics(struct plan *plan, struct error *err)
{
    struct placement *result = plan->result;
    const struct topology *topology = plan->topology;

    result->nics = calloc(topology->device_count + 1, sizeof(struct topology_device *));
    if (!result->nics)
        return error_set(err, "out of memory");
    for (size_t i = 0; i < topology->device_count; i++) {
        int used = 0;

        for (size_t t = 0; t < plan->tasks; t++)
            for (size_t k = 0; k < result->tasks[t].nic_count; k++)
                used |= result->tasks[t].nics[k] == &topology->devices[i];
        if (used)
            result->nics[result->nic_count++] = &topology->devices[i];
    }
    return 0;
}

static int make(struct plan *plan, struct error *err)
{
    if (find_gpus(plan, err) < 0 || find_cpus(plan, err) < 0 || plan_read_bind(plan, err) < 0 ||
        plan_read_nics(plan, err) < 0 || find_cores(plan, err) < 0)
        return -1;
    if (plan->bind == BIND_AUTO)
        plan->bind = plan->gpu_count > 0 ? BIND_GPU : BIND_CORE;
    else if (plan->bind == BIND_GPU && plan->gpu_count == 0)
        return error_set(err, "bind=gpu: this step has no GPUs on this node; use auto or core");
    plan->cpus_first = is_cpus_first(plan);
    if (plan->cpus_first ? plan_cpus(plan, err) < 0 || plan_gpus(plan, err) < 0
                         : plan_gpus(plan, err) < 0 || plan_cpus(plan, err) < 0)
        return -1;
    plan_warn_distance(plan);
    if (plan_nics(plan, err) < 0 || list_gpus(plan, err) < 0 || list_numa(plan, err) < 0 ||
        list_nics(plan, err) < 0)
        return -1;
    return 0;
}

static void clear_plan(struct plan *plan)
{
    for (size_t i = 0; plan->nic_lists && i < plan->tasks; i++)
        free(plan->nic_lists[i]);
    free(plan->nic_lists);
    free(plan->nic_list_counts);
    free(plan->lists);
    free(plan->cores);
    free(plan->gpus);
    free(plan->nics);
    free(plan->owns);
}

struct placement *placement_create(const struct topology *topology,
                                   const struct placement_request *request, struct error *err)
{
    struct plan plan = {.topology = topology, .request = request, .tasks = request->tasks};
    int rc = 0;

    if (plan.tasks < 1 || plan.tasks > MAX_TASKS) {
        error_set(err, "cannot place %zu tasks on a node; use 1 to %d", plan.tasks, MAX_TASKS);
        return NULL;
    }
    plan.result = calloc(1, sizeof(*plan.result));
    if (plan.result)
        plan.result->tasks = calloc(plan.tasks, sizeof(*plan.result->tasks));
    if (!plan.result || !plan.result->tasks)
        rc = error_set(err, "out of memory");
    else
        plan.result->task_count = plan.tasks;
    if (rc == 0)
        rc = make(&plan, err);
    clear_plan(&plan);
    if (rc < 0) {
        placement_destroy(plan.result);
        return NULL;
    }
    return plan.result;
}

void placement_destroy(struct placement *placement)
{
    if (!placement)
        return;
    for (size_t i = 0; i < placement->task_count; i++) {
        free(placement->tasks[i].gpus);
        free(placement->tasks[i].nics);
        free(placement->tasks[i].numa);
    }
    for (size_t i = 0; i < placement->warning_count; i++)
        free(placement->warnings[i]);
    free(placement->tasks);
    free(placement->nics);
    free(placement->warnings);
    free(placement);
}
