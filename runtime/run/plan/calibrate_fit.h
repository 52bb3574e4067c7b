/* SPDX-License-Identifier: Apache-2.0 */
/* Fits the constants of the time model to measured training steps. */
#ifndef MEGATRON_CALIBRATE_FIT_H
#define MEGATRON_CALIBRATE_FIT_H

#include "machine.h"

/* Change the rates of 'machine' that computation depends on (products, attention, memory traffic)
 * until the model is as near as possible to the measured steps of the machine. Returns the mean
 * error that is left, as a share; 0 without steps. */
double calibrate_fit(struct machine *machine);

#endif
