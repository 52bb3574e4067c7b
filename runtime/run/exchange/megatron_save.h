/* SPDX-License-Identifier: Apache-2.0 */
/* Write the weights of a checkpoint as Megatron-LM would: either a file per rank, as it does with
 * --ckpt-format torch, or a distributed checkpoint (torch_dist). */
#ifndef MEGATRON_MEGATRON_SAVE_H
#define MEGATRON_MEGATRON_SAVE_H

#include "run/checkpoint/index.h"

struct megatron_target {
    int dist;           /* a distributed checkpoint */
    int64_t tp, pp;     /* ranks to write files for; ignored for a distributed one */
    int interleaved;    /* rotary positions as with --rotary-interleaved */
    int local;          /* the names of --transformer-impl local instead of Transformer Engine's */
    int64_t divisor;    /* the vocabulary is padded to a multiple of this, times tp */
    int64_t file_bytes; /* of a distributed checkpoint: the size after which a file ends */
    enum device_type type;
};

/* Does Megatron-LM have such a model, and can it be divided in this way? */
int megatron_save_check(const struct network *model, const struct megatron_target *target,
                        struct error *err);

/* Write the checkpoint with index 'index' in 'from' to the empty directory 'to', one tensor at a
 * time. */
int megatron_save(const char *to, const char *from, const struct checkpoint_index *index,
                  const struct megatron_target *target, struct error *err);

#endif
