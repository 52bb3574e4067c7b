/* SPDX-License-Identifier: Apache-2.0 */
/* Matrix products against sums in double precision. */
#ifndef MEGATRON_TEST_PRODUCTS_H
#define MEGATRON_TEST_PRODUCTS_H

#include "tap.h"

#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

typedef void product(int a_transposed, int b_transposed, int64_t m, int64_t n, int64_t k,
                     float alpha, const float *a, int64_t lda, const float *b, int64_t ldb,
                     float beta, float *c, int64_t ldc, void *workspace);

struct matrices {
    int64_t m, n, k;
    float *a, *b, *c;
    product *multiply;
    void *workspace;
};

/* Numbers of very different sizes, the same in every run. */
static float number(uint32_t *seed)
{
    *seed = *seed * 1664525 + 1013904223;
    return ldexpf((float)(int32_t)*seed / 2147483648.0f, (int)(*seed >> 7 & 15) - 8);
}

static struct matrices make(product *multiply, size_t workspace_bytes, int64_t m, int64_t n,
                            int64_t k)
{
    struct matrices x = {m, n, k, NULL, NULL, NULL, multiply, NULL};
    uint32_t seed = (uint32_t)(m * 31 + n * 7 + k);
    size_t bytes = (workspace_bytes + 63) / 64 * 64;

    x.a = malloc((size_t)(m * k) * sizeof(float));
    x.b = malloc((size_t)(k * n) * sizeof(float));
    x.c = malloc((size_t)(m * n) * sizeof(float));
    x.workspace = aligned_alloc(64, bytes);
    memset(x.workspace, 0xff, bytes); /* NaN: what is not packed must not be used */
    for (int64_t i = 0; i < m * k; i++)
        x.a[i] = number(&seed);
    for (int64_t i = 0; i < k * n; i++)
        x.b[i] = number(&seed);
    for (int64_t i = 0; i < m * n; i++)
        x.c[i] = number(&seed);
    return x;
}

static void release(struct matrices *x)
{
    free(x->a), free(x->b), free(x->c), free(x->workspace);
}

static void run(const struct matrices *x, int ta, int tb, float alpha, float beta, float *c)
{
    x->multiply(ta, tb, x->m, x->n, x->k, alpha, x->a, ta ? x->m : x->k, x->b, tb ? x->k : x->n,
                beta, c, x->n, x->workspace);
}

/* The largest error, relative to the sum of the absolute values of what is added up. */
static double error_of(const struct matrices *x, int ta, int tb, float alpha, float beta,
                       const float *c)
{
    double worst = 0;

    for (int64_t i = 0; i < x->m; i++)
        for (int64_t j = 0; j < x->n; j++) {
            double old = beta == 0 ? 0 : (double)beta * x->c[i * x->n + j];
            double sum = old, size = fabs(old) + 1e-30;

            for (int64_t l = 0; l < x->k; l++) {
                double term = (double)alpha * x->a[ta ? l * x->m + i : i * x->k + l] *
                              x->b[tb ? j * x->k + l : l * x->n + j];

                sum += term;
                size += fabs(term);
            }
            if (!(fabs(c[i * x->n + j] - sum) / size <= worst))
                worst = fabs(c[i * x->n + j] - sum) / size;
        }
    return worst;
}

/* All layouts of one shape; consumes x. Sums of 400 products in fp32 one after the other are off by
 * 1.03e-6; a part of AMX's sums that is lost, by 2.7e-6 or more. */
static void check_layouts(struct matrices x)
{
    const double bound = 2e-6;
    float *c = malloc((size_t)(x.m * x.n) * sizeof(*c));

    for (int layout = 0; layout < 4; layout++) {
        float alpha = layout % 2 ? 0.5f : 1, beta = layout == 3 ? 1.5f : (float)(layout == 2);
        double error;

        memcpy(c, x.c, (size_t)(x.m * x.n) * sizeof(*c));
        if (beta == 0)
            c[0] = NAN; /* is ignored */
        run(&x, layout / 2, layout % 2, alpha, beta, c);
        error = error_of(&x, layout / 2, layout % 2, alpha, beta, c);
        ok(error < bound, "%d x %d x %d, layout %d: within %.1e (at most %.1e)", (int)x.m, (int)x.n,
           (int)x.k, layout, error, bound);
    }
    free(c);
    release(&x);
}

#endif
