/* SPDX-License-Identifier: Apache-2.0 */
/* The model configuration of the weights that a run starts from, or evaluates, overrides defaults.
 */
#ifndef MEGATRON_NETWORK_OF_WEIGHTS_H
#define MEGATRON_NETWORK_OF_WEIGHTS_H

#include "arguments.h"

/* Fill in the model options from the weights of --load-hf or, in an evaluation, --load; otherwise
 * do nothing. Options on the command line may repeat the same values; if one differs, return -1
 * with both values. A Hugging Face directory given as --load is moved to --load-hf. */
int network_from_weights(struct arguments *arguments, const struct options_result *given,
                         struct error *err);

#endif
