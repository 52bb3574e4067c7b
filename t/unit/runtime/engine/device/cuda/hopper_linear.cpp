/* SPDX-License-Identifier: Apache-2.0 */
/* The kernels of hopper_linear.cuh, thread by thread, on the fake cluster of fake_hopper.h. */
#include "fake_hopper.h"
#include "engine/device/operation.h"

#include "comparison.h"
#include "engine/device/cuda/hopper_linear.cuh"

static struct linear_arguments arguments;

template <activation ACTIVATION, bool GRADIENT, int PER_STAGE> void kernel_body(void)
{
    run_block<bf16, ACTIVATION, GRADIENT, PER_STAGE>(
        arguments, reinterpret_cast<struct shared_memory *>(fake_own().shared));
}

/* A matrix with some elements after its end that nobody may write. */
struct matrix {
    enum { AFTER = 64, UNTOUCHED = 0x4242 };
    int64_t rows, cols;
    std::vector<bf16> e;

    matrix(int64_t r, int64_t c, float scale) : rows(r), cols(c), e((size_t)(r * c + AFTER))
    {
        for (bf16 &x : e)
            x = to_bf16(scale * ((float)(fake_random() % 20001) / 10000 - 1));
        for (size_t i = e.size() - AFTER; i < e.size(); i++)
            e[i].bits = UNTOUCHED;
    }

    double at(int64_t r, int64_t c) const
    {
        return to_float(e[(size_t)(r * cols + c)]);
    }

    bool is_intact(void) const
    {
        return std::all_of(e.end() - AFTER, e.end(), [](bf16 x) { return x.bits == UNTOUCHED; });
    }

    CUtensorMap map(int box_rows, int box_cols)
    {
        return {e.data(),    2, {cols, rows, 0, 0}, {2 * cols, 0, 0}, {box_cols, box_rows, 0, 0},
                2 * box_cols};
    }
};

static double activated(enum activation activation, double x)
{
    switch (activation) {
    case ACTIVATION_SWIGLU:
        return x / (1 + exp(-x));
    case ACTIVATION_QUICK_GEGLU:
        return x / (1 + exp(-1.702 * x));
    case ACTIVATION_GELU_ERF:
        return 0.5 * x * erfc(-x / sqrt(2));
    default:
        return 0.5 * x * (1 + tanh(sqrt(2 / M_PI) * (x + 0.044715 * x * x * x)));
    }
}

static double slope(enum activation activation, double x)
{
    return (activated(activation, x + 1e-5) - activated(activation, x - 1e-5)) / 2e-5;
}

static double product(const matrix &x, int64_t row, const matrix &w, int64_t i, bool across)
{
    double sum = 0;

    for (int64_t k = 0; k < x.cols; k++)
        sum += x.at(row, k) * (across ? w.at(k, i) : w.at(i, k));
    return sum;
}

static void begin(const char *what, int activation, int rows, int depth, int columns, int clusters)
{
    diag("%s of activation %d: %d rows, depth %d, %d columns, on %d clusters", what, activation,
         rows, depth, columns, clusters);
    arguments = {};
    arguments.rows = rows;
    arguments.depth = depth;
    arguments.columns = columns;
}

static void run(void (*kernel)(void), int clusters, const matrix &pre, const matrix &y)
{
    const char *error = fake_run(kernel, clusters);

    ok(!error, "  it runs%s%s", error ? ": " : "", error ? error : "");
    ok(pre.is_intact() && y.is_intact(), "  nothing is written after the end of a tensor");
}

template <activation ACTIVATION, int PER_STAGE>
static void test_forward(int rows, int depth, int columns, int clusters)
{
    const bool gated = is_gated(ACTIVATION);
    const int out = gated ? 2 * columns : columns, line = gated ? 32 : 64;
    matrix x(rows, depth, 1), w(out, depth, 2 / sqrtf((float)depth)), bias(1, out, 1);
    matrix pre(rows, out, 9), y(rows, columns, 9);
    comparison before, after;

    begin("forward", ACTIVATION, rows, depth, columns, clusters);
    arguments.bias = bias.e.data();
    arguments.x = x.map(ROWS / CLUSTER, 64);
    arguments.w = w.map(COLUMNS, 64);
    if (gated)
        arguments.w = {w.e.data(),
                       4,
                       {depth, 8, 2, columns / 8},
                       {2 * depth, (int64_t)2 * columns * depth, 16 * depth},
                       {64, 8, 2, 8},
                       128};
    arguments.pre = pre.map(BLOCK, line);
    arguments.y = y.map(BLOCK, line);
    run(kernel_body<ACTIVATION, false, PER_STAGE>, clusters, pre, y);
    for (int r = 0; r < rows; r++)
        for (int c = 0; c < out; c++) {
            const double up = gated && c < columns ? pre.at(r, c + columns) : 1;

            before.add(pre.at(r, c), bias.at(0, c) + product(x, r, w, c, false));
            if (c < columns)
                after.add(y.at(r, c), activated(ACTIVATION, pre.at(r, c)) * up);
        }
    before.report("the value before the activation", 0.012);
    after.report("y", 0.012);
}

/* In place: dx takes the memory of 'pre'. */
template <activation ACTIVATION, int PER_STAGE>
static void test_gradient(int rows, int depth, int columns, int clusters)
{
    const bool gated = is_gated(ACTIVATION);
    matrix dy(rows, depth, 1), w(depth, columns, 2 / sqrtf((float)depth));
    matrix dx(rows, gated ? 2 * columns : columns, 2), pre = dx;
    comparison first, second;

    begin("gradient", ACTIVATION, rows, depth, columns, clusters);
    arguments.x = dy.map(ROWS / CLUSTER, 64);
    arguments.w = w.map(DEPTH, 64);
    arguments.pre = arguments.y = dx.map(gated ? STRIPE : BLOCK, 64);
    run(kernel_body<ACTIVATION, true, PER_STAGE>, clusters, dx, dy);
    for (int r = 0; r < rows; r++)
        for (int c = 0; c < columns; c++) {
            const double d = product(dy, r, w, c, true), at = pre.at(r, c);
            const double up = gated ? pre.at(r, c + columns) : 1;

            first.add(dx.at(r, c), d * up * slope(ACTIVATION, at));
            if (gated)
                second.add(dx.at(r, c + columns), d * activated(ACTIVATION, at));
        }
    first.report("dx", 0.012);
    if (gated)
        second.report("dx of the second half", 0.012);
}

/* All kinds once; sanitizers make them far slower. */
static void test_all(void)
{
    test_forward<ACTIVATION_GELU_TANH, 1>(40, 1024, 512, 1);
    test_forward<ACTIVATION_GELU_ERF, 2>(40, 512, 256, 1);
    test_gradient<ACTIVATION_GELU_ERF, 1>(40, 1088, 512, 1);
    test_gradient<ACTIVATION_GELU_TANH, 2>(300, 512, 256, 1);
    test_forward<ACTIVATION_SWIGLU, 1>(40, 1024, 384, 1);
    test_forward<ACTIVATION_GEGLU, 1>(300, 1088, 128, 2);
    test_gradient<ACTIVATION_SWIGLU, 1>(40, 2048, 768, 1);
    test_gradient<ACTIVATION_GEGLU, 1>(300, 2112, 256, 1);
}

int main(void)
{
    test_forward<ACTIVATION_QUICK_GEGLU, 1>(19, 1024, 128, 1);
    test_gradient<ACTIVATION_QUICK_GEGLU, 1>(1, 2048, 256, 2);
    if (repetitions(6) == 6)
        test_all();
    return done_testing();
}
