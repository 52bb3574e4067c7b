/* SPDX-License-Identifier: Apache-2.0 */
#include "device.h"
#include "cpu_open.h"
#include "base/core/module.h"

#include <stdio.h>
#include <string.h>

struct device *device_open(const char *name, const struct device_options *options,
                           struct error *err)
{
    device_backend_open_function *open;
    struct device *device;
    char file[64];

    if (strcmp(name, "cpu") == 0)
        return cpu_device_open(options, err);
    if (strcmp(name, "cuda") != 0) {
        error_set(err, "unknown device %s; use cpu or cuda", name);
        return NULL;
    }
    snprintf(file, sizeof(file), "device_%s.so", name);
    open = (device_backend_open_function *)module_symbol(file, "device_backend_open",
                                                         "training on GPUs", err);
    if (!open)
        return NULL;
    device = open(options, err);
    if (device && device->abi != DEVICE_ABI) {
        error_set(err, "%s belongs to another version of megatron; install them together", file);
        device_close(device);
        return NULL;
    }
    return device;
}
