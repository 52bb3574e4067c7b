/* SPDX-License-Identifier: Apache-2.0 */
/* Single-threaded fp32 matrix product by the matrix unit of recent x86 CPUs (AMX), which multiplies
 * bf16. Every factor is the sum of three bf16 numbers, and the six largest of the nine products are
 * added up in fp32: as precise as a product in fp32, and several times as fast. */
#ifndef MEGATRON_CPU_GEMM_AMX_H
#define MEGATRON_CPU_GEMM_AMX_H

#include <stddef.h>
#include <stdint.h>

/* Multiples of this many rows or columns are computed together. */
enum { GEMM_AMX_TILE = 32 };

/* Does this CPU have AMX, and may the process use it? Asks the kernel for permission, once. */
int gemm_amx_available(void);

/* Is a product of this size faster this way? The answer must be that for the whole product, not for
 * the part of one thread: results must not depend on the number of threads. */
int gemm_amx_fits(int64_t m, int64_t n, int64_t k);

/* Bytes of workspace a call needs, aligned to 64. */
extern const size_t gemm_amx_workspace_bytes;

/* As gemm() in gemm.h, except that infinite factors give NaN. An element of C does not depend on m
 * and n. */
void gemm_amx(int a_transposed, int b_transposed, int64_t m, int64_t n, int64_t k, float alpha,
              const float *a, int64_t lda, const float *b, int64_t ldb, float beta, float *c,
              int64_t ldc, void *workspace);

#endif
