/* SPDX-License-Identifier: Apache-2.0 */
/* What the kernel and the file system of a node report about its GPUs and fabric. Everything is
 * read below 'root' ("" is the machine itself), so that tests can provide their own nodes. */
#ifndef MEGATRON_NODE_H
#define MEGATRON_NODE_H

#include <stddef.h>
#include <stdint.h>
#include "error.h"
#include "topology.h"

/* A GPU as reported by NVIDIA's driver: /dev/nvidia<minor> is the GPU at 'pci'. Minor numbers
 * follow the driver's discovery order, which is not always PCI order. */
struct node_gpu {
    struct pci_address pci;
    int minor;
    char uuid[48]; /* "GPU-..."; "" if the driver does not report one */
    char model[64];
};

/* List the GPUs in /proc/driver/nvidia/gpus in PCI order; none (and 0) if there is no driver. The
 * caller frees '*gpus'. Returns 0 or -1. */
int node_gpus(const char *root, struct node_gpu **gpus, size_t *count, struct error *err);

/* The GPUs that a device cgroup lets this process open. If it denies some of the machine's
 * /dev/nvidia<minor>, returns 1 and the minors of the others in 'list', such as "1,3" ("" if it
 * denies all). Returns 0 if it denies none, or if the list does not fit. The files are not opened,
 * which would wake the GPUs. */
int node_reachable_gpus(char *list, size_t size);

/* Is the InfiniBand device at 'pci' a controller of NVLink switches (HGX B200 and later)? Its vital
 * product data, which only root may read, identifies it; 0 if that cannot be read. */
int node_is_nvlink_controller(const char *root, const struct pci_address *pci);

/* What NCCL needs to use the fabric. */
struct node_fabric {
    int efa;                /* RDMA devices with the efa driver */
    int verbs;              /* other RDMA devices: InfiniBand, RoCE, Omni-Path */
    int openable;           /* device files /dev/infiniband/uverbs* that this process may open */
    int libfabric;          /* libfabric was found */
    int efa_provider;       /* and has the efa provider */
    int nccl_plugin;        /* a network plugin for NCCL (aws-ofi-nccl) was found */
    int libibverbs;         /* was found */
    uint64_t locked_memory; /* limit in bytes; UINT64_MAX: none */
};

/* Look for devices and libraries: in 'library_path' (colon-separated, may be NULL), in the
 * directories of /etc/ld.so.conf.d, in those of Amazon's installers and in the standard ones. The
 * limit is that of this process. */
void node_fabric_read(const char *root, const char *library_path, struct node_fabric *fabric);

enum { NODE_SENTENCES = 4 };

/* Describe expected problems in sentences for the user: silent fallback to TCP, memory that cannot
 * be locked. Returns the number of sentences. */
size_t node_fabric_warnings(const struct node_fabric *fabric,
                            struct error sentences[NODE_SENTENCES]);

#endif
