/* SPDX-License-Identifier: Apache-2.0 */
/* Internal to the placement library: how a topology is built. */
#ifndef MEGATRON_PLACEMENT_BUILD_H
#define MEGATRON_PLACEMENT_BUILD_H

#include <stdio.h>
#include "lib/topology.h"

/* Limits for any topology, so that no input file can make it use unbounded memory. */
enum { BUILD_MAX_PLACES = 65536, BUILD_MAX_DEVICES = 4096 };

struct topology *topology_create(struct error *err);

/* Append an item. Return its number, or -1. Parents, NUMA nodes and places must already exist. */
int topology_add_place(struct topology *topology, enum place_kind kind, int parent,
                       struct error *err);
int topology_add_numa(struct topology *topology, int os, int place, struct error *err);
int topology_add_core(struct topology *topology, int numa, struct error *err);
/* Append a CPU to the last core. */
int topology_add_cpu(struct topology *topology, int os, struct error *err);
int topology_add_device(struct topology *topology, const struct topology_device *device,
                        struct error *err);

/* Classify a single PCI device: returns 1 with 'device->kind' set if it belongs in a topology, else
 * 0. 'rdma': the operating system has an InfiniBand device for it. */
int device_classify(struct topology_device *device, int rdma);

/* Classify the devices together, after all were added: which NICs are compute NICs, which display
 * adapters are GPUs. Sorts and counts them. */
void topology_settle_devices(struct topology *topology);

/* Assign bridges the cores of their parents; check that all indices are in range and that no two
 * cores share a CPU. Returns 0 or -1. */
int topology_check(struct topology *topology, const char *name, struct error *err);

/* The parsers behind topology_parse. topology_from_hwloc runs topology_read_hwloc in a child
 * process, since a damaged file may crash it. */
struct topology *topology_from_hwloc(const char *name, const char *text, size_t size,
                                     struct error *err);
struct topology *topology_read_hwloc(const char *name, const char *text, size_t size,
                                     struct error *err);
struct topology *topology_from_text(const char *name, const char *text, size_t size,
                                    struct error *err);

/* Write the format that topology_from_text reads. */
void topology_write_text(const struct topology *topology, FILE *file);

#endif
