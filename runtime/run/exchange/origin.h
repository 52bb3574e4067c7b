/* SPDX-License-Identifier: Apache-2.0 */
/* A directory of weights, whichever program wrote it, and their model configuration. */
#ifndef MEGATRON_ORIGIN_H
#define MEGATRON_ORIGIN_H

#include "engine/model/model_config.h"

enum origin_kind { ORIGIN_CHECKPOINT, ORIGIN_HF };

struct origin {
    enum origin_kind kind;
    int64_t iteration; /* for a checkpoint: the newest one whose index can be read */
    struct model_config
        model; /* model, positions, sequence length; fields that describe a run are cleared */
};

/* Examine 'directory': checkpoints (iter_* in it) or a Hugging Face directory (config.json in it).
 * Returns 0, or -1 with what is missing or damaged. */
int origin_read(struct origin *origin, const char *directory, struct error *err);

/* The schedule of learning rate and weight decay of the checkpoint of 'iteration' in 'directory',
 * or of the newest one if 'iteration' is negative. Returns 1; 0 if there is no checkpoint or it was
 * saved without the optimizer state; -1 if it cannot be read. */
int origin_schedule(struct step_rules *rules, const char *directory, int64_t iteration,
                    struct error *err);

#endif
