/* SPDX-License-Identifier: Apache-2.0 */
/* Products in fp32: all shapes, whole tiles and all edges of tiles, and both layouts of each
 * factor.
 */
#include "engine/device/cpu/gemm.h"
#include "products.h"

static struct matrices make_plain(int64_t m, int64_t n, int64_t k)
{
    return make(gemm, gemm_workspace_bytes, m, n, k);
}

static void test_shapes(void)
{
    static const struct {
        int64_t m, n, k;
    } rows[] = {{64, 64, 64}, {1, 1, 1},      {200, 96, 400}, {17, 31, 300},
                {8, 24, 770}, {16, 1600, 40}, {1030, 33, 40}, {32, 32, 520}};

    for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++)
        check_layouts(make_plain(rows[i].m, rows[i].n, rows[i].k));
    for (int64_t edge = 0; edge < 24; edge++)
        check_layouts(make_plain(9 + edge % 8, 13 + edge, 20 + edge));
    for (int64_t vectors = 1; vectors < 7; vectors++)
        check_layouts(make_plain(24, 4 * vectors, 50));
}

int main(void)
{
    gemm_prepare();
    test_shapes();
    return done_testing();
}
