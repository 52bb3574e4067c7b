/* SPDX-License-Identifier: Apache-2.0 */
/* Products by AMX: as precise as fp32, for all shapes and both layouts of each factor; infinite
 * numbers and NaN do not get lost, and an element does not depend on the rest of C. */
#include "engine/device/cpu/gemm_amx.h"
#include "products.h"

static struct matrices make_amx(int64_t m, int64_t n, int64_t k)
{
    return make(gemm_amx, gemm_amx_workspace_bytes, m, n, k);
}

static void test_shapes(void)
{
    static const struct {
        int64_t m, n, k;
    } rows[] = {{64, 64, 64},   {1, 1, 1},     {33, 47, 35},   {16, 48, 32}, {17, 31, 300},
                {100, 70, 129}, {40, 270, 66}, {1030, 33, 40}, {32, 32, 520}};

    for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++)
        check_layouts(make_amx(rows[i].m, rows[i].n, rows[i].k));
}

/* The same bits if C is computed in parts. */
static void test_parts(void)
{
    struct matrices x = make_amx(96, 64, 300), part = x;
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
        struct matrices x = make_amx(32, 32, 32);

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
