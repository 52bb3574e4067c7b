/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"
#include "node.h"
#include "file.h"
#include "parse.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { SMALL_FILE = 4096, MAX_GPUS = 1024, MAX_MINORS = 256 };

/* Copy the value of a line "Key:  value" to 'value'; "" if there is no such line. */
static void find_value(const char *text, const char *key, char *value, size_t size)
{
    const char *line = text;
    size_t length = strlen(key);

    value[0] = '\0';
    while (line && (strncmp(line, key, length) != 0 || line[length] != ':')) {
        line = strchr(line, '\n');
        line = line ? line + 1 : NULL;
    }
    if (!line)
        return;
    line += length + 1;
    line += strspn(line, " \t");
    snprintf(value, size, "%.*s", (int)strcspn(line, "\n"), line);
}

/* Parse all of 'text' as a whole number, or return -1. */
static int read_number(const char *text)
{
    char *end;
    long number = strtol(text, &end, 10);

    return end == text || *end != '\0' || number < 0 || number > 1 << 20 ? -1 : (int)number;
}

/* Make room for one more of 'count' items. */
static int grow(void *items, size_t count, size_t size, struct error *err)
{
    void **array = items, *grown;

    if (count >= MAX_GPUS)
        return error_set(err,
                         "the driver lists more than %d GPUs or instances; use fewer MIG instances",
                         MAX_GPUS);
    grown = realloc(*array, (count + 1) * size);
    if (!grown)
        return error_set(err, "out of memory");
    *array = grown;
    return 0;
}

static int by_address(const void *a, const void *b)
{
    const struct node_gpu *left = a, *right = b;

    return pci_compare(&left->pci, &right->pci);
}

int node_gpus(const char *root, struct node_gpu **gpus, size_t *count, struct error *err)
{
    char path[SMALL_FILE], text[SMALL_FILE], minor[32];
    struct dirent *entry;
    DIR *folder;

    *gpus = NULL;
    *count = 0;
    snprintf(path, sizeof(path), "%s/proc/driver/nvidia/gpus", root);
    folder = opendir(path);
    while (folder && (entry = readdir(folder))) {
        struct node_gpu gpu = {.minor = -1};

        if (pci_parse(entry->d_name, &gpu.pci) < 0)
            continue;
        snprintf(path, sizeof(path), "%s/proc/driver/nvidia/gpus/%s/information", root,
                 entry->d_name);
        if (file_read_text(path, text, sizeof(text)) <= 0)
            continue;
        find_value(text, "Device Minor", minor, sizeof(minor));
        find_value(text, "GPU UUID", gpu.uuid, sizeof(gpu.uuid));
        find_value(text, "Model", gpu.model, sizeof(gpu.model));
        gpu.minor = read_number(minor);
        /* A GPU that has fallen off the bus is listed without a minor number. */
        if (gpu.minor < 0)
            continue;
        if (grow(gpus, *count, sizeof(gpu), err) < 0) {
            closedir(folder);
            free(*gpus);
            *gpus = NULL;
            return -1;
        }
        (*gpus)[(*count)++] = gpu;
    }
    if (folder)
        closedir(folder);
    if (*count > 0)
        qsort(*gpus, *count, sizeof(**gpus), by_address);
    return 0;
}

int node_reachable_gpus(char *list, size_t size)
{
    char path[64];
    int denied = 0;

    list[0] = '\0';
    for (int minor = 0; minor < MAX_MINORS; minor++) {
        snprintf(path, sizeof(path), "/dev/nvidia%d", minor);
        /* Device cgroups (v1 and v2) return EPERM, even for access(); file permissions would return
         * EACCES. */
        if (access(path, R_OK | W_OK) && errno != EACCES) {
            denied += errno == EPERM;
            continue;
        }
        list_text_add(list, size, ",", "%d", minor);
    }
    return denied > 0;
}

static int by_instance(const void *a, const void *b)
{
    const struct node_instance *left = a, *right = b;

    if (left->minor != right->minor)
        return left->minor - right->minor;
    if (left->gpu_instance != right->gpu_instance)
        return left->gpu_instance - right->gpu_instance;
    return left->compute_instance - right->compute_instance;
}

/* The number after 'prefix' in a name such as gi7, or -1. */
static int number_after(const char *name, const char *prefix)
{
    size_t length = strlen(prefix);

    return strncmp(name, prefix, length) == 0 ? read_number(name + length) : -1;
}

struct instance_list {
    struct node_instance *items;
    size_t count;
};

/* capabilities/gpu<minor>/mig/gi<G>/ci<C>/access contains the number of the capability. 'level' is
 * 0 for the directory of GPUs, 1 for GPU instances, 2 for compute instances. */
static int walk_instances(char path[SMALL_FILE], int level, struct node_instance at,
                          struct instance_list *list, struct error *err)
{
    static const char *const prefixes[] = {"gpu", "gi", "ci"};
    size_t length = strlen(path);
    DIR *folder = opendir(path);
    struct dirent *entry;
    int rc = 0;

    while (rc == 0 && folder && (entry = readdir(folder))) {
        int number = number_after(entry->d_name, prefixes[level]);
        char text[SMALL_FILE], minor[32];

        if (number < 0)
            continue;
        snprintf(path + length, SMALL_FILE - length, "/%s%s", entry->d_name,
                 level == 0   ? "/mig"
                 : level == 1 ? ""
                              : "/access");
        *(level == 0 ? &at.minor : level == 1 ? &at.gpu_instance : &at.compute_instance) = number;
        if (level < 2) {
            rc = walk_instances(path, level + 1, at, list, err);
        } else if (file_read_text(path, text, sizeof(text)) > 0) {
            find_value(text, "DeviceFileMinor", minor, sizeof(minor));
            at.capability = read_number(minor);
            rc = grow(&list->items, list->count, sizeof(at), err);
            if (rc == 0)
                list->items[list->count++] = at;
        }
        path[length] = '\0';
    }
    if (folder)
        closedir(folder);
    return rc;
}

int node_instances(const char *root, struct node_instance **instances, size_t *count,
                   struct error *err)
{
    struct instance_list list = {NULL, 0};
    struct node_instance start = {-1, -1, -1, -1};
    char path[SMALL_FILE];
    int rc;

    snprintf(path, sizeof(path), "%s/proc/driver/nvidia/capabilities", root);
    rc = walk_instances(path, 0, start, &list, err);
    if (rc < 0) {
        free(list.items);
        list = (struct instance_list){NULL, 0};
    }
    if (list.count > 0)
        qsort(list.items, list.count, sizeof(list.items[0]), by_instance);
    *instances = list.items;
    *count = list.count;
    return rc;
}

int node_is_nvlink_controller(const char *root, const struct pci_address *pci)
{
    char path[SMALL_FILE], text[SMALL_FILE], address[PCI_TEXT];
    ssize_t size;

    snprintf(path, sizeof(path), "%s/sys/bus/pci/devices/%s/vpd", root, pci_format(pci, address));
    size = file_read_text(path, text, sizeof(text));
    return size > 0 && memmem(text, (size_t)size, "SW_MNG", 6) != NULL;
}
