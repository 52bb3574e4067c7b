/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"
#include "build.h"
#include "lib/file.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { FILE_MAX = 64 << 20 };

/* Read hexadecimal digits and the character after them. Returns the rest, or NULL. */
static const char *read_hex(const char *at, unsigned long max, char behind, unsigned long *value)
{
    const char *start = at;

    for (*value = 0; isxdigit((unsigned char)*at) && at - start < 8; at++)
        *value = *value << 4 | (unsigned long)(isdigit((unsigned char)*at)
                                                   ? *at - '0'
                                                   : tolower((unsigned char)*at) - 'a' + 10);
    if (at == start || *value > max || *at != behind)
        return NULL;
    return behind ? at + 1 : at;
}

int pci_parse(const char *text, struct pci_address *pci)
{
    unsigned long domain = 0, bus, device, function;
    const char *colon = strchr(text, ':'), *at = text;

    if (colon && strchr(colon + 1, ':'))
        at = read_hex(at, UINT32_MAX, ':', &domain);
    if (!at || !(at = read_hex(at, 0xff, ':', &bus)) || !(at = read_hex(at, 0x1f, '.', &device)) ||
        !read_hex(at, 7, '\0', &function))
        return -1;
    *pci = (struct pci_address){(uint32_t)domain, (uint8_t)bus, (uint8_t)device, (uint8_t)function};
    return 0;
}

char *pci_format(const struct pci_address *pci, char buffer[PCI_TEXT])
{
    snprintf(buffer, PCI_TEXT, "%04x:%02x:%02x.%x", (unsigned)pci->domain, pci->bus, pci->device,
             pci->function);
    return buffer;
}

int pci_compare(const struct pci_address *a, const struct pci_address *b)
{
    uint64_t left =
        (uint64_t)a->domain << 32 | (uint64_t)a->bus << 16 | a->device << 8 | a->function;
    uint64_t right =
        (uint64_t)b->domain << 32 | (uint64_t)b->bus << 16 | b->device << 8 | b->function;

    return (left > right) - (left < right);
}

struct topology *topology_create(struct error *err)
{
    struct topology *topology = calloc(1, sizeof(*topology));

    if (!topology)
        error_set(err, "out of memory");
    return topology;
}

void topology_destroy(struct topology *topology)
{
    if (!topology)
        return;
    free(topology->places);
    free(topology->numas);
    free(topology->cores);
    free(topology->cpus);
    free(topology->devices);
    free(topology);
}

/* Make room for one more of 'count' items; capacities are powers of two. */
static int grow(void *items, size_t count, size_t size, size_t max, struct error *err)
{
    void **array = items, *grown;

    if (count >= max)
        return error_set(err,
                         "the topology has more than %zu objects of a kind, which is a limit of "
                         "megatron: please report it",
                         max);
    if (count & (count - 1) || (count && count < 16))
        return 0;
    grown = realloc(*array, (count ? 2 * count : 16) * size);
    if (!grown)
        return error_set(err, "out of memory");
    *array = grown;
    return 0;
}

int topology_add_place(struct topology *topology, enum place_kind kind, int parent,
                       struct error *err)
{
    if (grow(&topology->places, topology->place_count, sizeof(topology->places[0]),
             BUILD_MAX_PLACES, err) < 0)
        return -1;
    topology->places[topology->place_count] =
        (struct topology_place){.kind = kind, .parent = parent};
    return (int)topology->place_count++;
}

int topology_add_numa(struct topology *topology, int os, int place, struct error *err)
{
    if (grow(&topology->numas, topology->numa_count, sizeof(topology->numas[0]), CPUSET_MAX, err) <
        0)
        return -1;
    topology->numas[topology->numa_count] = (struct topology_numa){.os = os, .place = place};
    return (int)topology->numa_count++;
}

int topology_add_core(struct topology *topology, int numa, struct error *err)
{
    if (grow(&topology->cores, topology->core_count, sizeof(topology->cores[0]), CPUSET_MAX, err) <
        0)
        return -1;
    topology->cores[topology->core_count] =
        (struct topology_core){.numa = numa, .first_cpu = (int)topology->cpu_count};
    return (int)topology->core_count++;
}

int topology_add_cpu(struct topology *topology, int os, struct error *err)
{
    if (grow(&topology->cpus, topology->cpu_count, sizeof(topology->cpus[0]), CPUSET_MAX, err) < 0)
        return -1;
    topology->cores[topology->core_count - 1].cpu_count++;
    topology->cpus[topology->cpu_count] = os;
    return (int)topology->cpu_count++;
}

int topology_add_device(struct topology *topology, const struct topology_device *device,
                        struct error *err)
{
    if (grow(&topology->devices, topology->device_count, sizeof(topology->devices[0]),
             BUILD_MAX_DEVICES, err) < 0)
        return -1;
    topology->devices[topology->device_count] = *device;
    return (int)topology->device_count++;
}

static int in_range(int number, size_t count)
{
    return number >= 0 && (size_t)number < count;
}

static int check_places(struct topology *topology)
{
    for (size_t i = 0; i < topology->place_count; i++) {
        struct topology_place *place = &topology->places[i];

        if (i == 0 ? place->parent != -1 : !in_range(place->parent, i))
            return -1;
        if (place->kind == PLACE_BRIDGE && i > 0) {
            place->first_core = topology->places[place->parent].first_core;
            place->core_count = topology->places[place->parent].core_count;
        }
        if (place->first_core < 0 || place->core_count < 0 ||
            (size_t)place->first_core > topology->core_count ||
            (size_t)place->core_count > topology->core_count - (size_t)place->first_core)
            return -1;
    }
    return 0;
}

static int check_cores(const struct topology *topology)
{
    struct cpuset seen;

    cpuset_clear(&seen);
    for (size_t i = 0; i < topology->core_count; i++) {
        const struct topology_core *core = &topology->cores[i];

        if (!in_range(core->numa, topology->numa_count) || core->cpu_count < 1)
            return -1;
        for (int k = 0; k < core->cpu_count; k++) {
            int cpu = topology->cpus[core->first_cpu + k];

            if (cpu < 0 || cpu >= CPUSET_MAX || cpuset_has(&seen, cpu))
                return -1;
            cpuset_add(&seen, cpu);
        }
    }
    return 0;
}

int topology_check(struct topology *topology, const char *name, struct error *err)
{
    if (topology->place_count == 0 || topology->numa_count == 0 || topology->core_count == 0)
        return error_set(err, "%s contains no CPU; export it again with lstopo", name);
    if (check_places(topology) < 0 || check_cores(topology) < 0)
        return error_set(err, "%s is inconsistent; export it again with lstopo", name);
    for (size_t i = 0; i < topology->numa_count; i++)
        if (!in_range(topology->numas[i].place, topology->place_count))
            return error_set(err, "%s: a NUMA node has no parent; export it again with lstopo",
                             name);
    for (size_t i = 0; i < topology->device_count; i++)
        if (!in_range(topology->devices[i].place, topology->place_count))
            return error_set(err, "%s: a device has no parent; export it again with lstopo", name);
    return 0;
}

void topology_place_cpus(const struct topology *topology, int place, struct cpuset *set)
{
    int first = topology->places[place].first_core, count = topology->places[place].core_count;

    cpuset_clear(set);
    for (int i = first; i < first + count; i++)
        for (int k = 0; k < topology->cores[i].cpu_count; k++)
            cpuset_add(set, topology->cpus[topology->cores[i].first_cpu + k]);
}

void topology_cpus(const struct topology *topology, struct cpuset *set)
{
    topology_place_cpus(topology, 0, set);
}

const struct topology_device *topology_gpu(const struct topology *topology, size_t index)
{
    for (size_t i = 0; i < topology->device_count; i++)
        if (topology->devices[i].kind == DEVICE_GPU && index-- == 0)
            return &topology->devices[i];
    return NULL;
}

int topology_gpu_index(const struct topology *topology, const struct pci_address *pci)
{
    int index = 0;

    for (size_t i = 0; i < topology->device_count; i++) {
        if (topology->devices[i].kind != DEVICE_GPU)
            continue;
        if (pci_compare(&topology->devices[i].pci, pci) == 0)
            return index;
        index++;
    }
    return -1;
}

const struct topology_device *topology_find_nic(const struct topology *topology, const char *text)
{
    struct pci_address pci;
    int is_address = pci_parse(text, &pci) == 0;

    for (size_t i = 0; i < topology->device_count; i++) {
        const struct topology_device *device = &topology->devices[i];

        if (device->kind == DEVICE_GPU)
            continue;
        if (is_address ? pci_compare(&device->pci, &pci) == 0
                       : device->name[0] && strcmp(device->name, text) == 0)
            return device;
    }
    return NULL;
}

const char *topology_device_name(const struct topology_device *device, char buffer[32])
{
    if (device->name[0])
        snprintf(buffer, 32, "%s", device->name);
    else
        pci_format(&device->pci, buffer);
    return buffer;
}

/* The format of a text is recognized by its root element, or by the first word of our own format.
 */
struct topology *topology_parse(const char *name, const char *text, size_t size, struct error *err)
{
    static const char own[] = "megatron-topology ";

    if (size >= sizeof(own) - 1 && memcmp(text, own, sizeof(own) - 1) == 0)
        return topology_from_text(name, text, size, err);
    if (memmem(text, size, "<topology", 9))
        return topology_from_hwloc(name, text, size, err);
    error_set_code(err, ERROR_USAGE,
                   "%s is not an hwloc XML file; write one with `lstopo FILE.xml`", name);
    return NULL;
}

struct topology *topology_load(const char *path, struct error *err)
{
    struct file_bytes file;
    struct topology *topology;
    struct stat status;

    /* The plugin must not wait for a pipe. */
    if (stat(path, &status) == 0 && !S_ISREG(status.st_mode)) {
        error_set_code(err, ERROR_USAGE, "%s is not a regular file; name an XML file of hwloc",
                       path);
        return NULL;
    }
    if (file_read(path, FILE_MAX, &file, err) < 0)
        return NULL;
    topology = topology_parse(path, file.data, file.length, err);
    file_bytes_clear(&file);
    return topology;
}
