/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by the parts of gemm.h: plans (gemm.c), the search for the fastest algorithm
 * (gemm_search.c) and the check of an algorithm's results (gemm_check.c). */
#ifndef MEGATRON_GEMM_PRIVATE_H
#define MEGATRON_GEMM_PRIVATE_H

#include "gemm.h"

enum { GEMM_MOST_OFFERED = 64 };

/* Start the product on the stream, D = product + beta * D. */
cublasStatus_t gemm_launch(struct gemm *gemm, cudaStream_t stream,
                           const struct gemm_operands *operands,
                           const cublasLtMatmulAlgo_t *algorithm, float beta, void *workspace);

/* Does the library accept the algorithm for this product and within the workspace? */
int gemm_accepts(struct gemm *gemm, const cublasLtMatmulAlgo_t *algorithm);

/* Find the fastest few of the 'count' (1 to GEMM_MOST_OFFERED) algorithms that the library offers
 * and, with 'around', of their neighbors: store them in gemm->finalists, and let the plan use the
 * first. Returns -1 if all fail. */
int gemm_search(struct gemm *gemm, const struct gemm_operands *scratch,
                const cublasLtMatmulHeuristicResult_t *offered, int count, int around);

/* Is it worthwhile to try neighbors, and can their results be checked? Products that add to D are
 * excluded. */
int gemm_has_neighbors(const struct gemm *gemm);

/* Does 'algorithm' write all results, equal to those of 'trusted' except for rounding, and
 * bit-identical when repeated? For the results of a single product without gaps (ldd = m). */
int gemm_check(struct gemm *gemm, const struct gemm_operands *scratch,
               const cublasLtMatmulAlgo_t *trusted, const cublasLtMatmulAlgo_t *algorithm);

#endif
