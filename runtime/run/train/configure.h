/* SPDX-License-Identifier: Apache-2.0 */
/* Turns arguments into the configuration of the layers below. */
#ifndef MEGATRON_CONFIGURE_H
#define MEGATRON_CONFIGURE_H

#include "arguments.h"

struct engine_config configure_engine(const struct arguments *arguments);

/* The result points into 'arguments'. */
void configure_dataset(const struct arguments *arguments, struct dataset_config *config);

#endif
