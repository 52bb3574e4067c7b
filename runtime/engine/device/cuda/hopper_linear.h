/* SPDX-License-Identifier: Apache-2.0 */
/* Products of linear layers with an activation in their epilogue by our own kernels: Hopper, 16-bit
 * elements, whole tiles of columns. Deterministic. */
#ifndef MEGATRON_HOPPER_LINEAR_H
#define MEGATRON_HOPPER_LINEAR_H

#include <cuda_runtime_api.h>
#include <stddef.h>

#include "engine/device/operation.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Increment with every change of their speed or their bits: choices made with another version are
 * repeated. */
enum { HOPPER_LINEAR_VERSION = 1 };

/* Does the current device support this layer, forward (with pre, which must be saved unless there
 * is a gate) or as the gradient of the input times the activation's or the gate's derivative? */
int hopper_linear_fits(const struct linear_shape *shape, int gradient);

/* Bytes of workspace: partial sums of the bias's gradient. */
size_t hopper_linear_workspace(const struct linear_shape *shape, int gradient);

/* Return -1 if they cannot be launched. */
int hopper_linear_forward(cudaStream_t stream, const struct linear_shape *shape,
                          const struct linear_forward_operands *operands);
int hopper_linear_gradient(cudaStream_t stream, const struct linear_shape *shape,
                           const struct linear_dgrad_operands *operands, float *workspace);

#ifdef __cplusplus
}
#endif

#endif
