/* SPDX-License-Identifier: Apache-2.0 */
/* The built-in backend; device.c opens it. */
#ifndef MEGATRON_CPU_OPEN_H
#define MEGATRON_CPU_OPEN_H

#include "device.h"

struct device *cpu_device_open(const struct device_options *options, struct error *err);

#endif
