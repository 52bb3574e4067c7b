/* SPDX-License-Identifier: Apache-2.0 */
/* Megatron-LM checkpoints in the torch format: mp_rank_TT[_PPP]/model_optim_rng.pt, one file per
 * tensor- and pipeline-parallel rank, of any checkpoint version. */
#ifndef MEGATRON_MEGATRON_SOURCE_H
#define MEGATRON_MEGATRON_SOURCE_H

#include "engine/model/model_config.h"
#include "engine/model/parameters.h"

/* Values from the user for checkpoints that do not contain them; 0: not given. */
struct megatron_hints {
    int64_t heads, vocabulary;
};

struct megatron_source;

/* Open 'path': a directory with latest_checkpointed_iteration.txt, an iter_... or release directory
 * in it, or a file of one rank that contains the whole model. Returns NULL with 'err' set. Caller
 * must destroy. */
struct megatron_source *megatron_source_open(const char *path, const struct megatron_hints *hints,
                                             struct error *err);
void megatron_source_destroy(struct megatron_source *source);

const struct model_config *megatron_source_model(const struct megatron_source *source);

/* How the checkpoint was interpreted: "checkpoint version 0, tp 1, ...". */
const char *megatron_source_describe(const struct megatron_source *source);

/* Read one whole parameter. */
int megatron_source_load(struct megatron_source *source, const struct parameter *parameter,
                         float *out, struct error *err);

#endif
