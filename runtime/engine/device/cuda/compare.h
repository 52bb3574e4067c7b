/* SPDX-License-Identifier: Apache-2.0 */
/* Compare large results by a few numbers. */
#ifndef MEGATRON_COMPARE_H
#define MEGATRON_COMPARE_H

#include "gemm.h"
#include "kernels.h"

/* One output of an operation. */
struct output {
    void *data;
    enum device_type type;
    int64_t count;
};

struct fingerprint {
    double numbers[FINGERPRINT];
};

/* Compute the fingerprint of an output, after what is enqueued on the context's stream, in its
 * workspace; waits. Returns 0 or -1. */
int fingerprint_take(struct gemm_context *context, const struct output *output,
                     struct fingerprint *fingerprint);

/* Does 'got' differ from 'expected' by at most 'tolerance', relative to the norm of 'expected'?
 * False if either contains NaN or infinity. */
int fingerprints_agree(const struct fingerprint *expected, const struct fingerprint *got,
                       double tolerance);

#endif
