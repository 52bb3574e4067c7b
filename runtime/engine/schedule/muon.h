/* SPDX-License-Identifier: Apache-2.0 */
/* Muon: the update of a matrix is its momentum, orthogonalized by Newton-Schulz iteration. It needs
 * whole matrices, while the optimizer's state is sharded (ZeRO-1). So the momentum of each shard is
 * all-gathered, each matrix is orthogonalized by one rank of the data-parallel group, and the
 * results are scattered to the shards, which update their weights. */
#ifndef MEGATRON_MUON_H
#define MEGATRON_MUON_H

#include "engine/model/model.h"
#include "newton_schulz.h"

/* The factor of an update, by the size of its matrix. */
enum muon_scale {
    MUON_SPECTRAL,      /* sqrt(max(rows, cols)) */
    MUON_UNIT_RMS_NORM, /* sqrt(rows / cols) */
    MUON_SHAPE_SCALING, /* sqrt(max(1, rows / cols)) */
};

struct muon_config {
    double momentum;
    int nesterov;
    struct newton_schulz_rule rule;
    enum muon_scale scale;
    double extra_scale;
    int split_qkv; /* queries, keys and values are three matrices */
    int blockwise; /* each tensor-parallel rank orthogonalizes its part by itself */
    int fp32;      /* products in fp32 even if the device has bf16 */
};

/* Does Muon update this tensor? Embeddings, the output layer and vectors are left to Adam. */
int muon_has(const struct parameters *parameters, int tensor);

struct muon;

/* The arguments must outlive it. NULL with 'err' set. Caller must destroy. */
struct muon *muon_create(const struct muon_config *config, struct model *model,
                         const struct parallel *parallel, struct device *device, struct error *err);
void muon_destroy(struct muon *muon);

/* Device memory that it needs beside the optimizer's arrays, with products in 'type'. */
size_t muon_memory(const struct muon_config *config, const struct parameters *parameters,
                   enum device_type type);

/* The momentum of this rank's shards is in the gradient arena: put their updates in its place.
 * Enqueued on 'stream', with collectives of the data-parallel group on 'side'. */
void muon_orthogonalize(struct muon *muon, struct device_stream *stream,
                        struct device_stream *side);

#endif
