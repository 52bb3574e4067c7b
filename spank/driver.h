/* Which GPU is which, by the word of NVIDIA's driver: device file, PCI address, UUID. */
#ifndef MEGATRON_DRIVER_H
#define MEGATRON_DRIVER_H

#include <stddef.h>
#include "topology.h"

enum { DRIVER_GPUS = 64, DRIVER_UUID = 64 };

struct driver_gpu {
    int minor; /* N of /dev/nvidiaN */
    struct pci_address pci;
    char uuid[DRIVER_UUID]; /* "GPU-..." */
};

/* Read the driver's files below 'root' ("" but in tests) into 'gpus'. Returns how many there are; 0
 * without a driver. */
size_t driver_read(const char *root, struct driver_gpu gpus[DRIVER_GPUS]);

const struct driver_gpu *driver_by_minor(const struct driver_gpu *gpus, size_t count, int minor);

/* By "GPU-..." (or its beginning, as CUDA takes it) or "MIG-GPU-.../G/C". NULL where it is none. */
const struct driver_gpu *driver_by_uuid(const struct driver_gpu *gpus, size_t count,
                                        const char *uuid);

#endif
