/* SPDX-License-Identifier: Apache-2.0 */
/* Panels of A and B are split into three bf16 numbers and packed in tiles, in the order in which
 * the innermost loop reads them; that loop keeps a block of 32 x 32 of C in four tile registers. */
#include "gemm_amx.h"

enum {
    SIDE = 16,                            /* rows of a tile, and columns of a tile of C */
    STEP = 32,                            /* depth of a tile of A or B: 16 pairs */
    SPLITS = 3,                           /* bf16 numbers for one fp32 number */
    TILE_BYTES = SIDE * 64,               /* of any tile */
    DEPTH = 256,                          /* of a panel */
    PANEL_ROWS = 1024,                    /* of A */
    PANEL_COLS = 256,                     /* of B: fits into the L2 cache */
    STEP_BYTES = SPLITS * 2 * TILE_BYTES, /* of a strip of 32 rows or columns */
    STRIP_BYTES = DEPTH / STEP * STEP_BYTES,
    RESULT_BYTES = 4 * TILE_BYTES,
};

const size_t gemm_amx_workspace_bytes =
    (size_t)(PANEL_ROWS + PANEL_COLS) / GEMM_AMX_TILE * STRIP_BYTES + RESULT_BYTES;

#if defined(__x86_64__)

#include <cpuid.h>
#include <immintrin.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#define AMX __attribute__((target("avx512f,avx512bw,amx-tile,amx-bf16")))

/* Splitting and packing ----------------------------------------------------------------------- */

/* The nearest bf16 number, in the upper half of each element. A finite number does not become
 * infinite, and NaN stays NaN. */
AMX static inline __m512i round_upper(__m512i x)
{
    const __m512i exponent = _mm512_set1_epi32(0x7f800000), upper = _mm512_set1_epi32(-65536);
    __m512i even = _mm512_and_si512(_mm512_srli_epi32(x, 16), _mm512_set1_epi32(1));
    __m512i r = _mm512_add_epi32(x, _mm512_add_epi32(even, _mm512_set1_epi32(0x7fff)));
    __mmask16 over = _mm512_cmpeq_epi32_mask(_mm512_and_si512(r, exponent), exponent);
    __mmask16 nan =
        _mm512_cmp_ps_mask(_mm512_castsi512_ps(x), _mm512_castsi512_ps(x), _CMP_UNORD_Q);

    r = _mm512_mask_mov_epi32(r, over, x);
    r = _mm512_mask_mov_epi32(r, nan, _mm512_set1_epi32(0x7fc00000));
    return _mm512_and_si512(r, upper);
}

/* x = part + rest, exactly; of infinity and NaN there is no rest. */
AMX static inline __m512i take_upper(__m512i *x)
{
    const __m512i exponent = _mm512_set1_epi32(0x7f800000);
    __mmask16 finite = _mm512_cmpneq_epi32_mask(_mm512_and_si512(*x, exponent), exponent);
    __m512i part = round_upper(*x);

    *x = _mm512_castps_si512(
        _mm512_maskz_sub_ps(finite, _mm512_castsi512_ps(*x), _mm512_castsi512_ps(part)));
    return part;
}

/* Pairs of bf16 numbers, the even one of each in the lower half: the three parts of both. */
AMX static inline void split(__m512 even, __m512 odd, __m512i pairs[SPLITS])
{
    __m512i e = _mm512_castps_si512(even), o = _mm512_castps_si512(odd);

#pragma GCC unroll 3
    for (int s = 0; s < SPLITS; s++)
        pairs[s] = _mm512_or_si512(_mm512_srli_epi32(take_upper(&e), 16), take_upper(&o));
}

AMX static inline void transpose(__m512i r[SIDE])
{
    __m512i t[SIDE];

#pragma GCC unroll 16
    for (int i = 0; i < SIDE; i += 2) {
        t[i] = _mm512_unpacklo_epi32(r[i], r[i + 1]);
        t[i + 1] = _mm512_unpackhi_epi32(r[i], r[i + 1]);
    }
#pragma GCC unroll 16
    for (int i = 0; i < SIDE; i += 4) {
        r[i] = _mm512_unpacklo_epi64(t[i], t[i + 2]);
        r[i + 1] = _mm512_unpackhi_epi64(t[i], t[i + 2]);
        r[i + 2] = _mm512_unpacklo_epi64(t[i + 1], t[i + 3]);
        r[i + 3] = _mm512_unpackhi_epi64(t[i + 1], t[i + 3]);
    }
#pragma GCC unroll 16
    for (int i = 0; i < 4; i++)
#pragma GCC unroll 2
        for (int half = 0; half < SIDE; half += 8) {
            t[half + i] = _mm512_shuffle_i32x4(r[half + i], r[half + i + 4], 0x88);
            t[half + i + 4] = _mm512_shuffle_i32x4(r[half + i], r[half + i + 4], 0xdd);
        }
#pragma GCC unroll 16
    for (int i = 0; i < 8; i++) {
        r[i] = _mm512_shuffle_i32x4(t[i], t[i + 8], 0x88);
        r[i + 8] = _mm512_shuffle_i32x4(t[i], t[i + 8], 0xdd);
    }
}

static int64_t smaller(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static __mmask16 first_of(int64_t count)
{
    return count >= SIDE ? (__mmask16)0xffff : count <= 0 ? 0 : (__mmask16)((1u << count) - 1);
}

/* The tiles of one step: 'lines' (at most 16) of 'depth' (at most 32) numbers, padded with 0. Each
 * line is contiguous, and the next one 'stride' further on; 'crossed': each number of a line is
 * 'stride' after the one before, and the lines are adjacent. Row i of 'out' is then the pairs of
 * line i or, if 'crossed', pair i of all lines. */
AMX static void pack_tiles(int crossed, const float *from, int64_t stride, int64_t lines,
                           int64_t depth, __m512i out[SPLITS][SIDE])
{
    const __m512i evens =
        _mm512_set_epi32(30, 28, 26, 24, 22, 20, 18, 16, 14, 12, 10, 8, 6, 4, 2, 0);
    const __m512i odds = _mm512_add_epi32(evens, _mm512_set1_epi32(1));
    __mmask16 low = first_of(crossed ? lines : depth), high = first_of(depth - SIDE);

#pragma GCC unroll 16
    for (int i = 0; i < SIDE; i++) {
        __m512 even = _mm512_setzero_ps(), odd = even;
        __m512i pairs[SPLITS];

        if (crossed) {
            if (2 * i < depth)
                even = _mm512_maskz_loadu_ps(low, from + 2 * i * stride);
            if (2 * i + 1 < depth)
                odd = _mm512_maskz_loadu_ps(low, from + (2 * i + 1) * stride);
        } else if (i < lines) {
            __m512 a = _mm512_maskz_loadu_ps(low, from + i * stride);
            __m512 b = _mm512_maskz_loadu_ps(high, from + i * stride + SIDE);

            even = _mm512_permutex2var_ps(a, evens, b);
            odd = _mm512_permutex2var_ps(a, odds, b);
        }
        split(even, odd, pairs);
        for (int s = 0; s < SPLITS; s++)
            out[s][i] = pairs[s];
    }
}

/* Pack up to 'count' lines as strips of 32: packed[strip][step][split][half] is a tile. A tile of A
 * has a line in each row ('crossed' memory must be transposed), a tile of B a pair in each row. */
AMX static void pack(int is_b, int crossed, const float *from, int64_t stride, int64_t count,
                     int64_t depth, char *packed)
{
    int64_t along = crossed ? stride : 1, across = crossed ? 1 : stride;
    __m512i tiles[SPLITS][SIDE];

    for (int64_t line = 0; line < count; line += SIDE)
        for (int64_t d = 0; d < depth; d += STEP) {
            char *to = packed + line / GEMM_AMX_TILE * STRIP_BYTES + d / STEP * STEP_BYTES +
                       line % GEMM_AMX_TILE / SIDE * TILE_BYTES;

            pack_tiles(crossed, from + line * across + d * along, stride,
                       smaller(count - line, SIDE), smaller(depth - d, STEP), tiles);
            for (int s = 0; s < SPLITS; s++) {
                if (is_b != crossed)
                    transpose(tiles[s]);
                for (int i = 0; i < SIDE; i++)
                    _mm512_store_si512(to + s * 2 * TILE_BYTES + i * 64, tiles[s][i]);
            }
        }
    /* The other half of the last strip is multiplied, but not used: it must not be NaN. */
    if ((count + SIDE - 1) / SIDE % 2)
        for (int64_t d = 0; d < depth; d += STEP)
            for (int s = 0; s < SPLITS; s++)
                memset(packed + count / GEMM_AMX_TILE * STRIP_BYTES + d / STEP * STEP_BYTES +
                           (s * 2 + 1) * TILE_BYTES,
                       0, TILE_BYTES);
}

/* Products ------------------------------------------------------------------------------------ */

struct tile_config {
    uint8_t palette, start_row, reserved[14];
    uint16_t row_bytes[16];
    uint8_t rows[16];
};

AMX static void configure(void)
{
    struct tile_config config = {.palette = 1};

    for (int i = 0; i < 8; i++) {
        config.row_bytes[i] = 64;
        config.rows[i] = SIDE;
    }
    _tile_loadconfig(&config);
}

/* Registers 0 to 3: C. 4 and 5: A, 6 and 7: B. */
#define LOAD_A(s)                               \
    _tile_loadd(4, a + (s)*2 * TILE_BYTES, 64); \
    _tile_loadd(5, a + ((s)*2 + 1) * TILE_BYTES, 64)
#define LOAD_B(s)                               \
    _tile_loadd(6, b + (s)*2 * TILE_BYTES, 64); \
    _tile_loadd(7, b + ((s)*2 + 1) * TILE_BYTES, 64)
#define MULTIPLY()           \
    _tile_dpbf16ps(0, 4, 6); \
    _tile_dpbf16ps(1, 4, 7); \
    _tile_dpbf16ps(2, 5, 6); \
    _tile_dpbf16ps(3, 5, 7)

/* Fetch two tiles of the next step into the nearest cache. */
AMX static inline void fetch(const char *tiles)
{
#pragma GCC unroll 32
    for (int i = 0; i < 2 * SIDE; i++)
        _mm_prefetch(tiles + i * 64, _MM_HINT_T0);
}

/* A block of 32 x 32 into 'result', four tiles. The small products come first. The order saves
 * loads: each one changes only one of the factors. */
AMX static void multiply(const char *a, const char *b, int64_t steps, char *result)
{
    _tile_zero(0);
    _tile_zero(1);
    _tile_zero(2);
    _tile_zero(3);
    for (; steps > 0; steps--, a += STEP_BYTES, b += STEP_BYTES) {
        LOAD_A(0);
        LOAD_B(2);
        MULTIPLY();
        fetch(a + STEP_BYTES);
        LOAD_B(1);
        MULTIPLY();
        fetch(b + STEP_BYTES + 4 * TILE_BYTES);
        LOAD_A(1);
        MULTIPLY();
        fetch(b + STEP_BYTES + 2 * TILE_BYTES);
        LOAD_B(0);
        MULTIPLY();
        fetch(a + STEP_BYTES + 2 * TILE_BYTES);
        LOAD_A(2);
        MULTIPLY();
        fetch(b + STEP_BYTES);
        LOAD_A(0);
        MULTIPLY();
        fetch(a + STEP_BYTES + 4 * TILE_BYTES);
    }
    _tile_stored(0, result, 64);
    _tile_stored(1, result + TILE_BYTES, 64);
    _tile_stored(2, result + 2 * TILE_BYTES, 64);
    _tile_stored(3, result + 3 * TILE_BYTES, 64);
}

/* C = alpha result + beta C, for the rows and columns that exist. */
AMX static void put(const char *result, float alpha, float beta, float *c, int64_t ldc,
                    int64_t rows, int64_t cols)
{
    __m512 by = _mm512_set1_ps(alpha), keep = _mm512_set1_ps(beta);

    for (int64_t r = 0; r < smaller(rows, GEMM_AMX_TILE); r++)
        for (int64_t j = 0; j < 2; j++) {
            const char *row = result + (r / SIDE * 2 + j) * TILE_BYTES + r % SIDE * 64;
            __mmask16 mask = first_of(cols - j * SIDE);
            float *to = c + r * ldc + j * SIDE;
            __m512 x = _mm512_mul_ps(by, _mm512_load_ps(row));

            if (beta != 0)
                x = _mm512_fmadd_ps(keep, _mm512_maskz_loadu_ps(mask, to), x);
            _mm512_mask_storeu_ps(to, mask, x);
        }
}

struct panel {
    const char *a, *b;
    char *result;
    int64_t rows, cols, depth;
};

/* Fetch a block of C, which is written when its product is ready. */
static void fetch_block(const float *c, int64_t ldc, int64_t rows, int64_t cols)
{
    for (int64_t r = 0; r < smaller(rows, GEMM_AMX_TILE); r++)
        for (int64_t j = 0; j < smaller(cols, GEMM_AMX_TILE); j += SIDE)
            __builtin_prefetch(c + r * ldc + j, 1);
}

AMX static void multiply_panel(const struct panel *p, float alpha, float beta, float *c,
                               int64_t ldc)
{
    int64_t steps = (p->depth + STEP - 1) / STEP;

    for (int64_t row = 0; row < p->rows; row += GEMM_AMX_TILE)
        for (int64_t col = 0; col < p->cols; col += GEMM_AMX_TILE) {
            float *block = c + row * ldc + col;

            fetch_block(block, ldc, p->rows - row, p->cols - col);
            multiply(p->a + row / GEMM_AMX_TILE * STRIP_BYTES,
                     p->b + col / GEMM_AMX_TILE * STRIP_BYTES, steps, p->result);
            put(p->result, alpha, beta, block, ldc, p->rows - row, p->cols - col);
        }
}

AMX void gemm_amx(int a_transposed, int b_transposed, int64_t m, int64_t n, int64_t k, float alpha,
                  const float *a, int64_t lda, const float *b, int64_t ldb, float beta, float *c,
                  int64_t ldc, void *workspace)
{
    char *packed_a = workspace, *packed_b = packed_a + PANEL_ROWS / GEMM_AMX_TILE * STRIP_BYTES;
    struct panel p = {packed_a, packed_b, packed_b + PANEL_COLS / GEMM_AMX_TILE * STRIP_BYTES,
                      0,        0,        0};

    configure();
    for (int64_t row = 0; row < m; row += PANEL_ROWS)
        for (int64_t depth = 0; depth < k; depth += DEPTH) {
            p.rows = smaller(m - row, PANEL_ROWS);
            p.depth = smaller(k - depth, DEPTH);
            pack(0, a_transposed, a + (a_transposed ? depth * lda + row : row * lda + depth), lda,
                 p.rows, p.depth, packed_a);
            for (int64_t col = 0; col < n; col += PANEL_COLS) {
                p.cols = smaller(n - col, PANEL_COLS);
                pack(1, !b_transposed, b + (b_transposed ? col * ldb + depth : depth * ldb + col),
                     ldb, p.cols, p.depth, packed_b);
                multiply_panel(&p, alpha, depth == 0 ? beta : 1, c + row * ldc + col, ldc);
            }
        }
    _tile_release();
}

/* Choosing ------------------------------------------------------------------------------------ */

int gemm_amx_available(void)
{
    enum { REQUEST_PERMISSION = 0x1023, TILE_DATA = 18 }; /* ARCH_REQ_XCOMP_PERM */
    const unsigned amx = 1u << 22 | 1u << 24, avx512 = 1u << 16 | 1u << 30; /* bf16, tile; f, bw */
    static int known = -1;
    unsigned eax, ebx, ecx, edx;

    if (known < 0)
        known = __get_cpuid_count(7, 0, &eax, &ebx, &ecx, &edx) && (edx & amx) == amx &&
                (ebx & avx512) == avx512 &&
                syscall(SYS_arch_prctl, REQUEST_PERMISSION, TILE_DATA) == 0;
    return known;
}

#else

int gemm_amx_available(void)
{
    return 0;
}

void gemm_amx(int a_transposed, int b_transposed, int64_t m, int64_t n, int64_t k, float alpha,
              const float *a, int64_t lda, const float *b, int64_t ldb, float beta, float *c,
              int64_t ldc, void *workspace)
{
    (void)a_transposed, (void)b_transposed, (void)m, (void)n, (void)k, (void)alpha, (void)a;
    (void)lda, (void)b, (void)ldb, (void)beta, (void)c, (void)ldc, (void)workspace;
}

#endif

int gemm_amx_fits(int64_t m, int64_t n, int64_t k)
{
    return m >= 2 * GEMM_AMX_TILE && n >= 2 * GEMM_AMX_TILE && k >= 2 * STEP &&
           gemm_amx_available();
}
