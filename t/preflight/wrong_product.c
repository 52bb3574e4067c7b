/* SPDX-License-Identifier: Apache-2.0 */
/* Preloaded into one rank: a processor that computes one product of a layer wrong, by the lowest
 * bit of one number. */
#define _GNU_SOURCE
#include <cblas.h>
#include <dlfcn.h>
#include <stdint.h>
#include <string.h>

void cblas_sgemm(OPENBLAS_CONST enum CBLAS_ORDER order, OPENBLAS_CONST enum CBLAS_TRANSPOSE a_form,
                 OPENBLAS_CONST enum CBLAS_TRANSPOSE b_form, OPENBLAS_CONST blasint m,
                 OPENBLAS_CONST blasint n, OPENBLAS_CONST blasint k, OPENBLAS_CONST float alpha,
                 OPENBLAS_CONST float *a, OPENBLAS_CONST blasint lda, OPENBLAS_CONST float *b,
                 OPENBLAS_CONST blasint ldb, OPENBLAS_CONST float beta, float *c,
                 OPENBLAS_CONST blasint ldc)
{
    void (*real)(enum CBLAS_ORDER, enum CBLAS_TRANSPOSE, enum CBLAS_TRANSPOSE, blasint, blasint,
                 blasint, float, const float *, blasint, const float *, blasint, float, float *,
                 blasint);
    void *symbol = dlsym(RTLD_NEXT, "cblas_sgemm");
    uint32_t bits;

    memcpy(&real, &symbol, sizeof(real));
    real(order, a_form, b_form, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc);
    memcpy(&bits, &c[7], sizeof(bits));
    bits ^= 1;
    memcpy(&c[7], &bits, sizeof(bits));
}
