/* SPDX-License-Identifier: Apache-2.0 */
/* Brings micro-batches to the device: from the loader to pinned host memory, from there on a
 * separate stream to a staging buffer on the device while it computes, and to the slot when its
 * pass runs. */
#ifndef MEGATRON_BATCHES_H
#define MEGATRON_BATCHES_H

#include "data/dataset/dataset.h"
#include "engine/model/model.h"
#include "pipeline.h"

struct batches;

/* The micro-batches of a step or an evaluation. */
struct batches_iteration {
    struct batch_loader *loader;
    int64_t micros; /* on each data-parallel rank */
    int per_token;  /* all trained tokens have the same share in the gradient; otherwise the mean of
                       each micro-batch, then the mean of micro-batches */
};

/* 'ahead': micro-batches that may be in flight. The arguments must outlive the
 * result. Returns NULL with 'err' set. Caller must destroy. */
struct batches *batches_create(struct model *model, const struct model_config *config,
                               const struct parallel *parallel, struct device *device, int ahead,
                               double deadline, struct error *err);
void batches_destroy(struct batches *batches);

/* Start a step or an evaluation: its micro-batches come from the loader, in order. */
void batches_begin(struct batches *batches);

/* Put a micro-batch into its slot, in the order of the model's stream. Blocks only for the loader
 * and for host memory that is still being copied. */
int batches_give(struct batches *batches, const struct batches_iteration *iteration,
                 struct pipeline_item item, struct error *err);

/* After the last micro-batch: the trained tokens in them on this rank, and how many of all ranks
 * the shares of tokens in the loss were made for. */
struct batches_tokens {
    double trained, nominal;
};
struct batches_tokens batches_tokens(const struct batches *batches);

#endif
