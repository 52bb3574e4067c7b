/* SPDX-License-Identifier: Apache-2.0 */
/* Assign cores to tasks. */
#include "binding.h"

#include <stdlib.h>
#include <string.h>

/* weights[task * numas + numa]: how strongly a task belongs to a NUMA node, as the number of its
 * GPUs there. Only NUMA nodes with allocated cores have weights. */
struct spread {
    struct binding *binding;
    size_t numas;
    size_t *weights;
    size_t *cores;    /* allocated, per NUMA node */
    size_t *threads;  /* allocated CPUs, per NUMA node */
    size_t *capacity; /* one of the two: the task capacity of a NUMA node */
    size_t *tasks;    /* with a weight there, per NUMA node */
};

static size_t *weight(struct spread *spread, size_t task, size_t numa)
{
    return &spread->weights[task * spread->numas + numa];
}

static void join(struct spread *spread, size_t task, size_t numa)
{
    if ((*weight(spread, task, numa))++ == 0)
        spread->tasks[numa]++;
}

static void leave(struct spread *spread, size_t task, size_t numa)
{
    *weight(spread, task, numa) = 0;
    spread->tasks[numa]--;
}

static size_t homes_of(struct spread *spread, size_t task)
{
    size_t homes = 0;

    for (size_t numa = 0; numa < spread->numas; numa++)
        homes += *weight(spread, task, numa) > 0;
    return homes;
}

/* Mark the NUMA nodes with allocated cores near 'place', walking up the tree until there is one. */
static void candidates_of(const struct spread *spread, int place, unsigned char *near)
{
    const struct binding *binding = spread->binding;
    bool found = false;

    memset(near, 0, spread->numas);
    for (; !found && place >= 0; place = binding->topology->places[place].parent) {
        const struct topology_place *at = &binding->topology->places[place];

        for (size_t i = 0; i < binding->core_count; i++) {
            int core = binding->cores[i].core;

            if (core >= at->first_core && core < at->first_core + at->core_count)
                near[binding->cores[i].numa] = found = true;
        }
    }
}

/* The candidate with the lowest ratio of tasks to cores. */
static size_t emptiest(const struct spread *spread, const unsigned char *near,
                       const size_t *planned)
{
    size_t best = spread->numas;

    for (size_t numa = 0; numa < spread->numas; numa++)
        if (near[numa] && (best == spread->numas || (planned[numa] + 1) * spread->cores[best] <
                                                        (planned[best] + 1) * spread->cores[numa]))
            best = numa;
    return best;
}

/* Distribute tasks whose place has several NUMA nodes over these in order, in proportion to their
 * cores. */
static void join_several(struct spread *spread, const size_t *tasks, size_t count,
                         const unsigned char *near, size_t *planned)
{
    size_t next = 0;
    size_t *quota = planned + spread->numas;

    memset(quota, 0, spread->numas * sizeof(*quota));
    for (size_t numa = 0; numa < spread->numas; numa++)
        planned[numa] = spread->tasks[numa];
    for (size_t i = 0; i < count; i++) {
        size_t numa = emptiest(spread, near, planned);

        planned[numa]++;
        quota[numa]++;
    }
    for (size_t numa = 0; numa < spread->numas; numa++)
        for (; quota[numa] > 0; quota[numa]--)
            join(spread, tasks[next++], numa);
}

/* Assign the tasks that use a GPU at 'home' to the NUMA nodes there. 'tasks' has room for them. */
static void join_home(struct spread *spread, const unsigned char *placed, int home,
                      const unsigned char *near, size_t *tasks, size_t *planned)
{
    const struct binding *binding = spread->binding;
    size_t count = 0;

    for (size_t gpu = 0; gpu < binding->gpu_count; gpu++)
        for (size_t task = 0; task < binding->tasks; task++)
            if (placed[task] && binding->owns[task * binding->gpu_count + gpu] &&
                tree_home(binding->topology, binding->gpus[gpu].device->place) == home)
                tasks[count++] = task;
    join_several(spread, tasks, count, near, planned);
}

/* Assign every task to the NUMA nodes of its GPUs. First the GPUs whose place has one NUMA node
 * with allocated cores; then, when the load of these is known, those with several candidates. */
static int join_homes(struct spread *spread, const unsigned char *placed, struct error *err)
{
    const struct binding *binding = spread->binding;
    size_t places = binding->topology->place_count;
    unsigned char *near = calloc(spread->numas, 1), *done = calloc(places, 1);
    size_t *tasks = calloc(binding->tasks * (binding->gpu_count + 1), sizeof(size_t));
    size_t *planned = calloc(2 * spread->numas, sizeof(size_t));
    int rc = -1;

    if (!near || !done || !tasks || !planned) {
        error_set(err, "out of memory");
        goto out;
    }
    for (int several = 0; several <= 1; several++) {
        memset(done, 0, places);
        for (size_t gpu = 0; gpu < binding->gpu_count; gpu++) {
            int home = tree_home(binding->topology, binding->gpus[gpu].device->place);
            size_t nodes = 0;

            if (done[home]++)
                continue;
            candidates_of(spread, home, near);
            for (size_t numa = 0; numa < spread->numas; numa++)
                nodes += near[numa];
            if ((nodes > 1) == several)
                join_home(spread, placed, home, near, tasks, planned);
        }
    }
    rc = 0;
out:
    free(near);
    free(done);
    free(tasks);
    free(planned);
    return rc;
}

/* The nearest NUMA node to 'numa' that has room for another task, or 'numas'. */
static size_t nearest_spare(const struct spread *spread, size_t numa)
{
    const struct topology *topology = spread->binding->topology;
    size_t best = spread->numas;
    int best_distance = 0;

    for (size_t other = 0; other < spread->numas; other++) {
        int distance =
            tree_distance(topology, topology->numas[numa].place, topology->numas[other].place);
        int better =
            best == spread->numas || distance < best_distance ||
            (distance == best_distance && (spread->tasks[other] + 1) * spread->capacity[best] <
                                              (spread->tasks[best] + 1) * spread->capacity[other]);

        if (spread->capacity[other] > spread->tasks[other] && better) {
            best = other;
            best_distance = distance;
        }
    }
    return best;
}

/* A task that is on 'numa' and on another NUMA node, or 'tasks' if there is none. */
static size_t find_spread_out(struct spread *spread, size_t numa)
{
    for (size_t task = spread->binding->tasks; task-- > 0;)
        if (*weight(spread, task, numa) > 0 && homes_of(spread, task) > 1)
            return task;
    return spread->binding->tasks;
}

/* Is a GPU of the task local to 'numa'? */
static bool has_local_gpu(const struct binding *binding, size_t task, size_t numa)
{
    const struct topology *topology = binding->topology;
    int place = topology->numas[numa].place;

    for (size_t gpu = 0; gpu < binding->gpu_count; gpu++) {
        int home = tree_home(topology, binding->gpus[gpu].device->place);

        if (binding->owns[task * binding->gpu_count + gpu] &&
            (tree_is_below(topology, place, home) || tree_is_below(topology, home, place)))
            return true;
    }
    return false;
}

/* The task to move from 'numa' to 'spare': the last one, but prefer tasks without a GPU here. */
static void move_one(struct spread *spread, size_t numa, size_t spare)
{
    const struct binding *binding = spread->binding;
    size_t mover = binding->tasks;

    for (size_t task = 0; task < binding->tasks; task++)
        if (*weight(spread, task, numa) > 0 &&
            (mover == binding->tasks || has_local_gpu(binding, mover, numa) ||
             !has_local_gpu(binding, task, numa)))
            mover = task;
    leave(spread, mover, numa);
    join(spread, mover, spare);
}

/* Move one task off the oversubscribed 'numa'. Returns false if none can be moved. */
static bool move_one_off(struct spread *spread, size_t numa)
{
    size_t tasks = spread->binding->tasks, spread_out = find_spread_out(spread, numa), spare;

    if (spread_out < tasks) {
        leave(spread, spread_out, numa);
        return true;
    }
    spare = nearest_spare(spread, numa);
    for (size_t other = 0; spare == spread->numas && other < spread->numas; other++) {
        spread_out =
            other != numa && spread->capacity[other] > 0 ? find_spread_out(spread, other) : tasks;
        if (spread_out < tasks && spread->tasks[other] <= spread->capacity[other]) {
            leave(spread, spread_out, other);
            spare = other;
        }
    }
    if (spare == spread->numas)
        return false;
    move_one(spread, numa, spare);
    return true;
}

/* The allocated CPUs of one core. */
static void add_core(struct binding *binding, size_t task, const struct binding_core *core)
{
    const struct topology_core *at = &binding->topology->cores[core->core];

    for (int k = 0; k < at->cpu_count; k++)
        if (cpuset_has(&binding->cpus, binding->topology->cpus[at->first_cpu + k]))
            cpuset_add(&binding->result->tasks[task].cpus,
                       binding->topology->cpus[at->first_cpu + k]);
}

/* Divide the cores of one NUMA node among its tasks. */
static int divide_numa(struct spread *spread, size_t numa, struct error *err)
{
    struct binding *binding = spread->binding;
    size_t count = 0, cores = 0, share = 0;
    size_t *tasks = calloc(binding->tasks + 1, sizeof(size_t));
    size_t *weights = calloc(binding->tasks + 1, sizeof(size_t));
    size_t *cuts = calloc(binding->tasks + 2, sizeof(size_t));
    struct binding_core *local = calloc(binding->core_count + 1, sizeof(*local));
    int rc = -1;

    if (!tasks || !weights || !cuts || !local) {
        error_set(err, "out of memory");
        goto out;
    }
    for (size_t i = 0; i < binding->core_count; i++)
        if ((size_t)binding->cores[i].numa == numa)
            local[cores++] = binding->cores[i];
    for (size_t task = 0; task < binding->tasks; task++)
        if (*weight(spread, task, numa) > 0) {
            tasks[count] = task;
            weights[count++] = *weight(spread, task, numa);
        }
    if (count > cores) {
        rc = bind_oversubscribed(binding, local, cores, tasks, count, err);
        goto out;
    }
    if (count > 0)
        divide_weighted(cores, count, weights, cuts);
    for (size_t i = 0; count > 0 && i < cores; i++) {
        while (i >= cuts[share + 1])
            share++;
        add_core(binding, tasks[share], &local[i]);
    }
    rc = 0;
out:
    free(tasks);
    free(weights);
    free(cuts);
    free(local);
    return rc;
}

/* Move tasks out of NUMA nodes that have more tasks than 'capacity', while others have room. */
static void rebalance(struct spread *spread, size_t *capacity)
{
    spread->capacity = capacity;
    for (size_t numa = 0; numa < spread->numas; numa++)
        while (spread->tasks[numa] > capacity[numa] && move_one_off(spread, numa))
            ;
}

/* Give tasks the cores near their GPUs. */
static int divide_by_gpu(struct binding *binding, const unsigned char *placed, struct error *err)
{
    struct spread spread = {.binding = binding, .numas = binding->topology->numa_count};
    int rc = -1;

    spread.weights = calloc(binding->tasks * spread.numas, sizeof(size_t));
    spread.cores = calloc(spread.numas, sizeof(size_t));
    spread.threads = calloc(spread.numas, sizeof(size_t));
    spread.tasks = calloc(spread.numas, sizeof(size_t));
    if (!spread.weights || !spread.cores || !spread.threads || !spread.tasks) {
        error_set(err, "out of memory");
        goto out;
    }
    for (size_t i = 0; i < binding->core_count; i++) {
        spread.cores[binding->cores[i].numa]++;
        spread.threads[binding->cores[i].numa] += binding_threads(binding, &binding->cores[i]);
    }
    if (join_homes(&spread, placed, err) < 0)
        goto out;
    /* With BIND_NUMA tasks share a NUMA node. Otherwise they share cores only if there are too few
     * of them, and hardware threads only if there are too few of these. */
    if (binding->bind != BIND_NUMA) {
        rebalance(&spread, spread.cores);
        rebalance(&spread, spread.threads);
    }
    for (size_t numa = 0; numa < spread.numas; numa++)
        if (divide_numa(&spread, numa, err) < 0)
            goto out;
    rc = 0;
out:
    free(spread.weights);
    free(spread.cores);
    free(spread.threads);
    free(spread.tasks);
    return rc;
}

/* Divide all allocated cores into equal parts, split at NUMA nodes if possible. */
static int divide_cores(struct binding *binding, const unsigned char *placed, struct error *err)
{
    const struct topology *topology = binding->topology;
    size_t count = 0, cores = binding->core_count;
    int *gaps = calloc(cores + 1, sizeof(int));
    size_t *cuts = calloc(binding->tasks + 1, sizeof(size_t));
    size_t *tasks = calloc(binding->tasks + 1, sizeof(size_t));
    int rc = -1;

    if (!gaps || !cuts || !tasks) {
        error_set(err, "out of memory");
        goto out;
    }
    for (size_t task = 0; task < binding->tasks; task++)
        if (placed[task])
            tasks[count++] = task;
    if (count > cores) {
        rc = bind_oversubscribed(binding, binding->cores, cores, tasks, count, err);
        goto out;
    }
    for (size_t i = 1; i < cores; i++) {
        int before = binding->cores[i - 1].numa, numa = binding->cores[i].numa;

        gaps[i] = before == numa ? 0
                                 : 1 + tree_distance(topology, topology->numas[before].place,
                                                     topology->numas[numa].place);
    }
    if (count > 0 && divide_row(cores, count, gaps, cuts, err) < 0)
        goto out;
    for (size_t next = 0; next < count; next++)
        for (size_t i = cuts[next]; i < cuts[next + 1]; i++)
            add_core(binding, tasks[next], &binding->cores[i]);
    rc = 0;
out:
    free(gaps);
    free(cuts);
    free(tasks);
    return rc;
}

/* How many of the CPUs of a core are in 'set'? */
static int cpus_in(const struct binding *binding, const struct binding_core *core,
                   const struct cpuset *set)
{
    const struct topology_core *at = &binding->topology->cores[core->core];
    int count = 0;

    for (int k = 0; k < at->cpu_count; k++)
        count += cpuset_has(set, binding->topology->cpus[at->first_cpu + k]);
    return count;
}

/* Whole NUMA nodes instead of parts of them. */
static void widen_to_numa(struct binding *binding, const unsigned char *placed)
{
    for (size_t task = 0; task < binding->tasks; task++) {
        struct cpuset had = binding->result->tasks[task].cpus;

        for (size_t i = 0; placed[task] && i < binding->core_count; i++) {
            if (cpus_in(binding, &binding->cores[i], &had) == 0)
                continue;
            for (size_t other = 0; other < binding->core_count; other++)
                if (binding->cores[other].numa == binding->cores[i].numa)
                    add_core(binding, task, &binding->cores[other]);
        }
    }
}

static int use_list(struct binding *binding, size_t task, struct error *err)
{
    struct placement_task *at = &binding->result->tasks[task];
    char listed[128], allocated[128];

    at->cpus = binding->lists[task];
    cpuset_intersect(&at->cpus, &binding->cpus);
    if (cpuset_is_empty(&at->cpus)) {
        cpuset_format(&binding->lists[task], listed, sizeof(listed));
        cpuset_format(&binding->cpus, allocated, sizeof(allocated));
        return error_set(
            err,
            "none of the CPUs %s listed for task %zu of this node is allocated to this "
            "step, which has CPUs %s; list some of these, or request the whole node "
            "(sbatch --exclusive)",
            listed, task, allocated);
    }
    if (!cpuset_equal(&at->cpus, &binding->lists[task]))
        binding_warn(
            binding,
            "some CPUs listed for task %zu are not allocated to this step and are ignored; list "
            "only allocated CPUs, or request the whole node (sbatch --exclusive)",
            task);
    at->bound = true;
    return 0;
}

/* Do not assign other tasks to cores pinned by --cpu-bind while enough cores remain. */
static void avoid_user_cores(struct binding *binding, const unsigned char *placed)
{
    size_t kept = 0, placed_count = 0;
    struct cpuset pinned, rest = binding->cpus;

    cpuset_clear(&pinned);
    for (size_t task = 0; task < binding->tasks; task++) {
        placed_count += placed[task];
        if (binding_has_cpus(binding, task))
            cpuset_unite(&pinned, binding->request->overrides[task].cpus);
    }
    cpuset_subtract(&rest, &pinned);
    for (size_t i = 0; i < binding->core_count; i++)
        kept += cpus_in(binding, &binding->cores[i], &rest) > 0 &&
                cpus_in(binding, &binding->cores[i], &pinned) == 0;
    if (kept < placed_count)
        return;
    binding->cpus = rest;
    kept = 0;
    for (size_t i = 0; i < binding->core_count; i++)
        if (cpus_in(binding, &binding->cores[i], &pinned) == 0)
            binding->cores[kept++] = binding->cores[i];
    binding->core_count = kept;
}

static void warn_of_sharing(struct binding *binding, size_t tasks)
{
    size_t threads = 0;

    for (size_t i = 0; i < binding->core_count; i++)
        threads += binding_threads(binding, &binding->cores[i]);
    if (tasks > threads)
        binding_warn(binding,
                     "%zu tasks share %zu hardware thread%s of %zu core%s; use fewer tasks, or "
                     "request more CPUs (Slurm: sbatch --cpus-per-task)",
                     tasks, threads, threads == 1 ? "" : "s", binding->core_count,
                     binding->core_count == 1 ? "" : "s");
    else if (tasks > binding->core_count)
        binding_warn(binding,
                     "%zu tasks share %zu cores, each with its own hardware thread; for a core "
                     "each, use fewer tasks or request more CPUs (Slurm: sbatch --cpus-per-task)",
                     tasks, binding->core_count);
}

/* Tasks with GPUs get cores near them; the others share all cores evenly. */
static int divide(struct binding *binding, const unsigned char *placed, struct error *err)
{
    unsigned char *with = calloc(binding->tasks, 1), *without = calloc(binding->tasks, 1);
    size_t count_with = 0, count_without = 0;
    int rc = -1;

    if (!with || !without) {
        error_set(err, "out of memory");
        goto out;
    }
    for (size_t task = 0; task < binding->tasks; task++) {
        bool has = !binding->cpus_first && binding_uses_gpu(binding, task);

        with[task] = placed[task] && has;
        without[task] = placed[task] && !has;
        count_with += with[task];
        count_without += without[task];
    }
    if (count_with > 0 && divide_by_gpu(binding, with, err) < 0)
        goto out;
    if (count_without > 0 && divide_cores(binding, without, err) < 0)
        goto out;
    if (binding->bind != BIND_NUMA)
        warn_of_sharing(binding, count_with + count_without);
    rc = 0;
out:
    free(with);
    free(without);
    return rc;
}

/* Where the CPUs of a task are relative to its GPUs: near one of them, or why not. */
enum distance { NEAR, FAR, NO_CPUS };

static enum distance distance_of(const struct binding *binding, size_t task)
{
    enum distance distance = NEAR;

    for (size_t gpu = 0; gpu < binding->gpu_count; gpu++) {
        struct cpuset cpus;

        if (!binding->owns[task * binding->gpu_count + gpu])
            continue;
        topology_place_cpus(binding->topology, binding->gpus[gpu].device->place, &cpus);
        if (cpuset_overlap(&cpus, &binding->result->tasks[task].cpus))
            return NEAR;
        distance = cpuset_is_empty(&cpus) ? NO_CPUS : FAR;
    }
    return distance;
}

void binding_warn_distance(struct binding *binding)
{
    size_t count[NO_CPUS + 1] = {0};

    for (size_t task = 0; task < binding->tasks; task++)
        if (binding->result->tasks[task].bound && !binding_has_cpus(binding, task))
            count[distance_of(binding, task)]++;
    if (count[FAR] > 0 && binding->cpus_first)
        binding_warn(binding,
                     "%zu of %zu tasks use a GPU of another NUMA node: there is none near their "
                     "cores; request CPUs near the GPUs (sbatch --gres-flags=enforce-binding)",
                     count[FAR], binding->tasks);
    else if (count[FAR] > 0)
        binding_warn(
            binding,
            "%zu of %zu tasks are not on their GPU's NUMA node: too few CPUs were allocated "
            "there, so they run on the nearest ones; use sbatch --gres-flags=enforce-binding, or "
            "request "
            "more CPUs",
            count[FAR], binding->tasks);
    if (count[NO_CPUS] > 0)
        binding_warn(binding,
                     "%zu of %zu tasks run on the nearest CPUs: the NUMA node of their GPU has "
                     "none; this needs no action unless lstopo shows CPUs there",
                     count[NO_CPUS], binding->tasks);
}

int bind_cpus(struct binding *binding, struct error *err)
{
    unsigned char *placed = calloc(binding->tasks, 1);
    int rc = -1;

    if (!placed)
        return error_set(err, "out of memory");
    for (size_t task = 0; task < binding->tasks; task++) {
        struct placement_task *at = &binding->result->tasks[task];

        if (binding_has_cpus(binding, task)) {
            at->cpus = *binding->request->overrides[task].cpus;
        } else if (binding->bind == BIND_NONE) {
            at->cpus = binding->cpus;
        } else if (binding->lists) {
            if (use_list(binding, task, err) < 0)
                goto out;
        } else {
            placed[task] = 1;
            at->bound = true;
        }
    }
    if (binding->request->overrides)
        avoid_user_cores(binding, placed);
    if (divide(binding, placed, err) < 0)
        goto out;
    if (binding->bind == BIND_NUMA)
        widen_to_numa(binding, placed);
    rc = 0;
out:
    free(placed);
    return rc;
}
