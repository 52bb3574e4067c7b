/* SPDX-License-Identifier: Apache-2.0 */
/* Norms of query and key heads, their gradients, and the scale of embeddings. */
#include "device_test.h"
#include "tap.h"

#include <math.h>
#include <stdlib.h>

struct head_case {
    struct head_norm_shape shape;
    const double *x, *weight[2], *bias[2];
};

static int64_t columns(const struct head_norm_shape *s)
{
    return s->counts[0] * s->widths[0] + s->counts[1] * s->widths[1] + s->rest;
}

static void reference(void *context, double *y)
{
    const struct head_case *c = context;
    const struct head_norm_shape *s = &c->shape;
    const double *x = c->x;

    for (int64_t row = 0; row < s->rows; row++) {
        for (int which = 0; which < 2; which++)
            for (int64_t i = 0; i < s->counts[which]; i++) {
                int64_t n = s->widths[which];
                double mean = 0, squares = 0;

                for (int64_t k = 0; k < n && s->norm == NORM_LAYER; k++)
                    mean += x[k] / (double)n;
                for (int64_t k = 0; k < n; k++)
                    squares += (x[k] - mean) * (x[k] - mean) / (double)n;
                for (int64_t k = 0; k < n; k++)
                    y[k] = (x[k] - mean) / sqrt(squares + s->epsilon) *
                               (c->weight[which][k] + s->add_one) +
                           (s->norm == NORM_LAYER ? c->bias[which][k] : 0);
                x += n;
                y += n;
            }
        for (int64_t k = 0; k < s->rest; k++)
            *y++ = *x++;
    }
}

/* The gradient of the weights is added to what is there, or replaces it. */
static void test_head_norm(struct head_norm_shape s, int accumulate)
{
    struct operation op = {.kind = OPERATION_HEAD_NORM, .head_norm = s};
    int64_t all = s.rows * columns(&s), vectors = s.rows * (s.counts[0] + s.counts[1]);
    struct tensor x = tensor(all, 1), y = tensor(all, 9), d = tensor(all, 1);
    struct tensor mean = tensor_as(TYPE_FP32, vectors, 9, 0),
                  rstd = tensor_as(TYPE_FP32, vectors, 9, 0);
    struct tensor weight[2], bias[2], dweight[2], dbias[2];
    struct head_case c = {.shape = s, .x = x.v};
    struct probe probe = {reference, &c, d.v, all};
    double *expected = malloc((size_t)all * sizeof(double)), *gradient;
    struct device_plan *forward = plan(&op), *backward;

    for (int i = 0; i < 2; i++) {
        weight[i] = tensor_as(type, s.widths[i], 0.3, 1), bias[i] = tensor(s.widths[i], 0.3);
        dweight[i] = tensor_as(TYPE_FP32, s.widths[i], 9, 0);
        dbias[i] = tensor_as(TYPE_FP32, s.widths[i], 9, 0);
        c.weight[i] = weight[i].v, c.bias[i] = bias[i].v;
    }
    run_head_norm(forward, stream,
                  &(struct head_norm_operands){.x = x.d,
                                               .y = y.d,
                                               .weight = {weight[0].d, weight[1].d},
                                               .bias = {bias[0].d, bias[1].d},
                                               .mean = mean.d,
                                               .rstd = rstd.d});
    reference(&c, expected);
    agree(&y, expected, "norms of heads");
    op.kind = OPERATION_HEAD_NORM_BACKWARD;
    backward = plan(&op);
    gradient = difference(&probe, x.v, all);
    run_head_norm_backward(
        backward, stream,
        &(struct head_norm_backward_operands){.d = d.d,
                                              .x = x.d,
                                              .weight = {weight[0].d, weight[1].d},
                                              .mean = mean.d,
                                              .rstd = rstd.d,
                                              .dweight = {dweight[0].d, dweight[1].d},
                                              .dbias = {dbias[0].d, dbias[1].d},
                                              .accumulate = accumulate});
    agree(&d, gradient, "gradient of norms of heads");
    for (int i = 0; i < 2; i++) {
        (accumulate ? gradient_added : gradient_agrees)(&probe, &weight[i], &dweight[i],
                                                        "gradient of their weights");
        if (s.norm == NORM_LAYER)
            (accumulate ? gradient_added : gradient_agrees)(&probe, &bias[i], &dbias[i],
                                                            "gradient of their biases");
    }
    for (int i = 0; i < 2; i++) {
        tensor_free(&weight[i]), tensor_free(&bias[i]);
        tensor_free(&dweight[i]), tensor_free(&dbias[i]);
    }
    plan_destroy(forward), plan_destroy(backward);
    free(expected), free(gradient);
    tensor_free(&x), tensor_free(&y), tensor_free(&d), tensor_free(&mean), tensor_free(&rstd);
}

static void test_scale(int64_t count, double factor)
{
    struct operation op = {.kind = OPERATION_SCALE, .scale = {count, type, factor}};
    struct tensor x = tensor(count, 1);
    double *expected = malloc((size_t)count * sizeof(double));
    struct device_plan *p = plan(&op);

    run_scale(p, stream, &(struct scale_operands){x.d});
    for (int64_t i = 0; i < count; i++)
        expected[i] = factor * x.v[i];
    agree(&x, expected, "scale");
    plan_destroy(p);
    free(expected);
    tensor_free(&x);
}

/* Some values are beyond the limit, and the first equals it: its gradient remains. */
static void test_clip(int64_t count, double limit)
{
    struct operation op = {.kind = OPERATION_CLIP, .clip = {count, type, limit, 0}};
    struct tensor x = tensor(count, 1), y = tensor(count, 1), d = tensor(count, 1);
    double *expected = malloc((size_t)count * sizeof(double));
    struct device_plan *forward = plan(&op), *backward;

    op.clip.backward = 1;
    backward = plan(&op);
    x.v[0] = limit, x.v[1] = -2 * limit;
    tensor_put(&x, x.v);
    run_clip(forward, stream, &(struct clip_operands){x.d, y.d});
    for (int64_t i = 0; i < count; i++)
        expected[i] = fmax(-limit, fmin(limit, x.v[i]));
    agree(&y, expected, "clip");
    run_clip(backward, stream, &(struct clip_operands){x.d, d.d});
    for (int64_t i = 0; i < count; i++)
        expected[i] = fabs(x.v[i]) > limit ? 0 : d.v[i];
    agree(&d, expected, "clip backward");
    plan_destroy(forward);
    plan_destroy(backward);
    free(expected);
    tensor_free(&x);
    tensor_free(&y);
    tensor_free(&d);
}

void head_norm_cases(void)
{
    for (int norm = NORM_LAYER; norm <= NORM_RMS; norm++) {
        struct head_norm_shape s = {3, {4, 2}, {8, 8}, 16, type, (enum norm)norm, 1e-5, 0};

        test_head_norm(s, 0);
        s.rows = 2, s.counts[0] = s.counts[1] = 1, s.widths[0] = 70, s.widths[1] = 13, s.rest = 5,
        s.add_one = 1;
        test_head_norm(s, 1);
    }
    test_head_norm((struct head_norm_shape){200, {1, 1}, {2, 2}, 1, type, NORM_RMS, 1e-6, 1}, 0);
    test_clip(1003, 0.75);
    test_clip(50000, 0.5);
    test_scale(1003, 5.656854249492381);
}
