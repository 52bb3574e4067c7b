/* SPDX-License-Identifier: Apache-2.0 */
#include "binding.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_TASKS = 65536, MAX_WARNINGS = 64 };

void binding_warn(struct binding *binding, const char *format, ...)
{
    struct placement *result = binding->result;
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

bool binding_has_cpus(const struct binding *binding, size_t task)
{
    const struct placement_override *overrides = binding->request->overrides;

    return overrides && overrides[task].cpus && !cpuset_is_empty(overrides[task].cpus);
}

bool binding_has_gpus(const struct binding *binding, size_t task)
{
    return binding->request->overrides && binding->request->overrides[task].gpus;
}

bool binding_uses_gpu(const struct binding *binding, size_t task)
{
    return memchr(binding->owns + task * binding->gpu_count, 1, binding->gpu_count) != NULL;
}

/* Assign CPUs before GPUs if cores are divided evenly, or if all CPUs are already chosen. */
static bool is_cpus_first(const struct binding *binding)
{
    size_t settled = 0;

    for (size_t task = 0; task < binding->tasks; task++)
        settled += (size_t)binding_has_cpus(binding, task);
    return binding->bind == BIND_CORE || binding->lists || settled == binding->tasks;
}

static int by_address(const void *a, const void *b)
{
    const struct binding_gpu *left = a, *right = b;
    int order = pci_compare(&left->gpu.pci, &right->gpu.pci);

    /* Instances of one GPU keep the caller's order. */
    return order ? order
                 : (left->gpu.position > right->gpu.position) -
                       (left->gpu.position < right->gpu.position);
}

static int find_gpus(struct binding *binding, struct error *err)
{
    const struct placement_request *request = binding->request;
    size_t count = request->gpus ? request->gpu_count : binding->topology->gpu_count;

    binding->gpus = calloc(count + 1, sizeof(*binding->gpus));
    if (!binding->gpus)
        return error_set(err, "out of memory");
    for (size_t i = 0; i < count; i++) {
        struct placement_gpu *gpu = &binding->gpus[i].gpu;
        char text[PCI_TEXT];

        gpu->position = i;
        gpu->index = (int)i;
        if (request->gpus) {
            gpu->index = topology_gpu_index(binding->topology, &request->gpus[i].pci);
            gpu->instance = request->gpus[i].instance;
        }
        binding->gpus[i].device =
            gpu->index < 0 ? NULL : topology_gpu(binding->topology, (size_t)gpu->index);
        if (!binding->gpus[i].device)
            return error_set(err,
                             "the topology has no GPU at PCI address %s; export its file again on "
                             "this node with lstopo, or restart slurmd",
                             pci_format(&request->gpus[i].pci, text));
        gpu->pci = binding->gpus[i].device->pci;
    }
    qsort(binding->gpus, count, sizeof(*binding->gpus), by_address);
    for (size_t i = 0; i < count; i++)
        binding->gpus[i].gpu.number = (int)i;
    binding->gpu_count = count;
    binding->result->gpu_count = count;
    binding->owns = calloc(binding->tasks * (count + 1), 1);
    return binding->owns ? 0 : error_set(err, "out of memory");
}

/* The CPUs that are allocated to the step and known to the topology. Returns 0, or -1 if there are
 * none. */
static int find_cpus(struct binding *binding, struct error *err)
{
    topology_cpus(binding->topology, &binding->cpus);
    if (binding->request->cpus)
        cpuset_intersect(&binding->cpus, binding->request->cpus);
    if (cpuset_is_empty(&binding->cpus))
        return error_set(err, "the topology has none of the CPUs that are allocated to this step; "
                              "export its file again on this node with lstopo, or restart slurmd");
    return 0;
}

static int find_cores(struct binding *binding, struct error *err)
{
    const struct topology *topology = binding->topology;

    binding->cores = calloc(topology->core_count, sizeof(*binding->cores));
    if (!binding->cores)
        return error_set(err, "out of memory");
    for (size_t i = 0; i < topology->core_count; i++) {
        const struct topology_core *core = &topology->cores[i];
        struct binding_core candidate = {(int)i, core->numa};

        if (binding_threads(binding, &candidate) > 0)
            binding->cores[binding->core_count++] = candidate;
    }
    return 0;
}

static int list_gpus(struct binding *binding, struct error *err)
{
    for (size_t t = 0; t < binding->tasks; t++) {
        struct placement_task *task = &binding->result->tasks[t];

        task->gpus = calloc(binding->gpu_count + 1, sizeof(*task->gpus));
        if (!task->gpus)
            return error_set(err, "out of memory");
        for (size_t gpu = 0; gpu < binding->gpu_count; gpu++)
            if (binding->owns[t * binding->gpu_count + gpu])
                task->gpus[task->gpu_count++] = binding->gpus[gpu].gpu;
    }
    return 0;
}

static int by_number(const void *a, const void *b)
{
    const int *left = a, *right = b;

    return (*left > *right) - (*left < *right);
}

static int list_numa(struct binding *binding, struct error *err)
{
    const struct topology *topology = binding->topology;

    for (size_t t = 0; t < binding->tasks; t++) {
        struct placement_task *task = &binding->result->tasks[t];

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
static int list_nics(struct binding *binding, struct error *err)
{
    struct placement *result = binding->result;
    const struct topology *topology = binding->topology;

    result->nics = calloc(topology->device_count + 1, sizeof(struct topology_device *));
    if (!result->nics)
        return error_set(err, "out of memory");
    for (size_t i = 0; i < topology->device_count; i++) {
        int used = 0;

        for (size_t t = 0; t < binding->tasks; t++)
            for (size_t k = 0; k < result->tasks[t].nic_count; k++)
                used |= result->tasks[t].nics[k] == &topology->devices[i];
        if (used)
            result->nics[result->nic_count++] = &topology->devices[i];
    }
    return 0;
}

static int make(struct binding *binding, struct error *err)
{
    if (find_gpus(binding, err) < 0 || find_cpus(binding, err) < 0 ||
        binding_read_bind(binding, err) < 0 || binding_read_nics(binding, err) < 0 ||
        find_cores(binding, err) < 0)
        return -1;
    if (binding->bind == BIND_AUTO)
        binding->bind = binding->gpu_count > 0 ? BIND_GPU : BIND_CORE;
    else if (binding->bind == BIND_GPU && binding->gpu_count == 0)
        return error_set(err, "bind=gpu: this step has no GPUs on this node; use bind=auto or "
                              "bind=core, or request GPUs (sbatch --gpus-per-node)");
    binding->cpus_first = is_cpus_first(binding);
    if (binding->cpus_first ? bind_cpus(binding, err) < 0 || bind_gpus(binding, err) < 0
                            : bind_gpus(binding, err) < 0 || bind_cpus(binding, err) < 0)
        return -1;
    binding_warn_distance(binding);
    if (bind_nics(binding, err) < 0 || list_gpus(binding, err) < 0 || list_numa(binding, err) < 0 ||
        list_nics(binding, err) < 0)
        return -1;
    return 0;
}

static void clear_binding(struct binding *binding)
{
    for (size_t i = 0; binding->nic_lists && i < binding->tasks; i++)
        free(binding->nic_lists[i]);
    free(binding->nic_lists);
    free(binding->nic_list_counts);
    free(binding->lists);
    free(binding->cores);
    free(binding->gpus);
    free(binding->nics);
    free(binding->owns);
}

struct placement *placement_create(const struct topology *topology,
                                   const struct placement_request *request, struct error *err)
{
    struct binding binding = {.topology = topology, .request = request, .tasks = request->tasks};
    int rc;

    if (binding.tasks < 1 || binding.tasks > MAX_TASKS) {
        error_set(err, "cannot place %zu tasks on a node; use 1 to %d", binding.tasks, MAX_TASKS);
        return NULL;
    }
    binding.result = calloc(1, sizeof(*binding.result));
    if (binding.result)
        binding.result->tasks = calloc(binding.tasks, sizeof(*binding.result->tasks));
    if (!binding.result || !binding.result->tasks) {
        error_set(err, "out of memory");
        placement_destroy(binding.result);
        return NULL;
    }
    binding.result->task_count = binding.tasks;
    rc = make(&binding, err);
    clear_binding(&binding);
    if (rc == 0)
        return binding.result;
    placement_destroy(binding.result);
    return NULL;
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
