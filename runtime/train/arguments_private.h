/* SPDX-License-Identifier: Apache-2.0 */
/* The parts of arguments_derive. */
#ifndef MEGATRON_ARGUMENTS_PRIVATE_H
#define MEGATRON_ARGUMENTS_PRIVATE_H

#include "arguments.h"

/* Compute the number of steps, from samples if those are given. */
int arguments_length(struct arguments *arguments, struct error *err);

/* Fill in the step rules: learning rate, weight decay, loss scale. */
int arguments_schedule(struct arguments *arguments, struct error *err);

#endif
