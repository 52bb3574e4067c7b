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

/* What is done in 'seconds': arithmetic operations, and bytes that have to move at the least. */
struct profile_sum {
    double seconds, flops, bytes;
};

struct profile {
    struct profile_sum parts[PROFILE_PARTS];
};

/* For device->profile_start: 'context' is a struct profile. */
void profile_add(void *context, const struct operation *operation, double seconds);

/* 'elapsed' seconds of 'steps' steps; what no operation accounts for are gaps. */
void profile_print(const struct profile *profile, double elapsed, int64_t steps, FILE *stream);

#endif
