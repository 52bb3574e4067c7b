/* SPDX-License-Identifier: Apache-2.0 */
/* Blockwise scales of fp8: casts in both layouts, which scale belongs to which elements of a
 * product, and products. */
#include "device_test.h"
#include "engine/device/fp8.h"
#include "tap.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { SIDE = 128 };

static const char *format_name(enum device_type as)
{
    return as == TYPE_E4M3 ? "e4m3" : "e5m2";
}

/* A plan, or NULL after a failed test that tells why. */
static struct device_plan *try_plan(const struct operation *op, const char *name)
{
    struct error err = {0};
    struct device_plan *p = plan_create(device, op, &err);

    if (!p)
        ok(0, "%s has no plan: %s", name, err.text);
    return p;
}

/* --- A factor of a product, as the reference sees it ------------------------------------------ */

/* (rows, depth) fp8 numbers with a scale for each block: what a product reads. */
struct factor {
    int64_t rows, depth;
    enum device_type as;
    int square;
    uint8_t *bytes;
    float *inverse;
    uint8_t *bytes_d;
    float *inverse_d;
};

static int64_t line_of(const struct factor *f)
{
    int64_t blocks = f->depth / SIDE;

    return blocks % 4 ? blocks + 4 - blocks % 4 : blocks;
}

static size_t scale_bytes(const struct factor *f)
{
    return sizeof(float) *
           (size_t)(f->square ? f->rows / SIDE * line_of(f) : f->rows * f->depth / SIDE);
}

static struct factor factor(int64_t rows, int64_t depth, enum device_type as, int square)
{
    struct factor f = {rows, depth, as, square, .bytes = calloc((size_t)(rows * depth), 1)};

    f.inverse = calloc(1, scale_bytes(&f));
    f.bytes_d = allocate((size_t)(rows * depth));
    f.inverse_d = allocate(scale_bytes(&f));
    return f;
}

static void factor_free(struct factor *f)
{
    free(f->bytes), free(f->inverse);
    device_release(device, f->bytes_d), device_release(device, f->inverse_d);
}

static void factor_move(struct factor *f, enum device_copy direction)
{
    int down = direction == COPY_TO_HOST;
    size_t bytes = (size_t)(f->rows * f->depth);

    transfer(down ? f->bytes : f->bytes_d, down ? f->bytes_d : f->bytes, bytes, direction);
    transfer(down ? (void *)f->inverse : f->inverse_d, down ? (void *)f->inverse_d : f->inverse,
             scale_bytes(f), direction);
}

static double inverse_at(const struct factor *f, int64_t row, int64_t at)
{
    return (double)(f->square ? f->inverse[row / SIDE * line_of(f) + at / SIDE]
                              : f->inverse[at / SIDE * f->rows + row]);
}

static double value_at(const struct factor *f, int64_t row, int64_t at)
{
    return (double)fp8_decode(f->bytes[row * f->depth + at], f->as) * inverse_at(f, row, at);
}

/* --- Casts ------------------------------------------------------------------------------------ */

/* The scale by its definition: the largest power of two up to 2^126 with which 'amax' fits. */
static double block_scale(double amax, enum device_type as)
{
    double scale = 0x1p126;

    if (!(amax > 0) || isinf(amax))
        return 1;
    while (amax * scale > (double)fp8_largest(as))
        scale /= 2;
    return scale;
}

/* NaN is the largest. */
static double larger(double amax, double x)
{
    return isnan(amax) || isnan(x) ? NAN : fmax(amax, fabs(x));
}

/* The blocks of 'f' whose scale or bytes are not those of 'values' (rows, depth). */
static int64_t wrong_blocks(const struct factor *f, const double *values)
{
    int64_t high = f->square ? SIDE : 1, wrong = 0;

    for (int64_t row = 0; row < f->rows; row += high)
        for (int64_t at = 0; at < f->depth; at += SIDE) {
            double amax = 0, scale;
            int bad = 0;

            for (int64_t i = 0; i < high * SIDE; i++)
                amax = larger(amax, values[(row + i / SIDE) * f->depth + at + i % SIDE]);
            scale = block_scale(amax, f->as);
            bad = inverse_at(f, row, at) * scale != 1;
            for (int64_t i = 0; i < high * SIDE; i++) {
                int64_t e = (row + i / SIDE) * f->depth + at + i % SIDE;

                bad |=
                    (fp8_encode((float)(values[e] * scale), f->as) & 0x7f) != (f->bytes[e] & 0x7f);
            }
            wrong += bad;
        }
    return wrong;
}

/* Values whose magnitude differs from block to block, with a row and a column of zeros, and values
 * on both sides of block edges that only their own block may see. */
static void vary(struct tensor *x, int64_t rows, int64_t cols)
{
    for (int64_t r = 0; r < rows; r++)
        for (int64_t c = 0; c < cols; c++)
            x->v[r * cols + c] *=
                r == 1 || c == 2 ? 0 : ldexp(1, (int)((3 * (r / SIDE) + 5 * (c / SIDE) + r) % 11));
    for (int64_t c = SIDE - 1; c + 1 < cols; c += SIDE)
        x->v[5 * cols + c] = 448, x->v[6 * cols + c + 1] = 448 * 1.0078125;
    for (int64_t r = SIDE - 1; r + 1 < rows; r += SIDE)
        x->v[r * cols + 7] = 57344, x->v[(r + 1) * cols + 8] = -64;
    tensor_put(x, x->v);
}

static void run_cast(struct device_plan *p, const struct tensor *x, const struct tensor *dy,
                     struct factor *rows, struct factor *columns, float *amax_d,
                     struct tensor *dbias, int accumulate)
{
    run_quantize(p, stream,
                 &(struct quantize_operands){.x = x->d,
                                             .dy = dy ? dy->d : NULL,
                                             .rows = rows ? rows->bytes_d : NULL,
                                             .columns = columns ? columns->bytes_d : NULL,
                                             .inverse = rows ? rows->inverse_d : NULL,
                                             .columns_inverse = columns ? columns->inverse_d : NULL,
                                             .amax = amax_d,
                                             .dbias = dbias ? dbias->d : NULL,
                                             .accumulate = accumulate});
    if (rows)
        factor_move(rows, COPY_TO_HOST);
    if (columns)
        factor_move(columns, COPY_TO_HOST);
}

static double *turned(const double *values, int64_t rows, int64_t cols)
{
    double *out = malloc((size_t)(rows * cols) * sizeof(double));

    for (int64_t i = 0; i < rows * cols; i++)
        out[i % cols * rows + i / cols] = values[i];
    return out;
}

/* 'layouts': 1 rows, 2 columns, 3 both. */
static void test_cast(int64_t rows, int64_t cols, enum device_type as, enum scaled_part part,
                      int layouts, int bias)
{
    struct operation op = {
        .kind = OPERATION_QUANTIZE,
        .quantize = {
            .rows = rows, .cols = cols, .from = type, .to = as, .bias = bias, .part = part}};
    struct tensor x = tensor(rows * cols, 0.3), dbias = tensor_as(TYPE_FP32, cols, 1, 0);
    int square = part == SCALED_SQUARES;
    struct factor by_row = factor(rows, cols, as, square), by_col = factor(cols, rows, as, square);
    struct device_plan *p = try_plan(&op, "a cast with blockwise scales");
    float zero = 0, amax = 0, *amax_d = upload(&zero, sizeof(zero));
    double *sums = calloc((size_t)cols, sizeof(double)), *across, largest = 0;

    vary(&x, rows, cols);
    across = turned(x.v, rows, cols);
    for (int64_t i = 0; i < rows * cols; i++) {
        largest = larger(largest, x.v[i]);
        sums[i % cols] += x.v[i] + (i < cols && bias ? dbias.v[i] : 0);
    }
    if (p) {
        run_cast(p, &x, NULL, layouts & 1 ? &by_row : NULL, layouts & 2 ? &by_col : NULL, amax_d,
                 bias ? &dbias : NULL, bias);
        transfer(&amax, amax_d, sizeof(amax), COPY_TO_HOST);
        ok((double)amax == largest, "cast of %lld x %lld to %s, blocks of %s: amax %g",
           (long long)rows, (long long)cols, format_name(as), square ? "128 x 128" : "1 x 128",
           (double)amax);
    }
    if (p && layouts & 1)
        ok(wrong_blocks(&by_row, x.v) == 0, "  by row: %lld blocks are wrong",
           (long long)wrong_blocks(&by_row, x.v));
    if (p && layouts & 2)
        ok(wrong_blocks(&by_col, across) == 0, "  transposed: %lld blocks are wrong",
           (long long)wrong_blocks(&by_col, across));
    if (p && bias)
        agree(&dbias, sums, "  column sums, added");
    plan_destroy(p);
    device_release(device, amax_d);
    factor_free(&by_row), factor_free(&by_col);
    tensor_free(&x), tensor_free(&dbias);
    free(sums), free(across);
}

/* Inf and NaN change the scale of their own blocks only, and the amax shows them. */
static void test_special(void)
{
    struct operation op = {
        .kind = OPERATION_QUANTIZE,
        .quantize = {
            .rows = SIDE, .cols = 2 * SIDE, .from = type, .to = TYPE_E4M3, .part = SCALED_VECTORS}};
    struct tensor x = tensor(2 * SIDE * SIDE, 1);
    struct factor by_row = factor(SIDE, 2 * SIDE, TYPE_E4M3, 0);
    struct factor by_col = factor(2 * SIDE, SIDE, TYPE_E4M3, 0);
    struct device_plan *p = try_plan(&op, "a cast of Inf and NaN");
    float zero = 0, amax = 0, *amax_d = upload(&zero, sizeof(zero));
    double *across;

    x.v[2 * SIDE * 9 + 3] = -INFINITY;
    tensor_put(&x, x.v);
    if (p) {
        run_cast(p, &x, NULL, &by_row, &by_col, amax_d, NULL, 0);
        transfer(&amax, amax_d, sizeof(amax), COPY_TO_HOST);
        ok(isinf(amax) && by_row.bytes[2 * SIDE * 9 + 3] == 0xfe, "Inf: amax, saturated byte");
    }
    x.v[2 * SIDE * 70 + 200] = NAN;
    tensor_put(&x, x.v);
    across = turned(x.v, SIDE, 2 * SIDE);
    if (p) {
        run_cast(p, &x, NULL, &by_row, &by_col, amax_d, NULL, 0);
        transfer(&amax, amax_d, sizeof(amax), COPY_TO_HOST);
        ok(isnan(amax), "NaN: amax");
        ok(wrong_blocks(&by_row, x.v) == 0 && wrong_blocks(&by_col, across) == 0,
           "  bytes and scales of all blocks");
    }
    plan_destroy(p);
    device_release(device, amax_d);
    factor_free(&by_row), factor_free(&by_col);
    tensor_free(&x);
    free(across);
}

/* --- Casts of what an activation or a gate computes --------------------------------------------
 */

/* Elements that are further from 'values' than rounding allows, with scales that fit: half of the
 * distance between fp8 numbers, and the error of the operation. */
static int64_t wrong_elements(const struct factor *f, const double *values)
{
    const double digits = f->as == TYPE_E4M3 ? 0x1p-4 : 0x1p-3;
    const double least = f->as == TYPE_E4M3 ? 0x1p-10 : 0x1p-17; /* half of the smallest number */
    int64_t wrong = 0;

    for (int64_t row = 0; row < f->rows; row++)
        for (int64_t at = 0; at < f->depth; at++) {
            double expected = values[row * f->depth + at], inverse = inverse_at(f, row, at);
            double most = fmax(fabs(expected) * digits, least * inverse) * 1.001 + 1e-5;
            double largest = 0;

            for (int64_t i = at / SIDE * SIDE; i < at / SIDE * SIDE + SIDE && at % SIDE == 0; i++)
                largest = larger(largest, values[row * f->depth + i]);
            wrong += fabs(value_at(f, row, at) - expected) > most ||
                     (at % SIDE == 0 && !(largest < (double)fp8_largest(f->as) * inverse * 1.001 &&
                                          2.002 * largest > (double)fp8_largest(f->as) * inverse));
        }
    return wrong;
}

static void test_source(enum quantize_source source, int64_t rows, int64_t cols, int bias)
{
    static const char *const names[] = {"", "GELU", "gradient of GELU", "SwiGLU",
                                        "gradient of SwiGLU"};
    enum device_type as = source % 2 ? TYPE_E4M3 : TYPE_E5M2;
    struct operation op = {.kind = OPERATION_QUANTIZE,
                           .quantize = {.rows = rows,
                                        .cols = cols,
                                        .from = type,
                                        .to = as,
                                        .bias = bias,
                                        .source = source,
                                        .activation = ACTIVATION_GELU_TANH,
                                        .part = SCALED_VECTORS}};
    struct device_plan *p = try_plan(&op, names[source]);
    struct tensor x = tensor(2 * rows * cols, 1), dy = tensor(rows * cols, 1);
    struct tensor dbias = tensor_as(TYPE_FP32, cols, 1, 0);
    struct factor by_row = factor(rows, cols, as, 0), by_col = factor(cols, rows, as, 0);
    double *values = malloc((size_t)(rows * cols) * sizeof(double)), *across;
    double *sums = calloc((size_t)cols, sizeof(double));

    for (int64_t i = 0; i < rows * cols; i++) {
        values[i] = source_reference(&op.quantize, x.v, dy.v, i / cols, i % cols);
        sums[i % cols] += values[i];
    }
    across = turned(values, rows, cols);
    if (p) {
        run_cast(p, &x, &dy, &by_row, &by_col, NULL, bias ? &dbias : NULL, 0);
        ok(wrong_elements(&by_row, values) == 0, "blockwise cast of %s: %lld elements are wrong",
           names[source], (long long)wrong_elements(&by_row, values));
        ok(wrong_elements(&by_col, across) == 0, "  transposed: %lld",
           (long long)wrong_elements(&by_col, across));
    }
    if (p && bias)
        agree_closely(&dbias, sums, "  column sums");
    plan_destroy(p);
    factor_free(&by_row), factor_free(&by_col);
    tensor_free(&x), tensor_free(&dy), tensor_free(&dbias);
    free(values), free(across), free(sums);
}

/* --- Which scale belongs to which elements ---------------------------------------------------- */

/* y = x W^T of ones, where block b of x is 2^-b. */
struct probe_run {
    struct factor x, w;
    struct tensor y;
    struct device_plan *plan;
};

static void fill_scales(struct factor *f, float scale)
{
    for (size_t i = 0; i < scale_bytes(f) / sizeof(float); i++)
        f->inverse[i] = scale;
}

/* With all scales of 'f' 0 but number 'place': the rows and columns of y that are not 0, and the
 * block of the summed dimension that they come from. */
static void probe_place(struct probe_run *run, struct factor *f, int64_t place, const char *name,
                        int64_t first_row, int64_t first_col, int64_t block)
{
    int64_t out = run->w.rows, from_row = -1, from_col = -1, rows = f->square ? run->x.rows : 1;
    int64_t cols = f->square ? SIDE : out, count = 0;
    double *y, value = 0;

    fill_scales(f, 0);
    f->inverse[place] = 1;
    factor_move(f, COPY_TO_DEVICE);
    run_linear_forward(
        run->plan, stream,
        &(struct linear_forward_operands){.x = run->x.bytes_d,
                                          .weight = run->w.bytes_d,
                                          .y = run->y.d,
                                          .x_scale = {.inverse = run->x.inverse_d},
                                          .weight_scale = {.inverse = run->w.inverse_d}});
    y = download(&run->y);
    for (int64_t i = 0; i < run->y.n; i++)
        if (y[i] != 0) {
            from_row = count == 0 ? i / out : from_row;
            from_col = count == 0 ? i % out : from_col;
            value = y[i];
            count++;
        }
    if (!ok(count == rows * cols && from_row == first_row && from_col == first_col &&
                value == ldexp(SIDE, -(int)block),
            "scale %lld of %s belongs to row %lld, column %lld, block %lld", (long long)place, name,
            (long long)first_row, (long long)first_col, (long long)block))
        diag("got %lld results, the first in row %lld, column %lld, from block %g",
             (long long)count, (long long)from_row, (long long)from_col, log2(SIDE / value));
    fill_scales(f, 1);
    factor_move(f, COPY_TO_DEVICE);
    free(y);
}

static void test_places(void)
{
    enum { ROWS = 256, IN = 640, OUT = 384, LINE = 8 }; /* LINE: 5 blocks, rounded up to 4s */
    struct operation op = {.kind = OPERATION_LINEAR_FORWARD,
                           .linear = {.rows = ROWS,
                                      .in = IN,
                                      .out = OUT,
                                      .types = {TYPE_E4M3, TYPE_E4M3, type, type},
                                      .blocks = 1}};
    struct probe_run run = {factor(ROWS, IN, TYPE_E4M3, 0), factor(OUT, IN, TYPE_E4M3, 1),
                            tensor(ROWS * OUT, 1), try_plan(&op, "forward with blockwise scales")};

    for (int64_t i = 0; i < ROWS * IN; i++)
        run.x.bytes[i] = fp8_encode((float)ldexp(1, -(int)(i % IN / SIDE)), TYPE_E4M3);
    memset(run.w.bytes, fp8_encode(1, TYPE_E4M3), OUT * IN);
    fill_scales(&run.x, 1), fill_scales(&run.w, 1);
    factor_move(&run.x, COPY_TO_DEVICE), factor_move(&run.w, COPY_TO_DEVICE);
    if (run.plan) {
        static const int64_t vectors[][2] = {{0, 0}, {1, 0}, {255, 0}, {0, 1}, {130, 3}, {255, 4}};
        static const int64_t squares[][2] = {{0, 0}, {0, 1}, {0, 4}, {1, 0}, {1, 3}, {2, 4}};

        for (size_t i = 0; i < sizeof(vectors) / sizeof(*vectors); i++)
            probe_place(&run, &run.x, vectors[i][1] * ROWS + vectors[i][0], "the input",
                        vectors[i][0], 0, vectors[i][1]);
        for (size_t i = 0; i < sizeof(squares) / sizeof(*squares); i++)
            probe_place(&run, &run.w, squares[i][0] * LINE + squares[i][1], "the weight", 0,
                        squares[i][0] * SIDE, squares[i][1]);
    }
    plan_destroy(run.plan);
    factor_free(&run.x), factor_free(&run.w);
    tensor_free(&run.y);
}

/* --- Products --------------------------------------------------------------------------------- */

/* Both layouts of a matrix that was cast. */
struct matrix {
    struct tensor x;
    struct factor by_row, by_col;
};

static struct matrix matrix(int64_t rows, int64_t cols, enum device_type as, int square,
                            double deviation)
{
    struct matrix m = {tensor(rows * cols, deviation), factor(rows, cols, as, square),
                       factor(cols, rows, as, square)};
    struct operation op = {.kind = OPERATION_QUANTIZE,
                           .quantize = {.rows = rows,
                                        .cols = cols,
                                        .from = type,
                                        .to = as,
                                        .part = square ? SCALED_SQUARES : SCALED_VECTORS}};
    struct device_plan *p = plan(&op);

    for (int64_t i = 0; i < rows * cols; i++)
        m.x.v[i] *= ldexp(1, (int)((2 * (i / cols / SIDE) + 3 * (i % cols / SIDE) + i / cols) % 5));
    tensor_put(&m.x, m.x.v);
    run_cast(p, &m.x, NULL, &m.by_row, &m.by_col, NULL, NULL, 0);
    plan_destroy(p);
    return m;
}

static void matrix_free(struct matrix *m)
{
    tensor_free(&m->x);
    factor_free(&m->by_row), factor_free(&m->by_col);
}

/* out (a rows, b rows) += a b^T; 'size' += the same of magnitudes. */
static void multiply(const struct factor *a, const struct factor *b, double *out, double *size)
{
    for (int64_t i = 0; i < a->rows; i++)
        for (int64_t k = 0; k < a->depth; k++) {
            double left = value_at(a, i, k);

            for (int64_t j = 0; j < b->rows; j++) {
                double term = left * value_at(b, j, k);

                out[i * b->rows + j] += term;
                size[i * b->rows + j] += fabs(term);
            }
        }
}

static struct operand_scale scale_of(const struct factor *f)
{
    return (struct operand_scale){.inverse = f->inverse_d};
}

static void compare(const struct tensor *got, const struct factor *a, const struct factor *b,
                    const double *before, int64_t period, const char *name)
{
    double *expected = calloc((size_t)got->n, sizeof(double));
    double *size = calloc((size_t)got->n, sizeof(double));

    for (int64_t i = 0; i < got->n && before; i++)
        expected[i] = before[i % period], size[i] = fabs(before[i % period]);
    multiply(a, b, expected, size);
    agree_each(got, expected, size, name);
    free(expected), free(size);
}

static void test_products(int64_t rows, int64_t in, int64_t out, enum device_type gradients)
{
    struct matrix x = matrix(rows, in, TYPE_E4M3, 0, 1), w = matrix(out, in, TYPE_E4M3, 1, 0.1);
    struct matrix dy = matrix(rows, out, gradients, 0, 1e-4);
    struct operation op = {.kind = OPERATION_LINEAR_FORWARD,
                           .linear = {.rows = rows,
                                      .in = in,
                                      .out = out,
                                      .types = {TYPE_E4M3, TYPE_E4M3, type, type, TYPE_FP32},
                                      .bias = 1,
                                      .blocks = 1}};
    struct tensor bias = tensor(out, 1), y = tensor(rows * out, 1), dx = tensor(rows * in, 1);
    struct tensor dw = tensor_as(TYPE_FP32, out * in, 1e-4, 0);
    struct device_plan *p = try_plan(&op, "blockwise forward");

    diag("products of %lld rows, %lld in, %lld out, gradients in %s", (long long)rows,
         (long long)in, (long long)out, format_name(gradients));
    if (p) {
        run_linear_forward(p, stream,
                           &(struct linear_forward_operands){.x = x.by_row.bytes_d,
                                                             .weight = w.by_row.bytes_d,
                                                             .bias = bias.d,
                                                             .y = y.d,
                                                             .x_scale = scale_of(&x.by_row),
                                                             .weight_scale = scale_of(&w.by_row)});
        compare(&y, &x.by_row, &w.by_row, bias.v, out, "blockwise forward, with bias");
    }
    plan_destroy(p);
    op.kind = OPERATION_LINEAR_DGRAD;
    op.linear.types = (struct linear_types){type, TYPE_E4M3, gradients, type, TYPE_FP32};
    op.linear.bias = 0;
    p = try_plan(&op, "blockwise dgrad");
    if (p) {
        run_linear_dgrad(p, stream,
                         &(struct linear_dgrad_operands){.dy = dy.by_row.bytes_d,
                                                         .weight = w.by_col.bytes_d,
                                                         .dx = dx.d,
                                                         .dy_scale = scale_of(&dy.by_row),
                                                         .weight_scale = scale_of(&w.by_col)});
        compare(&dx, &dy.by_row, &w.by_col, NULL, 1, "blockwise dgrad");
    }
    plan_destroy(p);
    op.kind = OPERATION_LINEAR_WGRAD;
    op.linear.types = (struct linear_types){TYPE_E4M3, type, gradients, type, TYPE_FP32};
    p = try_plan(&op, "blockwise wgrad");
    for (int accumulate = 0; accumulate < 2 && p; accumulate++) {
        tensor_put(&dw, dw.v);
        run_linear_wgrad(p, stream,
                         &(struct linear_wgrad_operands){.dy = dy.by_col.bytes_d,
                                                         .x = x.by_col.bytes_d,
                                                         .dweight = dw.d,
                                                         .accumulate = accumulate,
                                                         .dy_scale = scale_of(&dy.by_col),
                                                         .x_scale = scale_of(&x.by_col)});
        compare(&dw, &dy.by_col, &x.by_col, accumulate ? dw.v : NULL, dw.n,
                accumulate ? "blockwise wgrad, added" : "blockwise wgrad");
    }
    plan_destroy(p);
    tensor_free(&bias), tensor_free(&y), tensor_free(&dx), tensor_free(&dw);
    matrix_free(&x), matrix_free(&w), matrix_free(&dy);
}

/* --- Parts of weights --------------------------------------------------------------------------
 */

struct squares {
    int64_t rows, cols;
    struct tensor x;
    float *amax;   /* expected, of each square */
    float *amax_d; /* and of all */
    float *squares_d;
    uint8_t *out_d;
    float *inverse_d, *columns_inverse_d;
};

static void run_part(const struct squares *s, enum squares_part part, int64_t first, int64_t count)
{
    struct operation op = {.kind = OPERATION_QUANTIZE_SQUARES,
                           .quantize_squares = {s->rows, s->cols, first, count}};
    struct device_plan *p = try_plan(&op, "a part of a weight");

    if (!p)
        return;
    run_quantize_squares(
        p, stream,
        &(struct quantize_squares_operands){.part = part,
                                            .x = (float *)s->x.d + first,
                                            .out = s->out_d + first,
                                            .squares = s->squares_d,
                                            .amax = s->amax_d,
                                            .inverse = s->inverse_d,
                                            .columns_inverse = s->columns_inverse_d});
    plan_destroy(p);
}

/* Elements, scales, the padding of their lines, and amaxes that are wrong. */
static int64_t wrong_squares(const struct squares *s)
{
    int64_t total = s->rows * s->cols, across = s->cols / SIDE, wrong = 0;
    int64_t line = (across + 3) / 4 * 4, turned_line = (s->rows / SIDE + 3) / 4 * 4;
    size_t inverses = sizeof(float) * (size_t)(s->rows / SIDE * line);
    size_t turned = sizeof(float) * (size_t)(across * turned_line);
    uint8_t *out = malloc((size_t)total);
    float *inverse = malloc(inverses), *columns = malloc(turned), amax, most = 0;

    transfer(out, s->out_d, (size_t)total, COPY_TO_HOST);
    transfer(inverse, s->inverse_d, inverses, COPY_TO_HOST);
    transfer(columns, s->columns_inverse_d, turned, COPY_TO_HOST);
    transfer(&amax, s->amax_d, sizeof(amax), COPY_TO_HOST);
    for (int64_t r = 0; r < s->rows; r++)
        for (int64_t c = 0; c < s->cols; c++) {
            float here = s->amax[r / SIDE * across + c / SIDE];
            float scale = scaling_block_factor(here, 448);

            most = fmaxf(most, here);
            wrong += out[r * s->cols + c] !=
                     fp8_encode((float)s->x.v[r * s->cols + c] * scale, TYPE_E4M3);
            wrong += inverse[r / SIDE * line + c / SIDE] != 1 / scale ||
                     columns[c / SIDE * turned_line + r / SIDE] != 1 / scale;
        }
    for (int64_t r = 0; r < s->rows / SIDE; r++)
        for (int64_t i = across; i < line; i++)
            wrong += inverse[r * line + i] != 0;
    for (int64_t c = 0; c < across; c++)
        for (int64_t i = s->rows / SIDE; i < turned_line; i++)
            wrong += columns[c * turned_line + i] != 0;
    free(out), free(inverse), free(columns);
    return wrong + (amax != most);
}

static float *upload_nan(int64_t count)
{
    float *host = malloc((size_t)count * sizeof(*host)), *there;

    for (int64_t i = 0; i < count; i++)
        host[i] = NAN;
    there = upload(host, (size_t)count * sizeof(*host));
    free(host);
    return there;
}

/* A weight in two parts, whose border is within a row. */
static void test_squares(int64_t rows, int64_t cols, int64_t border)
{
    int64_t total = rows * cols, across = cols / SIDE;
    struct squares s = {rows, cols, .x = tensor_as(TYPE_FP32, total, 1, 0)};
    size_t squares = (size_t)(rows / SIDE * across), one = sizeof(float);

    s.amax = calloc(squares, one);
    s.squares_d = upload(s.amax, squares * one);
    s.amax_d = upload(s.amax, one);
    s.out_d = allocate((size_t)total);
    s.inverse_d = upload_nan(scaling_count(SCALED_SQUARES, rows, cols));
    s.columns_inverse_d = upload_nan(scaling_count(SCALED_SQUARES, cols, rows));
    for (int64_t i = 0; i < total; i++) /* squares of different magnitudes */
        s.x.v[i] =
            (double)(float)ldexp(s.x.v[i], -(int)(i / cols / SIDE * 3 + i % cols / SIDE * 2));
    tensor_put(&s.x, s.x.v);
    for (int64_t i = 0; i < total; i++) {
        float *amax = &s.amax[i / cols / SIDE * across + i % cols / SIDE];

        *amax = fmaxf(*amax, fabsf((float)s.x.v[i]));
    }
    run_part(&s, SQUARES_AMAX, 0, border);
    run_part(&s, SQUARES_AMAX, border, total - border);
    run_part(&s, SQUARES_INVERSE, 0, border);
    run_part(&s, SQUARES_CAST, border, total - border);
    run_part(&s, SQUARES_CAST, 0, border);
    ok(wrong_squares(&s) == 0, "a weight of %lld x %lld in two parts: elements, scales and amaxes",
       (long long)rows, (long long)cols);
    free(s.amax);
    device_release(device, s.squares_d), device_release(device, s.amax_d);
    device_release(device, s.out_d), device_release(device, s.inverse_d);
    device_release(device, s.columns_inverse_d);
    tensor_free(&s.x);
}

static void test_refused(void)
{
    const struct operation wrong[] = {
        {.kind = OPERATION_QUANTIZE,
         .quantize =
             {.rows = 128, .cols = 144, .from = type, .to = TYPE_E4M3, .part = SCALED_VECTORS}},
        {.kind = OPERATION_QUANTIZE,
         .quantize =
             {.rows = 64, .cols = 128, .from = type, .to = TYPE_E4M3, .part = SCALED_SQUARES}},
        {.kind = OPERATION_QUANTIZE,
         .quantize = {.rows = 128,
                      .cols = 128,
                      .from = TYPE_E4M3,
                      .to = TYPE_E4M3,
                      .part = SCALED_VECTORS}},
        {.kind = OPERATION_LINEAR_FORWARD,
         .linear = {.rows = 128,
                    .in = 128,
                    .out = 144,
                    .types = {TYPE_E4M3, TYPE_E4M3, type, type},
                    .blocks = 1}},
    };

    for (size_t i = 0; i < sizeof(wrong) / sizeof(*wrong); i++) {
        struct error err = {0};
        struct device_plan *p = plan_create(device, &wrong[i], &err);

        ok(!p && err.text[0], "refused: %s", err.text);
        plan_destroy(p);
    }
}

void quantize_blocks_cases(void)
{
    if (!device_supports_blocks(device) || (type == TYPE_FP32 && strcmp(device->name, "cpu"))) {
        diag("blockwise scales are not tested: the device has none, or none next to fp32");
        return;
    }
    test_cast(128, 128, TYPE_E4M3, SCALED_VECTORS, 3, 0);
    test_cast(640, 256, TYPE_E5M2, SCALED_VECTORS, 3, 1);
    test_cast(256, 384, TYPE_E4M3, SCALED_VECTORS, 1, 0);
    test_cast(256, 384, TYPE_E4M3, SCALED_VECTORS, 2, 0);
    test_cast(128, 128, TYPE_E4M3, SCALED_SQUARES, 3, 0);
    test_cast(640, 384, TYPE_E4M3, SCALED_SQUARES, 3, 0);
    test_cast(384, 640, TYPE_E4M3, SCALED_SQUARES, 2, 0);
    test_special();
    for (int source = QUANTIZE_ACTIVATION; source <= QUANTIZE_GATE_GRADIENT; source++)
        test_source((enum quantize_source)source, 256, 512,
                    source == QUANTIZE_ACTIVATION_GRADIENT || source == QUANTIZE_GATE_GRADIENT);
    test_squares(128, 256, 128);
    test_squares(384, 640, 128 * 640 + 3 * 128);
    test_places();
    test_products(128, 128, 128, TYPE_E4M3);
    test_products(256, 384, 128, TYPE_E4M3);
    test_products(128, 256, 640, TYPE_E5M2);
    test_refused();
}
