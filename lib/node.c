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

    *count = 0;
    *gpus = calloc(MAX_GPUS, sizeof(**gpus));
    if (!*gpus)
        return error_set(err, "out of memory");
    snprintf(path, sizeof(path), "%s/proc/driver/nvidia/gpus", root);
    folder = opendir(path);
    while (folder && *count < MAX_GPUS && (entry = readdir(folder))) {
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

int node_is_nvlink_controller(const char *root, const struct pci_address *pci)
{
    char path[SMALL_FILE], text[SMALL_FILE], address[PCI_TEXT];
    ssize_t size;

    snprintf(path, sizeof(path), "%s/sys/bus/pci/devices/%s/vpd", root, pci_format(pci, address));
    size = file_read_text(path, text, sizeof(text));
    return size > 0 && memmem(text, (size_t)size, "SW_MNG", 6) != NULL;
}
