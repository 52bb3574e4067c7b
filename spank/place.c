/* SPDX-License-Identifier: Apache-2.0 */
#include "place.h"

#include <dirent.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cgroup.h"
#include "config.h"
#include "hash.h"
#include "gpus.h"
#include "lib/parse.h"
#include "lib/placement.h"
#include "request.h"
#include "lib/topology.h"

struct node {
    struct topology *topology;
    struct gpus gpus;
};

void place_say(char notes[PLACE_NOTES], const char *format, ...)
{
    size_t used = strlen(notes);
    va_list args;

    va_start(args, format);
    vsnprintf(notes + used, PLACE_NOTES - used, format, args);
    va_end(args);
}

/* --- topology ------------------------------------------------------------------------------- */

/* A hash of the names of all RDMA devices and of their links, which show where they are plugged in.
 * The order does not matter. */
static uint64_t hash_devices(const char *sysroot)
{
    char path[4096], link[4096];
    uint64_t sum = 0;
    struct dirent *item;
    DIR *listed;

    snprintf(path, sizeof(path), "%s/sys/class/infiniband", sysroot);
    listed = opendir(path);
    while (listed && (item = readdir(listed))) {
        ssize_t length = readlinkat(dirfd(listed), item->d_name, link, sizeof(link) - 1);

        link[length > 0 ? length : 0] = '\0';
        if (item->d_name[0] != '.')
            sum += hash_text(hash_text(HASH_BEGIN, item->d_name), link);
    }
    if (listed)
        closedir(listed);
    return sum;
}

/* The name depends on the version, the sources and the RDMA devices: if a driver was loaded after
 * slurmd started, or udev has renamed a device, there is no matching file, and each step discovers
 * the node itself. */
void place_topology_path(const struct config *config, const char *node, char *path, size_t size)
{
    const char *sysroot = config->sysroot ? config->sysroot : "";
    uint64_t hash = hash_text(HASH_BEGIN, PACKAGE_VERSION);

    hash = hash_text(hash, config->topology ? config->topology : "");
    hash = hash_text(hash, sysroot) + hash_devices(sysroot);
    snprintf(path, size, "%s/%.255s-%016" PRIx64 ".topology",
             config->rundir ? config->rundir : "/run/spank_megatron", node, hash);
}

struct topology *place_discover(const struct config *config, struct error *err)
{
    return config->topology ? topology_load(config->topology, err) : topology_discover(err);
}

static bool is_of_root(int fd, mode_t type)
{
    struct stat status;

    return fstat(fd, &status) == 0 && (status.st_mode & S_IFMT) == type && status.st_uid == 0 &&
           !(status.st_mode & 022);
}

/* slurmd's file, if it exists and only root could have written it. */
static struct topology *load_exported(const char *path)
{
    struct topology *topology = NULL;
    char directory[4096], opened[32];
    int at, fd = -1;
    char *slash;

    snprintf(directory, sizeof(directory), "%s", path);
    slash = strrchr(directory, '/');
    if (!slash)
        return NULL;
    *slash = '\0';
    at = open(directory, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (at >= 0 && is_of_root(at, S_IFDIR))
        fd = openat(at, slash + 1, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (fd >= 0 && is_of_root(fd, S_IFREG)) {
        snprintf(opened, sizeof(opened), "/proc/self/fd/%d", fd);
        topology = topology_load(opened, NULL);
    }
    if (fd >= 0)
        close(fd);
    if (at >= 0)
        close(at);
    return topology;
}

static struct topology *load_topology(const struct place_input *input, struct error *err)
{
    char path[4096];
    struct topology *topology;

    place_topology_path(input->config, input->node, path, sizeof(path));
    topology = load_exported(path);
    return topology ? topology : place_discover(input->config, err);
}

/* --- CPUs ----------------------------------------------------------------------------------- */

/* The CPUs that Slurm allocated to the step: those of its cgroup if Slurm uses one, otherwise those
 * of all its tasks together. */
static void allocated_cpus(const struct share *share, const struct place_input *input,
                           struct cpuset *cpus)
{
    cpuset_clear(cpus);
    for (uint32_t i = 0; i < share->tasks; i++)
        cpuset_unite(cpus, &share->task[i].found.cpus);
    if (!(input->overrides & (OVERRIDE_CPU_BIND | OVERRIDE_HINT))) {
        struct cpuset limit;

        if (cgroup_step_cpus(input->cgroup_root, &limit))
            cpuset_unite(cpus, &limit);
    }
}

/* --- results -------------------------------------------------------------------------------- */

/* Do NCCL and UCX use the device by its verbs name? That is the kernel's name, or rdma-core's,
 * which starts with rdma for EFA and with opa for Omni-Path. */
static bool is_verbs(const struct topology_device *nic)
{
    static const char *const begins[] = {"mlx", "roce", "ibp", "ibs", "ibo", "ibx"};

    for (size_t i = 0; i < sizeof(begins) / sizeof(begins[0]); i++)
        if (strncmp(nic->name, begins[i], strlen(begins[i])) == 0)
            return true;
    return false;
}

static void set_nics(const struct placement_task *task, struct share_result *result)
{
    for (size_t i = 0; i < task->nic_count; i++) {
        const struct topology_device *nic = task->nics[i];
        char name[32];

        list_text_add(result->nics, SHARE_LIST, ",", "%s", topology_device_name(nic, name));
        if (is_verbs(nic))
            list_text_add(result->ucx, SHARE_LIST, ",", "%s:1", nic->name);
        if (strncmp(nic->name, "cxi", 3) == 0)
            list_text_add(result->cxi, SHARE_LIST, ",", "%s", nic->name);
    }
}

/* CUDA shows a process only the first MIG instance of its list. */
static bool set_instance(const struct placement_task *task, struct share_result *result)
{
    const struct placement_gpu *first = task->gpus;

    if (task->gpu_count == 0 || !first->instance || strncmp(first->instance, "MIG-", 4) != 0)
        return false;
    strcpy(result->gpus, "0");
    pci_format(&first->pci, result->pci);
    snprintf(result->visible, sizeof(result->visible), "%s", first->instance);
    return true;
}

static void set_gpus(const struct node *node, const struct placement_task *task,
                     const struct share_found *found, bool own_list, struct share_result *result)
{
    size_t all[GPUS_MAX], own[GPUS_MAX];
    char pci[PCI_TEXT];

    for (size_t i = 0; i < task->gpu_count; i++) {
        const struct placement_gpu *gpu = &task->gpus[i];

        own[i] = gpu->position;
        /* CUDA's number of the GPU: its position in the task's list of visible GPUs. */
        list_text_add(result->gpus, SHARE_LIST, ",", "%d", own_list ? (int)i : gpu->number);
        list_text_add(result->pci, SHARE_LIST, ",", "%s", pci_format(&gpu->pci, pci));
    }
    for (size_t i = 0; i < node->gpus.count; i++)
        all[i] = i;
    if (own_list)
        gpus_visible(&node->gpus, found, own, task->gpu_count, result->visible);
    else
        gpus_visible(&node->gpus, found, all, node->gpus.count, result->visible);
}

static void set_task(const struct node *node, const struct placement_task *task,
                     const struct share_found *found, bool own_list, struct share_result *result)
{
    memset(result, 0, sizeof(*result));
    if (!set_instance(task, result))
        set_gpus(node, task, found, own_list, result);
    set_nics(task, result);
    result->cpus = task->cpus;
    result->bind = task->bound;
    for (size_t i = 0; i < task->numa_count; i++)
        if (task->numa[i] >= 0 && task->numa[i] < SHARE_NUMA_MAX)
            result->numa[task->numa[i] / 64] |= (uint64_t)1 << task->numa[i] % 64;
    result->bind_memory =
        task->bound && task->numa_count > 0 && task->numa_count < node->topology->numa_count;
}

static void set_node(const struct placement *placement, struct share *share)
{
    for (size_t i = 0; i < placement->nic_count; i++) {
        const struct topology_device *nic = placement->nics[i];

        if (is_verbs(nic))
            list_text_add(share->nccl, SHARE_LIST, ",", "%s%s", share->nccl[0] ? "" : "=",
                          nic->name);
        share->efa |= nic->vendor == 0x1d0f;
    }
}

/* --- all together --------------------------------------------------------------------------- */

static const char *bind_policy(const struct place_input *input)
{
    return input->config->off & PART_BIND ? "none" : input->settings->bind;
}

struct overrides {
    struct placement_override *override;
    size_t (*positions)[GPUS_MAX];
};

/* Apply what the user chose for individual tasks with Slurm's own options. Returns 0 or -1. */
static int make_overrides(struct node *node, const struct share *share,
                          const struct place_input *input, struct overrides *overrides,
                          bool *own_lists, struct error *err)
{
    /* Without binding, each task keeps the CPUs that Slurm gave it. */
    bool cpus = input->overrides & (OVERRIDE_CPU_BIND | OVERRIDE_HINT) ||
                strcmp(bind_policy(input), "none") == 0;

    *own_lists = false;
    overrides->override = calloc(share->tasks, sizeof(*overrides->override));
    overrides->positions = calloc(share->tasks, sizeof(*overrides->positions));
    if (!overrides->override || !overrides->positions)
        return error_set(err, "out of memory");
    for (uint32_t i = 0; i < share->tasks; i++) {
        const struct share_found *found = &share->task[i].found;
        struct placement_override *override = &overrides->override[i];

        override->cpus = cpus ? &found->cpus : NULL;
        override->gpu_count = gpus_of_task(&node->gpus, found, overrides->positions[i]);
        *own_lists |= override->gpu_count != node->gpus.count && gpus_has_list(found);
    }
    for (uint32_t i = 0; i < share->tasks && *own_lists; i++)
        overrides->override[i].gpus = overrides->positions[i];
    if (cpus || *own_lists)
        return 0;
    free(overrides->override);
    overrides->override = NULL;
    return 0;
}

int place_tasks(struct share *share, const struct place_input *input, struct place_notes *notes,
                struct error *err)
{
    struct node *node = calloc(1, sizeof(*node));
    struct overrides overrides = {NULL, NULL};
    struct placement *placement = NULL;
    struct cpuset cpus;
    bool own_lists;
    int rc = -1;

    if (!node)
        return error_set(err, "out of memory");
    node->topology = load_topology(input, err);
    if (!node->topology)
        goto out;
    allocated_cpus(share, input, &cpus);
    gpus_find(&node->gpus, node->topology, input->config->sysroot ? input->config->sysroot : "",
              share, input->gpus_on_node, notes);
    if (make_overrides(node, share, input, &overrides, &own_lists, err))
        goto out;
    struct placement_request request = {
        .tasks = share->tasks,
        .bind = bind_policy(input),
        .bind_is_default = !input->settings->given[OPTION_BIND],
        .nics = input->config->off & PART_NICS ? "none" : input->settings->nics,
        .cpus = &cpus,
        .gpus = node->gpus.request,
        .gpu_count = node->gpus.count,
        .overrides = overrides.override,
    };

    placement = placement_create(node->topology, &request, err);
    if (!placement)
        goto out;
    for (uint32_t i = 0; i < share->tasks; i++)
        set_task(node, &placement->tasks[i], &share->task[i].found, own_lists,
                 &share->task[i].result);
    set_node(placement, share);
    gpus_names(&node->gpus, share->gpus);
    for (size_t i = 0; i < placement->warning_count; i++)
        place_say(notes->text, "%s\n", placement->warnings[i]);
    if (input->overrides & (OVERRIDE_CPU_BIND | OVERRIDE_HINT))
        place_say(notes->text, "CPUs are bound as --cpu-bind or --hint asks\n");
    if (own_lists)
        place_say(notes->text, "GPUs are used as Slurm assigned them to each task\n");
    rc = 0;
out:
    placement_destroy(placement);
    free(overrides.override);
    free(overrides.positions);
    topology_destroy(node->topology);
    gpus_clear(&node->gpus);
    free(node);
    return rc;
}
