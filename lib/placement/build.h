/* Inside the placement library: how a topology comes about. */
#ifndef MEGATRON_PLACEMENT_BUILD_H
#define MEGATRON_PLACEMENT_BUILD_H

#include "topology.h"

/* Limits of any topology, from whatever file: memory stays bounded. */
enum { BUILD_MAX_PLACES = 65536, BUILD_MAX_DEVICES = 4096 };

struct topology *topology_create(struct error *err);

/* Append one. Return its number, or -1. Parents, NUMA nodes and places must exist already. */
int topology_add_place(struct topology *topology, enum place_kind kind, int parent,
                       struct error *err);
int topology_add_numa(struct topology *topology, int os, int place, struct error *err);
int topology_add_core(struct topology *topology, int numa, struct error *err);
/* To the last core. */
int topology_add_cpu(struct topology *topology, int os, struct error *err);
int topology_add_device(struct topology *topology, const struct topology_device *device,
                        struct error *err);

/* What a PCI device is by itself: 1 and 'device->kind' set if it belongs into a topology, else 0.
 * 'rdma': it has an InfiniBand device of the operating system. */
int device_classify(struct topology_device *device, int rdma);

/* What devices are in company, after all are added: the compute NICs among the NICs, the GPUs among
 * the display adapters. Sorts and counts. */
void topology_settle_devices(struct topology *topology);

/* Let bridges have the cores of what they hang on; check that numbers are in range and that each
 * core has CPUs of its own. Returns 0 or -1. */
int topology_check(struct topology *topology, const char *name, struct error *err);

/* The readers behind topology_parse. */
struct topology *topology_from_hwloc(const char *name, const char *text, size_t size,
                                     struct error *err);
struct topology *topology_from_text(const char *name, const char *text, size_t size,
                                    struct error *err);

#endif
