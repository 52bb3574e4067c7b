/* SPDX-License-Identifier: Apache-2.0 */
/* The parts of arguments_derive. */
#ifndef MEGATRON_ARGUMENTS_PRIVATE_H
#define MEGATRON_ARGUMENTS_PRIVATE_H

#include "arguments.h"

/* Compute the number of steps, from samples if those are given. */
int arguments_length(struct arguments *arguments, struct error *err);

/* Fill in the step rules: learning rate, weight decay, loss scale. */
int arguments_schedule(struct arguments *arguments, struct error *err);

/* Options of single blocks: first what does not depend on weights that a run starts from, later
 * into the model's configuration. */
int arguments_block_words(struct arguments *arguments, const struct options_result *given,
                          struct error *err);
int arguments_blocks(struct arguments *arguments, struct model_config *model, struct error *err);

#endif
