/* The network of weights that a run starts from or evaluates: theirs, not the command line's. */
#ifndef MEGATRON_NETWORK_H
#define MEGATRON_NETWORK_H

#include "arguments.h"

/* Fill in the options of the network from the weights that --load-hf names, or, in an evaluation,
 * --load; without these do nothing. Options on
 * the command line may say the same again; where one says something else: -1 with both values. A
 * Hugging Face folder behind --load becomes that of --load-hf. */
int network_from_weights(struct arguments *arguments, const struct options_result *given,
                         struct error *err);

#endif
