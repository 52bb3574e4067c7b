/* SPDX-License-Identifier: Apache-2.0 */
/* Products with a matrix of weights, their bias and activation, and the gradients. */
#include "device_test.h"
#include "tap.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

struct linear_case {
    int64_t rows, in, out;
    const double *x, *weight, *bias;
    enum activation out_activation; /* after the product */
    enum activation in_activation;  /* of x, before it */
};

static void linear_reference(void *context, double *y)
{
    const struct linear_case *c = context;

    for (int64_t r = 0; r < c->rows; r++)
        for (int64_t o = 0; o < c->out; o++) {
            double sum = c->bias ? c->bias[o] : 0;

            for (int64_t i = 0; i < c->in; i++) {
                double x = c->x[r * c->in + i];

                sum += activation_reference(c->in_activation, x) * c->weight[o * c->in + i];
            }
            y[r * c->out + o] = activation_reference(c->out_activation, sum);
        }
}

static void test_linear_forward(int64_t rows, int64_t in, int64_t out, int bias,
                                enum activation activation)
{
    struct operation op = {.kind = OPERATION_LINEAR_FORWARD,
                           .linear = {rows, in, out, linear_types(type), bias, activation,
                                      activation != ACTIVATION_NONE}};
    struct tensor x = tensor(rows * in, 1), w = tensor(out * in, 0.3), b = tensor(out, 1);
    struct tensor y = tensor(rows * out, 9), pre = tensor(rows * out, 9);
    struct linear_case c = {rows, in, out, x.v, w.v, bias ? b.v : NULL, activation, 0};
    struct device_plan *p = plan(&op);
    double *expected = malloc((size_t)(rows * out) * sizeof(double));

    run_linear_forward(p, stream,
                       &(struct linear_forward_operands){
                           .x = x.d, .weight = w.d, .bias = b.d, .y = y.d, .pre = pre.d});
    linear_reference(&c, expected);
    agree(&y, expected, "linear forward");
    if (activation) {
        c.out_activation = ACTIVATION_NONE;
        linear_reference(&c, expected);
        agree(&pre, expected, "linear forward, before the activation");
    }
    plan_destroy(p);
    free(expected);
    tensor_free(&x), tensor_free(&w), tensor_free(&b), tensor_free(&y), tensor_free(&pre);
}

/* Sizes for kernels with whole tiles; too many elements for finite differences. */
static void test_linear_tiles(int64_t rows, int64_t in, int64_t out, int bias, int accumulate,
                              enum activation activation)
{
    struct operation op = {.kind = OPERATION_LINEAR_DGRAD,
                           .linear = {rows, in, out, linear_types(type), bias, activation, 0}};
    struct tensor x = tensor(rows * in, 2), w = tensor(out * in, 0.1), dy = tensor(rows * out, 1);
    struct tensor dx = tensor(rows * in, 9), before = tensor_as(TYPE_FP32, in, 1, 0);
    struct device_plan *p = plan(&op);
    double *expected = calloc((size_t)(rows * in), sizeof(double));
    double *sums = calloc((size_t)in, sizeof(double));

    for (int64_t r = 0; r < rows; r++)
        for (int64_t o = 0; o < out; o++)
            for (int64_t i = 0; i < in; i++)
                expected[r * in + i] += dy.v[r * out + o] * w.v[o * in + i];
    for (int64_t i = 0; i < in && accumulate; i++)
        sums[i] = before.v[i];
    for (int64_t i = 0; i < rows * in; i++) {
        expected[i] *= activation_slope(activation, x.v[i]);
        sums[i % in] += expected[i];
    }
    run_linear_dgrad(p, stream,
                     &(struct linear_dgrad_operands){.dy = dy.d,
                                                     .weight = w.d,
                                                     .pre = x.d,
                                                     .dx = dx.d,
                                                     .dbias = before.d,
                                                     .accumulate = accumulate});
    agree(&dx, expected, "linear dgrad in tiles");
    if (bias)
        agree(&before, sums, "linear dgrad in tiles, bias gradient of the layer before");
    plan_destroy(p);
    free(expected), free(sums);
    tensor_free(&x), tensor_free(&w), tensor_free(&dy), tensor_free(&dx), tensor_free(&before);
}

static void test_linear_backward(int64_t rows, int64_t in, int64_t out, enum activation activation,
                                 int accumulate)
{
    struct operation dgrad = {.kind = OPERATION_LINEAR_DGRAD,
                              .linear = {rows, in, out, linear_types(type),
                                         activation != ACTIVATION_NONE, activation, 0}};
    struct operation wgrad = {.kind = OPERATION_LINEAR_WGRAD,
                              .linear = {rows, in, out, linear_types(type), 1, ACTIVATION_NONE, 0}};
    struct tensor x = tensor(rows * in, 1), w = tensor(out * in, 0.3), b = tensor(out, 1);
    struct tensor dy = tensor(rows * out, 1), dx = tensor(rows * in, 9);
    struct tensor dw = tensor_as(TYPE_FP32, out * in, 1, 0), db = tensor_as(TYPE_FP32, out, 1, 0);
    struct tensor before = tensor_as(TYPE_FP32, in, 1, 0);
    struct linear_case c = {rows, in, out, x.v, w.v, b.v, 0, activation};
    struct probe probe = {linear_reference, &c, dy.v, rows * out};
    struct device_plan *pd = plan(&dgrad), *pw = plan(&wgrad);
    double *sums = calloc((size_t)in, sizeof(double)), *expected = difference(&probe, x.v, x.n);

    run_linear_dgrad(pd, stream,
                     &(struct linear_dgrad_operands){.dy = dy.d,
                                                     .weight = w.d,
                                                     .pre = x.d,
                                                     .dx = dx.d,
                                                     .dbias = before.d,
                                                     .accumulate = accumulate});
    agree(&dx, expected, "linear dgrad");
    for (int64_t i = 0; i < rows * in; i++)
        sums[i % in] += expected[i];
    for (int64_t i = 0; i < in && accumulate; i++)
        sums[i] += before.v[i];
    if (activation)
        agree(&before, sums, "linear dgrad, bias gradient of the layer before");
    /* The weight gradient uses the activated x as it is. */
    c.in_activation = ACTIVATION_NONE;
    run_linear_wgrad(
        pw, stream,
        &(struct linear_wgrad_operands){
            .dy = dy.d, .x = x.d, .dweight = dw.d, .dbias = db.d, .accumulate = accumulate});
    (accumulate ? gradient_added : gradient_agrees)(&probe, &w, &dw, "linear wgrad");
    (accumulate ? gradient_added : gradient_agrees)(&probe, &b, &db, "linear bias gradient");
    plan_destroy(pd), plan_destroy(pw);
    free(sums), free(expected);
    tensor_free(&x), tensor_free(&w), tensor_free(&b), tensor_free(&dy), tensor_free(&dx);
    tensor_free(&dw), tensor_free(&db), tensor_free(&before);
}

void linear_cases(void)
{
    for (int64_t rows = 1; rows <= 4; rows++) /* few rows use another code path on CPUs */
        test_linear_forward(rows, 40, 53, 1, ACTIVATION_GELU_TANH);
    test_linear_backward(2, 24, 40, ACTIVATION_GELU_TANH, 1);
    test_linear_forward(256, 256, 512, 1, ACTIVATION_GELU_TANH);
    test_linear_forward(512, 320, 256, 0, ACTIVATION_GELU_TANH);
    test_linear_tiles(256, 512, 256, 1, 1, ACTIVATION_GELU_TANH);
    test_linear_tiles(768, 256, 320, 1, 0, ACTIVATION_GELU_TANH);
    test_linear_tiles(256, 256, 384, 0, 0, ACTIVATION_GELU_TANH);
    test_linear_forward(5, 24, 32, 1, ACTIVATION_GELU_TANH);
    test_linear_forward(17, 8, 40, 1, ACTIVATION_NONE);
    test_linear_forward(64, 64, 128, 0, ACTIVATION_NONE);
    test_linear_forward(7, 13, 11, 1, ACTIVATION_GELU_TANH);
    test_linear_backward(7, 13, 11, ACTIVATION_GELU_TANH, 1);
    test_linear_backward(5, 16, 8, ACTIVATION_GELU_TANH, 0);
    test_linear_backward(9, 8, 24, ACTIVATION_GELU_TANH, 1);
    test_linear_backward(16, 24, 8, ACTIVATION_NONE, 1);
}

void linear_erf_cases(void)
{
    test_linear_forward(5, 24, 32, 1, ACTIVATION_GELU_ERF);
    test_linear_forward(256, 256, 512, 0, ACTIVATION_GELU_ERF);
    test_linear_backward(7, 13, 11, ACTIVATION_GELU_ERF, 1);
    test_linear_backward(9, 8, 24, ACTIVATION_GELU_ERF, 0);
    test_linear_tiles(256, 512, 256, 1, 1, ACTIVATION_GELU_ERF);
    test_linear_tiles(256, 256, 384, 0, 0, ACTIVATION_GELU_ERF);
}

/* For the kernel that activates a tile during the products of the next one: shallow and deep
 * products, parts of tiles, and on a GPU several tiles for each of its processors. */
void linear_deep_cases(void)
{
    const char *device = getenv("MEGATRON_TEST_DEVICE");
    int64_t wide = device && strcmp(device, "cpu") ? 133 * 256 : 256;

    test_linear_forward(40, 512, wide, 1, ACTIVATION_GELU_ERF);
    test_linear_forward(300, 1088, 256, 0, ACTIVATION_GELU_ERF);
    test_linear_forward(300, 576, 512, 1, ACTIVATION_GELU_TANH);
    test_linear_tiles(40, wide, 512, 1, 1, ACTIVATION_GELU_ERF);
    test_linear_tiles(300, 256, 1088, 0, 0, ACTIVATION_GELU_ERF);
    test_linear_tiles(520, 256, 576, 1, 0, ACTIVATION_GELU_TANH);
}

void squared_relu_cases(void)
{
    test_linear_forward(5, 24, 32, 1, ACTIVATION_SQUARED_RELU);
    test_linear_forward(256, 256, 512, 0, ACTIVATION_SQUARED_RELU);
    test_linear_tiles(256, 512, 256, 1, 1, ACTIVATION_SQUARED_RELU);
    test_linear_tiles(256, 256, 384, 0, 0, ACTIVATION_SQUARED_RELU);
}
