/* SPDX-License-Identifier: Apache-2.0 */
/* Operations on the rows of a matrix: SwiGLU, rotary positions, embedding; and their gradients. */
#include "device_test.h"
#include "tap.h"

#include <math.h>
#include <stdlib.h>

/* Each output depends on one gate and one value, so that finite differences are taken of these. */
static void test_swiglu(int64_t rows, int64_t cols, enum gate kind)
{
    struct operation op = {.kind = OPERATION_SWIGLU, .swiglu = {rows, cols, type, type, kind}};
    struct tensor x = tensor(rows * 2 * cols, 2), y = tensor(rows * cols, 9);
    struct tensor dy = tensor(rows * cols, 1), dx = tensor(rows * 2 * cols, 9);
    double *expected = malloc((size_t)(rows * cols) * sizeof(double)), h = 1e-5;
    double *gradient = malloc((size_t)(rows * 2 * cols) * sizeof(double));
    struct device_plan *forward = plan(&op), *backward;

    for (int64_t i = 0; i < rows * cols; i++) {
        int64_t at = i / cols * 2 * cols + i % cols;
        double gate = x.v[at], up = x.v[at + cols];

        expected[i] = gate_reference(kind, gate, up);
        gradient[at] = dy.v[i] / (2 * h) *
                       (gate_reference(kind, gate + h, up) - gate_reference(kind, gate - h, up));
        gradient[at + cols] =
            dy.v[i] / (2 * h) *
            (gate_reference(kind, gate, up + h) - gate_reference(kind, gate, up - h));
    }
    run_swiglu(forward, stream, &(struct swiglu_operands){.x = x.d, .y = y.d});
    agree(&y, expected, "swiglu");
    op.kind = OPERATION_SWIGLU_BACKWARD;
    backward = plan(&op);
    run_swiglu_backward(backward, stream,
                        &(struct swiglu_backward_operands){.dy = dy.d, .x = x.d, .dx = dx.d});
    agree(&dx, gradient, "gradient of swiglu");
    plan_destroy(forward), plan_destroy(backward);
    free(expected), free(gradient);
    tensor_free(&x), tensor_free(&y), tensor_free(&dy), tensor_free(&dx);
}

static void test_rope(int64_t rows, int64_t heads, int64_t size, int64_t rotary, int backward)
{
    int64_t stride = (heads + 1) * size, positions = 40, half = rotary / 2;
    struct operation op = {.kind = OPERATION_ROPE,
                           .rope = {rows, heads, size, rotary, stride, type, backward}};
    struct tensor x = tensor(rows * stride, 1);
    struct tensor cosine = tensor_as(TYPE_FP32, positions * half, 0, 0);
    struct tensor sine = tensor_as(TYPE_FP32, positions * half, 0, 0);
    int32_t *at = malloc((size_t)rows * sizeof(*at)), *at_d;
    float *table = malloc((size_t)(positions * half) * sizeof(float));
    struct device_plan *p = plan(&op);

    for (int64_t r = 0; r < rows; r++)
        at[r] = (int32_t)(r * 7 % positions);
    at_d = upload(at, (size_t)rows * sizeof(*at));
    for (int which = 0; which < 2; which++) {
        for (int64_t i = 0; i < positions * half; i++) {
            double angle =
                (double)(i / half) * pow(10000, -2.0 * (double)(i % half) / (double)rotary);

            table[i] = (float)(which ? sin(angle) : cos(angle));
            (which ? sine : cosine).v[i] = table[i];
        }
        transfer((which ? sine : cosine).d, table, (size_t)(positions * half) * sizeof(float),
                 COPY_TO_DEVICE);
    }
    run_rope(p, stream, &(struct rope_operands){x.d, at_d, cosine.d, sine.d});
    for (int64_t r = 0; r < rows; r++)
        for (int64_t h = 0; h < heads; h++)
            for (int64_t i = 0; i < half; i++) {
                double *a = x.v + r * stride + h * size + i, *b = a + half, u = *a, v = *b;
                double cos_ = cosine.v[at[r] * half + i], sin_ = sine.v[at[r] * half + i];

                if (backward)
                    sin_ = -sin_;
                *a = u * cos_ - v * sin_;
                *b = v * cos_ + u * sin_;
            }
    agree(&x, x.v, backward ? "rope backward" : "rope");
    plan_destroy(p);
    free(at), free(table);
    device_release(device, at_d);
    tensor_free(&x), tensor_free(&cosine), tensor_free(&sine);
}

/* Some indices are before or after the table. 'crowded': two of three rows have the same index. */
static void test_embedding(int64_t rows, int64_t cols, int64_t table_rows, int accumulate,
                           int crowded)
{
    int64_t first = 20, positions = 9;
    struct operation op = {.kind = OPERATION_EMBEDDING,
                           .embedding = {rows, cols, first, table_rows, type, 1, 0}};
    struct tensor table = tensor(table_rows * cols, 1), second = tensor(positions * cols, 1);
    struct tensor out = tensor(rows * cols, 9), dout = tensor(rows * cols, 1);
    struct tensor dtable = tensor_as(TYPE_FP32, table_rows * cols, 1, 0);
    int32_t *index = malloc((size_t)rows * sizeof(*index)), *index_d;
    int32_t *position = malloc((size_t)rows * sizeof(*position)), *position_d;
    double *expected = malloc((size_t)(rows * cols) * sizeof(double));
    double *gradient = calloc((size_t)(table_rows * cols), sizeof(double));
    struct device_plan *forward = plan(&op), *backward;

    for (int64_t r = 0; r < rows; r++) {
        index[r] = (int32_t)(crowded && r % 3 ? first + table_rows / 2
                                              : first - 3 + r * 5 % (table_rows + 6));
        position[r] = (int32_t)(r % positions);
        for (int64_t i = 0; i < cols; i++) {
            int64_t t = index[r] - first;
            int mine = t >= 0 && t < table_rows;

            expected[r * cols + i] =
                (mine ? table.v[t * cols + i] : 0) + second.v[position[r] * cols + i];
            if (mine)
                gradient[t * cols + i] += dout.v[r * cols + i];
        }
    }
    index_d = upload(index, (size_t)rows * sizeof(*index));
    position_d = upload(position, (size_t)rows * sizeof(*position));
    run_embedding(forward, stream,
                  &(struct embedding_operands){index_d, table.d, position_d, second.d, out.d});
    agree(&out, expected, "embedding");
    for (int64_t i = 0; i < table_rows * cols && accumulate; i++)
        gradient[i] += dtable.v[i];
    op.kind = OPERATION_EMBEDDING_BACKWARD;
    backward = plan(&op);
    run_embedding_backward(
        backward, stream,
        &(struct embedding_backward_operands){index_d, dout.d, dtable.d, accumulate});
    agree(&dtable, gradient, "gradient of the embedding");
    plan_destroy(forward), plan_destroy(backward);
    free(index), free(position), free(expected), free(gradient);
    device_release(device, index_d), device_release(device, position_d);
    tensor_free(&table), tensor_free(&second), tensor_free(&out), tensor_free(&dout);
    tensor_free(&dtable);
}

void row_cases(void)
{
    test_swiglu(3, 16, GATE_SILU);
    test_swiglu(5, 40, GATE_SILU);
    test_swiglu(5, 13, GATE_SILU);
    test_swiglu(2, 4120, GATE_SILU);
    test_rope(9, 3, 16, 16, 0);
    test_rope(9, 3, 16, 8, 1);
    test_rope(5, 40, 128, 128, 0);
    test_rope(3, 128, 96, 96, 1);
    test_rope(4, 5, 24, 20, 0);
    test_embedding(0, 16, 13, 0, 0);
    test_embedding(50, 24, 13, 0, 0);
    test_embedding(50, 16, 13, 1, 0);
    test_embedding(700, 11, 13, 0, 0);
    test_embedding(3000, 40, 13, 1, 0);
    /* Tables with more than one digit in the sort, mostly untouched or not; so many rows for one
     * table row that they are added in pieces; rows of several warps, with odd ends. */
    test_embedding(50, 32, 700, 0, 0);
    test_embedding(3000, 272, 700, 1, 0);
    test_embedding(5300, 32, 13, 0, 0);
    test_embedding(5301, 528, 13, 1, 0);
    test_embedding(5300, 11, 13, 1, 0);
    test_embedding(700, 2064, 300, 0, 0);
    test_embedding(400, 16, 70000, 1, 0);
    test_embedding(9000, 48, 700, 0, 1);
    test_embedding(9000, 11, 700, 1, 1);
    test_embedding(gpu_rows(263000), 16, 300, 1, 1);
}

void gate_cases(void)
{
    for (int kind = GATE_GELU_TANH; kind <= GATE_QUICK_GELU; kind++) {
        test_swiglu(3, 16, (enum gate)kind);
        test_swiglu(5, 13, (enum gate)kind);
        test_swiglu(2, 4120, (enum gate)kind);
    }
}
