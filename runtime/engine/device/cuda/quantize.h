/* SPDX-License-Identifier: Apache-2.0 */
/* Kernels that make fp8 operands of matrix products. Each value is multiplied by *scale, rounded to
 * the nearest (ties to even) and saturated; NaN stays NaN. Rows and columns are multiples of 16,
 * all addresses are multiples of 16 bytes. */
#ifndef MEGATRON_QUANTIZE_H
#define MEGATRON_QUANTIZE_H

#include <cuda_runtime_api.h>

#include "engine/device/device.h"

#ifdef __cplusplus
extern "C" {
#endif

struct quantize_result {
    enum device_type type; /* TYPE_E4M3 or TYPE_E5M2 */
    void *rows;            /* (rows, cols), or NULL */
    void *columns;         /* (cols, rows), the transposed matrix, or NULL */
    const float *scale;    /* device memory */
    float *amax; /* device memory, or NULL: raised to the largest magnitude before scaling */
    /* Device memory of QUANTIZE_PARTS words, with which a *scale of 0 is replaced by one that is
     * found from the matrix. NULL: *scale is not 0. */
    uint32_t *largest;
    int margin;     /* of that scale */
    float *inverse; /* device memory, or NULL: 1 / the scale that was used */
};

enum { QUANTIZE_PARTS = 256 };

/* Bytes of 'workspace' for 'dbias'. */
size_t kernel_quantize_workspace(int64_t rows, int64_t cols);

/* Cast a (rows, cols) matrix of 16-bit elements whose rows are 'stride' elements apart. 'dbias' (or
 * NULL) receives its column sums. */
void kernel_quantize(cudaStream_t stream, enum device_type type, int64_t rows, int64_t cols,
                     int64_t stride, const void *x, const struct quantize_result *result,
                     float *dbias, int accumulate, float *workspace);

/* Cast a (rows, cols) matrix of fp32 master weights to e4m3. Its rows are a multiple of 4; nothing
 * is transposed. */
void kernel_quantize_master(cudaStream_t stream, int64_t rows, int64_t cols, const float *x,
                            const struct quantize_result *result);

/* gelu(pre) by tanh, and dy * gelu'(pre) with its column sums in 'dbias' (or NULL). */
void kernel_quantize_gelu(cudaStream_t stream, enum device_type type, int64_t rows, int64_t cols,
                          const void *pre, const struct quantize_result *result);
void kernel_quantize_gelu_backward(cudaStream_t stream, enum device_type type, int64_t rows,
                                   int64_t cols, const void *dy, const void *pre,
                                   const struct quantize_result *result, float *dbias,
                                   int accumulate, float *workspace);

/* silu(gate) * up of x (rows, 2 * cols), and its gradient (rows, 2 * cols) with its column sums in
 * 'dbias' (or NULL). */
void kernel_quantize_swiglu(cudaStream_t stream, enum device_type type, int64_t rows, int64_t cols,
                            const void *x, const struct quantize_result *result);
void kernel_quantize_swiglu_backward(cudaStream_t stream, enum device_type type, int64_t rows,
                                     int64_t cols, const void *dy, const void *x,
                                     const struct quantize_result *result, float *dbias,
                                     int accumulate, float *workspace);

/* OPERATION_QUANTIZE with blockwise scales, and the bytes of its workspace. Squares are e4m3 of a
 * matrix, without column sums. */
size_t kernel_quantize_blocks_workspace(const struct quantize_shape *shape);
void kernel_quantize_blocks(cudaStream_t stream, const struct quantize_shape *shape,
                            const struct quantize_operands *operands, void *workspace);

/* y (cols, rows) = transposed x (rows, cols), of one-byte elements. */
void kernel_transpose_bytes(cudaStream_t stream, int64_t rows, int64_t cols, const void *x,
                            void *y);

#ifdef __cplusplus
}
#endif

#endif
