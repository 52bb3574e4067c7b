/* SPDX-License-Identifier: Apache-2.0 */
/* Attention and its gradient by our own kernels: Hopper, head sizes 64, 80 and 96, and 128 with
 * documents or ends, 16-bit elements, no dropout. Deterministic. */
#ifndef MEGATRON_HOPPER_ATTENTION_H
#define MEGATRON_HOPPER_ATTENTION_H

#include <cuda_runtime_api.h>
#include <stddef.h>
#include <stdint.h>

#include "flash.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The version of the kernels for this shape, forward and backward; 0: the current device does not
 * support it. Increment it with every change of their speed or their bits: choices made with
 * another version are repeated. */
int hopper_attention_version(const struct flash_shape *shape);

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
