/* SPDX-License-Identifier: Apache-2.0 */
/* NCCL's topology files: <system><cpu numaid=><pci busid= class=> ... nested like the switches.
 * They have no cores; for p4d they describe switches that the machine itself does not expose. */
#include "build.h"
#include "xml.h"

#include <stdlib.h>
#include <string.h>

struct merge {
    struct topology *topology;
    int places[XML_DEPTH + 2]; /* the places of the open elements */
    size_t depth;
    size_t moved;
};

static struct topology_device *find_device(struct topology *topology, const char *busid)
{
    struct pci_address pci;

    if (!busid || pci_parse(busid, &pci) < 0)
        return NULL;
    for (size_t i = 0; i < topology->device_count; i++)
        if (pci_compare(&topology->devices[i].pci, &pci) == 0)
            return &topology->devices[i];
    return NULL;
}

static int place_of_numa(const struct topology *topology, const char *numaid)
{
    long os = numaid ? strtol(numaid, NULL, 10) : -1;

    for (size_t i = 0; i < topology->numa_count; i++)
        if (topology->numas[i].os == os)
            return topology->numas[i].place;
    return 0;
}

/* The place to which the contents of this element are attached, or -1. */
static int enter(struct merge *merge, const struct xml_element *element, int outer,
                 struct error *err)
{
    const char *class = xml_attribute(element, "class");
    struct topology_device *device;

    if (strcmp(element->name, "cpu") == 0)
        return place_of_numa(merge->topology, xml_attribute(element, "numaid"));
    if (strcmp(element->name, "pci") != 0)
        return outer;
    device = find_device(merge->topology, xml_attribute(element, "busid"));
    if (device) {
        device->place = outer;
        merge->moved++;
        return outer;
    }
    if (class && strncmp(class, "0x0604", 6) == 0)
        return topology_add_place(merge->topology, PLACE_BRIDGE, outer, err);
    return outer;
}

static int handle(void *context, const struct xml_element *element, int open, struct error *err)
{
    struct merge *merge = context;
    int place;

    if (!open) {
        merge->depth--;
        return 0;
    }
    if (merge->depth == 0 && strcmp(element->name, "system") != 0)
        return error_set(err,
                         "the root element is <%s>, not <system> as in NCCL topologies; write one "
                         "with NCCL_TOPO_DUMP_FILE",
                         element->name);
    place = enter(merge, element, merge->places[merge->depth], err);
    if (place < 0)
        return -1;
    merge->places[++merge->depth] = place;
    return 0;
}

int topology_merge_nccl(struct topology *topology, const char *name, const char *text, size_t size,
                        struct error *err)
{
    struct merge merge = {.topology = topology};
    size_t bytes = topology->device_count * sizeof(topology->devices[0]);
    size_t places = topology->place_count;
    struct topology_device *before = malloc(bytes + 1);
    int rc = before ? 0 : error_set(err, "out of memory");

    if (rc == 0) {
        if (bytes > 0)
            memcpy(before, topology->devices, bytes);
        rc = xml_read(name, text, size, handle, &merge, err);
    }
    if (rc == 0 && merge.moved == 0 && topology->gpu_count + topology->nic_count > 0)
        rc = error_set(err,
                       "%s contains no GPU or NIC of this node; write it on a node of this type "
                       "with NCCL_TOPO_DUMP_FILE",
                       name);
    if (rc == 0)
        rc = topology_check(topology, name, err);
    if (rc < 0 && before) {
        if (bytes > 0)
            memcpy(topology->devices, before, bytes);
        topology->place_count = places;
    }
    free(before);
    return rc;
}
