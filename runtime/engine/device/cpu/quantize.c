/* SPDX-License-Identifier: Apache-2.0 */
/* Casts to fp8, and the scales of the next step: the reference for the kernels of a GPU. */
#include "cpu.h"
#include "engine/device/fp8.h"

#include <math.h>
#include <string.h>

enum { ROWS = 64 }; /* that a thread processes at a time */

struct job {
    const struct quantize_shape *shape;
    const float *x; /* the matrix to cast */
    uint8_t *rows, *columns;
    float scale;
    uint32_t *largest; /* of each part: the bits of the largest magnitude */
};

static int64_t last_row(const struct quantize_shape *shape, int64_t part)
{
    return (part + 1) * ROWS < shape->rows ? (part + 1) * ROWS : shape->rows;
}

static void amax_part(void *context, int64_t part)
{
    const struct job *job = context;
    const float *x = job->x;
    int64_t last = last_row(job->shape, part) * job->shape->cols;
    uint32_t largest = 0;

    for (int64_t i = part * ROWS * job->shape->cols; i < last; i++) {
        uint32_t bits = cpu_magnitude(x[i]);

        largest = bits > largest ? bits : largest;
    }
    job->largest[part] = largest;
}

static void cast_part(void *context, int64_t part)
{
    const struct job *job = context;
    const struct quantize_shape *shape = job->shape;
    const float *x = job->x;
    uint8_t *rows = job->rows, *columns = job->columns;

    for (int64_t r = part * ROWS; r < last_row(shape, part); r++)
        for (int64_t c = 0; c < shape->cols; c++) {
            uint8_t byte = fp8_encode(x[r * shape->cols + c] * job->scale, shape->to);

            if (rows)
                rows[r * shape->cols + c] = byte;
            if (columns)
                columns[c * shape->rows + r] = byte;
        }
}

static float float_of(uint32_t bits)
{
    float number;

    memcpy(&number, &bits, sizeof(number));
    return number;
}

static int64_t parts_of(const struct quantize_shape *shape)
{
    return (shape->rows + ROWS - 1) / ROWS;
}

/* The matrix to cast: x, or the result of the operation that produces it, in the workspace. */
static const float *matrix_of(struct cpu_plan *plan, const struct quantize_operands *o)
{
    const struct quantize_shape *s = &plan->operation.quantize;
    float *out = (float *)plan->workspace + parts_of(s);
    int gradient = s->source == QUANTIZE_ACTIVATION_GRADIENT || s->source == QUANTIZE_GATE_GRADIENT;
    struct cpu_plan inner = *plan;
    struct error ignored; /* all are fp32 */

    if (s->source == QUANTIZE_MATRIX)
        return o->x;
    if (s->source == QUANTIZE_GATE || s->source == QUANTIZE_GATE_GRADIENT) {
        inner.operation = (struct operation){
            .kind = gradient ? OPERATION_SWIGLU_BACKWARD : OPERATION_SWIGLU,
            .swiglu = {s->rows, gradient ? s->cols / 2 : s->cols, s->from, s->from, s->gate}};
        cpu_plan_elementwise(&inner, &ignored);
        if (gradient)
            inner.work(&inner,
                       &(struct swiglu_backward_operands){.dy = o->dy, .x = o->x, .dx = out});
        else
            inner.work(&inner, &(struct swiglu_operands){.x = o->x, .y = out});
        return out;
    }
    inner.operation = (struct operation){
        .kind = OPERATION_ACTIVATION,
        .activation = {s->rows * s->cols, s->from, s->from, s->activation, gradient}};
    cpu_plan_elementwise(&inner, &ignored);
    inner.work(&inner, &(struct activation_operands){.x = o->x, .y = out, .dy = o->dy});
    return out;
}

static void transpose_part(void *context, int64_t part)
{
    const struct job *job = context;
    const struct quantize_shape *shape = job->shape;

    for (int64_t r = part * ROWS; r < last_row(shape, part); r++)
        for (int64_t c = 0; c < shape->cols; c++)
            job->columns[c * shape->rows + r] = job->rows[r * shape->cols + c];
}

static void work_transpose(struct cpu_plan *plan, const void *operands)
{
    const struct quantize_shape *shape = &plan->operation.quantize;
    const struct quantize_operands *o = operands;
    struct job job = {.shape = shape, .rows = (uint8_t *)(uintptr_t)o->x, .columns = o->columns};

    threads_run(plan->threads, parts_of(shape), transpose_part, &job);
}

size_t cpu_cast_workspace(const struct quantize_shape *shape)
{
    return (size_t)parts_of(shape) * sizeof(uint32_t);
}

void cpu_cast(struct cpu_plan *plan, const struct quantize_shape *shape, const float *matrix,
              const struct quantize_operands *o)
{
    int64_t parts = parts_of(shape);
    struct job job = {shape, matrix, o->rows, o->columns, *o->scale, plan->workspace};
    uint32_t largest = 0;

    threads_run(plan->threads, parts, amax_part, &job);
    for (int64_t i = 0; i < parts; i++)
        largest = job.largest[i] > largest ? job.largest[i] : largest;
    if (job.scale == 0)
        job.scale = scaling_factor(float_of(largest), fp8_largest(shape->to), shape->margin, 1);
    if (o->amax && largest > cpu_magnitude(*o->amax))
        *o->amax = float_of(largest);
    if (o->inverse)
        *o->inverse = 1.0f / job.scale;
    if (o->rows || o->columns)
        threads_run(plan->threads, parts, cast_part, &job);
    if (shape->bias)
        cpu_column_sums(plan->threads, job.x, shape->rows, shape->cols, o->dbias, o->accumulate);
}

/* --- Blockwise scales ------------------------------------------------------------------------- */

struct blocks_job {
    const struct quantize_shape *shape;
    const float *x;
    const struct quantize_operands *o;
    uint32_t *largest; /* of each band of SCALING_BLOCK rows */
};

static uint32_t largest_of(const float *x, int64_t rows, int64_t cols, int64_t stride)
{
    uint32_t largest = 0;

    for (int64_t r = 0; r < rows; r++)
        for (int64_t c = 0; c < cols; c++) {
            uint32_t bits = cpu_magnitude(x[r * stride + c]);

            largest = bits > largest ? bits : largest;
        }
    return largest;
}

/* A block of 'rows', with its place in the matrix. */
static void cast_rows(const struct blocks_job *job, int64_t row, int64_t col, int64_t rows,
                      float scale)
{
    const struct quantize_shape *s = job->shape;
    uint8_t *to = job->o->rows;

    job->o->inverse[scaling_place(s->part, s->rows, s->cols, row, col)] = 1.0f / scale;
    for (int64_t r = row; r < row + rows; r++)
        for (int64_t c = col; c < col + SCALING_BLOCK; c++)
            to[r * s->cols + c] = fp8_encode(job->x[r * s->cols + c] * scale, s->to);
}

/* A block of 'columns', whose rows are columns of the matrix. */
static void cast_columns(const struct blocks_job *job, int64_t row, int64_t col, int64_t cols,
                         float scale)
{
    const struct quantize_shape *s = job->shape;
    uint8_t *to = job->o->columns;

    job->o->columns_inverse[scaling_place(s->part, s->cols, s->rows, col, row)] = 1.0f / scale;
    for (int64_t c = col; c < col + cols; c++)
        for (int64_t r = row; r < row + SCALING_BLOCK; r++)
            to[c * s->rows + r] = fp8_encode(job->x[r * s->cols + c] * scale, s->to);
}

/* The blocks of 128 x 128 elements from (row, col) on: one square, or vectors both ways. */
static void cast_square(const struct blocks_job *job, int64_t row, int64_t col)
{
    const struct quantize_shape *s = job->shape;
    const float *x = job->x + row * s->cols + col, largest = fp8_largest(s->to);
    int64_t height = s->part == SCALED_SQUARES ? SCALING_BLOCK : 1;

    for (int64_t i = 0; i < SCALING_BLOCK && job->o->rows; i += height)
        cast_rows(
            job, row + i, col, height,
            scaling_block_factor(
                float_of(largest_of(x + i * s->cols, height, SCALING_BLOCK, s->cols)), largest));
    for (int64_t i = 0; i < SCALING_BLOCK && job->o->columns; i += height)
        cast_columns(job, row, col + i, height,
                     scaling_block_factor(
                         float_of(largest_of(x + i, SCALING_BLOCK, height, s->cols)), largest));
}

static void blocks_part(void *context, int64_t band)
{
    const struct blocks_job *job = context;
    const struct quantize_shape *s = job->shape;
    int64_t row = band * SCALING_BLOCK;

    job->largest[band] = largest_of(job->x + row * s->cols, SCALING_BLOCK, s->cols, s->cols);
    for (int64_t col = 0; col < s->cols; col += SCALING_BLOCK)
        cast_square(job, row, col);
}

static void cast_blocks(struct cpu_plan *plan, const float *matrix,
                        const struct quantize_operands *o)
{
    const struct quantize_shape *s = &plan->operation.quantize;
    struct blocks_job job = {s, matrix, o, plan->workspace};
    int64_t bands = s->rows / SCALING_BLOCK;

    threads_run(plan->threads, bands, blocks_part, &job);
    for (int64_t i = 0; i < bands && o->amax; i++)
        if (job.largest[i] > cpu_magnitude(*o->amax))
            *o->amax = float_of(job.largest[i]);
    if (s->bias)
        cpu_column_sums(plan->threads, matrix, s->rows, s->cols, o->dbias, o->accumulate);
}

static int blocks_fit(const struct quantize_shape *s)
{
    int64_t cols = s->source == QUANTIZE_GATE_GRADIENT ? 2 * SCALING_BLOCK : SCALING_BLOCK;

    return s->part == SCALED_WHOLE || (s->rows % SCALING_BLOCK == 0 && s->cols % cols == 0);
}

static void work_quantize(struct cpu_plan *plan, const void *operands)
{
    if (plan->operation.quantize.part != SCALED_WHOLE) {
        cast_blocks(plan, matrix_of(plan, operands), operands);
        return;
    }
    cpu_cast(plan, &plan->operation.quantize, matrix_of(plan, operands), operands);
}

static void work_scaling(struct cpu_plan *plan, const void *operands)
{
    const struct scaling_rules *rules = &plan->operation.scaling.rules;
    const struct scaling_operands *o = operands;
    int overflow = 0;

    for (int64_t i = 0; i < rules->count; i++)
        overflow |= scaling_end(rules, i, *o->position, o->scale, o->amax, o->history);
    *o->position = (int32_t)((*o->position + 1) % rules->length);
    if (!overflow)
        return;
    o->state->norm_squared = INFINITY;
    o->state->overflows++;
}

static void work_weight_scales(struct cpu_plan *plan, const void *operands)
{
    const struct weight_scales_shape *s = &plan->operation.weight_scales;
    const struct weight_scales_operands *o = operands;

    for (int64_t i = SCALED_WEIGHT; i < s->count; i += SCALED_TENSORS) {
        o->used[i] = scaling_weight(o->scale[i], o->amax[i], s->margin);
        o->inverse[i * s->stride] = 1.0f / o->used[i];
    }
}

int cpu_plan_quantize(struct cpu_plan *plan, struct error *err)
{
    const struct quantize_shape *shape = &plan->operation.quantize;

    if (plan->operation.kind != OPERATION_QUANTIZE) {
        plan->work = plan->operation.kind == OPERATION_SCALING ? work_scaling : work_weight_scales;
        return 0;
    }
    if (!blocks_fit(shape))
        return error_bug(err, "a cast to fp8 with blockwise scales needs multiples of %d",
                         SCALING_BLOCK);
    if (shape->from == shape->to && type_is_fp8(shape->to) && shape->source == QUANTIZE_MATRIX &&
        !shape->bias && shape->part == SCALED_WHOLE) {
        plan->work = work_transpose;
        return 0;
    }
    if (shape->from != TYPE_FP32 || !type_is_fp8(shape->to))
        return cpu_refuse_type(err);
    plan->work = work_quantize;
    return cpu_shared_workspace(
        plan,
        sizeof(float) *
            (size_t)(parts_of(shape) +
                     (shape->source == QUANTIZE_MATRIX ? 0 : shape->rows * shape->cols)),
        err);
}
