/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by the files that read Megatron-LM checkpoints. */
#ifndef MEGATRON_MEGATRON_PRIVATE_H
#define MEGATRON_MEGATRON_PRIVATE_H

#include "megatron_source.h"
#include "torch_file.h"

#include <limits.h>

/* One rank's file. */
struct megatron_shard {
    char name[40]; /* mp_rank_00_000, for errors */
    struct torch_file *file;
};

struct megatron_source {
    int64_t tp, pp, chunks, chunk_layers;
    struct megatron_shard *shards; /* tp * pp, tp fastest */
    double version;
    struct model_config model;
    char description[200];
};

/* How a tensor is divided over tensor-parallel ranks. */
enum megatron_cut {
    CUT_NONE, /* replicated */
    CUT_ROWS,
    CUT_COLS,
    CUT_QKV, /* rows of query, key and value, interleaved depending on the version */
    CUT_FC1, /* rows; with SwiGLU each rank has its part of the gate followed by its part of the
                rest */
};

struct megatron_name {
    const char *ours; /* after "layers.N." if it is a tensor of a layer */
    enum megatron_cut cut;
    int part;              /* for CUT_QKV and CUT_FC1 */
    const char *theirs[4]; /* names in different versions; '/' descends into a dict */
};

/* The table row for our tensor and its layer number, -1: none. NULL: Megatron-LM has no such
 * tensor. */
const struct megatron_name *megatron_name_of(const char *ours, int64_t *layer);

/* The value for a row in the given shard and chunk, where the layer has index 'local' in that
 * chunk; NULL: missing. */
const struct pickle_value *megatron_find(const struct megatron_source *source, int64_t tp,
                                         int64_t pp, int64_t chunk,
                                         const struct megatron_name *name, int64_t local);

/* Our tensor 'ours' of the first layer or of none, in the first or last stage. */
const struct pickle_value *megatron_find_ours(const struct megatron_source *source,
                                              const char *ours, int last_stage);

/* Check that every tensor of every rank is known. */
int megatron_check_tensors(const struct megatron_source *source, struct error *err);

/* Fill in 'model' and the description, from the checkpoint's arguments, its tensors and the hints.
 */
int megatron_read_model(struct megatron_source *source, const struct megatron_hints *hints,
                        struct error *err);

#endif
