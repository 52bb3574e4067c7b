/* SPDX-License-Identifier: Apache-2.0 */
/* --profile: the time of a step by category, from the operations timed by the device. */
#ifndef MEGATRON_PROFILE_H
#define MEGATRON_PROFILE_H

#include "engine/device/device.h"

#include <stdio.h>

enum profile_category {
    PROFILE_PRODUCTS,
    PROFILE_ATTENTION,
    PROFILE_NORMS,
    PROFILE_ACTIVATIONS,
    PROFILE_CASTS,
    PROFILE_EMBEDDINGS,
    PROFILE_HEAD,
    PROFILE_OPTIMIZER,
    PROFILE_REST,
    PROFILE_CATEGORIES,
};

/* Totals of one category: time, number of operations, FLOPs, and the minimum bytes they move. */
struct profile_sum {
    double seconds, flops, bytes;
    int64_t count;
};

struct profile {
    struct profile_sum categories[PROFILE_CATEGORIES];
    double
        elapsed; /* wall-clock seconds of the steps; what no category accounts for is idle time */
    int64_t steps;
};

/* For device->profile_start: 'context' is a struct profile. */
void profile_add(void *context, const struct operation *operation, double begin, double seconds);

/* Print the mean over the steps. */
void profile_print(const struct profile *profile, FILE *stream);

#endif
