/* SPDX-License-Identifier: Apache-2.0 */
/* Convert hwloc's tree to ours. */
#include "config.h"
#include "build.h"
#include "lib/node.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#ifdef HAVE_HWLOC
#include "hwloc_api.h"

struct walk {
    const struct hwloc_api *api;
    struct topology *topology;
    struct error *err;
};

/* A NUMA node is attached to the object whose CPUs it shares, maybe below a memory-side cache. */
static int add_memory(struct walk *walk, hwloc_obj_t obj, int place)
{
    for (; obj; obj = obj->next_sibling) {
        if (obj->type == HWLOC_OBJ_NUMANODE) {
            if (topology_add_numa(walk->topology, (int)obj->os_index, place, walk->err) < 0)
                return -1;
        } else if (add_memory(walk, obj->memory_first_child, place) < 0) {
            return -1;
        }
    }
    return 0;
}

/* The index in numas[] of the first NUMA node that 'obj' is local to. If a core has both DRAM and
 * high-bandwidth memory, DRAM comes first. */
static int numa_of(const struct walk *walk, hwloc_obj_t obj)
{
    int os = walk->api->bitmap_first(obj->nodeset);

    for (size_t i = 0; i < walk->topology->numa_count; i++)
        if (walk->topology->numas[i].os == os)
            return (int)i;
    return 0;
}

static int add_cpus(struct walk *walk, hwloc_obj_t obj)
{
    if (obj->type == HWLOC_OBJ_PU)
        return topology_add_cpu(walk->topology, (int)obj->os_index, walk->err);
    for (unsigned i = 0; i < obj->arity; i++)
        if (add_cpus(walk, obj->children[i]) < 0)
            return -1;
    return 0;
}

static void name_device(struct topology_device *device, hwloc_obj_t obj, int *rdma)
{
    for (hwloc_obj_t os = obj->io_first_child; os; os = os->next_sibling) {
        int type = os->type == HWLOC_OBJ_OS_DEVICE ? (int)os->attr->osdev.type : -1;

        if (!os->name || (type != HWLOC_OBJ_OSDEV_OPENFABRICS && type != HWLOC_OBJ_OSDEV_NETWORK))
            continue;
        /* Prefer the name that RDMA libraries use over that of the network interface. */
        if (type == HWLOC_OBJ_OSDEV_OPENFABRICS || device->name[0] == '\0')
            snprintf(device->name, sizeof(device->name), "%s", os->name);
        *rdma |= type == HWLOC_OBJ_OSDEV_OPENFABRICS;
        if (*rdma)
            break;
    }
}

static int add_device(struct walk *walk, hwloc_obj_t obj, int place)
{
    const struct hwloc_pcidev_attr_s *pci = &obj->attr->pcidev;
    struct topology_device device = {
        .pci = {pci->domain, pci->bus, pci->dev, pci->func},
        .vendor = pci->vendor_id,
        .id = pci->device_id,
        .class = pci->class_id,
        .place = place,
    };
    int rdma = 0;

    name_device(&device, obj, &rdma);
    if (!device_classify(&device, rdma))
        return 0;
    return topology_add_device(walk->topology, &device, walk->err);
}

static int add_io(struct walk *walk, hwloc_obj_t obj, int place)
{
    for (; obj; obj = obj->next_sibling) {
        if (obj->type == HWLOC_OBJ_BRIDGE) {
            int bridge = topology_add_place(walk->topology, PLACE_BRIDGE, place, walk->err);

            if (bridge < 0 || add_io(walk, obj->io_first_child, bridge) < 0)
                return -1;
        } else if (obj->type == HWLOC_OBJ_PCI_DEVICE && add_device(walk, obj, place) < 0) {
            return -1;
        }
    }
    return 0;
}

/* NUMA nodes of the upper levels first: cores look up theirs among those already added. */
static int add_objects(struct walk *walk, hwloc_obj_t obj, int parent)
{
    enum place_kind kind = obj->type == HWLOC_OBJ_MACHINE   ? PLACE_MACHINE
                           : obj->type == HWLOC_OBJ_PACKAGE ? PLACE_PACKAGE
                                                            : PLACE_GROUP;
    int place;

    if (obj->type == HWLOC_OBJ_CORE || obj->type == HWLOC_OBJ_PU) {
        if (add_memory(walk, obj->memory_first_child, parent) < 0 ||
            topology_add_core(walk->topology, numa_of(walk, obj), walk->err) < 0)
            return -1;
        return add_io(walk, obj->io_first_child, parent) < 0 ? -1 : add_cpus(walk, obj);
    }
    place = topology_add_place(walk->topology, kind, parent, walk->err);
    if (place < 0 || add_memory(walk, obj->memory_first_child, place) < 0)
        return -1;
    walk->topology->places[place].first_core = (int)walk->topology->core_count;
    for (unsigned i = 0; i < obj->arity; i++)
        if (add_objects(walk, obj->children[i], place) < 0)
            return -1;
    walk->topology->places[place].core_count =
        (int)walk->topology->core_count - walk->topology->places[place].first_core;
    return add_io(walk, obj->io_first_child, place);
}

/* Keep only what placement needs: caches and disks take half of the time to read a file. */
static int set_filters(const struct hwloc_api *api, hwloc_topology_t tree)
{
    static const struct {
        hwloc_obj_type_t type;
        enum hwloc_type_filter_e filter;
    } kept[] = {
        {HWLOC_OBJ_PACKAGE, HWLOC_TYPE_FILTER_KEEP_ALL},
        {HWLOC_OBJ_DIE, HWLOC_TYPE_FILTER_KEEP_STRUCTURE},
        {HWLOC_OBJ_GROUP, HWLOC_TYPE_FILTER_KEEP_STRUCTURE},
        {HWLOC_OBJ_CORE, HWLOC_TYPE_FILTER_KEEP_ALL},
        {HWLOC_OBJ_BRIDGE, HWLOC_TYPE_FILTER_KEEP_IMPORTANT},
        {HWLOC_OBJ_PCI_DEVICE, HWLOC_TYPE_FILTER_KEEP_IMPORTANT},
        {HWLOC_OBJ_OS_DEVICE, HWLOC_TYPE_FILTER_KEEP_IMPORTANT},
    };

    if (api->topology_set_all_types_filter(tree, HWLOC_TYPE_FILTER_KEEP_NONE) < 0)
        return -1;
    for (size_t i = 0; i < sizeof(kept) / sizeof(kept[0]); i++)
        if (api->topology_set_type_filter(tree, kept[i].type, kept[i].filter) < 0)
            return -1;
    return 0;
}

/* Do not use GPU libraries: they take seconds, and GPUs are found by their PCI class. A component
 * that this hwloc lacks is not an error. */
static void leave_out_gpu_libraries(const struct hwloc_api *api, hwloc_topology_t tree)
{
    static const char *const names[] = {"opencl", "cuda", "nvml", "rsmi", "levelzero", "gl"};

    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
        api->topology_set_components(tree, HWLOC_TOPOLOGY_COMPONENTS_FLAG_BLACKLIST, names[i]);
}

/* With 'text' NULL: this machine. */
static struct topology *read_tree(const struct hwloc_api *api, const char *name, const char *text,
                                  size_t size, struct error *err)
{
    hwloc_topology_t tree;
    struct walk walk = {.api = api, .err = err};

    if (api->topology_init(&tree) < 0) {
        error_set(err, "cannot initialize hwloc: out of memory");
        return NULL;
    }
    leave_out_gpu_libraries(api, tree);
    if (set_filters(api, tree) < 0) {
        error_set(err, "cannot set the type filters of hwloc; reinstall libhwloc15");
    } else if (!text && api->topology_set_flags(tree, HWLOC_TOPOLOGY_FLAG_INCLUDE_DISALLOWED) < 0) {
        error_set(err,
                  "hwloc cannot show CPUs outside of this process's cpuset; reinstall libhwloc15");
    } else if ((text && api->topology_set_xmlbuffer(tree, text, (int)size) < 0) ||
               api->topology_load(tree) < 0) {
        error_set_code(err, text ? ERROR_USAGE : ERROR_FAILURE,
                       text ? "%s is not an hwloc XML file; write one with `lstopo FILE.xml`"
                            : "hwloc cannot discover the topology of %s; check that /sys is "
                              "mounted and `lstopo` works here",
                       name);
    } else {
        walk.topology = topology_create(err);
        if (walk.topology && (add_objects(&walk, api->get_obj_by_depth(tree, 0, 0), -1) < 0 ||
                              topology_check(walk.topology, name, err) < 0)) {
            topology_destroy(walk.topology);
            walk.topology = NULL;
        }
    }
    api->topology_destroy(tree);
    return walk.topology;
}

/* hwloc's plugins load OpenGL, OpenCL and their dependencies: they take most of the time, and do
 * not belong in a daemon. They can be disabled only with an environment variable. */
static struct topology *read_without_plugins(const struct hwloc_api *api, const char *name,
                                             const char *text, size_t size, struct error *err)
{
    static const char variable[] = "HWLOC_PLUGINS_PATH";
    int hidden = !getenv(variable) && setenv(variable, "/nonexistent", 1) == 0;
    struct topology *topology = read_tree(api, name, text, size, err);

    if (hidden)
        unsetenv(variable);
    return topology;
}

static struct topology *from_hwloc(const char *name, const char *text, size_t size,
                                   struct error *err)
{
    struct hwloc_api api;
    struct topology *topology;

    if (hwloc_api_open(&api, HWLOC_LIBRARY, err) < 0)
        return NULL;
    topology = read_without_plugins(&api, name, text, size, err);
    /* hwloc's own parser accepts what hwloc writes; its libxml2 plugin accepts any XML. */
    if (!topology && text) {
        hwloc_api_share(&api);
        topology = read_tree(&api, name, text, size, err);
    }
    hwloc_api_close(&api);
    if (topology)
        topology_settle_devices(topology);
    return topology;
}

struct topology *topology_discover(struct error *err)
{
    struct topology *topology = from_hwloc("this machine", NULL, 0, err);

    /* hwloc reports NVLink controllers as the InfiniBand devices that they also are. */
    for (size_t i = 0; topology && i < topology->device_count; i++) {
        struct topology_device *device = &topology->devices[i];

        if (device->kind == DEVICE_NIC && device->vendor == 0x15b3 &&
            node_is_nvlink_controller("", &device->pci)) {
            device->kind = DEVICE_OTHER;
            topology->nic_count--;
        }
    }
    return topology;
}

struct topology *topology_read_hwloc(const char *name, const char *text, size_t size,
                                     struct error *err)
{
    char *copy;
    struct topology *topology;

    /* hwloc expects the size to include the terminating NUL. */
    if (size >= INT_MAX) {
        error_set(err,
                  "%s is too large for an hwloc XML file; export it again with `lstopo FILE.xml`",
                  name);
        return NULL;
    }
    copy = strndup(text, size);
    if (!copy) {
        error_set(err, "out of memory");
        return NULL;
    }
    topology = from_hwloc(name, copy, strlen(copy) + 1, err);
    free(copy);
    return topology;
}

#else

struct topology *topology_discover(struct error *err)
{
    error_set(err, "cannot discover the topology of this machine: built without hwloc; install "
                   "libhwloc-dev and build again");
    return NULL;
}

struct topology *topology_from_hwloc(const char *name, const char *text, size_t size,
                                     struct error *err)
{
    (void)text, (void)size;
    error_set(err, "cannot read %s: built without hwloc; install libhwloc-dev and build again",
              name);
    return NULL;
}

#endif
