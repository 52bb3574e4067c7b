/* SPDX-License-Identifier: Apache-2.0 */
/* Measures what the time model needs of this machine, for a machine file:
 *
 *     struct machine machine = machine_usual();
 *
 *     if (calibrate_collectives(&machine, 0, device, world, err) == 0 &&    on all ranks
 *         calibrate(&machine, device, err) == 0 &&                          on one of them
 *         calibrate_steps(&machine, is_gpu, err) == 0)
 *         machine_write(&machine, "here.json", err);
 */
#ifndef MEGATRON_CALIBRATE_H
#define MEGATRON_CALIBRATE_H

#include "base/core/world.h"
#include "engine/device/device.h"
#include "machine.h"

/* Matrix products, attention and copies: replace the rates in 'machine' that can be measured on one
 * device. If its data sheet is not known (flops and bandwidth are 0), these are set to the largest
 * measured rates. Takes some seconds. */
int calibrate(struct machine *machine, struct device *device, struct error *err);

/* Collectives: replace the rates of the links in 'machine', those within a node if a node has
 * several ranks, and those of the network if there are several nodes. All ranks of the job call it;
 * all get the same rates. 'known': the bandwidths in 'machine' are those of a data sheet, which
 * stay; otherwise they follow from what is measured. */
int calibrate_collectives(struct machine *machine, int known, struct device *device,
                          const struct world *world, struct error *err);

/* Training steps, by running `megatron train` on small models of several widths: their layers have
 * the kernels, the order and the power draw of a long run, which products that are timed one by one
 * do not have. Fills the machine's measured steps and fits its rates to them, that of the optimizer
 * included. 'gpu': the device is a GPU rather than the CPUs. Models that cannot be run, for example
 * because the device has too little memory, are left out with a warning. Returns -1 if none can.
 * Takes two to three minutes on a GPU. */
int calibrate_steps(struct machine *machine, int gpu, struct error *err);

/* Change the rates of 'machine' that computation depends on (products, attention, memory traffic)
 * until the model is as near as possible to the measured steps of the machine. Returns the mean
 * error that is left, as a share; 0 without steps. */
double calibrate_fit(struct machine *machine);

#endif
