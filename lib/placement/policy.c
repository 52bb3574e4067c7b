/* SPDX-License-Identifier: Apache-2.0 */
/* Parse the values of --megatron-bind and --megatron-nics. */
#include "binding.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *const bind_words[] = {"auto", "none", "gpu", "numa", "core"};
static const char *const nic_words[] = {"auto", "none", "all"};

/* The index of 'text' in 'words', or 'count' if it is not one of them: then it is a list. */
static size_t find_word(const char *text, const char *const *words, size_t count)
{
    size_t i = 0;

    while (i < count && strcmp(text, words[i]) != 0)
        i++;
    return i;
}

static size_t count_lists(const char *text)
{
    size_t count = 1;

    for (; *text; text++)
        count += *text == '/';
    return count;
}

static int check_count(const char *what, const char *text, size_t tasks, const char *of,
                       struct error *err)
{
    size_t lists = count_lists(text);

    if (lists > 1 && tasks > 0 && lists != tasks)
        return error_set(err,
                         "%s=%.100s has %zu lists of %s for %zu tasks; give one list for all "
                         "tasks, or one for each",
                         what, text, lists, of, tasks);
    return 0;
}

/* Copy the list at '*text' into a new string and advance past it. */
static char *next_list(const char **text, struct error *err)
{
    size_t length = strcspn(*text, "/");
    char *list = strndup(*text, length);

    *text += length + ((*text)[length] == '/');
    if (!list)
        error_set(err, "out of memory");
    return list;
}

static int read_cpu_lists(const char *what, const char *text, struct cpuset *sets,
                          struct error *err)
{
    size_t count = count_lists(text);
    const char *at = text;

    for (size_t i = 0; i < count; i++) {
        char *list = next_list(&at, err);
        int rc;

        if (!list)
            return -1;
        rc = cpuset_parse(what, list, &sets[i], err);
        free(list);
        if (rc < 0)
            return error_set(err,
                             "%s=%.100s: use auto, none, gpu, numa, core or CPUs like 0-11,96-107",
                             what, text);
        if (cpuset_is_empty(&sets[i]))
            return error_set(err, "%s=%.100s: list %zu is empty; write CPUs between the slashes",
                             what, text, i + 1);
    }
    return 0;
}

int placement_check_bind(const char *what, const char *text, size_t tasks, struct error *err)
{
    enum { WORDS = sizeof(bind_words) / sizeof(bind_words[0]) };
    struct cpuset *sets;
    int rc;

    if (find_word(text, bind_words, WORDS) < WORDS)
        return 0;
    if (check_count(what, text, tasks, "CPUs", err) < 0)
        return -1;
    sets = calloc(count_lists(text), sizeof(*sets));
    rc = sets ? read_cpu_lists(what, text, sets, err) : error_set(err, "out of memory");
    free(sets);
    return rc;
}

int placement_check_nics(const char *what, const char *text, size_t tasks, struct error *err)
{
    enum { WORDS = sizeof(nic_words) / sizeof(nic_words[0]) };
    static const char allowed[] =
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-.:,/";

    if (find_word(text, nic_words, WORDS) < WORDS)
        return 0;
    if (text[0] == '\0' || text[strspn(text, allowed)] != '\0')
        return error_set(err, "%s=%.100s: use auto, none, all or names of NICs like mlx5_0,mlx5_1",
                         what, text);
    return check_count(what, text, tasks, "NICs", err);
}

int binding_read_bind(struct binding *binding, struct error *err)
{
    enum { WORDS = sizeof(bind_words) / sizeof(bind_words[0]) };
    const char *text = binding->request->bind ? binding->request->bind : "auto";
    size_t word = find_word(text, bind_words, WORDS);
    struct cpuset *sets;

    binding->bind = (enum bind_policy)word;
    if (word < WORDS)
        return 0;
    if (check_count("bind", text, binding->tasks, "CPUs", err) < 0)
        return -1;
    sets = calloc(count_lists(text), sizeof(*sets));
    if (!sets)
        return error_set(err, "out of memory");
    if (read_cpu_lists("bind", text, sets, err) < 0) {
        free(sets);
        return -1;
    }
    if (count_lists(text) > 1) {
        binding->lists = sets;
        return 0;
    }
    /* A single list restricts the step; within it, GPUs and NUMA nodes decide. */
    binding->bind = BIND_AUTO;
    if (!binding->request->bind_is_default && cpuset_overlap(sets, &binding->cpus) &&
        !cpuset_within(sets, &binding->cpus))
        binding_warn(binding,
                     "some of the CPUs %.100s are not allocated to this step and are ignored; list "
                     "only allocated CPUs, or request the whole node (sbatch --exclusive)",
                     text);
    cpuset_intersect(&binding->cpus, sets);
    free(sets);
    if (cpuset_is_empty(&binding->cpus))
        return error_set(err,
                         "none of the CPUs %.100s is allocated to this step on this node; list "
                         "CPUs that are, or request the whole node (sbatch --exclusive)",
                         text);
    return 0;
}

/* Turn names into devices of the topology, sorted, without repeats. */
static int read_nic_list(const struct topology *topology, char *list,
                         const struct topology_device ***nics, size_t *count, struct error *err)
{
    char *save = NULL;
    const struct topology_device **found =
        calloc(topology->device_count + 1, sizeof(struct topology_device *));
    unsigned char *wanted = calloc(topology->device_count + 1, 1);
    int rc = -1;

    if (!found || !wanted) {
        error_set(err, "out of memory");
        goto out;
    }
    for (char *name = strtok_r(list, ",", &save); name; name = strtok_r(NULL, ",", &save)) {
        const struct topology_device *device = topology_find_nic(topology, name);

        if (!device) {
            error_set(err, "this node has no NIC %.60s; `megatron topo` lists its NICs", name);
            goto out;
        }
        wanted[device - topology->devices] = 1;
    }
    *count = 0;
    for (size_t i = 0; i < topology->device_count; i++)
        if (wanted[i])
            found[(*count)++] = &topology->devices[i];
    *nics = found;
    found = NULL;
    rc = 0;
out:
    free(wanted);
    free(found);
    return rc;
}

static int read_nic_lists(struct binding *binding, const char *text, struct error *err)
{
    size_t count = count_lists(text);
    const char *at = text;

    binding->nic_lists = calloc(count, sizeof(*binding->nic_lists));
    binding->nic_list_counts = calloc(count, sizeof(*binding->nic_list_counts));
    if (!binding->nic_lists || !binding->nic_list_counts)
        return error_set(err, "out of memory");
    for (size_t i = 0; i < count; i++) {
        char *list = next_list(&at, err);
        int rc = list ? read_nic_list(binding->topology, list, &binding->nic_lists[i],
                                      &binding->nic_list_counts[i], err)
                      : -1;

        free(list);
        if (rc < 0)
            return -1;
    }
    return 0;
}

static int use_compute_nics(struct binding *binding, struct error *err)
{
    binding->nics = calloc(binding->topology->device_count + 1, sizeof(struct topology_device *));
    if (!binding->nics)
        return error_set(err, "out of memory");
    for (size_t i = 0; i < binding->topology->device_count; i++)
        if (binding->topology->devices[i].kind == DEVICE_NIC)
            binding->nics[binding->nic_count++] = &binding->topology->devices[i];
    return 0;
}

int binding_read_nics(struct binding *binding, struct error *err)
{
    enum { WORDS = sizeof(nic_words) / sizeof(nic_words[0]) };
    const char *text = binding->request->nics ? binding->request->nics : "auto";
    size_t word = find_word(text, nic_words, WORDS);

    binding->nic_policy = (enum nic_policy)word;
    if (word < WORDS)
        return use_compute_nics(binding, err);
    if (placement_check_nics("nics", text, binding->tasks, err) < 0)
        return -1;
    if (count_lists(text) > 1)
        return read_nic_lists(binding, text, err);
    /* A single list restricts the choice; within it, the tree decides. */
    binding->nic_policy = NICS_AUTO;
    char *list = strdup(text);
    int rc = list ? read_nic_list(binding->topology, list, &binding->nics, &binding->nic_count, err)
                  : error_set(err, "out of memory");

    free(list);
    return rc;
}

/* Mark the GPUs that 'word' names: an address, a number or a range. Returns 0, or -1 if the node
 * does not have them. */
static int mark_gpus(const char *what, const char *word, const struct topology *topology,
                     unsigned char *wanted)
{
    struct pci_address pci;
    struct cpuset numbers;
    int last = -1;

    if (pci_parse(word, &pci) == 0) {
        last = topology_gpu_index(topology, &pci);
        if (last >= 0)
            wanted[last] = 1;
    } else if (cpuset_parse(what, word, &numbers, NULL) == 0) {
        for (int i = cpuset_next(&numbers, -1); i >= 0; i = cpuset_next(&numbers, i)) {
            last = i;
            if ((size_t)i < topology->gpu_count)
                wanted[i] = 1;
        }
    }
    return last >= 0 && (size_t)last < topology->gpu_count ? 0 : -1;
}

struct allocated_gpu *placement_parse_gpus(const char *what, const char *text,
                                           const struct topology *topology, size_t *count,
                                           struct error *err)
{
    struct allocated_gpu *allocated = calloc(topology->gpu_count + 1, sizeof(*allocated));
    unsigned char *wanted = calloc(topology->gpu_count + 1, 1);
    char *copy = strdup(text), *save = NULL;
    int rc = -1;

    if (!allocated || !wanted || !copy) {
        error_set(err, "out of memory");
        goto out;
    }
    if (strcmp(text, "all") == 0)
        memset(wanted, 1, topology->gpu_count);
    else if (strcmp(text, "none") != 0)
        for (char *word = strtok_r(copy, ",", &save); word; word = strtok_r(NULL, ",", &save))
            if (mark_gpus(what, word, topology, wanted) < 0) {
                error_set(err,
                          "%s=%.60s: there is no GPU %.60s; the node has %zu, numbered from 0 in "
                          "PCI order",
                          what, text, word, topology->gpu_count);
                goto out;
            }
    *count = 0;
    for (size_t i = 0; i < topology->gpu_count; i++)
        if (wanted[i])
            allocated[(*count)++].pci = topology_gpu(topology, i)->pci;
    rc = 0;
out:
    free(wanted);
    free(copy);
    if (rc == 0)
        return allocated;
    free(allocated);
    return NULL;
}
