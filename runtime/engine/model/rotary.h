/* SPDX-License-Identifier: Apache-2.0 */
/* Rotary position embeddings: the angle of each pair of channels, with the scalings for longer
 * sequences. */
#ifndef MEGATRON_MODEL_ROTARY_H
#define MEGATRON_MODEL_ROTARY_H

#include "model_config.h"

/* The rotation of channel pair 'i' of 'rotary' / 2 per position, in radians; 'window': in a layer
 * with a window. */
double rotary_rotation(const struct network *config, int window, int64_t rotary, int64_t i);

/* The factor of all sines and cosines. */
double rotary_magnitude(const struct network *config, int window);

#endif
