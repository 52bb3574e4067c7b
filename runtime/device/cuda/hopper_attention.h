/* SPDX-License-Identifier: Apache-2.0 */
/* Attention and its gradient by our own kernels: Hopper, head size 64, 16-bit elements, no dropout.
 * Deterministic. */
#ifndef MEGATRON_HOPPER_ATTENTION_H
#define MEGATRON_HOPPER_ATTENTION_H

#include <cuda_runtime_api.h>
#include <stddef.h>
#include <stdint.h>

#include "flash.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Increment with every change of their speed or their bits: choices made with another version are
 * repeated. */
enum { HOPPER_ATTENTION_VERSION = 2 };

/* Does the current device support this shape, forward and backward? */
int hopper_attention_fits(const struct flash_shape *shape);

/* Bytes of workspace for a run, forward or of the gradient. */
size_t hopper_attention_workspace(const struct flash_shape *shape, int backward);

/* Like flash_forward and flash_backward in flash.h. Return -1 if they cannot be launched. */
int hopper_attention(cudaStream_t stream, const struct flash_shape *shape, const void *q,
                     const void *k, const void *v, void *o, float *lse, struct flash_bounds bounds,
                     void *workspace);
int hopper_attention_gradient(cudaStream_t stream, const struct flash_shape *shape, const void *q,
                              const void *k, const void *v, const void *o, const float *lse,
                              const void *d_o, void *dq, void *dk, void *dv,
                              struct flash_bounds bounds, void *workspace);

#ifdef __cplusplus
}
#endif

#endif
