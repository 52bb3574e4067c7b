/* SPDX-License-Identifier: Apache-2.0 */
/* --dataloader-type cyclic: epoch after epoch in random order, as Megatron-LM's random sampler with
 * data sharding. Each data-parallel rank shuffles its own part of the samples, so the order depends
 * on the number of these ranks and on the micro-batch size. */
#ifndef MEGATRON_CYCLIC_H
#define MEGATRON_CYCLIC_H

#include <stdint.h>
#include "lib/error.h"

struct cyclic;

/* For a dataset of 'samples' samples. Returns NULL with 'err', also if they do not make one batch
 * of all ranks. */
struct cyclic *cyclic_create(int64_t samples, int64_t micro_batch, int64_t ranks,
                             struct error *err);
void cyclic_destroy(struct cyclic *cyclic);

/* The sample at position 'at' of the run, counted over all ranks as they take turns with
 * micro-batches: rank r takes positions [r * micro_batch, (r + 1) * micro_batch) of each
 * ranks * micro_batch. Callable from any thread. */
int64_t cyclic_sample(struct cyclic *cyclic, int64_t at);

#endif
