/* --profile: the time of a step by part, from the operations that a device has timed. */
#ifndef MEGATRON_PROFILE_H
#define MEGATRON_PROFILE_H

#include "device.h"

#include <stdio.h>

enum profile_part {
    PROFILE_PRODUCTS,
    PROFILE_ATTENTION,
    PROFILE_NORMS,
    PROFILE_ACTIVATIONS,
    PROFILE_EMBEDDINGS,
    PROFILE_HEAD,
    PROFILE_OPTIMIZER,
    PROFILE_REST,
    PROFILE_PARTS,
};

/* What is done in 'seconds' by 'count' operations: arithmetic, and bytes that have to move at the
 * least. */
struct profile_sum {
    double seconds, flops, bytes;
    int64_t count;
};

struct profile {
    struct profile_sum parts[PROFILE_PARTS];
    double elapsed; /* seconds of the steps; what no part accounts for are gaps */
    int64_t steps;
};

/* For device->profile_start: 'context' is a struct profile. */
void profile_add(void *context, const struct operation *operation, double seconds);

/* The mean of the steps. */
void profile_print(const struct profile *profile, FILE *stream);

#endif
