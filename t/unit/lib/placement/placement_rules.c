/* SPDX-License-Identifier: Apache-2.0 */
/* What must hold for every placement, on every node, for any number of tasks and any part of a
 * node. */
#include "lib/placement.h"
#include "topologies.h"
#include "tap.h"

/* The current case, and the first rule that it breaks. */
struct trial {
    const struct topology *topology;
    struct placement_request request;
    struct cpuset cpus;
    struct allocated_gpu gpus[64];
    const struct placement *placement, *whole; /* 'whole': one task per GPU of the whole node */
    char broken[512];
};

static uint64_t state;

static size_t draw(size_t below)
{
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return (size_t)(state >> 11) % below;
}

__attribute__((format(printf, 2, 3))) static void broken(struct trial *trial, const char *format,
                                                         ...)
{
    va_list args;

    if (trial->broken[0])
        return;
    va_start(args, format);
    vsnprintf(trial->broken, sizeof(trial->broken), format, args);
    va_end(args);
}

/* The allocated CPUs of a core. Returns whether there are any. */
static int allocated_cpus(const struct trial *trial, size_t core, struct cpuset *set)
{
    const struct topology_core *at = &trial->topology->cores[core];

    cpuset_clear(set);
    for (int k = 0; k < at->cpu_count; k++)
        if (cpuset_has(&trial->cpus, trial->topology->cpus[at->first_cpu + k]))
            cpuset_add(set, trial->topology->cpus[at->first_cpu + k]);
    return !cpuset_is_empty(set);
}

/* No two tasks share a hardware thread while there are enough of them; otherwise no thread is idle.
 */
static void check_threads(struct trial *trial)
{
    size_t threads = (size_t)cpuset_count(&trial->cpus);

    for (int cpu = cpuset_next(&trial->cpus, -1); cpu >= 0; cpu = cpuset_next(&trial->cpus, cpu)) {
        size_t users = 0;

        for (size_t t = 0; t < trial->placement->task_count; t++)
            users += (size_t)cpuset_has(&trial->placement->tasks[t].cpus, cpu);
        if (users > 1 && threads >= trial->request.tasks)
            broken(trial, "%zu tasks share CPU %d, and there are %zu", users, cpu, threads);
        if (users == 0 && threads < trial->request.tasks)
            broken(trial, "CPU %d of %zu is idle", cpu, threads);
    }
}

static void check_cpus(struct trial *trial)
{
    size_t cores = 0;
    int shares_numa = trial->request.bind && strcmp(trial->request.bind, "numa") == 0;

    for (size_t t = 0; t < trial->placement->task_count; t++) {
        if (cpuset_is_empty(&trial->placement->tasks[t].cpus))
            broken(trial, "task %zu has no CPU", t);
        if (!cpuset_within(&trial->placement->tasks[t].cpus, &trial->cpus))
            broken(trial, "task %zu leaves the allocation", t);
    }
    for (size_t core = 0; core < trial->topology->core_count; core++) {
        struct cpuset set;

        cores += (size_t)allocated_cpus(trial, core, &set);
    }
    for (size_t core = 0; core < trial->topology->core_count; core++) {
        struct cpuset set;
        size_t users = 0;

        if (!allocated_cpus(trial, core, &set))
            continue;
        for (size_t t = 0; t < trial->placement->task_count; t++) {
            const struct cpuset *cpus = &trial->placement->tasks[t].cpus;

            if (!cpuset_overlap(cpus, &set))
                continue;
            users++;
            if (!cpuset_within(&set, cpus) && cores >= trial->request.tasks)
                broken(trial, "task %zu has a part of core %zu", t, core);
        }
        if (users > 1 && cores >= trial->request.tasks && !shares_numa)
            broken(trial, "%zu tasks share core %zu, and there are %zu cores", users, core, cores);
    }
    if (!shares_numa)
        check_threads(trial);
}

static void check_numa(struct trial *trial)
{
    for (size_t t = 0; t < trial->placement->task_count; t++) {
        const struct placement_task *task = &trial->placement->tasks[t];
        struct cpuset reached;

        cpuset_clear(&reached);
        for (size_t core = 0; core < trial->topology->core_count; core++)
            for (size_t i = 0; i < task->numa_count; i++)
                if (trial->topology->numas[trial->topology->cores[core].numa].os == task->numa[i]) {
                    struct cpuset set;

                    allocated_cpus(trial, core, &set);
                    cpuset_unite(&reached, &set);
                }
        if (!cpuset_within(&task->cpus, &reached))
            broken(trial, "task %zu has CPUs outside its NUMA nodes", t);
        for (size_t i = 1; i < task->numa_count; i++)
            if (task->numa[i] <= task->numa[i - 1])
                broken(trial, "task %zu: NUMA nodes are out of order", t);
    }
}

/* Every GPU is used, evenly, and exclusively while there are enough. */
static void check_gpus(struct trial *trial)
{
    size_t tasks = trial->request.tasks, count = trial->request.gpu_count;
    size_t least = SIZE_MAX, most = 0, users[64] = {0};

    for (size_t t = 0; t < tasks; t++) {
        const struct placement_task *task = &trial->placement->tasks[t];

        if (count > 0 && task->gpu_count == 0)
            broken(trial, "task %zu has no GPU", t);
        if (count > 0 && tasks >= count && task->gpu_count != 1)
            broken(trial, "task %zu has %zu GPUs of %zu for %zu tasks", t, task->gpu_count, count,
                   tasks);
        least = task->gpu_count < least ? task->gpu_count : least;
        most = task->gpu_count > most ? task->gpu_count : most;
        for (size_t i = 0; i < task->gpu_count; i++)
            users[task->gpus[i].number]++;
    }
    if (most > least + 1)
        broken(trial, "one task has %zu GPUs, another %zu", most, least);
    for (size_t gpu = 0; gpu < count; gpu++) {
        if (users[gpu] == 0)
            broken(trial, "GPU %zu is unused", gpu);
        if (tasks <= count && users[gpu] > 1)
            broken(trial, "GPU %zu is shared by %zu tasks", gpu, users[gpu]);
        if (tasks > count && (users[gpu] < tasks / count || users[gpu] > tasks / count + 1))
            broken(trial, "GPU %zu is shared by %zu of %zu tasks", gpu, users[gpu], tasks);
    }
}

static int home_of(const struct topology *topology, int place)
{
    while (topology->places[place].kind == PLACE_BRIDGE)
        place = topology->places[place].parent;
    return place;
}

/* A task with one GPU runs near it if all tasks whose GPUs are there can; and they get equal parts.
 */
static void check_nearness(struct trial *trial)
{
    const struct topology *topology = trial->topology;

    for (size_t t = 0; t < trial->request.tasks; t++) {
        const struct placement_task *task = &trial->placement->tasks[t];
        struct cpuset near, set;
        size_t cores = 0, rivals = 0;
        int home;

        if (task->gpu_count != 1)
            continue;
        home = home_of(topology, topology_gpu(topology, (size_t)task->gpus[0].index)->place);
        topology_place_cpus(topology, home, &near);
        for (size_t core = 0; core < topology->core_count; core++)
            cores += allocated_cpus(trial, core, &set) && cpuset_within(&set, &near);
        for (size_t other = 0; other < trial->request.tasks; other++)
            for (size_t i = 0; i < trial->placement->tasks[other].gpu_count; i++) {
                size_t index = (size_t)trial->placement->tasks[other].gpus[i].index;

                if (home_of(topology, topology_gpu(topology, index)->place) == home) {
                    rivals++;
                    break;
                }
            }
        if (cores >= rivals && !cpuset_within(&task->cpus, &near))
            broken(trial, "task %zu is away from GPU %d; %zu cores for %zu tasks there", t,
                   task->gpus[0].index, cores, rivals);
    }
}

/* Tasks with the same number of GPUs in the same NUMA node have the same number of cores there. */
static void check_fairness(struct trial *trial)
{
    const struct topology *topology = trial->topology;

    for (size_t numa = 0; numa < topology->numa_count; numa++) {
        size_t least = SIZE_MAX, most = 0;

        for (size_t t = 0; t < trial->request.tasks; t++) {
            const struct placement_task *task = &trial->placement->tasks[t];
            size_t cores = 0;

            if (task->numa_count != 1 || task->numa[0] != topology->numas[numa].os ||
                (trial->request.gpu_count > 0 && task->gpu_count != 1))
                continue;
            for (size_t core = 0; core < topology->core_count; core++) {
                struct cpuset set;

                cores += allocated_cpus(trial, core, &set) && cpuset_overlap(&set, &task->cpus);
            }
            least = cores < least ? cores : least;
            most = cores > most ? cores : most;
        }
        if (least != SIZE_MAX && most > least + 1)
            broken(trial, "on NUMA node %zu one task has %zu cores, another %zu", numa, most,
                   least);
    }
}

static int uses_nic(const struct placement_task *task, const struct topology_device *nic)
{
    for (size_t i = 0; i < task->nic_count; i++)
        if (task->nics[i] == nic)
            return 1;
    return 0;
}

/* Every task has NICs; those of a GPU are the same whatever part of the node is allocated. */
static void check_nics(struct trial *trial)
{
    for (size_t t = 0; t < trial->request.tasks; t++) {
        const struct placement_task *task = &trial->placement->tasks[t];

        if (trial->topology->nic_count > 0 && task->nic_count == 0)
            broken(trial, "task %zu has no NIC", t);
        for (size_t i = 0; i < task->nic_count; i++) {
            int paired = task->gpu_count == 0;

            if (task->nics[i]->kind != DEVICE_NIC)
                broken(trial, "task %zu has a NIC that is none", t);
            for (size_t k = 0; k < task->gpu_count; k++)
                paired |= uses_nic(&trial->whole->tasks[task->gpus[k].index], task->nics[i]);
            if (!paired)
                broken(trial, "task %zu has NIC %s of another GPU", t, task->nics[i]->name);
        }
        for (size_t k = 0; k < task->gpu_count && trial->request.tasks <= trial->request.gpu_count;
             k++) {
            const struct placement_task *pair = &trial->whole->tasks[task->gpus[k].index];

            for (size_t i = 0; i < pair->nic_count; i++)
                if (!uses_nic(task, pair->nics[i]))
                    broken(trial, "task %zu lacks NIC %s of its GPU", t, pair->nics[i]->name);
        }
    }
    for (size_t i = 0; i < trial->placement->nic_count; i++) {
        int used = 0;

        for (size_t t = 0; t < trial->request.tasks; t++)
            used |= uses_nic(&trial->placement->tasks[t], trial->placement->nics[i]);
        if (!used)
            broken(trial, "the node's list has a NIC of no task");
    }
}

/* On the whole node: NICs are exclusive while there are enough, and none is far while one is near.
 */
static void check_pairs(struct trial *trial)
{
    const struct topology *topology = trial->topology;
    size_t gpus = topology->gpu_count;

    for (size_t a = 0; a < gpus; a++)
        for (size_t b = a + 1; b < gpus && topology->nic_count >= gpus; b++)
            for (size_t i = 0; i < trial->whole->tasks[a].nic_count; i++)
                if (uses_nic(&trial->whole->tasks[b], trial->whole->tasks[a].nics[i]))
                    broken(trial, "GPUs %zu and %zu share a NIC", a, b);
    for (size_t a = 0; topology->nic_count > 0 && a < gpus; a++) {
        const struct placement_task *task = &trial->whole->tasks[a];

        for (size_t b = 0; b < gpus; b++)
            if (task->nic_count == 0 ||
                (trial->whole->tasks[b].nic_count > 1 && topology->nic_count < gpus))
                broken(trial, "GPU %zu has %zu NICs while %zu has %zu", a, task->nic_count, b,
                       trial->whole->tasks[b].nic_count);
    }
}

static void check(struct trial *trial)
{
    int none = trial->request.bind && strcmp(trial->request.bind, "none") == 0;
    int by_gpu = !trial->request.bind || strcmp(trial->request.bind, "gpu") == 0;

    check_numa(trial);
    check_gpus(trial);
    check_nics(trial);
    check_pairs(trial);
    if (!none)
        check_cpus(trial);
    if (by_gpu)
        check_nearness(trial);
    if (by_gpu || strcmp(trial->request.bind, "core") == 0)
        check_fairness(trial);
}

static void run_trial(struct trial *trial, const char *name)
{
    struct error err = {.text = ""};
    struct placement *placement = placement_create(trial->topology, &trial->request, &err);
    char cpus[256];

    trial->placement = placement;
    if (placement)
        check(trial);
    else
        broken(trial, "%s", err.text);
    if (trial->broken[0]) {
        cpuset_format(&trial->cpus, cpus, sizeof(cpus));
        ok(0, "%s: %zu tasks, bind %s: %s", name, trial->request.tasks,
           trial->request.bind ? trial->request.bind : "auto", trial->broken);
        diag("cpus %s", cpus);
        for (size_t i = 0; i < trial->request.gpu_count; i++)
            diag("gpu %d", topology_gpu_index(trial->topology, &trial->gpus[i].pci));
    }
    placement_destroy(placement);
}

/* Some GPUs, in any order; some CPUs: whole cores, single threads, or all. */
static void draw_allocation(struct trial *trial)
{
    const struct topology *topology = trial->topology;
    size_t all = draw(3) == 0, chance = 1 + draw(8);
    int threads = draw(4) == 0;

    trial->request.gpu_count = 0;
    for (size_t i = 0; i < topology->gpu_count; i++)
        if (all || draw(2)) {
            size_t at = draw(trial->request.gpu_count + 1);

            trial->gpus[trial->request.gpu_count++] = trial->gpus[at];
            trial->gpus[at].pci = topology_gpu(topology, i)->pci;
            trial->gpus[at].instance = NULL;
        }
    cpuset_clear(&trial->cpus);
    while (cpuset_is_empty(&trial->cpus))
        for (size_t core = 0; core < topology->core_count; core++) {
            int take = all || draw(8) < chance;

            for (int k = 0; k < topology->cores[core].cpu_count; k++)
                if (threads ? all || draw(8) < chance : take)
                    cpuset_add(&trial->cpus, topology->cpus[topology->cores[core].first_cpu + k]);
        }
}

static void test_node(const char *name, int real, size_t most)
{
    static const char *const policies[] = {NULL, "gpu", "core", "numa", "none"};
    struct topology *topology = read_node(name, real);
    struct placement_request each = {.tasks = 1};
    struct placement *whole;
    struct error err = {.text = ""};
    int failed = tap_failed;
    size_t trials = 0;

    if (!topology) {
        missing_node(name, real);
        return;
    }
    each.tasks = topology->gpu_count > 0 ? topology->gpu_count : 1;
    whole = placement_create(topology, &each, &err);
    for (; whole && trials < most && tap_failed < failed + 3; trials++) {
        struct trial trial = {.topology = topology, .whole = whole};

        draw_allocation(&trial);
        trial.request.cpus = &trial.cpus;
        trial.request.gpus = trial.gpus;
        trial.request.bind = policies[draw(5)];
        if (trial.request.gpu_count == 0 && trial.request.bind == policies[1])
            trial.request.bind = NULL;
        trial.request.tasks =
            1 + draw(draw(4) ? topology->gpu_count + 4 : topology->core_count + 4);
        run_trial(&trial, name);
    }
    ok(whole && tap_failed == failed, "%s: %zu placements keep the rules %s", name, trials,
       err.text);
    placement_destroy(whole);
    topology_destroy(topology);
}

int main(void)
{
    const char *seed = getenv("MEGATRON_SEED"), *trials = getenv("MEGATRON_TRIALS");
    size_t most = trials ? strtoul(trials, NULL, 10) : (size_t)repetitions(500); /* of each node */
    struct topology *first = read_node(own_nodes[0], 0);

    if (!first)
        return skip_all("no hwloc here");
    topology_destroy(first);
    state = seed ? strtoull(seed, NULL, 10) | 1 : 20261115;
    diag("MEGATRON_SEED=%llu", (unsigned long long)state);
    for (size_t i = 0; i < OWN_NODES; i++)
        test_node(own_nodes[i], 0, most);
    for (size_t i = 0; i < REAL_NODES; i++)
        test_node(real_nodes[i], 1, most);
    return done_testing();
}
