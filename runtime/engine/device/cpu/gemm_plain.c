/* SPDX-License-Identifier: Apache-2.0 */
/* Panels of A and B are packed in the order in which the innermost loop reads them; that loop keeps
 * a tile of C in registers. */
#include "gemm.h"

typedef float vector __attribute__((vector_size(16), aligned(4)));

#define TILE_ROWS    8
#define TILE_VECTORS 3
#define TILE_COLS    (4 * TILE_VECTORS)
#define DEPTH        384  /* depth of a panel */
#define PANEL_ROWS   192  /* rows of A: fits into the L2 cache */
#define PANEL_COLS   1536 /* columns of B: fits into the L3 cache */
#define AHEAD        256  /* floats of A that are requested before they are used */

#define ALWAYS_INLINE inline __attribute__((always_inline))

const size_t gemm_workspace_bytes =
    (size_t)(PANEL_ROWS * DEPTH + DEPTH * PANEL_COLS) * sizeof(float);

void gemm_prepare(void)
{
}

static int64_t smaller(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/* Transpose four rows of 'stride' floats: out[d * step] .. + 3 are element d of the rows. */
static inline void transpose(const float *from, int64_t stride, float *out, int64_t step)
{
    vector a = *(const vector *)from, b = *(const vector *)(from + stride);
    vector c = *(const vector *)(from + 2 * stride), d = *(const vector *)(from + 3 * stride);
    vector ab0 = __builtin_shufflevector(a, b, 0, 4, 2, 6);
    vector ab1 = __builtin_shufflevector(a, b, 1, 5, 3, 7);
    vector cd0 = __builtin_shufflevector(c, d, 0, 4, 2, 6);
    vector cd1 = __builtin_shufflevector(c, d, 1, 5, 3, 7);

    *(vector *)out = __builtin_shufflevector(ab0, cd0, 0, 1, 4, 5);
    *(vector *)(out + step) = __builtin_shufflevector(ab1, cd1, 0, 1, 4, 5);
    *(vector *)(out + 2 * step) = __builtin_shufflevector(ab0, cd0, 2, 3, 6, 7);
    *(vector *)(out + 3 * step) = __builtin_shufflevector(ab1, cd1, 2, 3, 6, 7);
}

/* Pack 'count' (at most 'width') rows of 'depth' floats, 'stride' apart, as packed[depth][width].
 */
static void pack_rows(const float *from, int64_t stride, int64_t count, int64_t width,
                      int64_t depth, float *packed)
{
    int64_t d = 0;

    for (; count == width && d + 4 <= depth; d += 4)
        for (int64_t r = 0; r < width; r += 4)
            transpose(from + r * stride + d, stride, packed + d * width + r, width);
    for (; d < depth; d++)
        for (int64_t r = 0; r < width; r++)
            packed[d * width + r] = r < count ? from[r * stride + d] : 0;
}

/* Pack 'count' (at most 'width') columns of 'depth' rows, 'stride' apart, as packed[depth][width].
 */
static void pack_columns(const float *from, int64_t stride, int64_t count, int64_t width,
                         int64_t depth, float *packed)
{
    for (int64_t d = 0; d < depth; d++, from += stride, packed += width) {
        __builtin_prefetch(from + 8 * stride);
        if (count == width)
            for (int64_t c = 0; c < width; c += 4)
                *(vector *)(packed + c) = *(const vector *)(from + c);
        else
            for (int64_t c = 0; c < width; c++)
                packed[c] = c < count ? from[c] : 0;
    }
}

/* Pack rows of op(A) in strips of TILE_ROWS: packed[strip][k][row], padded with 0. */
static void pack_a(int transposed, const float *a, int64_t lda, int64_t rows, int64_t depth,
                   float *packed)
{
    for (int64_t row = 0; row < rows; row += TILE_ROWS, packed += TILE_ROWS * depth) {
        int64_t height = smaller(rows - row, TILE_ROWS);

        if (transposed)
            pack_columns(a + row, lda, height, TILE_ROWS, depth, packed);
        else
            pack_rows(a + row * lda, lda, height, TILE_ROWS, depth, packed);
    }
}

/* Pack columns of op(B) in strips of TILE_COLS: packed[strip][k][column], padded with 0. */
static void pack_b(int transposed, const float *b, int64_t ldb, int64_t depth, int64_t cols,
                   float *packed)
{
    for (int64_t col = 0; col < cols; col += TILE_COLS, packed += TILE_COLS * depth) {
        int64_t width = smaller(cols - col, TILE_COLS);

        if (transposed)
            pack_rows(b + col * ldb, ldb, width, TILE_COLS, depth, packed);
        else
            pack_columns(b + col, ldb, width, TILE_COLS, depth, packed);
    }
}

/* A tile of C in registers: separate variables, because the compiler keeps an array in memory. */
#define EACH_ROW(do) \
    do               \
    (0) do(1) do(2) do(3) do(4) do(5) do(6) do(7)
#define FETCH(r)                        \
    __builtin_prefetch(c + r * ldc, 1); \
    __builtin_prefetch(c + r * ldc + TILE_COLS - 1, 1);
#define CLEAR(r) vector s##r##0 = {0}, s##r##1 = {0}, s##r##2 = {0};
#define ADD_PRODUCT(r)                           \
    s##r##0 += rows[r / 4][r % 4] * column0;     \
    if (vectors > 1)                             \
        s##r##1 += rows[r / 4][r % 4] * column1; \
    if (vectors > 2)                             \
        s##r##2 += rows[r / 4][r % 4] * column2;
#define PUT(r)                                       \
    put(c + r * ldc, alpha * s##r##0, beta);         \
    if (vectors > 1)                                 \
        put(c + r * ldc + 4, alpha * s##r##1, beta); \
    if (vectors > 2)                                 \
        put(c + r * ldc + 8, alpha * s##r##2, beta);

static inline void put(float *c, vector product, float beta)
{
    *(vector *)c = beta == 0 ? product : *(vector *)c * beta + product;
}

/* TILE_ROWS rows and 4 * 'vectors' columns of C = beta C + alpha * strip of A times strip of B. */
static ALWAYS_INLINE void tile_of(int vectors, int64_t depth, const float *a, const float *b,
                                  float alpha, float beta, float *c, int64_t ldc)
{
    EACH_ROW(CLEAR)

    /* C and the strip of A are not in the first-level cache; that of B is. */
    EACH_ROW(FETCH)
#pragma GCC unroll 4
    for (int64_t d = 0; d < depth; d++, a += TILE_ROWS, b += TILE_COLS) {
        vector rows[2] = {((const vector *)a)[0], ((const vector *)a)[1]};
        vector column0 = ((const vector *)b)[0], column1 = ((const vector *)b)[1];
        vector column2 = ((const vector *)b)[2];

        __builtin_prefetch(a + AHEAD);
        EACH_ROW(ADD_PRODUCT)
    }
    EACH_ROW(PUT)
}

static void tile(int64_t depth, const float *a, const float *b, float alpha, float beta, float *c,
                 int64_t ldc)
{
    tile_of(3, depth, a, b, alpha, beta, c, ldc);
}

static void tile_two_thirds(int64_t depth, const float *a, const float *b, float alpha, float beta,
                            float *c, int64_t ldc)
{
    tile_of(2, depth, a, b, alpha, beta, c, ldc);
}

static void tile_third(int64_t depth, const float *a, const float *b, float alpha, float beta,
                       float *c, int64_t ldc)
{
    tile_of(1, depth, a, b, alpha, beta, c, ldc);
}

/* A tile at the edge: only 'rows' and 'cols' of it are in C. */
static void edge_tile(int64_t depth, const float *a, const float *b, float alpha, float beta,
                      float *c, int64_t ldc, int64_t rows, int64_t cols)
{
    float whole[TILE_ROWS * TILE_COLS];

    tile(depth, a, b, alpha, 0, whole, TILE_COLS);
    for (int64_t r = 0; r < rows; r++)
        for (int64_t i = 0; i < cols; i++)
            c[r * ldc + i] = (beta == 0 ? 0 : c[r * ldc + i] * beta) + whole[r * TILE_COLS + i];
}

static void panel(int64_t rows, int64_t cols, int64_t depth, const float *a, const float *b,
                  float alpha, float beta, float *c, int64_t ldc)
{
    for (int64_t col = 0; col < cols; col += TILE_COLS)
        for (int64_t row = 0; row < rows; row += TILE_ROWS) {
            const float *strip_a = a + row * depth, *strip_b = b + col * depth;
            int64_t height = smaller(rows - row, TILE_ROWS), width = smaller(cols - col, TILE_COLS);
            float *out = c + row * ldc + col;

            if (height < TILE_ROWS || width % 4 != 0)
                edge_tile(depth, strip_a, strip_b, alpha, beta, out, ldc, height, width);
            else
                (width == TILE_COLS ? tile
                 : width == 8       ? tile_two_thirds
                                    : tile_third)(depth, strip_a, strip_b, alpha, beta, out, ldc);
        }
}

void gemm(int a_transposed, int b_transposed, int64_t m, int64_t n, int64_t k, float alpha,
          const float *a, int64_t lda, const float *b, int64_t ldb, float beta, float *c,
          int64_t ldc, void *workspace)
{
    float *packed_a = workspace, *packed_b = packed_a + PANEL_ROWS * DEPTH;

    for (int64_t col = 0; col < n; col += PANEL_COLS) {
        int64_t cols = smaller(n - col, PANEL_COLS);

        for (int64_t d = 0; d < k; d += DEPTH) {
            int64_t depth = smaller(k - d, DEPTH);

            pack_b(b_transposed, b_transposed ? b + col * ldb + d : b + d * ldb + col, ldb, depth,
                   cols, packed_b);
            for (int64_t row = 0; row < m; row += PANEL_ROWS) {
                int64_t rows = smaller(m - row, PANEL_ROWS);

                pack_a(a_transposed, a_transposed ? a + d * lda + row : a + row * lda + d, lda,
                       rows, depth, packed_a);
                panel(rows, cols, depth, packed_a, packed_b, alpha, d == 0 ? beta : 1,
                      c + row * ldc + col, ldc);
            }
        }
    }
}
