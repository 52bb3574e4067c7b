/* SPDX-License-Identifier: Apache-2.0 */
#include "gemm.h"

#include <cblas.h>
#include <string.h>

/* With up to this many rows of A, the product is bound by reading B once. OpenBLAS would first pack
 * B, which costs more than the product. These products are computed row by row over blocks of B
 * that fit into the cache. */
enum { FEW_ROWS = 3, BLOCK = 16 };

const size_t gemm_workspace_bytes = 0;

int blas_thread_shutdown_(void) __attribute__((weak));

/* Products are divided among our own threads. An OpenBLAS with pthreads (measured: Debian 12's
 * 0.3.21) starts a thread for each other CPU when it is loaded, which spins for about 30 ms: more
 * than a short command takes. OpenBLAS itself calls blas_thread_shutdown_ before a fork; it exports
 * that function, but does not document it. Where it is missing, as in a build for a single thread,
 * only the number of threads is set. */
__attribute__((constructor)) static void stop_threads(void)
{
    openblas_set_num_threads(1);
    if (blas_thread_shutdown_)
        blas_thread_shutdown_();
}

void gemm_prepare(void)
{
    /* Setting it again would start the threads again. */
    if (openblas_get_num_threads() != 1)
        openblas_set_num_threads(1);
}

static void few_rows(int b_transposed, int64_t m, int64_t n, int64_t k, float alpha, const float *a,
                     int64_t lda, const float *b, int64_t ldb, float beta, float *c, int64_t ldc)
{
    int64_t step = b_transposed ? BLOCK : n;

    for (int64_t r = 0; r < m && beta == 0; r++)
        memset(c + r * ldc, 0, (size_t)n * sizeof(*c));
    for (int64_t j = 0; j < n; j += step)
        for (int64_t r = 0; r < m; r++) {
            int width = (int)(n - j < step ? n - j : step);
            float factor = beta == 0 ? 1 : beta;

            if (b_transposed)
                cblas_sgemv(CblasRowMajor, CblasNoTrans, width, (int)k, alpha, b + j * ldb,
                            (int)ldb, a + r * lda, 1, factor, c + r * ldc + j, 1);
            else
                cblas_sgemv(CblasRowMajor, CblasTrans, (int)k, width, alpha, b, (int)ldb,
                            a + r * lda, 1, factor, c + r * ldc, 1);
        }
}

void gemm(int a_transposed, int b_transposed, int64_t m, int64_t n, int64_t k, float alpha,
          const float *a, int64_t lda, const float *b, int64_t ldb, float beta, float *c,
          int64_t ldc, void *workspace)
{
    (void)workspace;
    if (m <= FEW_ROWS && !a_transposed) {
        few_rows(b_transposed, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc);
        return;
    }
    cblas_sgemm(CblasRowMajor, a_transposed ? CblasTrans : CblasNoTrans,
                b_transposed ? CblasTrans : CblasNoTrans, (int)m, (int)n, (int)k, alpha, a,
                (int)lda, b, (int)ldb, beta, c, (int)ldc);
}
