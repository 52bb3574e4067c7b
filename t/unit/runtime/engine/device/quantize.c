/* SPDX-License-Identifier: Apache-2.0 */
/* Casts to fp8, products of fp8 factors, and the scales of the next step. */
#include "device_test.h"
#include "engine/device/fp8.h"
#include "tap.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static float read_float(const float *on_device)
{
    float number;

    transfer(&number, on_device, sizeof(number), COPY_TO_HOST);
    return number;
}

static void *upload_float(float number)
{
    return upload(&number, sizeof(number));
}

/* A matrix of fp8 factors, in both layouts. */
struct factor {
    int64_t rows, cols;
    enum device_type as;
    struct tensor x;
    uint8_t *rows_d, *columns_d;
    float *scale_d, *amax_d, *inverse_d;
    struct tensor dbias;
    float largest, scale; /* expected */
};

static struct factor factor(int64_t rows, int64_t cols, enum device_type as, double deviation,
                            float scale)
{
    struct factor f = {rows, cols, as, .x = tensor(rows * cols, deviation)};

    f.rows_d = allocate((size_t)(rows * cols));
    f.columns_d = allocate((size_t)(rows * cols));
    f.scale_d = upload_float(scale);
    f.amax_d = upload_float(0);
    f.inverse_d = upload_float(-1);
    f.dbias = tensor_as(TYPE_FP32, cols, 1, 0);
    for (int64_t i = 0; i < rows * cols; i++)
        f.largest = fmaxf(f.largest, fabsf((float)f.x.v[i]));
    f.scale = scale > 0 ? scale : scaling_factor(f.largest, fp8_largest(as), 1, 1);
    return f;
}

static void factor_free(struct factor *f)
{
    device_release(device, f->rows_d), device_release(device, f->columns_d);
    device_release(device, f->scale_d), device_release(device, f->amax_d);
    device_release(device, f->inverse_d);
    tensor_free(&f->x), tensor_free(&f->dbias);
}

static void cast(const struct factor *f, int bias, int accumulate)
{
    struct operation op = {.kind = OPERATION_QUANTIZE,
                           .quantize = {.rows = f->rows,
                                        .cols = f->cols,
                                        .from = type,
                                        .to = f->as,
                                        .margin = 1,
                                        .bias = bias}};
    struct device_plan *p = plan(&op);

    run_quantize(p, stream,
                 &(struct quantize_operands){.x = f->x.d,
                                             .rows = f->rows_d,
                                             .columns = f->columns_d,
                                             .scale = f->scale_d,
                                             .amax = f->amax_d,
                                             .inverse = f->inverse_d,
                                             .dbias = bias ? f->dbias.d : NULL,
                                             .accumulate = accumulate});
    plan_destroy(p);
}

static float value_of(const struct factor *f, int64_t i)
{
    return fp8_decode(fp8_encode((float)f->x.v[i] * f->scale, f->as), f->as);
}

static void test_cast(int64_t rows, int64_t cols, enum device_type as, float scale, int bias,
                      int accumulate)
{
    struct factor f = factor(rows, cols, as, 0.2, scale);
    size_t bytes = (size_t)(rows * cols);
    uint8_t *got = malloc(bytes), *turned = malloc(bytes);
    double *sums = calloc((size_t)cols, sizeof(double));
    int64_t wrong = 0;

    cast(&f, bias, accumulate);
    transfer(got, f.rows_d, bytes, COPY_TO_HOST);
    transfer(turned, f.columns_d, bytes, COPY_TO_HOST);
    for (int64_t c = 0; c < cols && accumulate; c++)
        sums[c] = f.dbias.v[c];
    for (int64_t r = 0; r < rows; r++)
        for (int64_t c = 0; c < cols; c++) {
            uint8_t byte = fp8_encode((float)f.x.v[r * cols + c] * f.scale, as);

            wrong += got[r * cols + c] != byte || turned[c * rows + r] != byte;
            sums[c] += f.x.v[r * cols + c];
        }
    ok(wrong == 0, "cast to %s, %lld x %lld, scale %g: every byte in both layouts",
       as == TYPE_E4M3 ? "e4m3" : "e5m2", (long long)rows, (long long)cols, (double)scale);
    ok(read_float(f.amax_d) == f.largest && read_float(f.inverse_d) == 1 / f.scale,
       "  amax and inverse of the scale");
    if (bias)
        agree(&f.dbias, sums, "  column sums");
    free(got), free(turned), free(sums);
    factor_free(&f);
}

/* --- Casts of what an activation or a gate computes --------------------------------------------
 */

static double silu(double x)
{
    return x / (1 + exp(-x));
}

static double silu_slope(double x)
{
    double open = 1 / (1 + exp(-x));

    return open * (1 + x * (1 - open));
}

double source_reference(const struct quantize_shape *s, const double *x, const double *dy,
                        int64_t r, int64_t c)
{
    int64_t half = s->cols / 2;

    switch (s->source) {
    case QUANTIZE_ACTIVATION:
        return activation_reference(s->activation, x[r * s->cols + c]);
    case QUANTIZE_ACTIVATION_GRADIENT:
        return dy[r * s->cols + c] * activation_slope(s->activation, x[r * s->cols + c]);
    case QUANTIZE_GATE:
        return silu(x[2 * r * s->cols + c]) * x[(2 * r + 1) * s->cols + c];
    default:
        return c < half
                   ? dy[r * half + c] * x[r * s->cols + half + c] * silu_slope(x[r * s->cols + c])
                   : dy[r * half + c - half] * silu(x[r * s->cols + c - half]);
    }
}

/* A value so close to a boundary that rounding decides may be either byte. 'slack': the rounding
 * error of terms that cancel, as those of a derivative near its zero. */
static int is_either(uint8_t byte, double value, double slack, enum device_type as)
{
    double apart = fabs(value) * 1e-4 + slack;

    return byte == fp8_encode((float)(value - apart), as) ||
           byte == fp8_encode((float)(value + apart), as) ||
           fabs((double)fp8_decode(byte, as) - value) < slack;
}

static void test_source(enum quantize_source source, int64_t rows, int64_t cols, float scale,
                        int bias)
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
                                        .activation = ACTIVATION_GELU_TANH}};
    struct device_plan *p = plan(&op);
    size_t bytes = (size_t)(rows * cols);
    struct tensor x = tensor(2 * rows * cols, 1), dy = tensor(rows * cols, 1);
    struct tensor dbias = tensor_as(TYPE_FP32, cols, 1, 0);
    uint8_t *rows_d = allocate(bytes), *columns_d = allocate(bytes);
    uint8_t *got = malloc(bytes), *turned = malloc(bytes);
    float *scale_d = upload_float(scale), *amax_d = upload_float(0), *inverse_d = upload_float(0);
    double *sums = calloc((size_t)cols, sizeof(double)), largest = 0;
    float amax, used;
    int64_t wrong = 0;

    run_quantize(p, stream,
                 &(struct quantize_operands){.x = x.d,
                                             .dy = dy.d,
                                             .rows = rows_d,
                                             .columns = columns_d,
                                             .scale = scale_d,
                                             .amax = amax_d,
                                             .inverse = inverse_d,
                                             .dbias = bias ? dbias.d : NULL});
    transfer(got, rows_d, bytes, COPY_TO_HOST);
    transfer(turned, columns_d, bytes, COPY_TO_HOST);
    amax = read_float(amax_d);
    used = 1 / read_float(inverse_d);
    for (int64_t r = 0; r < rows; r++)
        for (int64_t c = 0; c < cols; c++) {
            double value = source_reference(&op.quantize, x.v, dy.v, r, c);

            largest = fmax(largest, fabs(value));
            sums[c] += value;
            wrong += !is_either(got[r * cols + c], value * (double)used, 2e-6 * (double)used, as) ||
                     turned[c * rows + r] != got[r * cols + c];
        }
    ok(wrong == 0, "cast of %s, scale %g: %lld bytes are wrong", names[source], (double)scale,
       (long long)wrong);
    ok(fabs((double)amax - largest) < 1e-4 * largest &&
           fabs((double)used -
                (double)(scale > 0 ? scale : scaling_factor(amax, fp8_largest(as), 0, 1))) <
               1e-5 * (double)used,
       "  amax %g, scale %g", (double)amax, (double)used);
    if (bias)
        agree_closely(&dbias, sums, "  column sums");
    plan_destroy(p);
    device_release(device, rows_d), device_release(device, columns_d);
    device_release(device, scale_d), device_release(device, amax_d);
    device_release(device, inverse_d);
    free(got), free(turned), free(sums);
    tensor_free(&x), tensor_free(&dy), tensor_free(&dbias);
}

/* A norm that leaves e4m3 leaves what a cast of its output would, and that can be transposed. */
static void test_norm(int64_t rows, int64_t cols, enum norm norm)
{
    struct operation op = {.kind = OPERATION_RESIDUAL_NORM,
                           .residual_norm = {.rows = rows,
                                             .cols = cols,
                                             .type = type,
                                             .y_type = type,
                                             .norm = norm,
                                             .epsilon = 1e-5,
                                             .input = 1,
                                             .residual = 1}};
    struct operation turn = {.kind = OPERATION_QUANTIZE,
                             .quantize = {.rows = rows, .cols = cols, .to = TYPE_E4M3}};
    struct tensor x = tensor(rows * cols, 1), residual = tensor(rows * cols, 1);
    struct tensor sum = tensor(rows * cols, 1), y = tensor(rows * cols, 1);
    struct tensor weight = tensor_as(type, cols, 0.1, 1), bias = tensor(cols, 0.1);
    struct tensor mean = tensor_as(TYPE_FP32, rows, 1, 0), rstd = tensor_as(TYPE_FP32, rows, 1, 0);
    size_t bytes = (size_t)(rows * cols);
    uint8_t *cast_d = allocate(bytes), *norm_d = allocate(bytes), *turned_d = allocate(bytes);
    uint8_t *expected = malloc(bytes), *got = malloc(bytes), *turned = malloc(bytes);
    float *scale_d = upload_float(37), *amax_d[2] = {upload_float(0), upload_float(0)};
    float *inverse_d[2] = {upload_float(0), upload_float(0)};
    struct residual_norm_operands o = {.x = x.d,
                                       .residual = residual.d,
                                       .sum = sum.d,
                                       .weight = weight.d,
                                       .norm_bias = bias.d,
                                       .y = y.d,
                                       .mean = mean.d,
                                       .rstd = rstd.d};
    struct device_plan *plain = plan(&op), *cast_plan, *casting, *turning;
    int64_t wrong = 0;

    op.residual_norm.y_type = TYPE_E4M3;
    casting = plan(&op);
    turn.quantize.from = type;
    cast_plan = plan(&turn);
    turn.quantize.from = TYPE_E4M3;
    turning = plan(&turn);
    run_residual_norm(plain, stream, &o);
    run_quantize(cast_plan, stream,
                 &(struct quantize_operands){.x = y.d,
                                             .rows = cast_d,
                                             .scale = scale_d,
                                             .amax = amax_d[0],
                                             .scaled = 1,
                                             .inverse = inverse_d[0]});
    o.y = norm_d;
    o.y_scale = (struct operand_scale){scale_d, amax_d[1], inverse_d[1]};
    run_residual_norm(casting, stream, &o);
    run_quantize(turning, stream, &(struct quantize_operands){.x = norm_d, .columns = turned_d});
    transfer(expected, cast_d, bytes, COPY_TO_HOST);
    transfer(got, norm_d, bytes, COPY_TO_HOST);
    transfer(turned, turned_d, bytes, COPY_TO_HOST);
    for (int64_t r = 0; r < rows; r++)
        for (int64_t c = 0; c < cols; c++)
            wrong += got[r * cols + c] != expected[r * cols + c] ||
                     turned[c * rows + r] != expected[r * cols + c];
    ok(wrong == 0 && expected[0] != 0, "norm of %lld x %lld that casts: every byte in both layouts",
       (long long)rows, (long long)cols);
    ok(read_float(amax_d[1]) == read_float(amax_d[0]) && read_float(amax_d[0]) > 0 &&
           read_float(inverse_d[1]) == read_float(inverse_d[0]),
       "  amax and inverse of the scale");
    plan_destroy(plain), plan_destroy(cast_plan), plan_destroy(casting), plan_destroy(turning);
    for (int i = 0; i < 2; i++)
        device_release(device, amax_d[i]), device_release(device, inverse_d[i]);
    device_release(device, scale_d), device_release(device, cast_d);
    device_release(device, norm_d), device_release(device, turned_d);
    free(expected), free(got), free(turned);
    tensor_free(&x), tensor_free(&residual), tensor_free(&sum), tensor_free(&y);
    tensor_free(&weight), tensor_free(&bias), tensor_free(&mean), tensor_free(&rstd);
}

/* amax keeps a larger value, and NaN is the largest. */
static void test_amax(void)
{
    struct factor f = factor(16, 16, TYPE_E4M3, 1, 1);
    uint8_t got[256];
    float before = 1000;

    transfer(f.amax_d, &before, sizeof(before), COPY_TO_DEVICE);
    cast(&f, 0, 0);
    ok(read_float(f.amax_d) == before, "cast: a larger amax is kept");
    f.x.v[7] = INFINITY;
    tensor_put(&f.x, f.x.v);
    cast(&f, 0, 0);
    ok(isinf(read_float(f.amax_d)), "cast: the amax is Inf");
    f.x.v[100] = NAN;
    tensor_put(&f.x, f.x.v);
    cast(&f, 0, 0);
    transfer(got, f.rows_d, sizeof(got), COPY_TO_HOST);
    ok(isnan(read_float(f.amax_d)), "cast: the amax is NaN");
    ok(got[7] == 0x7e && isnan(fp8_decode(got[100], TYPE_E4M3)), "cast: Inf saturates, NaN stays");
    factor_free(&f);
}

static struct operand_scale scale_of(const struct factor *f)
{
    return (struct operand_scale){.inverse = f->inverse_d};
}

/* (a rows, b rows) = a b^T / both scales, over the columns of both. */
static double *product(const struct factor *a, int turn_a, const struct factor *b, int turn_b)
{
    int64_t m = turn_a ? a->cols : a->rows, n = turn_b ? b->cols : b->rows;
    int64_t depth = turn_a ? a->rows : a->cols;
    double *out = calloc((size_t)(m * n), sizeof(double));

    for (int64_t k = 0; k < depth; k++)
        for (int64_t i = 0; i < m; i++) {
            double factor = (double)value_of(a, turn_a ? k * a->cols + i : i * a->cols + k);

            for (int64_t j = 0; j < n; j++)
                out[i * n + j] += factor *
                                  (double)value_of(b, turn_b ? k * b->cols + j : j * b->cols + k) /
                                  (double)a->scale / (double)b->scale;
        }
    return out;
}

static void test_products(int64_t rows, int64_t in, int64_t out, enum device_type gradients)
{
    struct factor x = factor(rows, in, TYPE_E4M3, 1, 0);
    struct factor w = factor(out, in, TYPE_E4M3, 0.1, 0);
    struct factor dy = factor(rows, out, gradients, 1e-4, 0);
    struct operation op = {.kind = OPERATION_LINEAR_FORWARD,
                           .linear = {.rows = rows,
                                      .in = in,
                                      .out = out,
                                      .types = {TYPE_E4M3, TYPE_E4M3, type, type},
                                      .bias = 1}};
    struct tensor bias = tensor(out, 1), y = tensor(rows * out, 1), dx = tensor(rows * in, 1);
    struct tensor dw = tensor_as(TYPE_FP32, out * in, 1e-4, 0);
    struct device_plan *forward = plan(&op), *dgrad, *wgrad;
    double *expected = product(&x, 0, &w, 0);

    op.kind = OPERATION_LINEAR_DGRAD;
    op.linear.types = (struct linear_types){type, TYPE_E4M3, gradients, type, TYPE_FP32};
    op.linear.bias = 0;
    dgrad = plan(&op);
    op.kind = OPERATION_LINEAR_WGRAD;
    op.linear.types = (struct linear_types){TYPE_E4M3, type, gradients, type, TYPE_FP32};
    wgrad = plan(&op);
    cast(&x, 0, 0), cast(&w, 0, 0), cast(&dy, 0, 0);
    run_linear_forward(forward, stream,
                       &(struct linear_forward_operands){.x = x.rows_d,
                                                         .weight = w.rows_d,
                                                         .bias = bias.d,
                                                         .y = y.d,
                                                         .x_scale = scale_of(&x),
                                                         .weight_scale = scale_of(&w)});
    for (int64_t i = 0; i < rows * out; i++)
        expected[i] += bias.v[i % out];
    agree(&y, expected, "linear forward of fp8");
    free(expected);
    run_linear_dgrad(dgrad, stream,
                     &(struct linear_dgrad_operands){.dy = dy.rows_d,
                                                     .weight = w.columns_d,
                                                     .dx = dx.d,
                                                     .dy_scale = scale_of(&dy),
                                                     .weight_scale = scale_of(&w)});
    expected = product(&dy, 0, &w, 1);
    agree(&dx, expected, "linear dgrad of fp8");
    free(expected);
    run_linear_wgrad(wgrad, stream,
                     &(struct linear_wgrad_operands){.dy = dy.columns_d,
                                                     .x = x.columns_d,
                                                     .dweight = dw.d,
                                                     .accumulate = 1,
                                                     .dy_scale = scale_of(&dy),
                                                     .x_scale = scale_of(&x)});
    expected = product(&dy, 1, &x, 1);
    for (int64_t i = 0; i < out * in; i++)
        expected[i] += dw.v[i];
    agree(&dw, expected, "linear wgrad of fp8, added");
    free(expected);
    plan_destroy(forward), plan_destroy(dgrad), plan_destroy(wgrad);
    tensor_free(&bias), tensor_free(&y), tensor_free(&dx), tensor_free(&dw);
    factor_free(&x), factor_free(&w), factor_free(&dy);
}

/* The activation of the layer before, and its bias gradient, after a product of fp8 factors. */
static void test_activation(int64_t rows, int64_t in, int64_t out)
{
    struct factor w = factor(out, in, TYPE_E4M3, 0.1, 0), dy = factor(rows, out, TYPE_E5M2, 1, 0);
    struct operation op = {.kind = OPERATION_LINEAR_DGRAD,
                           .linear = {.rows = rows,
                                      .in = in,
                                      .out = out,
                                      .types = {type, TYPE_E4M3, TYPE_E5M2, type},
                                      .bias = 1,
                                      .activation = ACTIVATION_GELU_TANH}};
    struct tensor pre = tensor(rows * in, 1), dx = tensor(rows * in, 1);
    struct tensor dbias = tensor_as(TYPE_FP32, in, 1, 0);
    struct device_plan *dgrad = plan(&op);
    double *expected = product(&dy, 0, &w, 1), *sums = calloc((size_t)in, sizeof(double));

    cast(&w, 0, 0), cast(&dy, 0, 0);
    run_linear_dgrad(dgrad, stream,
                     &(struct linear_dgrad_operands){.dy = dy.rows_d,
                                                     .weight = w.columns_d,
                                                     .pre = pre.d,
                                                     .dx = dx.d,
                                                     .dbias = dbias.d,
                                                     .dy_scale = scale_of(&dy),
                                                     .weight_scale = scale_of(&w)});
    for (int64_t i = 0; i < rows * in; i++) {
        expected[i] *= activation_slope(ACTIVATION_GELU_TANH, pre.v[i]);
        sums[i % in] += expected[i];
    }
    agree(&dx, expected, "linear dgrad of fp8 with GELU");
    agree(&dbias, sums, "linear dgrad of fp8, bias gradient of the layer before");
    plan_destroy(dgrad);
    free(expected), free(sums);
    tensor_free(&pre), tensor_free(&dx), tensor_free(&dbias);
    factor_free(&w), factor_free(&dy);
}

/* --- Scales of the next step ------------------------------------------------------------------ */

enum { TENSORS = 6, LENGTH = 3, STEPS = 6 };

/* amax of input, weight and gradient in each step. */
static const float amaxes[STEPS][3] = {{1, 2, 4}, {0, 1, 8}, {4, 1, NAN},
                                       {2, 1, 7}, {1, 1, 7}, {INFINITY, 1, 7}};

static const struct {
    const char *name;
    struct scaling_rules rules;
    float scales[STEPS][3]; /* after each step */
} recipes[] = {
    {"the maximum of three steps",
     {TENSORS, LENGTH, 1, 0, 0, 1, 0},
     {{448, 224, 14336},
      {448, 224, 7168},
      {112, 224, 7168},
      {112, 448, 7168},
      {112, 448, 8192},
      {112, 448, 8192}}},
    {"the most recent step, margin 1, e4m3",
     {TENSORS, LENGTH, 1, 1, 1, 0, 0},
     {{224, 112, 56},
      {224, 224, 28},
      {56, 224, 28},
      {112, 224, 32},
      {224, 224, 32},
      {224, 224, 32}}},
    {"tensorwise: none",
     {TENSORS, 1, 0, 0, 0, 1, 0},
     {{0, 0, 0}, {0, 0, 0}, {0, 0, 0}, {0, 0, 0}, {0, 0, 0}, {0, 0, 0}}},
    {"blockwise: none",
     {TENSORS, 1, 0, 0, 0, 0, 1},
     {{0, 0, 0}, {0, 0, 0}, {0, 0, 0}, {0, 0, 0}, {0, 0, 0}, {0, 0, 0}}},
};

static void test_scaling(size_t recipe)
{
    struct operation op = {.kind = OPERATION_SCALING, .scaling = {recipes[recipe].rules}};
    struct device_plan *p = plan(&op);
    float zeros[TENSORS * LENGTH] = {0}, scale[TENSORS], amax[TENSORS];
    struct scaling_operands o = {
        .scale = upload(zeros, sizeof(scale)),
        .amax = upload(zeros, sizeof(amax)),
        .history = upload(zeros, sizeof(zeros)),
        .position = upload(zeros, sizeof(int32_t)),
        .state = state_on_device(),
    };
    int wrong = 0, overflows = 0;

    for (int step = 0; step < STEPS; step++) {
        struct step_state state = state_read(o.state);

        state.norm_squared = 1;
        transfer(o.state, &state, sizeof(state), COPY_TO_DEVICE);
        for (int i = 0; i < TENSORS; i++)
            amax[i] = amaxes[step][i % 3];
        transfer(o.amax, amax, sizeof(amax), COPY_TO_DEVICE);
        run_scaling(p, stream, &o);
        transfer(scale, o.scale, sizeof(scale), COPY_TO_HOST);
        transfer(amax, o.amax, sizeof(amax), COPY_TO_HOST);
        for (int i = 0; i < TENSORS; i++)
            wrong += scale[i] != recipes[recipe].scales[step][i % 3] || amax[i] != 0;
        state = state_read(o.state);
        overflows += step == 2 || step == 5;
        wrong +=
            isinf(state.norm_squared) != (step == 2 || step == 5) || state.overflows != overflows;
    }
    ok(wrong == 0, "scales by %s; Inf and NaN skip the step: %d wrong", recipes[recipe].name,
       wrong);
    plan_destroy(p);
    device_release(device, o.scale), device_release(device, o.amax);
    device_release(device, o.history), device_release(device, o.position);
    device_release(device, o.state);
}

/* A tensor without an amax in its first step: with delayed scaling every scale is known then. */
static void test_unknown(void)
{
    static const float amax[3] = {0, NAN, 2}, expected[2][3] = {{0, 0, 0}, {1, 1, 224}};
    int wrong = 0;

    for (int delayed = 0; delayed < 2; delayed++) {
        const struct scaling_rules rules = {.count = 3, .length = 1, .delayed = delayed};

        for (int64_t i = 0; i < 3; i++) {
            float scale[3] = {0}, now[3] = {amax[0], amax[1], amax[2]}, history[3] = {0};

            scaling_end(&rules, i, 0, scale, now, history);
            wrong += scale[i] != expected[delayed][i];
        }
    }
    ok(wrong == 0, "scales of tensors without an amax in their first step: %d wrong", wrong);
}

/* --- Parts of weights --------------------------------------------------------------------------
 */

/* Weights have a scale already, or get that of their amax; other tensors are left alone. */
static void test_weight_scales(void)
{
    enum { COUNT = 12, STRIDE = 4 };
    static const float scale[COUNT] = {3, 5, 3, 0, 0, 0, 0, 0, 0, 0, 0, 0};
    static const float amax[COUNT] = {1, 7, 1, 0, 2, 0, 0, 0, 0, 0, NAN, 0};
    static const float expected[COUNT] = {0, 5, 0, 0, 112, 0, 0, 1, 0, 0, 1, 0};
    struct operation op = {.kind = OPERATION_WEIGHT_SCALES, .weight_scales = {COUNT, STRIDE, 1}};
    struct device_plan *p = plan(&op);
    float used[COUNT] = {0}, inverse[COUNT * STRIDE] = {0};
    float *scale_d = upload(scale, sizeof(scale)), *amax_d = upload(amax, sizeof(amax));
    float *used_d = upload(used, sizeof(used)), *inverse_d = upload(inverse, sizeof(inverse));
    int wrong = 0;

    run_weight_scales(p, stream,
                      &(struct weight_scales_operands){scale_d, amax_d, used_d, inverse_d});
    transfer(used, used_d, sizeof(used), COPY_TO_HOST);
    transfer(inverse, inverse_d, sizeof(inverse), COPY_TO_HOST);
    for (int i = 0; i < COUNT; i++)
        wrong += used[i] != expected[i] ||
                 inverse[i * STRIDE] != (expected[i] > 0 ? 1 / expected[i] : 0) ||
                 inverse[i * STRIDE + 1] != 0;
    ok(wrong == 0, "scales of weights: %d wrong", wrong);
    plan_destroy(p);
    device_release(device, scale_d), device_release(device, amax_d);
    device_release(device, used_d), device_release(device, inverse_d);
}

/* Master weights in two parts: first only their amax, then e4m3 with the scale of both. */
static void test_parts(int64_t first, int64_t second)
{
    const int64_t counts[2] = {first, second}, total = first + second;
    struct tensor x = tensor_as(TYPE_FP32, total, 0.2, 0);
    uint8_t *rows_d = allocate((size_t)total), *got = calloc((size_t)total, 1);
    float *scale_d = upload_float(0), *amax_d = upload_float(0), largest = 0;
    int64_t wrong = 0;

    transfer(rows_d, got, (size_t)total, COPY_TO_DEVICE);
    for (int64_t i = 0; i < total; i++)
        largest = fmaxf(largest, fabsf((float)x.v[i]));
    for (int write = 0; write < 2; write++) {
        float scale = scaling_factor(largest, 448, 0, 1);

        for (int part = 0; part < 2; part++) {
            int64_t cols = counts[part] % 256 == 0 ? 64 : 32, at = part * first;
            struct operation op = {
                .kind = OPERATION_QUANTIZE,
                .quantize = {counts[part] / cols, cols, .from = TYPE_FP32, .to = TYPE_E4M3}};
            struct device_plan *p = plan(&op);

            run_quantize(p, stream,
                         &(struct quantize_operands){.x = (float *)x.d + at,
                                                     .rows = write ? rows_d + at : NULL,
                                                     .scale = scale_d,
                                                     .amax = amax_d,
                                                     .scaled = 1});
            plan_destroy(p);
        }
        transfer(got, rows_d, (size_t)total, COPY_TO_HOST);
        for (int64_t i = 0; i < total; i++)
            wrong += got[i] != (write ? fp8_encode((float)x.v[i] * scale, TYPE_E4M3) : 0);
        transfer(scale_d, &scale, sizeof(scale), COPY_TO_DEVICE);
    }
    ok(wrong == 0 && read_float(amax_d) == largest,
       "master weights in parts of %lld and %lld: every byte, and their amax", (long long)first,
       (long long)second);
    free(got);
    device_release(device, rows_d), device_release(device, scale_d);
    device_release(device, amax_d);
    tensor_free(&x);
}

static void test_refused(void)
{
    const struct operation wrong[] = {
        {.kind = OPERATION_LINEAR_WGRAD,
         .linear = {16, 16, 16, {TYPE_E5M2, type, TYPE_E5M2, type}, 0, ACTIVATION_NONE, 0, 0}},
        {.kind = OPERATION_LINEAR_WGRAD,
         .linear = {16, 16, 16, {TYPE_E4M3, type, TYPE_E5M2, type}, 1, ACTIVATION_NONE, 0, 0}},
        {.kind = OPERATION_LINEAR_FORWARD,
         .linear = {16, 16, 16, {type, TYPE_E4M3, type, type}, 0, ACTIVATION_NONE, 0, 0}},
        {.kind = OPERATION_QUANTIZE,
         .quantize = {.rows = 16, .cols = 16, .from = type, .to = type}},
        {.kind = OPERATION_QUANTIZE,
         .quantize = {.rows = 16, .cols = 16, .from = TYPE_E4M3, .to = TYPE_E4M3, .bias = 1}},
    };

    for (size_t i = 0; i < sizeof(wrong) / sizeof(*wrong); i++) {
        struct error err = {0};
        struct device_plan *p = plan_create(device, &wrong[i], &err);

        ok(!p && err.text[0], "refused: %s", err.text);
        plan_destroy(p);
    }
}

void quantize_cases(void)
{
    for (size_t i = 0; i < sizeof(recipes) / sizeof(*recipes); i++)
        test_scaling(i);
    test_unknown();
    test_weight_scales();
    if (device_supports(device, TYPE_E4M3)) {
        test_parts(256, 128);
        test_parts(3 * 128, 256 * 70);
    }
    if (!device_supports(device, TYPE_E4M3) || (type == TYPE_FP32 && strcmp(device->name, "cpu"))) {
        diag("fp8 is not tested: the device has no fp8, or none next to fp32");
        return;
    }
    test_cast(16, 16, TYPE_E4M3, 37, 0, 0);
    test_cast(48, 80, TYPE_E5M2, 3000, 1, 0);
    test_cast(272, 144, TYPE_E4M3, 0, 1, 1);
    test_cast(144, 528, TYPE_E5M2, 0, 0, 0);
    for (int source = QUANTIZE_ACTIVATION; source <= QUANTIZE_GATE_GRADIENT; source++) {
        test_source((enum quantize_source)source, 48, 160, 20, 0);
        test_source((enum quantize_source)source, 144, 32, 0,
                    source == QUANTIZE_ACTIVATION_GRADIENT || source == QUANTIZE_GATE_GRADIENT);
    }
    test_norm(48, 80, NORM_LAYER);
    test_norm(32, 1024, NORM_RMS);
    test_norm(16, 2064, NORM_LAYER);
    test_norm(16, 8208, NORM_RMS); /* too wide for registers */
    test_amax();
    test_products(48, 80, 32, TYPE_E5M2);
    test_products(144, 64, 272, TYPE_E4M3);
    test_activation(80, 48, 64);
    test_refused();
}
