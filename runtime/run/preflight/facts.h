/* SPDX-License-Identifier: Apache-2.0 */
/* What a rank finds on its node without measuring: versions, devices, limits, counters, and what
 * NVML reports. Plain bytes, so that they can be sent to rank 0. */
#ifndef MEGATRON_FACTS_PREFLIGHT_H
#define MEGATRON_FACTS_PREFLIGHT_H

#include <stddef.h>
#include <stdint.h>
#include "lib/error.h"
#include "base/core/nvml_gpus.h"
#include "engine/comm/rendezvous.h"

enum { FACTS_GPUS = 16, FACTS_NAME = 64, FACTS_XIDS = 8, FACTS_PORTS = 64 };

/* Counters of an RDMA port that only grow. */
struct port_counters {
    char device[24];
    uint64_t errors; /* retransmissions, drops, failed writes, symbol errors */
    uint64_t downs;  /* times that it went down */
};

/* The counters of all ports; the last entry also has the sums of those that do not fit. */
struct counter_facts {
    int32_t count;
    struct port_counters ports[FACTS_PORTS];
};

struct xid_facts {
    char bus[16];
    int32_t number, count;
};

/* What the first rank of a node reads. */
struct node_facts {
    char kind[FACTS_NAME]; /* product name of the machine */
    char program[32];      /* "checksum ..." of this program */
    char driver[32], nccl[32];
    int32_t gpus, nics, nics_down; /* as the kernel lists them */
    int32_t allocated;             /* GPUs that Slurm allocated there */
    char first_down[24];           /* the first of the NICs that are down */
    int32_t efa, openable, efa_provider, nccl_plugin;
    int32_t gpudirect; /* the kernel lets NICs access GPU memory; -1: not applicable */
    uint64_t locked_memory, open_files; /* limits */
    int32_t scratch_error;        /* errno of creating a file in the scratch directory, or 0 */
    char nvml[ERROR_TEXT];        /* why NVML could not be used, or "" */
    int32_t gpu_count, gpus_lost; /* of 'gpu'; of those, which NVML cannot reach */
    struct gpu_state gpu[FACTS_GPUS];
    int32_t xid_count; /* -1: the kernel log cannot be read */
    struct xid_facts xids[FACTS_XIDS];
    struct counter_facts before;
    struct rendezvous_address address; /* where it listens for other nodes */
};

struct facts {
    char host[FACTS_NAME];
    char model[128];   /* of its device, such as "NVIDIA H200" */
    int32_t leads;     /* the first rank of its node: 'node' is filled */
    int32_t gpu_index; /* -1: a CPU rank */
    struct node_facts node;
};

/* Read the node's part below 'root' ("" is the machine itself). 'nvml' may be NULL. */
void facts_read_node(struct node_facts *node, const char *root, struct nvml_gpus *nvml);

/* Facts of another rank may be anything: end the texts, and limit counts and other numbers so that
 * they can be used. */
void facts_limit(struct facts *facts);
void facts_limit_number(int64_t *number);
void facts_limit_counters(struct counter_facts *counters);
void facts_limit_gpus(struct gpu_state gpus[FACTS_GPUS]);

void facts_read_counters(struct counter_facts *counters, const char *root);

/* Xid errors: what the NVIDIA driver wrote to the kernel log about its GPUs since boot (xid.c). */

/* Fill node->xids from the kernel log below 'root'. */
void xid_read(struct node_facts *node, const char *root);

/* What to do about an Xid. */
enum xid_action { XID_NOTE, XID_RESTART, XID_RESET, XID_REBOOT, XID_REPLACE };
enum xid_action xid_action(int number);
const char *xid_advice(enum xid_action action);

#endif
