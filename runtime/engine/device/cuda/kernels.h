/* SPDX-License-Identifier: Apache-2.0 */
/* The kernels, callable from C. Each call enqueues its work on 'stream' and returns; failures are
 * reported by cudaGetLastError. Operands and shapes are those of device.h. */
#ifndef MEGATRON_KERNELS_H
#define MEGATRON_KERNELS_H

#include <cuda_runtime_api.h>

#include "engine/device/device.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The kernels of operations. Those with a workspace are told its address, and have a function for
 * its bytes. */
#define KERNEL(name, shape) \
    void kernel_##name(cudaStream_t, const struct shape##_shape *, const struct name##_operands *);
#define KERNEL_AND_SPACE(name, shape)                                                              \
    void kernel_##name(cudaStream_t, const struct shape##_shape *, const struct name##_operands *, \
                       void *workspace);                                                           \
    size_t kernel_##name##_workspace(const struct shape##_shape *);
#define LINEAR(...)
#define ATTENTION(...)
#define OPERATION(kind, name, shape, category, label, cpu, cuda) cuda(name, shape)
#include "engine/device/operations.def"
#undef KERNEL
#undef KERNEL_AND_SPACE
#undef LINEAR
#undef ATTENTION

/* Column sums of a (rows, cols) matrix, added to or written to 'out'. With an activation, x is
 * first multiplied by the activation's derivative at 'pre' and written to 'y' (which may be x);
 * with ACTIVATION_NONE 'pre' and 'y' are NULL. 'out' NULL: no sums. */
size_t kernel_column_sums_workspace(int64_t rows, int64_t cols);
void kernel_column_sums(cudaStream_t stream, enum activation activation, enum device_type type,
                        int64_t rows, int64_t cols, const void *x, const void *pre, void *y,
                        float *out, int accumulate, float *workspace);

/* out[i] (+)= x[i]; for sums that a library produced in 'type'. */
void kernel_add_to_fp32(cudaStream_t stream, enum device_type type, int64_t count, const void *x,
                        float *out, int accumulate);

/* Is there code for this GPU? cudaSuccess, or the runtime's error from loading a kernel. */
cudaError_t kernel_check(void);

/* Random 16-bit or fp32 numbers around 0, for timing on data with a realistic power draw, and
 * for checks. */
void kernel_noise(cudaStream_t stream, enum device_type type, int64_t count, void *out);

/* Compute the fingerprint of 'x' (at least one element) in 'out', FINGERPRINT numbers: sums of its
 * elements with pseudo-random signs, then the sum of their squares. Bit-identical for identical
 * elements. 'workspace': 1024 * FINGERPRINT numbers. */
enum { FINGERPRINT = 5 };
void kernel_fingerprint(cudaStream_t stream, enum device_type type, int64_t count, const void *x,
                        double *out, double *workspace);

/* Two numbers that seed a library's own random generator: they depend on (seed, purpose, iteration)
 * and on which rows and heads of the global batch these are. */
void kernel_draw_seed(cudaStream_t stream, const struct attention_shape *shape,
                      const struct step_state *state, uint32_t purpose, const int64_t *row_index,
                      int64_t *out);

/* Attention with its scores in memory, one sample at a time. Rows of scores or probabilities are
 * 'pitch' elements apart, a multiple of 8; columns from kv_rows on are never used. */

/* Turn scores (heads, q_rows, pitch) in fp32 into probabilities of the shape's type, and write
 * 'lse' (heads, q_rows). */
void kernel_softmax(cudaStream_t stream, const struct attention_shape *shape, int64_t sample,
                    int pitch, const float *scores, void *probabilities,
                    const struct attention_operands *operands);
/* delta (batch, heads, q_rows) = sum over channels of out * dout. */
void kernel_attention_delta(cudaStream_t stream, const struct attention_shape *shape,
                            const void *out, const void *dout, float *delta);
/* From scores and the gradient of the probabilities 'dp' (fp32), compute the probabilities after
 * dropout and the gradient of q k^T, both of the shape's type. */
void kernel_softmax_backward(cudaStream_t stream, const struct attention_shape *shape,
                             int64_t sample, int pitch, const float *scores, const float *dp,
                             const float *delta, void *probabilities, void *dscores,
                             const struct attention_backward_operands *operands);

#ifdef __cplusplus
}
#endif

#endif
