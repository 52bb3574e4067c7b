/* SPDX-License-Identifier: Apache-2.0 */
/* The schedule of one pipeline stage in one step: forward and backward passes of micro-batches
 * through its chunks, and the exchanges of activations and gradients between them. A pure function
 * of the shape of the pipeline. The schedules of all stages match message by message, even if each
 * exchange is waited for before the next operation starts.
 *
 * Such waiting is not necessary: an exchange may start once the earlier passes of its direction are
 * done, and a pass needs the exchanges of its direction alone. So messages overlap with passes of
 * the other direction. They are received outside the memory of micro-batches, because that of the
 * next micro-batch may still be in use. */
#ifndef MEGATRON_PIPELINE_H
#define MEGATRON_PIPELINE_H

#include "lib/error.h"

enum pipeline_kind {
    PIPELINE_FORWARD,
    PIPELINE_BACKWARD,
    PIPELINE_ACTIVATIONS, /* an output to the next stage, an input from the one before */
    PIPELINE_GRADIENTS,   /* an input's to the stage before, an output's from the next */
};

/* A micro-batch and a chunk of this stage; micro -1: none. 'slot' is its memory from the forward
 * to the backward pass. All chunks use the same slots: after the backward pass (or the forward pass
 * of a schedule without backward passes) the next item takes it. */
struct pipeline_item {
    int chunk, micro, slot;
};

/* An exchange sends and receives at once. The first stage follows the last one. */
struct pipeline_operation {
    enum pipeline_kind kind;
    struct pipeline_item item;          /* of a pass */
    struct pipeline_item send, receive; /* of an exchange */
};

struct pipeline {
    struct pipeline_operation *list;
    int count;
    int slots; /* most items of all chunks that are alive at the same time */
};

struct pipeline_shape {
    int stages, stage, chunks, micros;
    int forward_only;
};

/* 1F1B, interleaved if chunks > 1 (micros must then be a multiple of stages). Returns 0 or -1, also
 * if there are more micro-batches than a list can hold; pipeline_destroy in both cases. */
int pipeline_create(struct pipeline *pipeline, const struct pipeline_shape *shape,
                    struct error *err);
void pipeline_destroy(struct pipeline *pipeline);

/* The slots of such a schedule, without its list: in no time for any number of micro-batches.
 * Returns 0, or -1 if the shape cannot be scheduled. */
int pipeline_slots(const struct pipeline_shape *shape, int *slots, struct error *err);

#endif
