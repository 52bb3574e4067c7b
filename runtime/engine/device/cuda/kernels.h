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

void kernel_residual_norm(cudaStream_t stream, const struct residual_norm_shape *shape,
                          const struct residual_norm_operands *operands);
/* 'processors': number of multiprocessors. */
size_t kernel_residual_norm_backward_workspace(const struct residual_norm_shape *shape,
                                               int processors);
void kernel_residual_norm_backward(cudaStream_t stream, const struct residual_norm_shape *shape,
                                   const struct residual_norm_backward_operands *operands,
                                   float *workspace, int processors);

/* y = activation(x), not ACTIVATION_NONE; may be in place. */
void kernel_activation(cudaStream_t stream, enum activation activation, enum device_type type,
                       int64_t count, const void *x, void *y);

/* y = dy * the activation's derivative at x; y may be dy or x. */
void kernel_activation_backward(cudaStream_t stream, enum activation activation,
                                enum device_type type, int64_t count, const void *x, const void *dy,
                                void *y);

/* Column sums of a (rows, cols) matrix, added to or written to 'out'. With an activation, x is
 * first multiplied by the activation's derivative at 'pre' and written to 'y' (which may be x);
 * with ACTIVATION_NONE 'pre' and 'y' are NULL. 'out' NULL: no sums. */
size_t kernel_column_sums_workspace(int64_t rows, int64_t cols, int processors);
void kernel_column_sums(cudaStream_t stream, enum activation activation, enum device_type type,
                        int64_t rows, int64_t cols, const void *x, const void *pre, void *y,
                        float *out, int accumulate, float *workspace, int processors);

/* out[i] (+)= x[i]; for sums that a library produced in 'type'. */
void kernel_add_to_fp32(cudaStream_t stream, enum device_type type, int64_t count, const void *x,
                        float *out, int accumulate);

void kernel_rope(cudaStream_t stream, const struct rope_shape *shape,
                 const struct rope_operands *operands);
void kernel_swiglu(cudaStream_t stream, const struct swiglu_shape *shape,
                   const struct swiglu_operands *operands);
void kernel_swiglu_backward(cudaStream_t stream, const struct swiglu_shape *shape,
                            const struct swiglu_backward_operands *operands);

void kernel_scale(cudaStream_t stream, const struct scale_shape *shape,
                  const struct scale_operands *operands);
void kernel_softcap(cudaStream_t stream, const struct softcap_shape *shape,
                    const struct softcap_operands *operands);
void kernel_clip(cudaStream_t stream, const struct clip_shape *shape,
                 const struct clip_operands *operands);

void kernel_head_norm(cudaStream_t stream, const struct head_norm_shape *shape,
                      const struct head_norm_operands *operands);
size_t kernel_head_norm_backward_workspace(const struct head_norm_shape *shape, int processors);
void kernel_head_norm_backward(cudaStream_t stream, const struct head_norm_shape *shape,
                               const struct head_norm_backward_operands *operands, float *workspace,
                               int processors);

void kernel_embedding(cudaStream_t stream, const struct embedding_shape *shape,
                      const struct embedding_operands *operands);
size_t kernel_embedding_backward_workspace(const struct embedding_shape *shape);
void kernel_embedding_backward(cudaStream_t stream, const struct embedding_shape *shape,
                               const struct embedding_backward_operands *operands, void *workspace);

void kernel_cross_entropy_partial(cudaStream_t stream, const struct cross_entropy_shape *shape,
                                  const struct cross_entropy_partial_operands *operands);
size_t kernel_cross_entropy_finish_workspace(const struct cross_entropy_shape *shape);
void kernel_cross_entropy_finish(cudaStream_t stream, const struct cross_entropy_shape *shape,
                                 const struct cross_entropy_finish_operands *operands,
                                 void *workspace);

void kernel_adam(cudaStream_t stream, const struct adam_shape *shape,
                 const struct adam_operands *operands);
void kernel_muon(cudaStream_t stream, const struct muon_shape *shape,
                 const struct muon_operands *operands);
size_t kernel_square_sum_workspace(void);
void kernel_square_sum(cudaStream_t stream, const struct square_sum_shape *shape,
                       const struct square_sum_operands *operands, void *workspace);
void kernel_step(cudaStream_t stream, const struct step_shape *shape,
                 const struct step_operands *operands);

void kernel_convert(cudaStream_t stream, const struct convert_shape *shape,
                    const struct convert_operands *operands);
void kernel_add(cudaStream_t stream, const struct add_shape *shape,
                const struct add_operands *operands);
void kernel_gather_rows(cudaStream_t stream, const struct gather_rows_shape *shape,
                        const struct gather_rows_operands *operands);
void kernel_normal(cudaStream_t stream, const struct normal_shape *shape,
                   const struct normal_operands *operands);
void kernel_fill(cudaStream_t stream, const struct fill_shape *shape,
                 const struct fill_operands *operands);

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
