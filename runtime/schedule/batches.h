/* Micro-batches on their way to the device: from the loader to host memory, from there on a stream
 * of their own to the device while it computes, and to the slot when its turn comes. */
#ifndef MEGATRON_BATCHES_H
#define MEGATRON_BATCHES_H

#include "dataset.h"
#include "model.h"
#include "pipeline.h"

struct batches;

/* What a pass over micro-batches takes from where. */
struct batches_run {
    struct batch_loader *loader;
    int64_t micros; /* of the step or evaluation on a data-parallel rank */
};

/* 'ahead': micro-batches of the first chunk that may be between two passes. All that is pointed to
 * must outlive this. Returns NULL with 'err' set. Caller must destroy. */
struct batches *batches_create(struct model *model, const struct model_config *config,
                               const struct parallel *parallel, struct device *device, int ahead,
                               double deadline, struct error *err);
void batches_destroy(struct batches *batches);

/* A step or an evaluation begins: its micro-batches come from the loader, in order. */
void batches_begin(struct batches *batches);

/* Put a micro-batch into its slot, in the order of the model's stream. Waits for the loader and for
 * host memory whose copy is not done, and for nothing else. */
int batches_give(struct batches *batches, const struct batches_run *run, struct pipeline_item item,
                 int slot, struct error *err);

#endif
