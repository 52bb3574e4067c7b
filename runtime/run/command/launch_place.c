/* SPDX-License-Identifier: Apache-2.0 */
/* Where the ranks of a pod run: the plugin's placement over what the pod may use. /sys shows the
 * whole machine; which CPUs, GPUs and NICs belong to the pod is seen from its affinity and its
 * device files. */
#include "lib/file.h"
#include "base/core/storage.h"
#include "launch.h"
#include "base/core/log.h"
#include "lib/node.h"
#include "lib/parse.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int is_listed(const char *list, const char *name)
{
    size_t length = strlen(name);

    for (const char *at = list; at && *at; at = strchr(at, ',') ? strchr(at, ',') + 1 : NULL)
        if (strncmp(at, name, length) == 0 && (at[length] == ',' || at[length] == '\0'))
            return 1;
    return 0;
}

/* Does CUDA_VISIBLE_DEVICES leave GPU number 'index' of this pod (in PCI order) usable? */
static int is_visible(const struct node_gpu *gpu, size_t index)
{
    const char *visible = getenv("CUDA_VISIBLE_DEVICES");
    char number[24];

    if (!visible)
        return 1;
    snprintf(number, sizeof(number), "%zu", index);
    return is_listed(visible, number) || (gpu->uuid[0] && is_listed(visible, gpu->uuid));
}

/* The GPUs of this pod, in PCI order: those that the driver reports and whose device file exists
 * here. Caller frees. */
static int find_gpus(struct allocated_gpu **allocated, size_t *count, struct error *err)
{
    struct node_gpu *gpus = NULL;
    size_t found = 0, own = 0;
    char path[64];

    *count = 0;
    *allocated = NULL;
    if (node_gpus("", &gpus, &found, err) < 0)
        return -1;
    *allocated = calloc(found + 1, sizeof(**allocated));
    for (size_t i = 0; *allocated && i < found; i++) {
        snprintf(path, sizeof(path), "/dev/nvidia%d", gpus[i].minor);
        if (access(path, R_OK | W_OK) == 0 && is_visible(&gpus[i], own++))
            (*allocated)[(*count)++].pci = gpus[i].pci;
    }
    free(gpus);
    return *allocated ? 0 : error_set(err, "out of memory");
}

int launch_count_gpus(const struct launch_options *given, int64_t *count, struct error *err)
{
    struct allocated_gpu *allocated = NULL;
    struct topology *topology;
    size_t found = 0;
    int rc;

    if (given->topology) {
        errno = 0;
        topology = topology_load(given->topology, err);
        if (!topology)
            return file_path_error(err);
        *count = (int64_t)topology->gpu_count;
        topology_destroy(topology);
        return 0;
    }
    rc = find_gpus(&allocated, &found, err);
    free(allocated);
    *count = (int64_t)found;
    return rc;
}

/* The name of the RDMA device behind a file /dev/infiniband/uverbsN. */
static int read_verbs_name(const char *entry, char *name, size_t size)
{
    char path[320];

    snprintf(path, sizeof(path), "/sys/class/infiniband_verbs/%.200s/ibdev", entry);
    return file_read_line(path, name, size) > 0;
}

/* If the pod has only some of the machine's RDMA devices, list those in 'names'; else "". */
static void find_nics(char *names, size_t size)
{
    DIR *verbs = opendir("/sys/class/infiniband_verbs");
    struct dirent *entry;
    char path[320], name[64];
    int missing = 0;

    names[0] = '\0';
    while (verbs && (entry = readdir(verbs))) {
        if (strncmp(entry->d_name, "uverbs", 6) != 0 ||
            !read_verbs_name(entry->d_name, name, sizeof(name)))
            continue;
        snprintf(path, sizeof(path), "/dev/infiniband/%.200s", entry->d_name);
        if (access(path, F_OK) != 0)
            missing = 1;
        else
            list_text_add(names, size, ",", "%s", name);
    }
    if (verbs)
        closedir(verbs);
    if (!missing)
        names[0] = '\0';
    else if (!names[0])
        snprintf(names, size, "none");
}

/* The list for NCCL is the same on every rank of a pod. */
static void list_nics(struct launch_places *places)
{
    for (size_t i = 0; i < places->placement->nic_count; i++) {
        const struct topology_device *nic = places->placement->nics[i];

        places->efa |= nic->vendor == 0x1d0f;
        if (nic->name[0])
            list_text_add(places->nccl, sizeof(places->nccl), ",", "%s%s",
                          places->nccl[0] ? "" : "=", nic->name);
    }
}

static int place(const struct launch_options *given, int64_t ranks, struct launch_places *places,
                 struct error *err)
{
    struct placement_request request = {.tasks = (size_t)ranks, .bind = given->bind};
    struct allocated_gpu *allocated = NULL;
    struct cpuset cpus;
    char nics[4096] = "";
    int rc = 0;

    request.nics = given->nics;
    if (!given->topology) {
        rc = cpuset_of_thread(&cpus, err);
        request.cpus = &cpus;
        if (rc == 0)
            rc = find_gpus(&allocated, &request.gpu_count, err);
        request.gpus = allocated;
        find_nics(nics, sizeof(nics));
        if (!given->nics && nics[0])
            request.nics = nics;
    } else {
        request.gpu_count = places->topology->gpu_count;
    }
    if (rc == 0)
        places->placement = placement_create(places->topology, &request, err);
    free(allocated);
    if (rc < 0)
        return -1;
    if (!places->placement) {
        /* A list that was given does not fit this machine, so no attempt would succeed. */
        if (given->bind || given->nics || given->topology)
            err->code = ERROR_USAGE;
        return -1;
    }
    for (size_t i = 0; i < places->placement->warning_count; i++)
        log_note("%s", places->placement->warnings[i]);
    list_nics(places);
    return 0;
}

int launch_place(const struct launch_options *given, int64_t ranks, struct launch_places *places,
                 struct error *err)
{
    struct error why;

    memset(places, 0, sizeof(*places));
    if ((given->bind && placement_check_bind("--bind", given->bind, (size_t)ranks, err) < 0) ||
        (given->nics && placement_check_nics("--nics", given->nics, (size_t)ranks, err) < 0)) {
        err->code = ERROR_USAGE;
        return -1;
    }
    if (given->topology) {
        errno = 0;
        places->topology = topology_load(given->topology, err);
        return places->topology ? place(given, ranks, places, err) : file_path_error(err);
    }
    places->topology = topology_discover(&why);
    if (!places->topology || place(given, ranks, places, &why) < 0) {
        /* What the user asked for must not be ignored. */
        if (given->bind || given->nics) {
            *err = why;
            return -1;
        }
        log_note("ranks are not bound to CPUs: %s", why.text);
    }
    return 0;
}

void launch_places_clear(struct launch_places *places)
{
    placement_destroy(places->placement);
    topology_destroy(places->topology);
    memset(places, 0, sizeof(*places));
}
