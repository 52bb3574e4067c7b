/* SPDX-License-Identifier: Apache-2.0 */
/* A step of one transformer layer, forward and backward, on this rank's device: how long it takes,
 * and a hash of everything it computes, which must be the same on all devices of a model. */
#ifndef MEGATRON_PREFLIGHT_LAYER_H
#define MEGATRON_PREFLIGHT_LAYER_H

#include <stdint.h>
#include "engine/device/device.h"

struct layer;

/* Create the layer with weights that are the same everywhere. 'choices' are those of rank 0's
 * device (device->choices), without which two GPUs may choose products that round differently; NULL
 * or "": choose here. Caller must destroy. */
struct layer *layer_create(struct device *device, const char *choices, struct error *err);
void layer_destroy(struct layer *layer);

struct layer_result {
    double rate;      /* steps per second, of the fastest step; 0: unknown */
    uint64_t hash;    /* of the results */
    int64_t steps;    /* that were run */
    int64_t unstable; /* of those that were hashed, how many differ from the first */
};

/* Run steps for about 'seconds'. On a CPU their time is CPU time. */
int layer_run(struct layer *layer, double seconds, struct layer_result *result, struct error *err);

/* Write patterns to up to 'bytes' of the device's free memory and read them back. Adds the number
 * of blocks with a wrong value to '*wrong', and the bytes tested to '*tested'. */
int layer_test_memory(struct layer *layer, size_t bytes, int64_t *wrong, size_t *tested,
                      struct error *err);

/* Bytes per second from pinned host memory to the device and back, the lower of the two. */
int layer_test_copies(struct layer *layer, double *rate, struct error *err);

#endif
