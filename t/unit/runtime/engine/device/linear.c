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

/* Memory of 'n' elements of the tested type, filled with bytes that no result has. */
static void *unwritten(int64_t n)
{
    size_t bytes = (size_t)n * type_size(type);
    void *host = malloc(bytes), *on_device;

    memset(host, 0x7b, bytes);
    on_device = upload(host, bytes);
    free(host);
    return on_device;
}

/* Are 'n' elements on the device the same bytes? */
static int same(const void *a, const void *b, int64_t n)
{
    size_t bytes = (size_t)n * type_size(type);
    char *both = malloc(2 * bytes);
    int equal;

    transfer(both, a, bytes, COPY_TO_HOST);
    transfer(both + bytes, b, bytes, COPY_TO_HOST);
    equal = memcmp(both, both + bytes, bytes) == 0;
    free(both);
    return equal;
}

static int on_cpu(void)
{
    const char *name = getenv("MEGATRON_TEST_DEVICE");

    return !name || strcmp(name, "cpu") == 0;
}

/* The CPU computes a gated layer exactly as the product and the gate by themselves. A GPU may add
 * up the product in another order. */
static void compare_with_parts(const struct operation *gated,
                               const struct linear_forward_operands *o)
{
    const struct linear_shape *s = &gated->linear;
    struct operation product = *gated;
    struct operation gate = {
        .kind = OPERATION_SWIGLU,
        .swiglu = {s->rows, s->out / 2, type, type, activation_gate(s->activation)}};
    void *pre = unwritten(s->rows * s->out), *y = unwritten(s->rows * s->out / 2);
    struct linear_forward_operands alone = *o;
    struct device_plan *first, *second;

    product.linear.activation = ACTIVATION_NONE;
    product.linear.save_pre = 0;
    alone.y = pre;
    first = plan(&product);
    second = plan(&gate);
    run_linear_forward(first, stream, &alone);
    run_swiglu(second, stream, &(struct swiglu_operands){.x = pre, .y = y});
    ok(same(pre, o->pre, s->rows * s->out), "  'pre' is the product's result");
    ok(same(y, o->y, s->rows * s->out / 2), "  y is the gate's");
    plan_destroy(first), plan_destroy(second);
    device_release(device, pre), device_release(device, y);
}

static void test_gated_forward(int64_t rows, int64_t in, int64_t cols, int bias, enum gate kind)
{
    int64_t out = 2 * cols;
    struct operation op = {
        .kind = OPERATION_LINEAR_FORWARD,
        .linear = {rows, in, out, linear_types(type), bias, gate_activation(kind), 1}};
    struct tensor x = tensor(rows * in, 1), w = tensor(out * in, 1.5 / sqrt((double)in));
    struct tensor b = tensor(out, 1), y = tensor(rows * cols, 9), pre = tensor(rows * out, 9);
    struct linear_case c = {rows, in, out, x.v, w.v, bias ? b.v : NULL, 0, 0};
    struct linear_forward_operands o = {
        .x = x.d, .weight = w.d, .bias = b.d, .y = y.d, .pre = pre.d};
    struct device_plan *p = plan(&op);
    double *expected = malloc((size_t)(rows * out) * sizeof(double)), *rounded;

    run_linear_forward(p, stream, &o);
    linear_reference(&c, expected);
    agree(&pre, expected, "gated linear forward, before the gate");
    rounded = download(&pre);
    for (int64_t i = 0; i < rows * cols; i++) {
        int64_t at = i / cols * out + i % cols;

        expected[i] = gate_reference(kind, rounded[at], rounded[at + cols]);
    }
    agree(&y, expected, "gated linear forward");
    if (on_cpu())
        compare_with_parts(&op, &o);
    plan_destroy(p);
    free(expected), free(rounded);
    tensor_free(&x), tensor_free(&w), tensor_free(&b), tensor_free(&y), tensor_free(&pre);
}

/* The gradients of gate and up, with the gradient 'd' of the result. */
static void gate_gradient(enum gate kind, double d, double gate, double up, double *dgate,
                          double *dup)
{
    const double h = 1e-5;

    *dgate =
        d / (2 * h) * (gate_reference(kind, gate + h, up) - gate_reference(kind, gate - h, up));
    *dup = d * gate_reference(kind, gate, 1);
}

static void compare_gradient_with_parts(const struct operation *gated,
                                        const struct linear_dgrad_operands *o)
{
    const struct linear_shape *s = &gated->linear;
    struct operation product = *gated;
    struct operation gate = {
        .kind = OPERATION_SWIGLU_BACKWARD,
        .swiglu = {s->rows, s->in, type, type, activation_gate(s->activation)}};
    void *d = unwritten(s->rows * s->in), *dx = unwritten(2 * s->rows * s->in);
    struct linear_dgrad_operands alone = *o;
    struct device_plan *first, *second;

    product.linear.activation = ACTIVATION_NONE;
    alone.dx = d;
    first = plan(&product);
    second = plan(&gate);
    run_linear_dgrad(first, stream, &alone);
    run_swiglu_backward(second, stream,
                        &(struct swiglu_backward_operands){.dy = d, .x = o->pre, .dx = dx});
    ok(same(dx, o->dx, 2 * s->rows * s->in), "  dx is that of the gate alone");
    plan_destroy(first), plan_destroy(second);
    device_release(device, d), device_release(device, dx);
}

/* Into other memory, and then in place. */
static void test_gated_dgrad(int64_t rows, int64_t in, int64_t out, enum gate kind)
{
    struct operation op = {
        .kind = OPERATION_LINEAR_DGRAD,
        .linear = {rows, in, out, linear_types(type), 0, gate_activation(kind), 0}};
    struct tensor pre = tensor(rows * 2 * in, 1.5), dx = tensor(rows * 2 * in, 9);
    struct tensor w = tensor(out * in, 1 / sqrt((double)out)), dy = tensor(rows * out, 1);
    struct linear_dgrad_operands o = {
        .dy = dy.d, .weight = w.d, .pre = pre.d, .dx = dx.d, .product = unwritten(rows * in)};
    struct device_plan *p = plan(&op);
    double *d = calloc((size_t)(rows * in), sizeof(double));
    double *expected = malloc((size_t)(rows * 2 * in) * sizeof(double));

    for (int64_t r = 0; r < rows; r++)
        for (int64_t k = 0; k < out; k++)
            for (int64_t i = 0; i < in; i++)
                d[r * in + i] += dy.v[r * out + k] * w.v[k * in + i];
    for (int64_t i = 0; i < rows * in; i++) {
        int64_t at = i / in * 2 * in + i % in;

        gate_gradient(kind, d[i], pre.v[at], pre.v[at + in], &expected[at], &expected[at + in]);
    }
    run_linear_dgrad(p, stream, &o);
    agree(&dx, expected, "gated linear dgrad");
    if (on_cpu())
        compare_gradient_with_parts(&op, &o);
    o.dx = pre.d;
    run_linear_dgrad(p, stream, &o);
    ok(same(pre.d, dx.d, rows * 2 * in), "gated linear dgrad in place is the same");
    plan_destroy(p);
    free(d), free(expected);
    device_release(device, o.product);
    tensor_free(&pre), tensor_free(&dx), tensor_free(&w), tensor_free(&dy);
}

/* Layers that no device has. */
static void test_gated_refused(void)
{
    static const struct {
        enum operation_kind kind;
        int64_t out;
        int bias;
        const char *name;
    } rows[] = {
        {OPERATION_LINEAR_FORWARD, 33, 0, "an up without gate"},
        {OPERATION_LINEAR_DGRAD, 32, 1, "sums of the gradients of gates"},
        {OPERATION_LINEAR_WGRAD, 32, 0, "the gradient of weights with a gate"},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
        struct operation op = {.kind = rows[i].kind,
                               .linear = {16, 16, rows[i].out, linear_types(type), rows[i].bias,
                                          ACTIVATION_SWIGLU, 0}};
        struct error err;

        ok(!plan_create(device, &op, &err) && strstr(err.text, "gate"), "%s is refused",
           rows[i].name);
    }
}

/* Sizes for the kernel that applies the gate during the products of the next tile: whole tiles, the
 * last one with few rows, several for each processor of a GPU; and sizes that it does not take. */
void linear_gated_cases(void)
{
    static const enum gate gates[] = {GATE_SILU, GATE_GELU_TANH, GATE_QUICK_GELU};
    int64_t tiles = on_cpu() ? 1 : 133;

    for (size_t i = 0; i < sizeof(gates) / sizeof(*gates); i++) {
        test_gated_forward(5, 24, 32, 1, gates[i]);
        test_gated_forward(7, 13, 11, 0, gates[i]);
        test_gated_forward(gpu_rows(300), 1088, 256, (int)i % 2, gates[i]);
        test_gated_dgrad(9, 8, 24, gates[i]);
        test_gated_dgrad(7, 13, 11, gates[i]);
        test_gated_dgrad(gpu_rows(300), 256, 2112, gates[i]);
    }
    test_gated_forward(40, 1024, tiles * 128, 1, GATE_SILU);
    test_gated_forward(gpu_rows(2500), 1024, 256, 0, GATE_SILU);
    test_gated_forward(1, 1024, 128, 0, GATE_SILU);
    test_gated_forward(gpu_rows(130), 1024, 96, 0, GATE_SILU);
    test_gated_forward(64, 1000, 128, 0, GATE_SILU);
    test_gated_dgrad(40, tiles * 256, 2048, GATE_SILU);
    test_gated_dgrad(gpu_rows(2500), 512, 2048, GATE_SILU);
    test_gated_dgrad(1, 256, 2048, GATE_SILU);
    test_gated_dgrad(gpu_rows(130), 128, 2048, GATE_SILU);
    test_gated_dgrad(64, 256, 1024, GATE_SILU);
    test_gated_refused();
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
