/* SPDX-License-Identifier: Apache-2.0 */
/* Convert the pieces of a checkpoint to those of this rank, for any two layouts. */
#ifndef MEGATRON_RESHARD_H
#define MEGATRON_RESHARD_H

#include "shard_file.h"

/* Fill 'arrays' (of the shard's elements each, cleared by the caller) with the pieces of a rank,
 * from the checkpoint in 'directory', which has the tensors of the rank's model. Every file that
 * contains some of them is opened once and read forwards, block by block. Returns 0,
 * CHECKPOINT_DAMAGED, CHECKPOINT_UNREADABLE or -1. */
int reshard_read(const char *directory, const struct checkpoint_index *index,
                 const struct parameters *parameters, const struct pieces *pieces,
                 float *const *arrays, int array_count, struct error *err);

#endif
