/* SPDX-License-Identifier: Apache-2.0 */
/* Single-threaded fp32 matrix product: by OpenBLAS, or by our own code if that is faster (aarch64)
 * or OpenBLAS is missing. */
#ifndef MEGATRON_CPU_GEMM_H
#define MEGATRON_CPU_GEMM_H

#include <stddef.h>
#include <stdint.h>

/* Call once, before the first product. */
void gemm_prepare(void);

/* Bytes of workspace a call needs, aligned to 64. */
extern const size_t gemm_workspace_bytes;

/* C (m, n) = alpha op(A) op(B) + beta C, all row-major; op(A) is (m, k), op(B) is (k, n). With beta
 * 0 the previous contents of C are ignored. */
void gemm(int a_transposed, int b_transposed, int64_t m, int64_t n, int64_t k, float alpha,
          const float *a, int64_t lda, const float *b, int64_t ldb, float beta, float *c,
          int64_t ldc, void *workspace);

#endif
