#include "gemm.h"

#include <cblas.h>

const size_t gemm_workspace_bytes = 0;

void gemm_prepare(void)
{
    /* Products are divided by our own threads. */
    openblas_set_num_threads(1);
}

void gemm(int a_transposed, int b_transposed, int64_t m, int64_t n, int64_t k, float alpha,
          const float *a, int64_t lda, const float *b, int64_t ldb, float beta, float *c,
          int64_t ldc, void *workspace)
{
    (void)workspace;
    cblas_sgemm(CblasRowMajor, a_transposed ? CblasTrans : CblasNoTrans,
                b_transposed ? CblasTrans : CblasNoTrans, (int)m, (int)n, (int)k, alpha, a,
                (int)lda, b, (int)ldb, beta, c, (int)ldc);
}
