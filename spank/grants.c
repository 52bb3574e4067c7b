#include "grants.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "place.h"

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

bool grants_has_list(const struct share_found *found)
{
    return gpu_list(found)[0] || found->confined;
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

/* Can the task open more GPUs than Slurm, or the user, chose for it? Then nothing says which ones
 * these are: its numbers may be those of files, or count what can be opened. */
static bool is_uncertain(const struct share_found *found)
{
    const char *wanted = found->gpus[0] ? found->gpus : found->visible;

    return found->confined && gpu_list(found) == found->reach && wanted[0] &&
           count_words(wanted) < count_words(found->reach);
}

static struct granted *find_granted(struct grants *grants, const char *word)
{
    for (size_t i = 0; i < grants->count; i++) {
        struct granted *granted = &grants->granted[i];

        if (granted->name[0] ? strcmp(granted->name, word) == 0
                             : is_number(word) && atoi(word) == granted->slurm)
            return granted;
    }
    return NULL;
}

static const struct node_gpu *gpu_by_minor(const struct grants *grants, int minor)
{
    for (size_t i = 0; i < grants->driver_count; i++)
        if (grants->driver[i].minor == minor)
            return &grants->driver[i];
    return NULL;
}

/* By "GPU-..." (or its beginning, as CUDA takes it) or "MIG-GPU-.../G/C". */
static const struct node_gpu *gpu_by_uuid(const struct grants *grants, const char *uuid)
{
    size_t length;

    if (strncmp(uuid, "MIG-GPU-", 8) == 0)
        uuid += 4;
    length = strcspn(uuid, "/");
    for (size_t i = 0; i < grants->driver_count && length > 4; i++)
        if (strncmp(grants->driver[i].uuid, uuid, length) == 0)
            return &grants->driver[i];
    return NULL;
}

/* Find a word's GPU by the driver. CUDA_VISIBLE_DEVICES without Slurm's list is the user's own, and
 * counts in PCI order. */
static int identify(struct grants *grants, const char *word, const struct share_found *found,
                    struct granted *granted)
{
    bool by_minor = gpu_list(found) != found->visible;
    const struct node_gpu *gpu;
    const struct topology_device *device;

    if (!is_number(word)) {
        gpu = gpu_by_uuid(grants, word);
        /* "MIG-<UUID of its own>" does not name the GPU; where only one is open, it is that. */
        if (!gpu && strncmp(word, "MIG-", 4) == 0 && found->confined && is_number(found->reach))
            gpu = gpu_by_minor(grants, atoi(found->reach));
    } else {
        granted->slurm = atoi(word);
        if (!by_minor) {
            device = topology_gpu(grants->topology, (size_t)granted->slurm);
            if (!device)
                return -1;
            granted->grant.pci = device->pci;
            return 0;
        }
        gpu = gpu_by_minor(grants, granted->slurm);
    }
    if (!gpu || topology_gpu_index(grants->topology, &gpu->pci) < 0)
        return -1;
    granted->grant.pci = gpu->pci;
    return 0;
}

/* Add the GPUs of one task. Returns 0, or -1 with the word that means nothing to the driver. */
static int add_gpus(struct grants *grants, const struct share_found *found, char unknown[64])
{
    char copy[SHARE_LIST], *rest = copy, *word;

    strcpy(copy, gpu_list(found));
    while ((word = strsep(&rest, ","))) {
        struct granted granted = {.slurm = -1};

        if (!word[0] || find_granted(grants, word))
            continue;
        snprintf(unknown, 64, "%.60s", word);
        if (grants->count == GRANTS_MAX)
            return -1;
        if (!is_number(word) &&
            snprintf(granted.name, sizeof(granted.name), "%s", word) >= (int)sizeof(granted.name))
            return -1;
        if (identify(grants, word, found, &granted))
            return -1;
        grants->granted[grants->count++] = granted;
    }
    return 0;
}

static int compare_granted(const void *a, const void *b)
{
    const struct granted *x = a, *y = b;

    return pci_compare(&x->grant.pci, &y->grant.pci);
}

size_t grants_count(const struct share *share, int64_t gpus_on_node)
{
    /* Numbers and names, counted once each: no driver is needed for that. */
    char seen[GRANTS_MAX][48];
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
            if (word[0] && known == count && count < GRANTS_MAX)
                snprintf(seen[count++], sizeof(seen[0]), "%s", word);
        }
    }
    return count > 0 ? count : (size_t)(gpus_on_node > 0 ? gpus_on_node : 0);
}

/* Say why the GPUs of Slurm's list are not used. On a node without driver and GPUs, as in tests,
 * that is no news. */
static void say_unknown(const struct grants *grants, const char *word, struct place_notes *notes)
{
    bool mig = strncmp(word, "MIG-", 4) == 0;
    bool news = mig || grants->driver_count > 0 || grants->topology->gpu_count > 0;

    place_say(news ? notes->warnings : notes->text,
              mig ? "%s does not say on which GPU it is, and more than one can be opened: placed "
                    "without GPUs\n"
                  : "GPU %s of Slurm's list is not known to the driver: placed without GPUs\n",
              word);
}

/* With --gpu-bind=none Slurm names none, and all of the step's are within reach. */
static void grant_unnamed(struct grants *grants, int64_t gpus_on_node, struct place_notes *notes)
{
    size_t count = grants->topology->gpu_count;

    if ((size_t)gpus_on_node != count || count > GRANTS_MAX) {
        place_say(count > 0 ? notes->warnings : notes->text,
                  "Slurm does not say which %" PRId64 " GPUs the step has: placed without\n",
                  gpus_on_node);
        return;
    }
    for (size_t i = 0; i < count; i++) {
        grants->granted[i].slurm = -1;
        grants->granted[i].grant.pci = topology_gpu(grants->topology, i)->pci;
    }
    grants->count = count;
}

void grants_find(struct grants *grants, const struct topology *topology, const char *sysroot,
                 const struct share *share, int64_t gpus_on_node, struct place_notes *notes)
{
    char unknown[64];
    struct error err;
    bool bad = false, confined = false;

    memset(grants, 0, sizeof(*grants));
    grants->topology = topology;
    if (node_gpus(sysroot, &grants->driver, &grants->driver_count, &err))
        place_say(notes->warnings, "%s\n", err.text);
    for (uint32_t i = 0; i < share->tasks && !bad; i++) {
        const struct share_found *found = &share->task[i].found;

        confined |= found->confined;
        bad = is_uncertain(found);
        if (bad)
            place_say(
                notes->warnings,
                "task %u can open the GPUs %s, and which of them the list %s means is not certain: "
                "placed without GPUs\n",
                i, found->reach, found->gpus[0] ? found->gpus : found->visible);
        else if ((bad = add_gpus(grants, found, unknown) != 0))
            say_unknown(grants, unknown, notes);
    }
    if (bad)
        grants->count = 0;
    else if (grants->count == 0 && gpus_on_node > 0 && !confined)
        grant_unnamed(grants, gpus_on_node, notes);
    qsort(grants->granted, grants->count, sizeof(grants->granted[0]), compare_granted);
    for (size_t i = 0; i < grants->count; i++) {
        grants->grants[i] = grants->granted[i].grant;
        if (grants->granted[i].name[0])
            grants->grants[i].instance = grants->granted[i].name;
    }
}

static int compare_positions(const void *a, const void *b)
{
    const size_t *x = a, *y = b;

    return (*x > *y) - (*x < *y);
}

size_t grants_of_task(struct grants *grants, const struct share_found *found, size_t *positions)
{
    char copy[SHARE_LIST], *rest = copy, *word;
    size_t count = 0;

    strcpy(copy, gpu_list(found));
    while ((word = strsep(&rest, ","))) {
        struct granted *granted = word[0] ? find_granted(grants, word) : NULL;

        if (granted && count < GRANTS_MAX)
            positions[count++] = (size_t)(granted - grants->granted);
    }
    if (is_numbers(gpu_list(found)) && others_hidden(found))
        qsort(positions, count, sizeof(*positions), compare_positions);
    return count;
}

/* Slurm writes numbers of device files, or counts from 0 where a cgroup hides the others; the
 * driver's numbers are neither where files are not in PCI order. */
void grants_visible(const struct grants *grants, const struct share_found *found,
                    const size_t *positions, size_t count, char visible[SHARE_LIST])
{
    bool hidden = others_hidden(found);
    bool plain = true;

    visible[0] = '\0';
    if (!is_numbers(found->visible))
        return;
    for (size_t i = 0; i < count; i++)
        plain &= topology_gpu_index(grants->topology, &grants->grants[positions[i]].pci) == (int)i;
    if (!hidden && !plain) {
        /* Both readings are possible where the numbers are 0 to count-1: names leave no doubt. */
        char zero[SHARE_LIST] = "";
        bool names = true;

        for (size_t i = 0; i < count; i++)
            share_list_add(zero, "%zu", i);
        if (strcmp(zero, found->visible) == 0) {
            for (size_t i = 0; i < count; i++) {
                const struct node_gpu *gpu =
                    gpu_by_minor(grants, grants->granted[positions[i]].slurm);

                names &= gpu && gpu->uuid[0];
                if (names)
                    share_list_add(visible, "%s", gpu->uuid);
            }
            if (!names)
                visible[0] = '\0';
            return;
        }
    }
    for (size_t i = 0; i < count; i++)
        share_list_add(
            visible, "%d",
            hidden ? (int)i
                   : topology_gpu_index(grants->topology, &grants->grants[positions[i]].pci));
}

void grants_names(const struct grants *grants, char names[SHARE_LIST])
{
    names[0] = '\0';
    for (size_t i = 0; i < grants->count; i++) {
        const struct granted *granted = &grants->granted[i];
        const char *uuid = granted->name;

        for (size_t k = 0; k < grants->driver_count && !uuid[0]; k++)
            if (pci_compare(&grants->driver[k].pci, &granted->grant.pci) == 0)
                uuid = grants->driver[k].uuid;
        if (uuid[0])
            share_list_add(names, "%s", uuid);
        else
            share_list_add(names, "%d", topology_gpu_index(grants->topology, &granted->grant.pci));
    }
}

void grants_clear(struct grants *grants)
{
    free(grants->driver);
    memset(grants, 0, sizeof(*grants));
}
