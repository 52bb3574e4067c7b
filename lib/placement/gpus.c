/* SPDX-License-Identifier: Apache-2.0 */
/* Assign GPUs to tasks. */
#include "binding.h"

#include <stdlib.h>
#include <string.h>

/* The tasks without a choice by the user, and the GPUs left for them. */
struct pool {
    size_t *tasks, *gpus;
    size_t task_count, gpu_count;
};

static void give(struct binding *binding, size_t task, size_t gpu)
{
    binding->owns[task * binding->gpu_count + gpu] = 1;
}

/* The user's choices are positions in the request; the binding has the GPUs in PCI order. */
static int apply_overrides(struct binding *binding, unsigned char *taken, struct error *err)
{
    for (size_t task = 0; task < binding->tasks; task++) {
        const struct placement_override *override = &binding->request->overrides[task];

        for (size_t i = 0; binding_has_gpus(binding, task) && i < override->gpu_count; i++) {
            size_t gpu = 0;

            while (gpu < binding->gpu_count && binding->gpus[gpu].gpu.position != override->gpus[i])
                gpu++;
            if (gpu == binding->gpu_count)
                return error_set(err,
                                 "task %zu of this node has a GPU that is not allocated to the "
                                 "step; check CUDA_VISIBLE_DEVICES and srun --gpu-bind",
                                 task);
            give(binding, task, gpu);
            taken[gpu] = 1;
        }
    }
    return 0;
}

static int fill_pool(struct binding *binding, struct pool *pool, struct error *err)
{
    unsigned char *taken = calloc(binding->gpu_count + 1, 1);
    int rc = -1;

    pool->tasks = calloc(binding->tasks, sizeof(size_t));
    pool->gpus = calloc(binding->gpu_count + 1, sizeof(size_t));
    if (!taken || !pool->tasks || !pool->gpus) {
        error_set(err, "out of memory");
        goto out;
    }
    if (binding->request->overrides && apply_overrides(binding, taken, err) < 0)
        goto out;
    for (size_t task = 0; task < binding->tasks; task++)
        if (!binding_has_gpus(binding, task))
            pool->tasks[pool->task_count++] = task;
    for (size_t gpu = 0; gpu < binding->gpu_count; gpu++)
        if (!taken[gpu])
            pool->gpus[pool->gpu_count++] = gpu;
    /* If the choices took all GPUs, the other tasks share them. */
    if (pool->gpu_count == 0)
        for (size_t gpu = 0; gpu < binding->gpu_count; gpu++)
            pool->gpus[pool->gpu_count++] = gpu;
    rc = 0;
out:
    free(taken);
    return rc;
}

static int place_of(const struct binding *binding, const struct pool *pool, size_t i)
{
    return binding->gpus[pool->gpus[i]].device->place;
}

/* At least as many GPUs as tasks: neighbors stay together, in task order. */
static int share_in_order(struct binding *binding, const struct pool *pool, struct error *err)
{
    int *gaps = calloc(pool->gpu_count, sizeof(int));
    size_t *cuts = calloc(pool->task_count + 1, sizeof(size_t));
    int rc = -1;

    if (!gaps || !cuts) {
        error_set(err, "out of memory");
        goto out;
    }
    for (size_t i = 1; i < pool->gpu_count; i++)
        gaps[i] = tree_distance(binding->topology, place_of(binding, pool, i - 1),
                                place_of(binding, pool, i));
    if (divide_row(pool->gpu_count, pool->task_count, gaps, cuts, err) < 0)
        goto out;
    for (size_t i = 0; i < pool->task_count; i++)
        for (size_t k = cuts[i]; k < cuts[i + 1]; k++)
            give(binding, pool->tasks[i], pool->gpus[k]);
    rc = 0;
out:
    free(gaps);
    free(cuts);
    return rc;
}

/* A fixed number per task: keep that many, spread over the row, so that NICs and NUMA nodes are
 * spread too. */
static int keep_fixed(struct pool *pool, size_t each, struct error *err)
{
    size_t gpus = pool->gpu_count, tasks = pool->task_count;

    if (each > gpus / tasks)
        return error_set(err,
                         "%zu tasks with %zu GPUs each need %zu GPUs; this node has %zu left "
                         "for them; use fewer tasks per node, or a smaller sbatch --gpus-per-task",
                         tasks, each, tasks * each, gpus);
    for (size_t i = 0; i < tasks; i++)
        for (size_t k = 0; k < each; k++)
            pool->gpus[i * each + k] = pool->gpus[i * gpus / tasks + k];
    pool->gpu_count = tasks * each;
    return 0;
}

/* The number of levels above its own place at which a GPU meets the task's CPUs. */
static int steps_between(const struct binding *binding, size_t task, size_t gpu)
{
    const struct topology *topology = binding->topology;
    int place = tree_home(topology, binding->gpus[gpu].device->place), steps = 0;
    struct cpuset near;

    for (; place >= 0; place = topology->places[place].parent, steps++) {
        topology_place_cpus(topology, place, &near);
        if (cpuset_overlap(&near, &binding->result->tasks[task].cpus))
            break;
    }
    return steps;
}

/* Assign items to the nearest bins, which fill evenly: a bin holds items / bins, and the first ones
 * that need it one more. steps[item * bins + bin] is the distance. */
static void fill_nearest(size_t items, size_t bins, const int *steps, size_t *bin_of, size_t *held)
{
    size_t base = items / bins, extra = items % bins;

    memset(bin_of, 0xff, items * sizeof(size_t));
    for (size_t placed = 0; placed < items; placed++) {
        size_t best_item = 0, best_bin = 0;
        int best = -1;

        for (size_t item = 0; item < items; item++) {
            for (size_t bin = 0; bin_of[item] == (size_t)-1 && bin < bins; bin++) {
                bool full = held[bin] > base || (held[bin] == base && extra == 0);

                if (!full && (best < 0 || steps[item * bins + bin] < best)) {
                    best = steps[item * bins + bin];
                    best_item = item;
                    best_bin = bin;
                }
            }
        }
        bin_of[best_item] = best_bin;
        extra -= held[best_bin] == base;
        held[best_bin]++;
    }
}

static int share_nearest(struct binding *binding, const struct pool *pool, struct error *err)
{
    bool more_gpus = pool->gpu_count >= pool->task_count;
    size_t items = more_gpus ? pool->gpu_count : pool->task_count;
    size_t bins = more_gpus ? pool->task_count : pool->gpu_count;
    int *steps = calloc(items * bins, sizeof(int));
    size_t *bin_of = calloc(items, sizeof(size_t)), *held = calloc(bins, sizeof(size_t));
    int rc = -1;

    if (!steps || !bin_of || !held) {
        error_set(err, "out of memory");
        goto out;
    }
    for (size_t i = 0; i < pool->task_count; i++)
        for (size_t k = 0; k < pool->gpu_count; k++)
            steps[more_gpus ? k * bins + i : i * bins + k] =
                steps_between(binding, pool->tasks[i], pool->gpus[k]);
    fill_nearest(items, bins, steps, bin_of, held);
    for (size_t item = 0; item < items; item++) {
        size_t task = more_gpus ? bin_of[item] : item, gpu = more_gpus ? item : bin_of[item];

        give(binding, pool->tasks[task], pool->gpus[gpu]);
    }
    rc = 0;
out:
    free(steps);
    free(bin_of);
    free(held);
    return rc;
}

static int share(struct binding *binding, struct pool *pool, struct error *err)
{
    size_t each = binding->request->gpus_per_task;

    if (pool->task_count == 0 || pool->gpu_count == 0)
        return 0;
    if (each > 0 && keep_fixed(pool, each, err) < 0)
        return -1;
    if (pool->task_count > pool->gpu_count)
        binding_warn(
            binding,
            "%zu tasks share %zu GPU%s; request a GPU for each (sbatch --gpus-per-task=1) if "
            "that is not intended",
            pool->task_count, pool->gpu_count, pool->gpu_count == 1 ? "" : "s");
    if (binding->cpus_first)
        return share_nearest(binding, pool, err);
    if (pool->gpu_count >= pool->task_count)
        return share_in_order(binding, pool, err);
    for (size_t i = 0; i < pool->task_count; i++)
        give(binding, pool->tasks[i], pool->gpus[i * pool->gpu_count / pool->task_count]);
    return 0;
}

int bind_gpus(struct binding *binding, struct error *err)
{
    struct pool pool = {0};
    int rc = fill_pool(binding, &pool, err);

    if (rc == 0)
        rc = share(binding, &pool, err);
    free(pool.tasks);
    free(pool.gpus);
    return rc;
}
