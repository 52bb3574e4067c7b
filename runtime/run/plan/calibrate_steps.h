/* SPDX-License-Identifier: Apache-2.0 */
/* Measures real training steps of this machine's device, by running `megatron train` on small
 * models of several widths. Their layers have the kernels, the order and the power draw of a long
 * run, which products that are timed one by one do not have. */
#ifndef MEGATRON_CALIBRATE_STEPS_H
#define MEGATRON_CALIBRATE_STEPS_H

#include "machine.h"

/* Fill the machine's measured steps and fit its rates to them, that of the optimizer included.
 * 'gpu': the device is a GPU rather than the CPUs. Models that cannot be run, for example because
 * the device has too little memory, are left out with a warning. Returns -1 if none can. Takes two
 * to three minutes on a GPU.
 */
int calibrate_steps(struct machine *machine, int gpu, struct error *err);

#endif
