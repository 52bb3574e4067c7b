/* SPDX-License-Identifier: Apache-2.0 */
/* Weights from a directory of any kind, for commands that do not train. */
#ifndef MEGATRON_WEIGHTS_H
#define MEGATRON_WEIGHTS_H

#include "engine/model/model.h"
#include "run/exchange/origin.h"

/* Read this rank's part of the weights in 'directory', which 'origin' describes, into
 * the model's start_weights. Collective. */
int weights_load(const char *directory, const struct origin *origin, struct model *model,
                 const struct parallel *parallel, struct device *device, struct error *err);

#endif
