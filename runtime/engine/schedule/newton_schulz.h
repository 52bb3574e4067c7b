/* SPDX-License-Identifier: Apache-2.0 */
/* Newton-Schulz iteration: the matrix with the same singular vectors whose singular values are all
 * near 1. For a matrix X, divided by its norm, each step is
 *     A = X X^T,  X = a X + (b A + c A A) X
 * or the same from the other side, whichever makes A smaller. All of it are operations of the
 * device on one stream. */
#ifndef MEGATRON_NEWTON_SCHULZ_H
#define MEGATRON_NEWTON_SCHULZ_H

#include "engine/device/device.h"

enum { NEWTON_SCHULZ_STEPS = 64 };

/* The steps and their a, b and c. */
struct newton_schulz_rule {
    int steps;
    double coefficients[NEWTON_SCHULZ_STEPS][3];
};

struct newton_schulz;
struct planner;

/* For matrices (rows, cols) with products in 'type', times 'scale' in the end; its plans are those
 * of the planner. Caller must destroy. */
struct newton_schulz *newton_schulz_create(struct planner *planner,
                                           const struct newton_schulz_rule *rule, int64_t rows,
                                           int64_t cols, enum device_type type, double scale);
void newton_schulz_destroy(struct newton_schulz *ns);

/* Bytes of device memory that a run needs. */
size_t newton_schulz_space(int64_t rows, int64_t cols, enum device_type type);

/* Replace x (rows, cols). */
void newton_schulz_run(const struct newton_schulz *ns, struct device_stream *stream, float *x,
                       void *space);

#endif
