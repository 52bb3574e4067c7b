/* SPDX-License-Identifier: Apache-2.0 */
/* The residual stream: bias, dropout, sum and norm, and the gradients. */
#include "device_test.h"
#include "tap.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

struct norm_case {
    struct residual_norm_shape shape;
    const double *x, *bias, *residual, *weight, *norm_bias;
    const int64_t *row_index;
    uint32_t purpose;
};

/* out: sum (rows, cols), then y (rows, cols) */
static void norm_reference(void *context, double *out)
{
    const struct norm_case *c = context;
    int64_t n = c->shape.cols, rows = c->shape.rows;

    for (int64_t r = 0; r < rows; r++) {
        double *sum = out + r * n, *y = out + (rows + r) * n, mean = 0, square = 0;

        for (int64_t i = 0; i < n; i++) {
            sum[i] = c->shape.residual ? c->residual[r * n + i] : 0;
            if (c->shape.input)
                sum[i] += (c->x[r * n + i] + (c->shape.bias ? c->bias[i] : 0)) *
                          dropout_reference(c->shape.dropout, c->purpose,
                                            (uint64_t)(c->row_index[r] * n + i));
            mean += sum[i] / (double)n;
        }
        if (c->shape.norm != NORM_LAYER)
            mean = 0;
        for (int64_t i = 0; i < n; i++)
            square += (sum[i] - mean) * (sum[i] - mean) / (double)n;
        for (int64_t i = 0; i < n; i++)
            y[i] = c->shape.norm == NORM_NONE
                       ? 0
                       : (sum[i] - mean) / sqrt(square + c->shape.epsilon) *
                                 (c->weight[i] + c->shape.add_one) +
                             (c->shape.norm == NORM_LAYER ? c->norm_bias[i] : 0);
    }
}

/* Gradients by their formulas, for too many rows for finite differences. */
struct norm_gradients {
    double *residual, *x, *bias, *weight, *norm_bias;
};

static struct norm_gradients norm_gradient_reference(const struct norm_case *c, const double *d)
{
    int64_t n = c->shape.cols, rows = c->shape.rows;
    size_t size = (size_t)(rows * n);
    struct norm_gradients g = {calloc(size, sizeof(double)), calloc(size, sizeof(double)),
                               calloc((size_t)n, sizeof(double)), calloc((size_t)n, sizeof(double)),
                               calloc((size_t)n, sizeof(double))};
    double *out = malloc(2 * size * sizeof(double));

    norm_reference((void *)c, out);
    for (int64_t r = 0; r < rows; r++) {
        const double *sum = out + r * n, *dsum = d + r * n, *dy = d + (rows + r) * n;
        double mean = 0, square = 0, rstd, part = 0, along = 0;

        for (int64_t i = 0; i < n && c->shape.norm == NORM_LAYER; i++)
            mean += sum[i] / (double)n;
        for (int64_t i = 0; i < n; i++)
            square += (sum[i] - mean) * (sum[i] - mean) / (double)n;
        rstd = 1 / sqrt(square + c->shape.epsilon);
        for (int64_t i = 0; i < n; i++) {
            part += dy[i] * (c->weight[i] + c->shape.add_one) / (double)n;
            along += dy[i] * (c->weight[i] + c->shape.add_one) * (sum[i] - mean) * rstd / (double)n;
        }
        for (int64_t i = 0; i < n; i++) {
            double xhat = (sum[i] - mean) * rstd,
                   all = dy[i] * (c->weight[i] + c->shape.add_one) - xhat * along;

            if (c->shape.norm == NORM_LAYER)
                all -= part;
            g.residual[r * n + i] = dsum[i] + (c->shape.norm == NORM_NONE ? 0 : rstd * all);
            g.x[r * n + i] =
                g.residual[r * n + i] * dropout_reference(c->shape.dropout, c->purpose,
                                                          (uint64_t)(c->row_index[r] * n + i));
            g.bias[i] += g.x[r * n + i];
            g.weight[i] += dy[i] * xhat;
            g.norm_bias[i] += dy[i];
        }
    }
    free(out);
    return g;
}

static void sums_agree(const struct tensor *got, double *expected, int accumulate, const char *name)
{
    for (int64_t i = 0; i < got->n && accumulate; i++)
        expected[i] += got->v[i];
    agree(got, expected, name);
}

static void compare_gradients(const struct norm_case *c, const double *d, int accumulate,
                              const struct tensor *dresidual, const struct tensor *dx,
                              const struct tensor *dbias, const struct tensor *dweight,
                              const struct tensor *dnorm)
{
    struct norm_gradients g = norm_gradient_reference(c, d);

    if (c->shape.residual)
        agree(dresidual, g.residual, "gradient of the residual, by the book");
    if (c->shape.input)
        agree(c->shape.dropout > 0 ? dx : dresidual, g.x, "gradient of x, by the book");
    if (c->shape.input && c->shape.bias)
        sums_agree(dbias, g.bias, accumulate, "gradient of the bias, by the book");
    if (c->shape.norm != NORM_NONE)
        sums_agree(dweight, g.weight, accumulate, "gradient of the norm's weight, by the book");
    if (c->shape.norm == NORM_LAYER)
        sums_agree(dnorm, g.norm_bias, accumulate, "gradient of the norm's bias, by the book");
    free(g.residual), free(g.x), free(g.bias), free(g.weight), free(g.norm_bias);
}

static void test_residual_norm(struct residual_norm_shape shape, int accumulate)
{
    int64_t rows = shape.rows, n = shape.cols, all = rows * n;
    struct operation op = {.kind = OPERATION_RESIDUAL_NORM, .residual_norm = shape};
    struct tensor x = tensor(all, 1), bias = tensor(n, 1), residual = tensor(all, 2);
    struct tensor weight = tensor_as(type, n, 0.3, 1), norm_bias = tensor(n, 1);
    struct tensor sum = tensor(all, 9), y = tensor(all, 9), d = tensor(2 * all, 1);
    struct tensor mean = tensor_as(TYPE_FP32, rows, 1, 0), rstd = tensor_as(TYPE_FP32, rows, 1, 0);
    struct tensor dresidual = tensor(all, 9), dx = tensor(all, 9);
    struct tensor dweight = tensor_as(TYPE_FP32, n, 1, 0), dnorm = tensor_as(TYPE_FP32, n, 1, 0);
    struct tensor dbias = tensor_as(TYPE_FP32, n, 1, 0);
    struct step_state *state = state_on_device();
    int64_t *index = malloc((size_t)rows * sizeof(*index)), *index_d;
    struct norm_case c = {shape, x.v, bias.v, residual.v, weight.v, norm_bias.v, index, 0x30002};
    struct probe probe = {norm_reference, &c, d.v, 2 * all};
    double *expected = malloc((size_t)(2 * all) * sizeof(double));
    struct device_plan *forward = plan(&op), *backward;
    void *kept = shape.input ? sum.d : residual.d;
    void (*compare)(const struct probe *, struct tensor *, const struct tensor *, const char *) =
        accumulate ? gradient_added : gradient_agrees;

    for (int64_t r = 0; r < rows; r++)
        index[r] = 1000 + 7 * r;
    index_d = upload(index, (size_t)rows * sizeof(*index));
    run_residual_norm(forward, stream,
                      &(struct residual_norm_operands){.x = x.d,
                                                       .bias = bias.d,
                                                       .residual = residual.d,
                                                       .sum = sum.d,
                                                       .weight = weight.d,
                                                       .norm_bias = norm_bias.d,
                                                       .y = y.d,
                                                       .mean = mean.d,
                                                       .rstd = rstd.d,
                                                       .row_index = index_d,
                                                       .state = state,
                                                       .purpose = 0x30002});
    norm_reference(&c, expected);
    if (shape.input)
        agree(&sum, expected, "residual stream");
    if (shape.norm != NORM_NONE)
        agree(&y, expected + all, "norm");
    else
        memset(d.v + all, 0, (size_t)all * sizeof(double));
    op.kind = OPERATION_RESIDUAL_NORM_BACKWARD;
    backward = plan(&op);
    run_residual_norm_backward(
        backward, stream,
        &(struct residual_norm_backward_operands){.dy = (char *)d.d + (size_t)all * type_size(type),
                                                  .dsum = d.d,
                                                  .sum = kept,
                                                  .weight = weight.d,
                                                  .mean = mean.d,
                                                  .rstd = rstd.d,
                                                  .dresidual = dresidual.d,
                                                  .dx = dx.d,
                                                  .dweight = dweight.d,
                                                  .dnorm_bias = dnorm.d,
                                                  .dbias = dbias.d,
                                                  .accumulate = accumulate,
                                                  .row_index = index_d,
                                                  .state = state,
                                                  .purpose = 0x30002});
    compare_gradients(&c, d.v, accumulate, &dresidual, &dx, &dbias, &dweight, &dnorm);
    if (shape.residual && all <= FEW)
        gradient_agrees(&probe, &residual, &dresidual, "gradient of the residual");
    if (shape.input && all <= FEW)
        gradient_agrees(&probe, &x, shape.dropout > 0 ? &dx : &dresidual, "gradient of x");
    if (shape.input && shape.bias && all <= FEW)
        compare(&probe, &bias, &dbias, "gradient of the bias");
    if (shape.norm != NORM_NONE && all <= FEW)
        compare(&probe, &weight, &dweight, "gradient of the norm's weight");
    if (shape.norm == NORM_LAYER && all <= FEW)
        compare(&probe, &norm_bias, &dnorm, "gradient of the norm's bias");
    plan_destroy(forward), plan_destroy(backward);
    free(index), free(expected);
    device_release(device, index_d), device_release(device, state);
    tensor_free(&x), tensor_free(&bias), tensor_free(&residual), tensor_free(&weight);
    tensor_free(&norm_bias), tensor_free(&sum), tensor_free(&y), tensor_free(&d);
    tensor_free(&mean), tensor_free(&rstd), tensor_free(&dresidual), tensor_free(&dx);
    tensor_free(&dweight), tensor_free(&dnorm), tensor_free(&dbias);
}

static void same_values(const struct tensor *a, const struct tensor *b, const char *name)
{
    double *x = download(a), *y = download(b);

    ok(memcmp(x, y, (size_t)a->n * sizeof(*x)) == 0, "two readers of a norm: %s, exactly", name);
    free(x), free(y);
}

/* Two readers of y: dy_more gives the bits of an addition beforehand, also in place. */
static void test_two_readers(int64_t rows, int64_t n, enum norm norm, int bias, double dropout)
{
    int64_t all = rows * n;
    struct residual_norm_shape shape = {rows, n, type, type, norm, 1e-5, 1, bias, 1, dropout, 0};
    struct operation op = {.kind = OPERATION_RESIDUAL_NORM_BACKWARD, .residual_norm = shape};
    struct operation addition = {.kind = OPERATION_ADD, .add = {all, type}};
    struct device_plan *backward = plan(&op), *add = plan(&addition);
    struct tensor sum = tensor(all, 1), weight = tensor_as(type, n, 0.3, 1);
    struct tensor mean = tensor_as(TYPE_FP32, rows, 0.1, 0),
                  rstd = tensor_as(TYPE_FP32, rows, 0, 1);
    struct tensor dy = tensor(all, 1), more = tensor(all, 1), added = tensor(all, 1);
    struct tensor d[2], dx[2], dweight[2], dnorm[2], dbias[2];
    int64_t *index = calloc((size_t)rows, sizeof(*index));
    int64_t *index_d = upload(index, (size_t)rows * sizeof(*index));
    struct step_state *state = state_on_device();

    tensor_put(&added, dy.v);
    run_add(add, stream, &(struct add_operands){more.d, added.d});
    for (int k = 0; k < 2; k++) {
        d[k] = tensor(all, 9), dx[k] = tensor(all, 9);
        dweight[k] = tensor_as(TYPE_FP32, n, 1, 0), dnorm[k] = tensor_as(TYPE_FP32, n, 1, 0);
        dbias[k] = tensor_as(TYPE_FP32, n, 1, 0);
    }
    tensor_put(&d[1], more.v);
    for (int k = 0; k < 2; k++)
        run_residual_norm_backward(
            backward, stream,
            &(struct residual_norm_backward_operands){.dy = k ? dy.d : added.d,
                                                      .dy_more = k ? d[1].d : NULL,
                                                      .sum = sum.d,
                                                      .weight = weight.d,
                                                      .mean = mean.d,
                                                      .rstd = rstd.d,
                                                      .dresidual = d[k].d,
                                                      .dx = dx[k].d,
                                                      .dweight = dweight[k].d,
                                                      .dnorm_bias = dnorm[k].d,
                                                      .dbias = dbias[k].d,
                                                      .row_index = index_d,
                                                      .state = state,
                                                      .purpose = 0x30002});
    same_values(&d[0], &d[1], "gradient of the sum");
    same_values(&dweight[0], &dweight[1], "gradient of the weight");
    if (bias)
        same_values(&dbias[0], &dbias[1], "gradient of the bias");
    if (norm == NORM_LAYER)
        same_values(&dnorm[0], &dnorm[1], "gradient of the norm's bias");
    if (dropout > 0)
        same_values(&dx[0], &dx[1], "gradient of x");
    plan_destroy(backward), plan_destroy(add);
    device_release(device, index_d), device_release(device, state);
    free(index);
    for (int k = 0; k < 2; k++) {
        tensor_free(&d[k]), tensor_free(&dx[k]), tensor_free(&dweight[k]);
        tensor_free(&dnorm[k]), tensor_free(&dbias[k]);
    }
    tensor_free(&sum), tensor_free(&weight), tensor_free(&mean), tensor_free(&rstd);
    tensor_free(&dy), tensor_free(&more), tensor_free(&added);
}

void norm_cases(void)
{
    static const struct {
        int64_t rows, cols;
        int accumulate;
    } plain[] = {
        {13000, 512, 0}, {6600, 1024, 1}, {2700, 2560, 0}, {2000, 2568, 1}, {1400, 5120, 0}};

    test_two_readers(5, 1024, NORM_LAYER, 1, 0);
    test_two_readers(gpu_rows(600), 776, NORM_RMS, 1, 0.1);
    test_two_readers(gpu_rows(6600), 776, NORM_RMS, 0, 0);
    test_two_readers(3, 37, NORM_LAYER, 1, 0.2); /* odd: not in vectors */
    for (int norm = NORM_NONE; norm <= NORM_RMS; norm++)
        for (int flags = 1; flags < 8; flags++) {
            struct residual_norm_shape s = {.rows = 5,
                                            .cols = 24,
                                            .type = type,
                                            .y_type = type,
                                            .norm = norm,
                                            .epsilon = 1e-5,
                                            .input = (flags & 1) != 0,
                                            .residual = (flags & 2) != 0 || !(flags & 1),
                                            .bias = (flags & 4) != 0,
                                            .dropout = 0};

            test_residual_norm(s, flags & 1);
            s.dropout = 0.3, s.add_one = 1;
            test_residual_norm(s, flags & 2);
        }
    test_residual_norm(
        (struct residual_norm_shape){130, 40, type, type, NORM_LAYER, 1e-5, 1, 1, 1, 0, 1}, 0);
    /* Odd lengths, and lengths around the limits of kernels that hold a row. */
    for (int norm = NORM_LAYER; norm <= NORM_RMS; norm++) {
        struct residual_norm_shape s = {3, 37, type, type, norm, 1e-5, 1, 1, 1, 0.2, 0};

        test_residual_norm(s, 0);
        s.cols = 264, s.add_one = 1;
        test_residual_norm(s, 0);
        s.dropout = 0, s.rows = 1, s.cols = 2056;
        test_residual_norm(s, 0);
        s.cols = 2049;
        test_residual_norm(s, 0);
        s.add_one = 0;
        /* Rows of one warp, of several, of whole and of partial ones; more rows than a GPU has
         * groups of threads. */
        s.rows = 3, s.cols = 1024;
        test_residual_norm(s, 0);
        s.cols = 4096;
        test_residual_norm(s, 1);
        s.cols = 6152;
        test_residual_norm(s, 0);
        s.rows = 2, s.cols = 8200;
        test_residual_norm(s, 0);
        s.rows = gpu_rows(2600), s.cols = 512;
        test_residual_norm(s, 0);
        s.dropout = 0.1, s.cols = 520;
        test_residual_norm(s, 1);
        s.rows = 5, s.cols = 1024;
        test_residual_norm(s, 0);
        s.cols = 4096;
        test_residual_norm(s, 0);
        s.cols = 6152;
        test_residual_norm(s, 1);
        /* A rate so low that nothing is dropped. */
        s.dropout = 5e-6, s.cols = 1024;
        test_residual_norm(s, 0);
        s.dropout = 0, s.rows = gpu_rows(1600), s.cols = 2056;
        test_residual_norm(s, 0);
        /* Wider than what a block holds. */
        s.rows = 3, s.cols = 16384, s.add_one = 1;
        test_residual_norm(s, 1);
        s.dropout = 0.2, s.cols = 8203;
        test_residual_norm(s, 0);
        s.rows = norm == NORM_RMS ? gpu_rows(270) : 5, s.cols = 8208;
        test_residual_norm(s, 1);
    }
    /* Without a bias and dropout, as in Llama: rows of one warp and of several, of whole and
     * partial ones, and so many (four or more for each group of a GPU's threads) that shared memory
     * is reused. */
    for (size_t i = 0; i < sizeof(plain) / sizeof(*plain); i++)
        test_residual_norm((struct residual_norm_shape){gpu_rows(plain[i].rows), plain[i].cols,
                                                        type, type, NORM_RMS, 1e-5, 1, 0, 1, 0,
                                                        (int)i % 2},
                           plain[i].accumulate);
    for (int odd = 0; odd < 2; odd++) {
        struct residual_norm_shape s = {
            gpu_rows(3000), 520 + odd, type, type, NORM_NONE, 1e-5, 1, 1, 1, 0, 0};

        test_residual_norm(s, 0);
        s.dropout = 0.2, s.rows = 41;
        test_residual_norm(s, 1);
    }
}
