/* SPDX-License-Identifier: Apache-2.0 */
/* Main gradients in bf16: the results of the same operations with gradients in fp32, rounded. */
#include "device_test.h"
#include "base/core/half.h"
#include "tap.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* The same values in bf16, on the device. */
static struct tensor narrow_copy(const struct tensor *wide)
{
    struct tensor t = tensor_as(TYPE_BF16, wide->n, 0, 0);

    tensor_put(&t, wide->v);
    return t;
}

static double nearest_bf16(double x)
{
    return bfloat_to_float(float_to_bfloat((float)x));
}

/* 'narrow' has what 'wide' has, rounded: most of it to the bit, and all within a unit in the last
 * place of its two terms, 'start' and what was added, because sums may be in another order and the
 * second term may have been rounded, too. Without 'start' there is one term. */
static void agree_rounded(const struct tensor *narrow, const struct tensor *wide,
                          const struct tensor *start, const char *name)
{
    double *got = download(narrow), *expected = download(wide);
    int64_t far = 0, same = 0;

    for (int64_t i = 0; i < narrow->n; i++) {
        double first = start ? start->v[i] : 0, e = nearest_bf16(expected[i]);
        double size = fabs(first) + fabs(expected[i] - first);

        far += !(fabs(got[i] - e) <= size * 0x1p-7 + 1e-4);
        same += got[i] == e;
    }
    if (!ok(far == 0, "%s: within a unit in the last place", name))
        diag("%lld of %lld are not", (long long)far, (long long)narrow->n);
    if (!ok(same >= narrow->n * (start ? 6 : 9) / 10, "%s: mostly to the bit", name))
        diag("%lld of %lld", (long long)same, (long long)narrow->n);
    free(got), free(expected);
}

static void test_wgrad(int64_t rows, int64_t in, int64_t out, int bias, int accumulate)
{
    struct operation op = {
        .kind = OPERATION_LINEAR_WGRAD,
        .linear = {.rows = rows, .in = in, .out = out, .types = linear_types(type), .bias = bias}};
    struct tensor x = tensor(rows * in, 1), dy = tensor(rows * out, 1);
    struct tensor start = tensor_as(TYPE_BF16, out * in, 10, 0), narrow = narrow_copy(&start);
    struct tensor wide = tensor_as(TYPE_FP32, out * in, 0, 0);
    struct tensor db = tensor_as(TYPE_FP32, out, 1, 0), db2 = tensor_as(TYPE_FP32, out, 1, 0);
    struct linear_wgrad_operands o = {
        .dy = dy.d, .x = x.d, .dweight = wide.d, .dbias = db.d, .accumulate = accumulate};
    struct device_plan *p = plan(&op);

    tensor_put(&wide, start.v);
    tensor_put(&db2, db.v);
    run_linear_wgrad(p, stream, &o);
    plan_destroy(p);
    op.linear.types.gradient = TYPE_BF16;
    p = plan(&op);
    o.dweight = narrow.d;
    o.dbias = db2.d;
    run_linear_wgrad(p, stream, &o);
    agree_rounded(&narrow, &wide, accumulate ? &start : NULL,
                  accumulate ? "weight gradient in bf16, added" : "weight gradient in bf16");
    if (bias) {
        double *expected = download(&db);

        agree(&db2, expected, "its bias gradient stays in fp32");
        free(expected);
    }
    plan_destroy(p);
    tensor_free(&x), tensor_free(&dy), tensor_free(&start), tensor_free(&narrow);
    tensor_free(&wide), tensor_free(&db), tensor_free(&db2);
}

static void test_table(int64_t rows, int64_t cols, int64_t table_rows, int accumulate)
{
    struct operation op = {.kind = OPERATION_EMBEDDING_BACKWARD,
                           .embedding = {rows, cols, 3, table_rows, type, 0, 0, TYPE_FP32}};
    struct tensor dout = tensor(rows * cols, 1);
    struct tensor start = tensor_as(TYPE_BF16, table_rows * cols, 1, 0);
    struct tensor narrow = narrow_copy(&start), wide = tensor_as(TYPE_FP32, start.n, 0, 0);
    int32_t *index = malloc((size_t)(rows + 1) * sizeof(*index)), *index_d;
    struct embedding_backward_operands o = {.dout = dout.d, .accumulate = accumulate};
    struct device_plan *p = plan(&op);

    for (int64_t r = 0; r < rows; r++)
        index[r] = (int32_t)(r * 7 % (table_rows + 5));
    o.index = index_d = upload(index, (size_t)(rows + 1) * sizeof(*index));
    tensor_put(&wide, start.v);
    o.dtable = wide.d;
    run_embedding_backward(p, stream, &o);
    plan_destroy(p);
    op.embedding.gradient = TYPE_BF16;
    p = plan(&op);
    o.dtable = narrow.d;
    run_embedding_backward(p, stream, &o);
    agree_rounded(&narrow, &wide, accumulate ? &start : NULL,
                  accumulate ? "gradient of a table in bf16, added"
                             : "gradient of a table in bf16");
    plan_destroy(p);
    free(index);
    device_release(device, index_d);
    tensor_free(&dout), tensor_free(&start), tensor_free(&narrow), tensor_free(&wide);
}

/* Gradients that bf16 has: both types must give the same bits. */
static void test_update(int64_t count, enum optimizer_kind kind)
{
    struct operation op = {.kind = OPERATION_ADAM,
                           .adam = {.count = count,
                                    .decayed = count / 3,
                                    .beta1 = 0.9,
                                    .beta2 = 0.95,
                                    .epsilon = 1e-8,
                                    .type = type,
                                    .kind = kind}};
    struct step_state *state_d = adam_state_on_device();
    struct tensor narrow = tensor_as(TYPE_BF16, count, 1, 0);
    struct tensor wide = tensor_as(TYPE_FP32, count, 0, 0);
    struct tensor begin[3] = {tensor_as(TYPE_FP32, count, 1, 0),
                              tensor_as(TYPE_FP32, count, 0.1, 0),
                              tensor_as(TYPE_FP32, count, 0, 0.01)};
    double *results[2];

    tensor_put(&wide, narrow.v);
    for (int i = 0; i < 2; i++) {
        struct device_plan *p;

        op.adam.gradient = i ? TYPE_BF16 : TYPE_FP32;
        p = plan(&op);
        for (int k = 0; k < 3; k++)
            tensor_put(&begin[k], begin[k].v);
        run_adam(p, stream,
                 &(struct adam_operands){.grad = i ? narrow.d : wide.d,
                                         .master = begin[0].d,
                                         .moment1 = begin[1].d,
                                         .moment2 = begin[2].d,
                                         .state = state_d});
        results[i] = download(&begin[0]);
        plan_destroy(p);
    }
    ok(memcmp(results[0], results[1], (size_t)count * sizeof(double)) == 0 &&
           memcmp(results[0], begin[0].v, (size_t)count * sizeof(double)) != 0,
       "%s of %lld gradients in bf16", kind == OPTIMIZER_SGD ? "SGD" : "Adam", (long long)count);
    free(results[0]), free(results[1]);
    device_release(device, state_d);
    tensor_free(&narrow), tensor_free(&wide);
    for (int k = 0; k < 3; k++)
        tensor_free(&begin[k]);
}

/* Vectors, which are added up in fp32, are rounded into the arena. */
static void test_rounding(int64_t count)
{
    struct operation op = {.kind = OPERATION_CONVERT, .convert = {count, TYPE_FP32, TYPE_BF16, 0}};
    struct tensor wide = tensor_as(TYPE_FP32, count, 1, 0), to = tensor_as(TYPE_BF16, count, 0, 0);
    struct device_plan *p = plan(&op);
    double *got;
    int64_t same = 0;

    run_convert(p, stream, &(struct convert_operands){wide.d, to.d});
    got = download(&to);
    for (int64_t i = 0; i < count; i++)
        same += got[i] == nearest_bf16(wide.v[i]);
    ok(same == count, "%lld numbers rounded to bf16", (long long)count);
    free(got);
    plan_destroy(p);
    tensor_free(&wide), tensor_free(&to);
}

void narrow_gradient_cases(void)
{
    const char *name = getenv("MEGATRON_TEST_DEVICE");
    int cpu = !name || strcmp(name, "cpu") == 0;

    /* A GPU has them next to layers in bf16 only. */
    if (!cpu && type != TYPE_BF16)
        return;
    for (int accumulate = 0; accumulate < 2; accumulate++) {
        test_wgrad(64, 48, 40, 1, accumulate);
        test_wgrad(7, 13, 11, 1, accumulate);
        test_wgrad(256, 128, 384, 0, accumulate);
        /* more than a piece of the CPU device in both directions */
        test_wgrad(24, 800, 1600, 0, accumulate);
        test_wgrad(24, 1600, 800, 0, accumulate);
        test_table(50, 24, 13, accumulate);
        test_table(700, 11, 13, accumulate);
        test_table(3000, 272, 700, accumulate);
    }
    test_table(0, 16, 13, 0);
    test_update(1003, OPTIMIZER_ADAM);
    test_update(40000, OPTIMIZER_ADAM);
    test_update(1003, OPTIMIZER_SGD);
    square_sum_case(5, TYPE_BF16);
    square_sum_case(100000, TYPE_BF16);
    test_rounding(1003);
    test_rounding(40000);
}
