/* SPDX-License-Identifier: Apache-2.0 */
/* Products by AMX: as precise as fp32, for all shapes and both layouts of each factor; infinite
 * numbers and NaN do not get lost, and an element does not depend on the rest of C. */
#include "cpu/gemm_amx.h"
#include "tap.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

struct matrices {
    int64_t m, n, k;
    float *a, *b, *c;
    void *workspace;
};

/* Numbers of very different sizes, the same in every run. */
static float number(uint32_t *seed)
{
    *seed = *seed * 1664525 + 1013904223;
    return ldexpf((float)(int32_t)*seed / 2147483648.0f, (int)(*seed >> 7 & 15) - 8);
}

static struct matrices make(int64_t m, int64_t n, int64_t k)
{
    struct matrices x = {m, n, k, NULL, NULL, NULL, NULL};
    uint32_t seed = (uint32_t)(m * 31 + n * 7 + k);
    size_t bytes = (gemm_amx_workspace_bytes + 63) / 64 * 64;

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
    gemm_amx(ta, tb, x->m, x->n, x->k, alpha, x->a, ta ? x->m : x->k, x->b, tb ? x->k : x->n, beta,
             c, x->n, x->workspace);
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

static void test_shapes(void)
{
    static const struct {
        int64_t m, n, k;
    } rows[] = {{64, 64, 64},   {1, 1, 1},     {33, 47, 35},   {16, 48, 32}, {17, 31, 300},
                {100, 70, 129}, {40, 270, 66}, {1030, 33, 40}, {32, 32, 520}};
    const double bound = 1e-6; /* a chain of additions in fp32 has the same */

    for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
        struct matrices x = make(rows[i].m, rows[i].n, rows[i].k);
        float *c = malloc((size_t)(x.m * x.n) * sizeof(*c));

        for (int layout = 0; layout < 4; layout++) {
            float alpha = layout % 2 ? 0.5f : 1, beta = layout == 3 ? 1.5f : (float)(layout == 2);
            double error;

            memcpy(c, x.c, (size_t)(x.m * x.n) * sizeof(*c));
            if (beta == 0)
                c[0] = NAN; /* is ignored */
            run(&x, layout / 2, layout % 2, alpha, beta, c);
            error = error_of(&x, layout / 2, layout % 2, alpha, beta, c);
            ok(error < bound, "%d x %d x %d, layout %d: within %.1e", (int)x.m, (int)x.n, (int)x.k,
               layout, error);
        }
        free(c);
        release(&x);
    }
}

/* The same bits if C is computed in parts. */
static void test_parts(void)
{
    struct matrices x = make(96, 64, 300), part = x;
    float *c = malloc((size_t)(x.m * x.n) * sizeof(*c));

    run(&x, 0, 1, 1, 0, c);
    part.m = 32;
    for (int i = 0; i < 3; i++) {
        part.a = x.a + i * 32 * x.k;
        run(&part, 0, 1, 1, 0, x.c + i * 32 * x.n);
    }
    ok(memcmp(c, x.c, (size_t)(x.m * x.n) * sizeof(*c)) == 0, "parts give the same bits");
    free(c);
    release(&x);
}

static void test_special(void)
{
    static const struct {
        const char *name;
        float a, b, expected;
    } rows[] = {
        {"infinity", INFINITY, 2, NAN},
        {"minus infinity", -INFINITY, 2, NAN},
        {"NaN", NAN, 1, NAN},
        {"the largest number", 3.4028235e38f, 1, 3.4028235e38f},
        {"overflow", 3e38f, 2, INFINITY},
        {"a number with all bits", 1.9999999f, 1, 1.9999999f},
        {"a small number", 1.2345678e-30f, 1, 1.2345678e-30f},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
        struct matrices x = make(32, 32, 32);

        memset(x.a, 0, 32 * 32 * sizeof(float));
        memset(x.b, 0, 32 * 32 * sizeof(float));
        x.a[5 * 32 + 3] = rows[i].a;
        x.b[3 * 32 + 7] = rows[i].b;
        run(&x, 0, 0, 1, 0, x.c);
        ok(isnan(rows[i].expected) ? isnan(x.c[5 * 32 + 7]) : x.c[5 * 32 + 7] == rows[i].expected,
           "%s", rows[i].name);
        release(&x);
    }
}

int main(void)
{
    if (!gemm_amx_available())
        return skip_all("this CPU has no AMX");
    ok(gemm_amx_fits(1024, 1024, 1024) && !gemm_amx_fits(1024, 1024, 8), "fits large products");
    test_shapes();
    test_parts();
    test_special();
    return done_testing();
}
