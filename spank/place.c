#include "place.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "cgroup.h"
#include "node.h"
#include "parse.h"
#include "placement.h"
#include "request.h"
#include "topology.h"

enum { GPUS_MAX = 256 };

/* A GPU (or MIG instance) that the step has on this node. */
struct granted {
    int slurm;     /* Slurm's number; -1 where it has none */
    char name[96]; /* its word in CUDA_VISIBLE_DEVICES where that is no number, or "" */
    struct placement_grant grant;
};

struct node {
    struct topology *topology;
    struct node_gpu *driver; /* by the word of NVIDIA's driver */
    size_t driver_count;
    struct granted granted[GPUS_MAX];
    struct placement_grant grants[GPUS_MAX];
    size_t granted_count;
};

/* Add a line to one of the notes. */
__attribute__((format(printf, 2, 3))) static void say(char notes[PLACE_NOTES], const char *format,
                                                      ...)
{
    size_t used = strlen(notes);
    va_list args;

    va_start(args, format);
    vsnprintf(notes + used, PLACE_NOTES - used, format, args);
    va_end(args);
}

/* --- topology ------------------------------------------------------------------------------- */

void place_topology_path(const struct config *config, const char *node, char *path, size_t size)
{
    uint64_t hash = 14695981039346656037u; /* FNV-1a: slurmds with other sources get other files */
    const char *words[] = {config->topology ? config->topology : "",
                           config->sysroot ? config->sysroot : ""};

    for (size_t i = 0; i < 2; i++)
        for (const char *c = words[i]; *c; c++)
            hash = (hash ^ (unsigned char)*c) * 1099511628211u;
    snprintf(path, size, "%s/%.255s-%016" PRIx64 ".topology",
             config->rundir ? config->rundir : "/run/spank_megatron", node, hash);
}

struct topology *place_discover(const struct config *config, struct error *err)
{
    return config->topology ? topology_load(config->topology, err) : topology_discover(err);
}

/* slurmd's file, if it is there and nobody but root can have written it. */
static struct topology *load_exported(const char *path)
{
    char directory[4096];
    struct stat status;
    char *slash;

    snprintf(directory, sizeof(directory), "%s", path);
    slash = strrchr(directory, '/');
    if (!slash)
        return NULL;
    *slash = '\0';
    if (lstat(directory, &status) || !S_ISDIR(status.st_mode) || status.st_uid != 0 ||
        status.st_mode & 022)
        return NULL;
    if (lstat(path, &status) || !S_ISREG(status.st_mode) || status.st_uid != 0 ||
        status.st_mode & 022)
        return NULL;
    return topology_load(path, NULL);
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

/* Granted is what the step's cgroup allows, where Slurm uses it; else what the tasks got together.
 */
static void granted_cpus(const struct share *share, const struct place_input *input,
                         struct cpuset *cpus)
{
    cpuset_clear(cpus);
    for (uint32_t i = 0; i < share->tasks; i++)
        cpuset_unite(cpus, &share->task[i].found.cpus);
    if (!(input->wishes & (WISH_CPU_BIND | WISH_HINT))) {
        struct cpuset limit;

        if (cgroup_step_cpus(input->cgroup_root, &limit))
            cpuset_unite(cpus, &limit);
    }
}

/* --- GPUs ----------------------------------------------------------------------------------- */

static bool is_number(const char *text)
{
    return text[0] && text[strspn(text, "0123456789")] == '\0' && strlen(text) < 6;
}

/* Is every word of the list a number? */
static bool is_numbers(const char *list)
{
    return list[0] && list[strspn(list, "0123456789,")] == '\0';
}

/* The list that names the GPUs of a task: what is in CUDA_VISIBLE_DEVICES where that has names, as
 * MIG instances do; the files that a device cgroup leaves to it, since Slurm (22.05 does) then
 * counts from 0 in its own list too; else Slurm's numbers; else the user's. */
static const char *gpu_list(const struct share_found *found)
{
    if (found->visible[0] && !is_numbers(found->visible))
        return found->visible;
    if (found->confined)
        return found->reach;
    return found->gpus[0] ? found->gpus : found->visible;
}

/* Are the GPUs of others out of CUDA's sight, so that it counts the task's own from 0? */
static bool others_hidden(const struct share_found *found)
{
    return found->confined || (found->gpus[0] && strcmp(found->gpus, found->visible) != 0);
}

static size_t count_words(const char *list)
{
    size_t count = list[0] != '\0';

    for (; *list; list++)
        count += *list == ',';
    return count;
}

/* Can the task open more GPUs than Slurm chose for it? Then nothing says which ones these are: its
 * numbers may be those of files, or count what can be opened. */
static bool is_uncertain(const struct share_found *found)
{
    return found->confined && gpu_list(found) == found->reach && found->gpus[0] &&
           count_words(found->gpus) < count_words(found->reach);
}

static struct granted *find_granted(struct node *node, const char *word)
{
    for (size_t i = 0; i < node->granted_count; i++) {
        struct granted *granted = &node->granted[i];

        if (granted->name[0] ? strcmp(granted->name, word) == 0
                             : is_number(word) && atoi(word) == granted->slurm)
            return granted;
    }
    return NULL;
}

static const struct node_gpu *gpu_by_minor(const struct node *node, int minor)
{
    for (size_t i = 0; i < node->driver_count; i++)
        if (node->driver[i].minor == minor)
            return &node->driver[i];
    return NULL;
}

/* By "GPU-..." (or its beginning, as CUDA takes it) or "MIG-GPU-.../G/C". */
static const struct node_gpu *gpu_by_uuid(const struct node *node, const char *uuid)
{
    size_t length;

    if (strncmp(uuid, "MIG-GPU-", 8) == 0)
        uuid += 4;
    length = strcspn(uuid, "/");
    for (size_t i = 0; i < node->driver_count && length > 4; i++)
        if (strncmp(node->driver[i].uuid, uuid, length) == 0)
            return &node->driver[i];
    return NULL;
}

/* Find a word's GPU by the driver. CUDA_VISIBLE_DEVICES without Slurm's list is the user's own, and
 * counts in PCI order. */
static int identify(struct node *node, const char *word, const struct share_found *found,
                    struct granted *granted)
{
    bool by_minor = gpu_list(found) != found->visible;
    const struct node_gpu *gpu;
    const struct topology_device *device;

    if (!is_number(word)) {
        gpu = gpu_by_uuid(node, word);
        /* "MIG-<UUID of its own>" does not name the GPU; where only one is open, it is that. */
        if (!gpu && strncmp(word, "MIG-", 4) == 0 && found->confined && is_number(found->reach))
            gpu = gpu_by_minor(node, atoi(found->reach));
    } else {
        granted->slurm = atoi(word);
        if (!by_minor) {
            device = topology_gpu(node->topology, (size_t)granted->slurm);
            if (!device)
                return -1;
            granted->grant.pci = device->pci;
            return 0;
        }
        gpu = gpu_by_minor(node, granted->slurm);
    }
    if (!gpu || topology_gpu_index(node->topology, &gpu->pci) < 0)
        return -1;
    granted->grant.pci = gpu->pci;
    return 0;
}

/* Add the GPUs of one task. Returns 0, or -1 with the word that means nothing to the driver. */
static int add_gpus(struct node *node, const struct share_found *found, char unknown[64])
{
    char copy[SHARE_LIST], *rest = copy, *word;

    strcpy(copy, gpu_list(found));
    while ((word = strsep(&rest, ","))) {
        struct granted granted = {.slurm = -1};

        if (!word[0] || find_granted(node, word))
            continue;
        snprintf(unknown, 64, "%.60s", word);
        if (node->granted_count == GPUS_MAX)
            return -1;
        if (!is_number(word) &&
            snprintf(granted.name, sizeof(granted.name), "%s", word) >= (int)sizeof(granted.name))
            return -1;
        if (identify(node, word, found, &granted))
            return -1;
        node->granted[node->granted_count++] = granted;
    }
    return 0;
}

static int compare_granted(const void *a, const void *b)
{
    const struct granted *x = a, *y = b;

    return pci_compare(&x->grant.pci, &y->grant.pci);
}

size_t place_granted_gpus(const struct share *share, const struct place_input *input)
{
    /* Numbers and names, counted once each: no driver is needed for that. */
    char seen[GPUS_MAX][48];
    size_t count = 0;

    for (uint32_t i = 0; i < share->tasks; i++) {
        char copy[SHARE_LIST], *rest = copy, *word;

        /* A list that the user exported is no grant. */
        if (!share->task[i].found.gpus[0] && !share->task[i].found.confined)
            continue;
        strcpy(copy, gpu_list(&share->task[i].found));
        while ((word = strsep(&rest, ","))) {
            size_t known = 0;

            while (known < count && strncmp(seen[known], word, 47) != 0)
                known++;
            if (word[0] && known == count && count < GPUS_MAX)
                snprintf(seen[count++], sizeof(seen[0]), "%s", word);
        }
    }
    return count > 0 ? count : (size_t)(input->gpus_on_node > 0 ? input->gpus_on_node : 0);
}

/* Say why the GPUs of Slurm's list are not used. On a node without driver and GPUs, as in tests,
 * that is no news. */
static void say_unknown(const struct node *node, const char *word, struct place_notes *notes)
{
    bool mig = strncmp(word, "MIG-", 4) == 0;
    bool news = mig || node->driver_count > 0 || node->topology->gpu_count > 0;

    say(news ? notes->warnings : notes->text,
        mig ? "%s does not say on which GPU it is, and more than one can be opened: placed "
              "without GPUs\n"
            : "GPU %s of Slurm's list is not known to the driver: placed without GPUs\n",
        word);
}

/* With --gpu-bind=none Slurm names none, and all of the step's are within reach. */
static void grant_unnamed(struct node *node, const struct place_input *input,
                          struct place_notes *notes)
{
    size_t count = node->topology->gpu_count;

    if ((size_t)input->gpus_on_node != count || count > GPUS_MAX) {
        say(count > 0 ? notes->warnings : notes->text,
            "Slurm does not say which %" PRId64 " GPUs the step has: placed without\n",
            input->gpus_on_node);
        return;
    }
    for (size_t i = 0; i < count; i++) {
        node->granted[i].slurm = -1;
        node->granted[i].grant.pci = topology_gpu(node->topology, i)->pci;
    }
    node->granted_count = count;
}

/* All GPUs of the step on this node, in PCI order. */
static void granted_gpus(struct node *node, const struct share *share,
                         const struct place_input *input, struct place_notes *notes)
{
    char unknown[64];
    struct error err;
    bool bad = false, confined = false;

    if (node_gpus(input->config->sysroot ? input->config->sysroot : "", &node->driver,
                  &node->driver_count, &err))
        say(notes->warnings, "%s\n", err.text);
    for (uint32_t i = 0; i < share->tasks && !bad; i++) {
        const struct share_found *found = &share->task[i].found;

        confined |= found->confined;
        bad = is_uncertain(found);
        if (bad)
            say(notes->warnings,
                "task %u can open the GPUs %s, and which of them Slurm's %s means is not certain: "
                "placed without GPUs\n",
                i, found->reach, found->gpus);
        else if ((bad = add_gpus(node, found, unknown) != 0))
            say_unknown(node, unknown, notes);
    }
    if (bad)
        node->granted_count = 0;
    else if (node->granted_count == 0 && input->gpus_on_node > 0 && !confined)
        grant_unnamed(node, input, notes);
    qsort(node->granted, node->granted_count, sizeof(node->granted[0]), compare_granted);
    for (size_t i = 0; i < node->granted_count; i++) {
        node->grants[i] = node->granted[i].grant;
        if (node->granted[i].name[0])
            node->grants[i].instance = node->granted[i].name;
    }
}

static int compare_positions(const void *a, const void *b)
{
    const size_t *x = a, *y = b;

    return (*x > *y) - (*x < *y);
}

/* The task's own GPUs as positions among the granted, in the order of its list; in PCI order, which
 * is CUDA's, where the numbers of that list are not CUDA's. */
static size_t own_gpus(struct node *node, const struct share_found *found, size_t *positions)
{
    char copy[SHARE_LIST], *rest = copy, *word;
    size_t count = 0;

    strcpy(copy, gpu_list(found));
    while ((word = strsep(&rest, ","))) {
        struct granted *granted = word[0] ? find_granted(node, word) : NULL;

        if (granted && count < GPUS_MAX)
            positions[count++] = (size_t)(granted - node->granted);
    }
    if (is_numbers(gpu_list(found)) && others_hidden(found))
        qsort(positions, count, sizeof(*positions), compare_positions);
    return count;
}

/* --- results -------------------------------------------------------------------------------- */

__attribute__((format(printf, 2, 3))) static void add_word(char list[SHARE_LIST],
                                                           const char *format, ...)
{
    char word[128];
    size_t used = strlen(list);
    va_list args;

    va_start(args, format);
    vsnprintf(word, sizeof(word), format, args);
    va_end(args);
    if (used + strlen(word) + 2 <= SHARE_LIST)
        snprintf(list + used, SHARE_LIST - used, "%s%s", used ? "," : "", word);
}

/* CUDA_VISIBLE_DEVICES such that CUDA, in PCI order, sees just the 'count' granted ones at
 * 'positions', in that order. Slurm writes numbers of device files, or counts from 0 where a cgroup
 * hides the others; the driver's numbers are neither where files are not in PCI order. */
static void set_visible(const struct node *node, const struct share_found *found,
                        const size_t *positions, size_t count, char visible[SHARE_LIST])
{
    bool hidden = others_hidden(found);
    bool plain = true;

    visible[0] = '\0';
    if (!is_numbers(found->visible))
        return;
    for (size_t i = 0; i < count; i++)
        plain &= topology_gpu_index(node->topology, &node->grants[positions[i]].pci) == (int)i;
    if (!hidden && !plain) {
        /* Both readings are possible where the numbers are 0 to count-1: names leave no doubt. */
        char zero[SHARE_LIST] = "";
        bool names = true;

        for (size_t i = 0; i < count; i++)
            add_word(zero, "%zu", i);
        if (strcmp(zero, found->visible) == 0) {
            for (size_t i = 0; i < count; i++) {
                const struct node_gpu *gpu = gpu_by_minor(node, node->granted[positions[i]].slurm);

                names &= gpu && gpu->uuid[0];
                if (names)
                    add_word(visible, "%s", gpu->uuid);
            }
            if (!names)
                visible[0] = '\0';
            return;
        }
    }
    for (size_t i = 0; i < count; i++)
        add_word(visible, "%d",
                 hidden ? (int)i
                        : topology_gpu_index(node->topology, &node->grants[positions[i]].pci));
}

static void set_nics(const struct placement_task *task, struct share_result *result)
{
    for (size_t i = 0; i < task->nic_count; i++) {
        const struct topology_device *nic = task->nics[i];
        char name[32];

        add_word(result->nics, "%s", topology_device_name(nic, name));
        if (strncmp(nic->name, "mlx", 3) == 0)
            add_word(result->ucx, "%s:1", nic->name);
        if (strncmp(nic->name, "cxi", 3) == 0)
            add_word(result->cxi, "%s", nic->name);
    }
}

static void set_task(const struct node *node, const struct placement_task *task,
                     const struct share_found *found, bool own_list, struct share_result *result)
{
    size_t all[GPUS_MAX], own[GPUS_MAX];
    char pci[PCI_TEXT];

    memset(result, 0, sizeof(*result));
    for (size_t i = 0; i < task->gpu_count; i++) {
        const struct placement_gpu *gpu = &task->gpus[i];

        own[i] = gpu->grant;
        /* The number that CUDA gives it: its place in the task's list of visible ones. */
        add_word(result->gpus, "%d", own_list ? (int)i : gpu->number);
        add_word(result->pci, "%s", pci_format(&gpu->pci, pci));
    }
    for (size_t i = 0; i < node->granted_count; i++)
        all[i] = i;
    if (own_list)
        set_visible(node, found, own, task->gpu_count, result->visible);
    else
        set_visible(node, found, all, node->granted_count, result->visible);
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

        if (strncmp(nic->name, "mlx", 3) == 0)
            add_word(share->nccl, "%s%s", share->nccl[0] ? "" : "=", nic->name);
        share->efa |= nic->vendor == 0x1d0f;
    }
}

/* --- all together --------------------------------------------------------------------------- */

static const char *bind_policy(const struct place_input *input)
{
    return input->config->off & PART_BIND ? "none" : input->settings->bind;
}

struct wishes {
    struct placement_wish *wish;
    size_t (*positions)[GPUS_MAX];
};

/* What was chosen for single tasks by Slurm's own options. Returns 0 or -1. */
static int make_wishes(struct node *node, const struct share *share,
                       const struct place_input *input, struct wishes *wishes, bool *own_lists,
                       struct error *err)
{
    /* Where nothing is bound each task keeps what Slurm gave it. */
    bool cpus =
        input->wishes & (WISH_CPU_BIND | WISH_HINT) || strcmp(bind_policy(input), "none") == 0;

    *own_lists = false;
    wishes->wish = calloc(share->tasks, sizeof(*wishes->wish));
    wishes->positions = calloc(share->tasks, sizeof(*wishes->positions));
    if (!wishes->wish || !wishes->positions)
        return error_set(err, "out of memory");
    for (uint32_t i = 0; i < share->tasks; i++) {
        const struct share_found *found = &share->task[i].found;
        struct placement_wish *wish = &wishes->wish[i];

        wish->cpus = cpus ? &found->cpus : NULL;
        wish->gpu_count = own_gpus(node, found, wishes->positions[i]);
        *own_lists |=
            wish->gpu_count != node->granted_count && (gpu_list(found)[0] || found->confined);
    }
    for (uint32_t i = 0; i < share->tasks && *own_lists; i++)
        wishes->wish[i].gpus = wishes->positions[i];
    if (cpus || *own_lists)
        return 0;
    free(wishes->wish);
    wishes->wish = NULL;
    return 0;
}

int place_tasks(struct share *share, const struct place_input *input, struct place_notes *notes,
                struct error *err)
{
    struct node *node = calloc(1, sizeof(*node));
    struct wishes wishes = {NULL, NULL};
    struct placement *placement = NULL;
    struct cpuset cpus;
    bool own_lists;
    int rc = -1;

    if (!node)
        return error_set(err, "out of memory");
    node->topology = load_topology(input, err);
    if (!node->topology)
        goto out;
    granted_cpus(share, input, &cpus);
    granted_gpus(node, share, input, notes);
    if (make_wishes(node, share, input, &wishes, &own_lists, err))
        goto out;
    struct placement_request request = {
        .tasks = share->tasks,
        .bind = bind_policy(input),
        .nics = input->config->off & PART_NICS ? "none" : input->settings->nics,
        .cpus = &cpus,
        .gpus = node->grants,
        .gpu_count = node->granted_count,
        .wishes = wishes.wish,
    };

    placement = placement_create(node->topology, &request, err);
    if (!placement)
        goto out;
    for (uint32_t i = 0; i < share->tasks; i++)
        set_task(node, &placement->tasks[i], &share->task[i].found, own_lists,
                 &share->task[i].result);
    set_node(placement, share);
    for (size_t i = 0; i < placement->warning_count; i++)
        say(notes->text, "%s\n", placement->warnings[i]);
    if (input->wishes & (WISH_CPU_BIND | WISH_HINT))
        say(notes->text, "CPUs are left as --cpu-bind or --hint chose them\n");
    if (own_lists)
        say(notes->text, "GPUs are left as Slurm gave them to single tasks\n");
    rc = 0;
out:
    placement_destroy(placement);
    free(wishes.wish);
    free(wishes.positions);
    topology_destroy(node->topology);
    free(node->driver);
    free(node);
    return rc;
}
