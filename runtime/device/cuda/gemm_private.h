/* What the parts of gemm.h share: plans (gemm.c), the search for the fastest algorithm
 * (gemm_search.c) and the check of what an algorithm computes (gemm_check.c). */
#ifndef MEGATRON_GEMM_PRIVATE_H
#define MEGATRON_GEMM_PRIVATE_H

#include "gemm.h"

enum { GEMM_MOST_OFFERED = 32 };

struct gemm {
    struct gemm_context *context;
    struct gemm_shape shape;
    cublasLtMatmulDesc_t description;
    cublasLtMatrixLayout_t a, b, d;
    cublasLtMatmulAlgo_t algorithm;
    int remembered;  /* the algorithm is among the tuning results */
    int provisional; /* neighbours that it could have were not tried */
};

/* Start the product on the stream, D = product + beta * D. */
cublasStatus_t gemm_launch(struct gemm *gemm, cudaStream_t stream,
                           const struct gemm_operands *operands,
                           const cublasLtMatmulAlgo_t *algorithm, float beta, void *workspace);

/* Does the library take the algorithm for this product and within the workspace? */
int gemm_accepts(struct gemm *gemm, const cublasLtMatmulAlgo_t *algorithm);

/* The fastest of the 'count' (1 to GEMM_MOST_OFFERED) algorithms that the library offers, and with
 * 'around' of their neighbours, in gemm->algorithm. Returns -1 if all fail. */
int gemm_search(struct gemm *gemm, const struct gemm_operands *scratch,
                const cublasLtMatmulHeuristicResult_t *offered, int count, int around);

/* Is it worth while to look at neighbours, and can their results be checked? Products that add to D
 * are left alone. */
int gemm_has_neighbours(const struct gemm *gemm);

/* Does 'algorithm' write all of the results, the same as 'trusted' but for rounding, and the same
 * bits again when repeated? The results of a single product without gaps (ldd = m). */
int gemm_check(struct gemm *gemm, const struct gemm_operands *scratch,
               const cublasLtMatmulAlgo_t *trusted, const cublasLtMatmulAlgo_t *algorithm);

#endif
