/* SPDX-License-Identifier: Apache-2.0 */
/* Decide which PCI devices are GPUs and compute NICs. Real exports often lack CUDA, NVML and
 * network objects, so vendor, device and class must be enough. */
#include "build.h"

#include <stdlib.h>
#include <string.h>

enum {
    VENDOR_AMD = 0x1002,
    VENDOR_NVIDIA = 0x10de,
    VENDOR_MELLANOX = 0x15b3,
    VENDOR_CRAY = 0x17db,
    VENDOR_AMAZON = 0x1d0f,
    VENDOR_CORNELIS = 0x434e,
    VENDOR_INTEL = 0x8086,
    CLASS_INFINIBAND = 0x0207,
    CLASS_FABRIC = 0x0208,
    CLASS_OLD_INFINIBAND = 0x0c06,
};

static int is_efa(const struct topology_device *device)
{
    return device->vendor == VENDOR_AMAZON && device->id >= 0xefa0 && device->id <= 0xefa3;
}

static int is_infiniband(const struct topology_device *device)
{
    return device->class == CLASS_INFINIBAND || device->class == CLASS_OLD_INFINIBAND;
}

static int is_gpu(const struct topology_device *device)
{
    int display = device->class >> 8 == 0x03;

    if (device->vendor == VENDOR_NVIDIA)
        return display;
    /* AMD's accelerators; an AMD VGA adapter is a server's console. */
    return device->vendor == VENDOR_AMD &&
           ((display && device->class != 0x0300) || device->class >> 8 == 0x12);
}

static int is_compute_nic(const struct topology_device *device, int rdma)
{
    switch (device->vendor) {
    case VENDOR_AMAZON:
        /* Of Amazon's cards only EFA has an RDMA device; new ones may have new device ids. */
        return rdma || is_efa(device);
    case VENDOR_MELLANOX:
        return rdma || is_infiniband(device);
    case VENDOR_CRAY:
    case VENDOR_CORNELIS:
        return 1;
    case VENDOR_INTEL:
        return device->class == CLASS_FABRIC || strncmp(device->name, "hfi", 3) == 0;
    default:
        return is_infiniband(device) || strncmp(device->name, "cxi", 3) == 0 ||
               strncmp(device->name, "hsn", 3) == 0;
    }
}

int device_classify(struct topology_device *device, int rdma)
{
    int network = device->class >> 8 == 0x02 || device->class == CLASS_OLD_INFINIBAND || rdma;

    if (is_gpu(device))
        device->kind = DEVICE_GPU;
    else if (network)
        device->kind = is_compute_nic(device, rdma) ? DEVICE_NIC : DEVICE_OTHER;
    else
        return 0;
    return 1;
}

static int by_address(const void *a, const void *b)
{
    const struct topology_device *left = a, *right = b;

    return pci_compare(&left->pci, &right->pci);
}

void topology_settle_devices(struct topology *topology)
{
    int nvidia = 0, efa = 0, infiniband = 0;
    size_t kept = 0;

    for (size_t i = 0; i < topology->device_count; i++) {
        const struct topology_device *device = &topology->devices[i];

        nvidia |= device->kind == DEVICE_GPU && device->vendor == VENDOR_NVIDIA;
        efa |= device->kind == DEVICE_NIC && device->vendor == VENDOR_AMAZON;
        infiniband |= device->vendor == VENDOR_MELLANOX && is_infiniband(device);
    }
    topology->gpu_count = topology->nic_count = 0;
    for (size_t i = 0; i < topology->device_count; i++) {
        struct topology_device *device = &topology->devices[i];

        if (device->kind == DEVICE_GPU && nvidia && device->vendor != VENDOR_NVIDIA)
            continue;
        /* On a node with EFA, the InfiniBand devices are NVLink controllers (p6-b200). */
        if (device->kind == DEVICE_NIC && efa && device->vendor != VENDOR_AMAZON)
            device->kind = DEVICE_OTHER;
        /* On a node with InfiniBand, Ethernet ports of the same vendor are for storage and
         * management. */
        if (device->kind == DEVICE_NIC && infiniband && device->vendor == VENDOR_MELLANOX &&
            !is_infiniband(device))
            device->kind = DEVICE_OTHER;
        topology->gpu_count += device->kind == DEVICE_GPU;
        topology->nic_count += device->kind == DEVICE_NIC;
        topology->devices[kept++] = *device;
    }
    topology->device_count = kept;
    if (kept > 0)
        qsort(topology->devices, kept, sizeof(topology->devices[0]), by_address);
}
