/* SPDX-License-Identifier: Apache-2.0 */
/* More tasks than cores: tasks share cores, and hardware threads only if there are too few of
 * these. */
#include "binding.h"

#include <stdlib.h>

/* List the allocated CPUs of a core, in order. Returns their number. */
static size_t threads_of(const struct binding *binding, const struct binding_core *core, int *cpus)
{
    const struct topology_core *at = &binding->topology->cores[core->core];
    size_t count = 0;

    for (int k = 0; k < at->cpu_count; k++)
        if (cpuset_has(&binding->cpus, binding->topology->cpus[at->first_cpu + k])) {
            if (cpus)
                cpus[count] = binding->topology->cpus[at->first_cpu + k];
            count++;
        }
    return count;
}

size_t binding_threads(const struct binding *binding, const struct binding_core *core)
{
    return threads_of(binding, core, NULL);
}

/* Compute how many of 'tasks' run on each core: one each, then one more on the cores with a free
 * thread, then evenly. Each round adds at most one task to a core, spread over the row. */
static void share_tasks(const struct binding *binding, const struct binding_core *cores,
                        size_t core_count, size_t tasks, size_t *shares)
{
    for (size_t round = 0; tasks > 0; round++) {
        size_t open = 0, seen = 0, given = 0;

        for (size_t i = 0; i < core_count; i++)
            open += shares[i] == round && binding_threads(binding, &cores[i]) > round;
        if (open == 0) /* every thread has a task */
            break;
        for (size_t i = 0; i < core_count; i++) {
            if (shares[i] != round || binding_threads(binding, &cores[i]) <= round)
                continue;
            /* Take as many of the open cores as there are tasks, evenly spaced. */
            if (tasks >= open || (seen + 1) * tasks / open > seen * tasks / open) {
                shares[i]++;
                given++;
            }
            seen++;
        }
        tasks -= given;
    }
    for (size_t i = 0; tasks > 0; i = (i + 1) % core_count, tasks--)
        shares[i]++;
}

/* Place the tasks of one core: each on its own threads or, if there are too few, sharing one. */
static void share_threads(struct binding *binding, const int *cpus, size_t threads,
                          const size_t *tasks, size_t count)
{
    for (size_t k = 0; k < count; k++) {
        struct cpuset *set = &binding->result->tasks[tasks[k]].cpus;

        if (threads < count)
            cpuset_add(set, cpus[k * threads / count]);
        for (size_t i = k * threads / count; threads >= count && i < (k + 1) * threads / count; i++)
            cpuset_add(set, cpus[i]);
    }
}

int bind_oversubscribed(struct binding *binding, const struct binding_core *cores,
                        size_t core_count, const size_t *tasks, size_t count, struct error *err)
{
    size_t *shares = calloc(core_count, sizeof(*shares)), next = 0;
    int *cpus = calloc(binding->topology->cpu_count, sizeof(*cpus));
    int rc = -1;

    if (!shares || !cpus) {
        error_set(err, "out of memory");
        goto out;
    }
    share_tasks(binding, cores, core_count, count, shares);
    for (size_t i = 0; i < core_count; i++) {
        size_t threads = threads_of(binding, &cores[i], cpus);

        share_threads(binding, cpus, threads, tasks + next, shares[i]);
        next += shares[i];
    }
    rc = 0;
out:
    free(shares);
    free(cpus);
    return rc;
}
