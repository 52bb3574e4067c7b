/* The network of weights that are only evaluated: theirs, not the command line's. */
#ifndef MEGATRON_NETWORK_H
#define MEGATRON_NETWORK_H

#include "arguments.h"

/* Fill in the options of the network from the weights that --load or --load-hf names. Options on
 * the command line may say the same again; where one says something else: -1 with both values. A
 * Hugging Face folder behind --load becomes that of --load-hf. */
int network_from_weights(struct arguments *arguments, const struct options_result *given,
                         struct error *err);

#endif
