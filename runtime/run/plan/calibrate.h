/* SPDX-License-Identifier: Apache-2.0 */
/* Measures what the time model needs of this machine's device: matrix products, attention and
 * copies. */
#ifndef MEGATRON_CALIBRATE_H
#define MEGATRON_CALIBRATE_H

#include "engine/device/device.h"
#include "machine.h"

/* Replace the rates in 'machine' that can be measured on one device. If its data sheet
 * is not known (flops and bandwidth are 0), these are set to the largest measured rates. Takes some
 * seconds. */
int calibrate(struct machine *machine, struct device *device, struct error *err);

#endif
