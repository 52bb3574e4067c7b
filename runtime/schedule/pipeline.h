/* The order of work of one pipeline stage in one step: forward and backward passes of micro-batches
 * through its chunks, and the exchanges of activations and gradients between them. A pure function
 * of the shape of the pipeline; all stages' lists together match message by message, also where
 * each exchange is waited for before anything behind it begins.
 *
 * Nobody needs to wait so: an exchange may begin once the passes of its direction before it are
 * done, and a pass needs the exchanges of its direction alone. What a pass needs then comes under
 * the pass of the other direction. It lands outside the memory of micro-batches, since that of the
 * one to come may still be in use. */
#ifndef MEGATRON_PIPELINE_H
#define MEGATRON_PIPELINE_H

#include "error.h"

enum pipeline_kind {
    PIPELINE_FORWARD,
    PIPELINE_BACKWARD,
    PIPELINE_ACTIVATIONS, /* an output to the next stage, an input from the one before */
    PIPELINE_GRADIENTS,   /* an input's to the stage before, an output's from the next */
};

/* Which micro-batch of which chunk (of this stage) something is about; micro -1: nothing. */
struct pipeline_item {
    int chunk, micro;
};

/* An exchange does both its messages at once. "Next" is the stage behind this one, the first stage
 * being behind the last. */
struct pipeline_operation {
    enum pipeline_kind kind;
    struct pipeline_item item;          /* of a pass */
    struct pipeline_item send, receive; /* of an exchange */
};

struct pipeline {
    struct pipeline_operation *list;
    int count;
    int *slots; /* per chunk: micro-batches alive at the same time; micro m uses slot m % slots */
};

struct pipeline_shape {
    int stages, stage, chunks, micros;
    int forward_only;
};

/* 1F1B, interleaved where chunks > 1 (micros must then be a multiple of stages). Returns 0 or -1;
 * pipeline_destroy in both cases. */
int pipeline_create(struct pipeline *pipeline, const struct pipeline_shape *shape,
                    struct error *err);
void pipeline_destroy(struct pipeline *pipeline);

/* The slot of an item within its chunk, where each chunk has so many 'slots'; and its number among
 * those of all chunks. */
static inline int pipeline_slot(const int *slots, struct pipeline_item item)
{
    return item.micro % slots[item.chunk];
}

static inline int pipeline_slot_of_all(const int *slots, struct pipeline_item item)
{
    int number = pipeline_slot(slots, item);

    for (int c = 0; c < item.chunk; c++)
        number += slots[c];
    return number;
}

#endif
