/* SPDX-License-Identifier: Apache-2.0 */
/* What placement needs to know about a node: cores, NUMA nodes, and the GPUs and NICs in the tree
 * of PCI bridges. Created by hwloc on the node (or from its XML export), and stored in a small text
 * file so that tasks need neither hwloc nor a discovery. No Slurm, no GPU library. Only
 * topology_discover and topology_load open hwloc, with dlopen. */
#ifndef MEGATRON_TOPOLOGY_H
#define MEGATRON_TOPOLOGY_H

#include <stddef.h>
#include <stdint.h>
#include "cpuset.h"
#include "error.h"

struct pci_address {
    uint32_t domain;
    uint8_t bus, device, function;
};

enum { PCI_TEXT = 20 }; /* buffer size for an address as text */

/* Parse "0000:53:00.0", "53:00.0" or NVIDIA's "00000000:53:00.0". Returns 0 or -1. */
int pci_parse(const char *text, struct pci_address *pci);
/* Format as "0000:53:00.0" in 'buffer', and return it. */
char *pci_format(const struct pci_address *pci, char buffer[PCI_TEXT]);
/* Order by domain, bus, device, function: the order of CUDA_DEVICE_ORDER=PCI_BUS_ID. */
int pci_compare(const struct pci_address *a, const struct pci_address *b);

enum place_kind { PLACE_MACHINE, PLACE_PACKAGE, PLACE_GROUP, PLACE_BRIDGE };

/* An inner node of the tree. Place 0 is the machine; a parent comes before its children. */
struct topology_place {
    enum place_kind kind;
    int parent;     /* -1 for the machine */
    int first_core; /* the cores below it, or the nearest ones, in the order of cores[] */
    int core_count;
};

struct topology_numa {
    int os;    /* OS number */
    int place; /* the place it is attached to: a package, a group, the machine */
};

/* A core and its hardware threads: cpus[first_cpu] ... cpus[first_cpu + cpu_count - 1]. */
struct topology_core {
    int numa; /* index into numas[] */
    int first_cpu, cpu_count;
};

enum device_kind {
    DEVICE_GPU,
    DEVICE_NIC,   /* a compute NIC: EFA, InfiniBand or RoCE (mlx5), Omni-Path, Slingshot */
    DEVICE_OTHER, /* any other network card: used only if the user names it */
};

struct topology_device {
    enum device_kind kind;
    struct pci_address pci;
    uint16_t vendor, id, class;
    int place;     /* the bridge (or other place) it is attached to */
    char name[32]; /* name of the RDMA or network device, such as rdmap79s0; "" if none */
};

/* Cores are in logical order: neighbors in the machine are neighbors in the array. Devices are in
 * PCI order. Callers may read everything and must not change anything. */
struct topology {
    struct topology_place *places;
    struct topology_numa *numas;
    struct topology_core *cores;
    int *cpus; /* OS numbers, grouped by core */
    struct topology_device *devices;
    size_t place_count, numa_count, core_count, cpu_count, device_count;
    size_t gpu_count, nic_count; /* devices of the kinds GPU and NIC */
};

/* Discover this machine with hwloc: all of it, including CPUs that this process may not use. Takes
 * milliseconds. Like topology_load for XML, it sets an environment variable during the call to
 * disable hwloc's plugins: no other thread should read the environment meanwhile. Returns NULL with
 * a sentence in 'err' on failure. Caller must destroy. */
struct topology *topology_discover(struct error *err);

/* Load a file: hwloc XML (1.x or 2.x), or a file written by topology_save. Returns NULL with a
 * sentence in 'err' on failure. Caller must destroy. */
struct topology *topology_load(const char *path, struct error *err);

/* The same for text in memory; 'name' identifies it in errors. */
struct topology *topology_parse(const char *name, const char *text, size_t size, struct error *err);

/* Write the topology to 'path' with mode 0644, by renaming a temporary file. Returns 0 or -1.
 * topology_load reads the file in well under a millisecond and without hwloc. */
int topology_save(const struct topology *topology, const char *path, struct error *err);

void topology_destroy(struct topology *topology);

/* All CPUs; the CPUs of a place, or near it if it is a bridge. */
void topology_cpus(const struct topology *topology, struct cpuset *set);
void topology_place_cpus(const struct topology *topology, int place, struct cpuset *set);

/* GPU number 'index' in PCI order (NULL if there are fewer); the number of the GPU at a PCI address
 * (-1 if there is none). */
const struct topology_device *topology_gpu(const struct topology *topology, size_t index);
int topology_gpu_index(const struct topology *topology, const struct pci_address *pci);

/* A network device (of any kind) by name or PCI address, or NULL. */
const struct topology_device *topology_find_nic(const struct topology *topology, const char *text);

/* The name of a device, or its PCI address if it has none, in 'buffer', which is returned. */
const char *topology_device_name(const struct topology_device *device, char buffer[32]);

#endif
