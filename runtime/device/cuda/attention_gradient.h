/* The gradient of attention by kernels of ours: Hopper, heads of 64, 16-bit elements, no dropout.
 * Deterministic. */
#ifndef MEGATRON_ATTENTION_GRADIENT_H
#define MEGATRON_ATTENTION_GRADIENT_H

#include <cuda_runtime_api.h>
#include <stddef.h>
#include <stdint.h>

#include "flash.h"

#ifdef __cplusplus
extern "C" {
#endif

/* To be raised with every change of its speed or its bits: choices that knew another version are
 * made again. */
enum { ATTENTION_GRADIENT_VERSION = 1 };

/* Can this GPU (the current device) do this shape? */
int attention_gradient_fits(const struct flash_shape *shape);

/* Bytes of workspace for a run. */
size_t attention_gradient_workspace(const struct flash_shape *shape);

/* As flash_backward in flash.h. Returns -1 if it cannot be launched. */
int attention_gradient(cudaStream_t stream, const struct flash_shape *shape, const void *q,
                       const void *k, const void *v, const void *o, const float *lse,
                       const void *d_o, void *dq, void *dk, void *dv, const int32_t *start,
                       void *workspace);

#ifdef __cplusplus
}
#endif

#endif
