/* SPDX-License-Identifier: Apache-2.0 */
/* RandomState.shuffle with several threads. */
#ifndef MEGATRON_SHUFFLE_H
#define MEGATRON_SHUFFLE_H

#include "mt19937.h"

/* Like mt19937_shuffle_u32 and _i64, with identical results, including the state of the generator.
 * Needs about 20 MiB of memory. */
void shuffle_u32(struct mt19937 *rng, uint32_t *array, int64_t count, int threads);
void shuffle_i64(struct mt19937 *rng, int64_t *array, int64_t count, int threads);

#endif
