/* SPDX-License-Identifier: Apache-2.0 */
#include "gpus.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "place.h"
#include "lib/parse.h"

static bool is_number(const char *text)
{
    return text[0] && text[strspn(text, "0123456789")] == '\0' && strlen(text) < 6;
}

/* Is every word of the list a number? */
static bool is_numbers(const char *list)
{
    return list[0] && list[strspn(list, "0123456789,")] == '\0';
}

/* The list that names the GPUs of a task, the first that applies:
 *
 *     CUDA_VISIBLE_DEVICES has names (MIG instances, UUIDs)   that list
 *     a device cgroup hides GPUs from the task                the device files that it can open
 *                                                             (Slurm's list then counts from 0)
 *     Slurm lists GPUs (SLURM_STEP_GPUS)                      Slurm's numbers
 *     otherwise                                               the user's CUDA_VISIBLE_DEVICES */
static const char *gpu_list(const struct share_found *found)
{
    if (found->visible[0] && !is_numbers(found->visible))
        return found->visible;
    if (found->confined)
        return found->reach;
    return found->gpus[0] ? found->gpus : found->visible;
}

bool gpus_has_list(const struct share_found *found)
{
    return gpu_list(found)[0] || found->confined;
}

/* Are the GPUs of other tasks hidden from CUDA, so that it numbers the task's own from 0? */
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

/* Can the task open more GPUs than Slurm or the user chose for it? Then its numbers are ambiguous:
 * they may be device file numbers, or positions among the files that it can open. */
static bool is_uncertain(const struct share_found *found)
{
    const char *wanted = found->gpus[0] ? found->gpus : found->visible;

    return found->confined && gpu_list(found) == found->reach && wanted[0] &&
           count_words(wanted) < count_words(found->reach);
}

static struct step_gpu *find_allocated(struct gpus *gpus, const char *word)
{
    for (size_t i = 0; i < gpus->count; i++) {
        struct step_gpu *allocated = &gpus->items[i];

        if (allocated->name[0] ? strcmp(allocated->name, word) == 0
                               : is_number(word) && atoi(word) == allocated->slurm)
            return allocated;
    }
    return NULL;
}

static const struct node_gpu *gpu_by_minor(const struct gpus *gpus, int minor)
{
    for (size_t i = 0; i < gpus->driver_count; i++)
        if (gpus->driver[i].minor == minor)
            return &gpus->driver[i];
    return NULL;
}

/* Match "GPU-..." (or a prefix, as CUDA accepts it) or "MIG-GPU-.../G/C". */
static const struct node_gpu *gpu_by_uuid(const struct gpus *gpus, const char *uuid)
{
    size_t length;

    if (strncmp(uuid, "MIG-GPU-", 8) == 0)
        uuid += 4;
    length = strcspn(uuid, "/");
    for (size_t i = 0; i < gpus->driver_count && length > 4; i++)
        if (strncmp(gpus->driver[i].uuid, uuid, length) == 0)
            return &gpus->driver[i];
    return NULL;
}

/* Find the GPU that a word of the list refers to. Without Slurm's list, CUDA_VISIBLE_DEVICES is the
 * user's, and counts in PCI order. */
static int identify(struct gpus *gpus, const char *word, const struct share_found *found,
                    struct step_gpu *allocated)
{
    bool by_minor = gpu_list(found) != found->visible;
    const struct node_gpu *gpu;
    const struct topology_device *device;

    if (!is_number(word)) {
        gpu = gpu_by_uuid(gpus, word);
        /* "MIG-<UUID>" does not name the GPU; if the task can open only one, it is that one. */
        if (!gpu && strncmp(word, "MIG-", 4) == 0 && found->confined && is_number(found->reach))
            gpu = gpu_by_minor(gpus, atoi(found->reach));
    } else {
        allocated->slurm = atoi(word);
        if (!by_minor) {
            device = topology_gpu(gpus->topology, (size_t)allocated->slurm);
            if (!device)
                return -1;
            allocated->gpu.pci = device->pci;
            return 0;
        }
        gpu = gpu_by_minor(gpus, allocated->slurm);
    }
    if (!gpu || topology_gpu_index(gpus->topology, &gpu->pci) < 0)
        return -1;
    allocated->gpu.pci = gpu->pci;
    return 0;
}

/* Add the GPUs of one task. Returns 0, or -1 with the word that is unknown to the driver. */
static int add_gpus(struct gpus *gpus, const struct share_found *found, char unknown[64])
{
    char copy[SHARE_LIST], *rest = copy, *word;

    strcpy(copy, gpu_list(found));
    while ((word = strsep(&rest, ","))) {
        struct step_gpu allocated = {.slurm = -1};

        if (!word[0] || find_allocated(gpus, word))
            continue;
        snprintf(unknown, 64, "%.60s", word);
        if (gpus->count == GPUS_MAX)
            return -1;
        if (!is_number(word) && snprintf(allocated.name, sizeof(allocated.name), "%s", word) >=
                                    (int)sizeof(allocated.name))
            return -1;
        if (identify(gpus, word, found, &allocated))
            return -1;
        gpus->items[gpus->count++] = allocated;
    }
    return 0;
}

static int compare_allocated(const void *a, const void *b)
{
    const struct step_gpu *x = a, *y = b;

    return pci_compare(&x->gpu.pci, &y->gpu.pci);
}

size_t gpus_count(const struct share *share, int64_t gpus_on_node)
{
    /* Count distinct numbers and names; this does not need the driver. */
    char seen[GPUS_MAX][48];
    size_t count = 0;

    for (uint32_t i = 0; i < share->tasks; i++) {
        char copy[SHARE_LIST], *rest = copy, *word;

        /* A list that the user exported is not an allocation. */
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
    return count > 0 ? count : (size_t)(gpus_on_node > 0 ? gpus_on_node : 0);
}

/* Warn that the GPUs in Slurm's list are not used. On a node without driver and GPUs, as in tests,
 * that is expected. */
static void say_unknown(const struct gpus *gpus, const char *word, struct place_notes *notes)
{
    bool mig = strncmp(word, "MIG-", 4) == 0;
    bool unexpected = mig || gpus->driver_count > 0 || gpus->topology->gpu_count > 0;

    place_say(unexpected ? notes->warnings : notes->text,
              mig ? "the GPU of %s is unknown, since the task can open several; tasks are placed "
                    "without GPUs; set ConstrainDevices=yes in cgroup.conf\n"
                  : "GPU %s assigned by Slurm is unknown to the NVIDIA driver; tasks are placed "
                    "without GPUs; compare nvidia-smi with gres.conf on this node\n",
              word);
}

/* With --gpu-bind=none Slurm does not list GPUs, and tasks can open all GPUs of the step. */
static void use_unnamed(struct gpus *gpus, int64_t gpus_on_node, struct place_notes *notes)
{
    size_t count = gpus->topology->gpu_count;

    if ((size_t)gpus_on_node != count || count > GPUS_MAX) {
        place_say(
            count > 0 ? notes->warnings : notes->text,
            "Slurm does not name the %" PRId64
            " GPUs of the step; tasks are placed without GPUs; drop --gpu-bind=none, or request "
            "all GPUs of the node\n",
            gpus_on_node);
        return;
    }
    for (size_t i = 0; i < count; i++) {
        gpus->items[i].slurm = -1;
        gpus->items[i].gpu.pci = topology_gpu(gpus->topology, i)->pci;
    }
    gpus->count = count;
}

void gpus_find(struct gpus *gpus, const struct topology *topology, const char *sysroot,
               const struct share *share, int64_t gpus_on_node, struct place_notes *notes)
{
    char unknown[64];
    struct error err;
    bool bad = false, confined = false;

    memset(gpus, 0, sizeof(*gpus));
    gpus->topology = topology;
    if (node_gpus(sysroot, &gpus->driver, &gpus->driver_count, &err))
        place_say(notes->warnings, "%s\n", err.text);
    for (uint32_t i = 0; i < share->tasks && !bad; i++) {
        const struct share_found *found = &share->task[i].found;

        confined |= found->confined;
        bad = is_uncertain(found);
        if (bad)
            place_say(
                notes->warnings,
                "task %u can open GPUs %s, so the list %s is ambiguous; tasks are placed without "
                "GPUs; unset CUDA_VISIBLE_DEVICES, or name as many GPUs as are allocated\n",
                i, found->reach, found->gpus[0] ? found->gpus : found->visible);
        else if ((bad = add_gpus(gpus, found, unknown) != 0))
            say_unknown(gpus, unknown, notes);
    }
    if (bad)
        gpus->count = 0;
    else if (gpus->count == 0 && gpus_on_node > 0 && !confined)
        use_unnamed(gpus, gpus_on_node, notes);
    qsort(gpus->items, gpus->count, sizeof(gpus->items[0]), compare_allocated);
    for (size_t i = 0; i < gpus->count; i++) {
        gpus->request[i] = gpus->items[i].gpu;
        if (gpus->items[i].name[0])
            gpus->request[i].instance = gpus->items[i].name;
    }
}

static int compare_positions(const void *a, const void *b)
{
    const size_t *x = a, *y = b;

    return (*x > *y) - (*x < *y);
}

size_t gpus_of_task(struct gpus *gpus, const struct share_found *found, size_t *positions)
{
    char copy[SHARE_LIST], *rest = copy, *word;
    size_t count = 0;

    strcpy(copy, gpu_list(found));
    while ((word = strsep(&rest, ","))) {
        struct step_gpu *allocated = word[0] ? find_allocated(gpus, word) : NULL;

        if (allocated && count < GPUS_MAX)
            positions[count++] = (size_t)(allocated - gpus->items);
    }
    if (is_numbers(gpu_list(found)) && others_hidden(found))
        qsort(positions, count, sizeof(*positions), compare_positions);
    return count;
}

/* --- CUDA_VISIBLE_DEVICES -------------------------------------------------------------------- */

/* Slurm's numbers in CUDA_VISIBLE_DEVICES are device file numbers, or positions if a cgroup hides
 * the other GPUs. CUDA, with CUDA_DEVICE_ORDER=PCI_BUS_ID, counts the GPUs that it can open in PCI
 * order. The value that makes CUDA see the task's GPUs depends on four facts. */
enum visible { KEEP, POSITIONS, PCI_NUMBERS, UUIDS };

static const struct {
    enum { NO, YES, ANY } numbers, hidden, in_order, from_zero;
    enum visible visible;
} visible_table[] = {
    /* has numbers  others hidden  PCI order  is 0,1,... */
    {NO, ANY, ANY, ANY, KEEP},        /* names are unambiguous already */
    {YES, YES, ANY, ANY, POSITIONS},  /* CUDA numbers what is left from 0 */
    {YES, NO, YES, ANY, PCI_NUMBERS}, /* both orders agree */
    {YES, NO, NO, NO, PCI_NUMBERS},   /* device files are not in PCI order: translate */
    {YES, NO, NO, YES, UUIDS},        /* file numbers or positions? UUIDs leave no doubt */
};

static bool matches(int expected, bool fact)
{
    return expected == ANY || (expected == YES) == fact;
}

static bool counts_from_zero(const char *list, size_t count)
{
    char zero[SHARE_LIST] = "";

    for (size_t i = 0; i < count; i++)
        list_text_add(zero, SHARE_LIST, ",", "%zu", i);
    return strcmp(zero, list) == 0;
}

static enum visible choose_visible(const struct gpus *gpus, const struct share_found *found,
                                   const size_t *positions, size_t count)
{
    bool numbers = is_numbers(found->visible), hidden = others_hidden(found), in_order = true;
    bool from_zero = counts_from_zero(found->visible, count);
    size_t row = 0;

    for (size_t i = 0; i < count; i++)
        in_order &= topology_gpu_index(gpus->topology, &gpus->request[positions[i]].pci) == (int)i;
    while (!matches(visible_table[row].numbers, numbers) ||
           !matches(visible_table[row].hidden, hidden) ||
           !matches(visible_table[row].in_order, in_order) ||
           !matches(visible_table[row].from_zero, from_zero))
        row++;
    return visible_table[row].visible;
}

/* Return nothing unless the driver knows all of them. */
static void list_uuids(const struct gpus *gpus, const size_t *positions, size_t count,
                       char visible[SHARE_LIST])
{
    for (size_t i = 0; i < count; i++) {
        const struct node_gpu *gpu = gpu_by_minor(gpus, gpus->items[positions[i]].slurm);

        if (!gpu || !gpu->uuid[0]) {
            visible[0] = '\0';
            return;
        }
        list_text_add(visible, SHARE_LIST, ",", "%s", gpu->uuid);
    }
}

void gpus_visible(const struct gpus *gpus, const struct share_found *found, const size_t *positions,
                  size_t count, char visible[SHARE_LIST])
{
    enum visible choice = choose_visible(gpus, found, positions, count);

    visible[0] = '\0';
    if (choice == UUIDS)
        list_uuids(gpus, positions, count, visible);
    if (choice != POSITIONS && choice != PCI_NUMBERS)
        return;
    for (size_t i = 0; i < count; i++)
        list_text_add(visible, SHARE_LIST, ",", "%d",
                      choice == POSITIONS
                          ? (int)i
                          : topology_gpu_index(gpus->topology, &gpus->request[positions[i]].pci));
}

void gpus_names(const struct gpus *gpus, char names[SHARE_LIST])
{
    names[0] = '\0';
    for (size_t i = 0; i < gpus->count; i++) {
        const struct step_gpu *allocated = &gpus->items[i];
        const char *uuid = allocated->name;

        for (size_t k = 0; k < gpus->driver_count && !uuid[0]; k++)
            if (pci_compare(&gpus->driver[k].pci, &allocated->gpu.pci) == 0)
                uuid = gpus->driver[k].uuid;
        if (uuid[0])
            list_text_add(names, SHARE_LIST, ",", "%s", uuid);
        else
            list_text_add(names, SHARE_LIST, ",", "%d",
                          topology_gpu_index(gpus->topology, &allocated->gpu.pci));
    }
}

void gpus_clear(struct gpus *gpus)
{
    free(gpus->driver);
    memset(gpus, 0, sizeof(*gpus));
}
