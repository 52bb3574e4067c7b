/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by the files that read Megatron-LM checkpoints. */
#ifndef MEGATRON_MEGATRON_PRIVATE_H
#define MEGATRON_MEGATRON_PRIVATE_H

#include "megatron_source.h"
#include "torch_dist.h"

#include <limits.h>

/* One rank's file. */
struct megatron_shard {
    char name[40]; /* mp_rank_00_000, for errors */
    struct torch_file *file;
};

struct megatron_source {
    int64_t tp, pp, chunks, chunk_layers;
    /* tp * pp, tp fastest. A distributed checkpoint has one, whose file is common.pt, or NULL. */
    struct megatron_shard *shards;
    struct torch_dist *dist; /* the tensors of a distributed checkpoint; NULL: they are in shards */
    float *values;           /* of the tensor that was read last from 'dist' */
    char values_of[160];     /* its name and layer */
    double version;
    int64_t pairs; /* see struct megatron_split */
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

/* The table row for the name of a tensor, without "layers.N." if it is one of a layer. */
const struct megatron_name *megatron_row(const char *ours, int of_layer);

/* How Megatron-LM divides the tensors of a model. */
struct megatron_split {
    const struct model_config *model;
    int64_t tp;
    double version; /* of the checkpoint: the order of query, key and value */
    int64_t pairs;  /* adjacent channels of a head that are rotated together (--rotary-interleaved);
                       0: those half of the rotated channels apart, as here */
};

/* Which rank has row 'row' of one of our tensors with 'rows' rows, and which row of its part it is.
 */
int64_t megatron_rank_of_row(const struct megatron_split *split, const struct megatron_name *name,
                             int64_t rows, int64_t row, int64_t *local);

/* Shape of one rank's part of the Megatron-LM tensor, given our whole one; vectors have one column.
 */
void megatron_part_shape(const struct megatron_split *split, const struct megatron_name *name,
                         int64_t rows, int64_t cols, int64_t *part_rows, int64_t *part_cols);

/* Where a tensor is: in the file of one rank, in one of its chunks, with this index among the
 * layers of that chunk; -1: it is not a tensor of a layer. */
struct megatron_location {
    int64_t tp, pp, chunk, local;
};

/* Fill 'err': our tensor 'ours' is missing, which has the names of 'name' there. Returns -1. */
int megatron_missing(const char *ours, const struct megatron_name *name, struct error *err);

/* Does the checkpoint have the tensor? */
int megatron_has(const struct megatron_source *source, const struct megatron_name *name,
                 const struct megatron_location *location);

/* Find our tensor 'ours' of the first layer or of none, in the first or last stage; of a
 * distributed checkpoint only its shape. Returns 1, or 0 or -1 with 'err' set if it is missing or
 * damaged. */
int megatron_find_ours(const struct megatron_source *source, const char *ours, int last_stage,
                       struct torch_tensor *tensor, struct error *err);
int megatron_has_ours(const struct megatron_source *source, const char *ours, int last_stage);

/* Is 'name' one of Megatron-LM's names, of a tensor within layers or outside them? */
int megatron_is_theirs(const char *name, int of_layer);

/* megatron_dist.c: find a tensor in a distributed checkpoint, and check the names of all. */
int megatron_dist_find(const struct megatron_source *source, const struct megatron_name *name,
                       int64_t layer, struct torch_tensor *tensor);
int megatron_dist_check(const struct megatron_source *source, struct error *err);

/* Read the elements of a tensor that was found; they are valid until the next call. */
int megatron_dist_load(struct megatron_source *source, const struct megatron_name *name,
                       int64_t layer, struct torch_tensor *tensor, struct error *err);

/* Open the distributed checkpoint in 'directory'. */
int megatron_dist_open(struct megatron_source *source, const char *directory, struct error *err);

/* Is there a distributed checkpoint? If its tensors are in a format that cannot be read, -1. */
int megatron_dist_is(const char *directory, struct error *err);

/* Check that every tensor of every rank is known. */
int megatron_check_tensors(const struct megatron_source *source, struct error *err);

/* Fill in 'model' and the description, from the checkpoint's arguments, its tensors and the hints.
 */
int megatron_read_model(struct megatron_source *source, const struct megatron_hints *hints,
                        struct error *err);

#endif
