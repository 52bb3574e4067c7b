/* SPDX-License-Identifier: Apache-2.0 */
/* Rows of tables: embedding, its gradient, gathering of rows. */
#include "cpu.h"
#include "base/core/half.h"

#include <string.h>

static void embedding_row(void *context, int64_t row)
{
    const struct cpu_job *job = context;
    const struct embedding_operands *o = job->operands;
    const struct embedding_shape *shape = &job->plan->operation.embedding;
    int64_t n = shape->cols, index = o->index[row] - shape->first;
    const float *table = o->table, *second = o->second_table;
    float *out = (float *)o->out + row * n;

    if (!shape->accumulate)
        memset(out, 0, (size_t)n * sizeof(*out));
    if (index >= 0 && index < shape->table_rows)
        for (int64_t i = 0; i < n; i++)
            out[i] += table[index * n + i];
    if (shape->second)
        for (int64_t i = 0; i < n; i++)
            out[i] += second[o->second_index[row] * n + i];
}

/* Workspace: for each row of the table the first row of the batch with that index, and for each row
 * of the batch the next one; the lists are in ascending order. Then a row of each part, for sums
 * that are rounded at the end. */
struct backward {
    const struct embedding_shape *shape;
    const struct embedding_backward_operands *o;
    int32_t *head, *next;
    float *sums;
    int64_t parts;
};

CPU_CLONES static void add_rows(const struct backward *b, int64_t t, float *out)
{
    int64_t n = b->shape->cols;

    for (int32_t row = b->head[t]; row >= 0; row = b->next[row])
        for (int64_t i = 0; i < n; i++)
            out[i] += ((const float *)b->o->dout)[row * n + i];
}

static void add_narrow_rows(const struct backward *b, int64_t t, float *sum)
{
    int64_t n = b->shape->cols;
    uint16_t *out = (uint16_t *)b->o->dtable + t * n;

    if (b->o->accumulate && b->head[t] < 0)
        return;
    for (int64_t i = 0; i < n; i++)
        sum[i] = b->o->accumulate ? bfloat_to_float(out[i]) : 0;
    add_rows(b, t, sum);
    for (int64_t i = 0; i < n; i++)
        out[i] = float_to_bfloat(sum[i]);
}

static void backward_part(void *context, int64_t part)
{
    const struct backward *b = context;
    int64_t n = b->shape->cols, end = cpu_part(b->shape->table_rows, b->parts, part + 1);

    for (int64_t t = cpu_part(b->shape->table_rows, b->parts, part); t < end; t++) {
        float *out = (float *)b->o->dtable + t * n;

        if (b->shape->gradient != TYPE_FP32) {
            add_narrow_rows(b, t, b->sums + part * n);
            continue;
        }
        if (!b->o->accumulate)
            memset(out, 0, (size_t)n * sizeof(*out));
        add_rows(b, t, out);
    }
}

static void work_embedding_backward(struct cpu_plan *plan, const void *operands)
{
    const struct embedding_shape *shape = &plan->operation.embedding;
    struct backward b = {.shape = shape,
                         .o = operands,
                         .head = plan->workspace,
                         .parts = 4 * threads_count(plan->threads)};

    b.next = b.head + shape->table_rows;
    b.sums = (float *)(b.next + shape->rows);
    for (int64_t t = 0; t < shape->table_rows; t++)
        b.head[t] = -1;
    for (int64_t row = shape->rows - 1; row >= 0; row--) {
        int64_t index = b.o->index[row] - shape->first;

        if (index < 0 || index >= shape->table_rows)
            continue;
        b.next[row] = b.head[index];
        b.head[index] = (int32_t)row;
    }
    threads_run(plan->threads, b.parts, backward_part, &b);
}

static void gather_row(void *context, int64_t row)
{
    const struct cpu_job *job = context;
    const struct gather_rows_operands *o = job->operands;
    const struct gather_rows_shape *shape = &job->plan->operation.gather_rows;
    size_t size = type_size(shape->type), bytes = (size_t)shape->cols * size;
    size_t from = (size_t)(shape->x_stride ? shape->x_stride : shape->cols) * size;
    size_t to = (size_t)(shape->out_stride ? shape->out_stride : shape->cols) * size;
    char *out = (char *)o->out;
    const char *x = o->x;
    int32_t index = o->index[row];

    if (index >= 0 && shape->scatter)
        memcpy(out + (size_t)index * to, x + (size_t)row * from, bytes);
    else if (index >= 0)
        memcpy(out + (size_t)row * to, x + (size_t)index * from, bytes);
    else if (!shape->scatter)
        memset(out + (size_t)row * to, 0, bytes);
}

int cpu_plan_embedding(struct cpu_plan *plan, struct error *err)
{
    const struct embedding_shape *shape = &plan->operation.embedding;
    int64_t sums;

    if (plan->operation.kind == OPERATION_GATHER_ROWS) {
        cpu_plan_parts(plan, plan->operation.gather_rows.rows, gather_row);
        return 0;
    }
    if (shape->type != TYPE_FP32 || !cpu_is_gradient_type(shape->gradient))
        return cpu_refuse_type(err);
    if (shape->rows > INT32_MAX || shape->table_rows > INT32_MAX)
        return error_set(
            err,
            "an embedding of %lld rows is too large for the CPU device; use a smaller vocabulary",
            (long long)shape->table_rows);
    if (plan->operation.kind == OPERATION_EMBEDDING) {
        cpu_plan_parts(plan, shape->rows, embedding_row);
        return 0;
    }
    plan->work = work_embedding_backward;
    sums = shape->gradient == TYPE_FP32 ? 0 : 4 * threads_count(plan->threads) * shape->cols;
    return cpu_workspace(plan,
                         (size_t)(shape->table_rows + shape->rows) * sizeof(int32_t) +
                             (size_t)sums * sizeof(float),
                         err);
}
