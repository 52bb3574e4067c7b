/* What the kernel and the file system of a node say of its GPUs and its fabric. Everything is read
 * below 'root' ("" is the machine itself), so that tests have nodes of their own. */
#ifndef MEGATRON_NODE_H
#define MEGATRON_NODE_H

#include <stddef.h>
#include <stdint.h>
#include "error.h"
#include "topology.h"

/* A GPU as NVIDIA's driver knows it: /dev/nvidia<minor> is the GPU at 'pci'. Minors follow the
 * order in which the driver found them, which is not always PCI order. */
struct node_gpu {
    struct pci_address pci;
    int minor;
    char uuid[48]; /* "GPU-..."; "" where the driver says none */
    char model[64];
};

/* List the GPUs below /proc/driver/nvidia/gpus in PCI order; none (and 0) where there is no driver.
 * The caller frees '*gpus'. Returns 0 or -1. */
int node_gpus(const char *root, struct node_gpu **gpus, size_t *count, struct error *err);

/* The GPUs that a device cgroup lets this process open. If it denies some of the machine's
 * /dev/nvidia<minor>, returns 1 and the minors of the others in 'list', such as "1,3" ("" if it
 * denies all). Returns 0 if it denies none, or if the list does not fit. The files are not opened,
 * which would wake the GPUs. */
int node_reachable_gpus(char *list, size_t size);

/* A MIG instance: /dev/nvidia-caps/nvidia-cap<capability> opens it. */
struct node_instance {
    int minor; /* of the GPU */
    int gpu_instance, compute_instance;
    int capability;
};

/* List the MIG instances below /proc/driver/nvidia/capabilities, by GPU and number; none where
 * there are none. The caller frees '*instances'. Returns 0 or -1. */
int node_instances(const char *root, struct node_instance **instances, size_t *count,
                   struct error *err);

/* Is the InfiniBand device at 'pci' a controller of NVLink switches (HGX B200 and later)? It says
 * so in its vital product data, which root may read; 0 where it cannot be read. */
int node_is_nvlink_controller(const char *root, const struct pci_address *pci);

/* What stands between NCCL and the fabric. */
struct node_fabric {
    int efa;                /* RDMA devices of the driver efa */
    int verbs;              /* other RDMA devices: InfiniBand, RoCE, Omni-Path */
    int openable;           /* device files /dev/infiniband/uverbs* that this process may open */
    int libfabric;          /* libfabric is found */
    int efa_provider;       /* and has the provider efa */
    int nccl_plugin;        /* a network plugin for NCCL (aws-ofi-nccl) is found */
    int libibverbs;         /* is found */
    uint64_t locked_memory; /* limit in bytes; UINT64_MAX is none */
};

/* Look for devices and libraries: in 'library_path' (directories separated by colons, may be NULL),
 * in the directories of /etc/ld.so.conf.d, in those of Amazon's installers and in the usual ones.
 * The limit is this process's. */
void node_fabric_read(const char *root, const char *library_path, struct node_fabric *fabric);

enum { NODE_SENTENCES = 4 };

/* What will go wrong, as sentences for the user: silent fallback to TCP, memory that cannot be
 * locked. Returns how many were written. */
size_t node_fabric_warnings(const struct node_fabric *fabric,
                            struct error sentences[NODE_SENTENCES]);

#endif
