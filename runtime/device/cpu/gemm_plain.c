/* Panels of A and B are copied into the order in which the innermost loop reads them; that loop
 * keeps a tile of C in registers. */
#include "gemm.h"

#include <string.h>

typedef float vector __attribute__((vector_size(16), aligned(4)));

#define TILE_ROWS    8
#define TILE_VECTORS 3
#define TILE_COLS    (4 * TILE_VECTORS)
#define DEPTH        384  /* of a panel: k at a time */
#define PANEL_ROWS   192  /* of A: stays in the second-level cache */
#define PANEL_COLS   1536 /* of B: stays in the third-level cache */

const size_t gemm_workspace_bytes =
    (size_t)(PANEL_ROWS * DEPTH + DEPTH * PANEL_COLS + TILE_ROWS * TILE_COLS) * sizeof(float);

void gemm_prepare(void)
{
}

/* Rows of op(A) in strips of TILE_ROWS: packed[strip][k][row], missing rows 0. */
static void pack_a(int transposed, const float *a, int64_t lda, int64_t rows, int64_t depth,
                   float alpha, float *packed)
{
    for (int64_t row = 0; row < rows; row += TILE_ROWS, packed += TILE_ROWS * depth) {
        int64_t height = rows - row < TILE_ROWS ? rows - row : TILE_ROWS;

        if (height < TILE_ROWS)
            memset(packed, 0, (size_t)(TILE_ROWS * depth) * sizeof(*packed));
        if (transposed && height == TILE_ROWS)
            for (int64_t d = 0; d < depth; d++)
                for (int64_t r = 0; r < TILE_ROWS; r++)
                    packed[d * TILE_ROWS + r] = alpha * a[d * lda + row + r];
        else if (transposed)
            for (int64_t d = 0; d < depth; d++)
                for (int64_t r = 0; r < height; r++)
                    packed[d * TILE_ROWS + r] = alpha * a[d * lda + row + r];
        else
            for (int64_t r = 0; r < height; r++)
                for (int64_t d = 0; d < depth; d++)
                    packed[d * TILE_ROWS + r] = alpha * a[(row + r) * lda + d];
    }
}

/* Columns of op(B) in strips of TILE_COLS: packed[strip][k][column], missing columns 0. */
static void pack_b(int transposed, const float *b, int64_t ldb, int64_t depth, int64_t cols,
                   float *packed)
{
    for (int64_t col = 0; col < cols; col += TILE_COLS, packed += TILE_COLS * depth) {
        int64_t width = cols - col < TILE_COLS ? cols - col : TILE_COLS;

        if (width < TILE_COLS)
            memset(packed, 0, (size_t)(TILE_COLS * depth) * sizeof(*packed));
        if (transposed)
            for (int64_t c = 0; c < width; c++)
                for (int64_t d = 0; d < depth; d++)
                    packed[d * TILE_COLS + c] = b[(col + c) * ldb + d];
        else if (width == TILE_COLS)
            for (int64_t d = 0; d < depth; d++)
                memcpy(packed + d * TILE_COLS, b + d * ldb + col, TILE_COLS * sizeof(*b));
        else
            for (int64_t d = 0; d < depth; d++)
                memcpy(packed + d * TILE_COLS, b + d * ldb + col, (size_t)width * sizeof(*b));
    }
}

/* A whole tile of C = beta C + strip of A times strip of B. */
static void tile(int64_t depth, const float *a, const float *b, float beta, float *c, int64_t ldc)
{
    vector sum[TILE_ROWS][TILE_VECTORS] = {{{0}}};

    for (int64_t d = 0; d < depth; d++, a += TILE_ROWS, b += TILE_COLS) {
        vector column[TILE_VECTORS];

        for (int v = 0; v < TILE_VECTORS; v++)
            column[v] = *(const vector *)(b + 4 * v);
        for (int r = 0; r < TILE_ROWS; r += 4) {
            vector row = *(const vector *)(a + r);

            for (int lane = 0; lane < 4; lane++)
                for (int v = 0; v < TILE_VECTORS; v++)
                    sum[r + lane][v] += row[lane] * column[v];
        }
    }
    for (int r = 0; r < TILE_ROWS; r++)
        for (int v = 0; v < TILE_VECTORS; v++) {
            vector *out = (vector *)(c + r * ldc + 4 * v);

            *out = beta == 0 ? sum[r][v] : *out * beta + sum[r][v];
        }
}

static void edge_tile(int64_t depth, const float *a, const float *b, float beta, float *c,
                      int64_t ldc, int64_t rows, int64_t cols, float *scratch)
{
    tile(depth, a, b, 0, scratch, TILE_COLS);
    for (int64_t r = 0; r < rows; r++)
        for (int64_t i = 0; i < cols; i++)
            c[r * ldc + i] = (beta == 0 ? 0 : c[r * ldc + i] * beta) + scratch[r * TILE_COLS + i];
}

static void panel(int64_t rows, int64_t cols, int64_t depth, const float *a, const float *b,
                  float beta, float *c, int64_t ldc, float *scratch)
{
    for (int64_t col = 0; col < cols; col += TILE_COLS)
        for (int64_t row = 0; row < rows; row += TILE_ROWS) {
            const float *strip_a = a + row * depth, *strip_b = b + col * depth;
            float *out = c + row * ldc + col;

            if (rows - row >= TILE_ROWS && cols - col >= TILE_COLS)
                tile(depth, strip_a, strip_b, beta, out, ldc);
            else
                edge_tile(depth, strip_a, strip_b, beta, out, ldc,
                          rows - row < TILE_ROWS ? rows - row : TILE_ROWS,
                          cols - col < TILE_COLS ? cols - col : TILE_COLS, scratch);
        }
}

static int64_t smaller(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

void gemm(int a_transposed, int b_transposed, int64_t m, int64_t n, int64_t k, float alpha,
          const float *a, int64_t lda, const float *b, int64_t ldb, float beta, float *c,
          int64_t ldc, void *workspace)
{
    float *packed_a = workspace, *packed_b = packed_a + PANEL_ROWS * DEPTH;
    float *scratch = packed_b + DEPTH * PANEL_COLS;

    for (int64_t col = 0; col < n; col += PANEL_COLS) {
        int64_t cols = smaller(n - col, PANEL_COLS);

        for (int64_t d = 0; d < k; d += DEPTH) {
            int64_t depth = smaller(k - d, DEPTH);

            pack_b(b_transposed, b_transposed ? b + col * ldb + d : b + d * ldb + col, ldb, depth,
                   cols, packed_b);
            for (int64_t row = 0; row < m; row += PANEL_ROWS) {
                int64_t rows = smaller(m - row, PANEL_ROWS);

                pack_a(a_transposed, a_transposed ? a + d * lda + row : a + row * lda + d, lda,
                       rows, depth, alpha, packed_a);
                panel(rows, cols, depth, packed_a, packed_b, d == 0 ? beta : 1, c + row * ldc + col,
                      ldc, scratch);
            }
        }
    }
}
