/* SPDX-License-Identifier: Apache-2.0 */
/* Casts to fp8, and the scales of the next step: the reference for the kernels of a GPU. */
#include "cpu.h"
#include "fp8.h"

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

/* Bits of numbers that are not negative are ordered as the numbers are, with NaN last. */
static uint32_t magnitude(float x)
{
    uint32_t bits;

    memcpy(&bits, &x, sizeof(bits));
    return bits & 0x7fffffffu;
}

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
        uint32_t bits = magnitude(x[i]);

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
    if (o->amax && largest > magnitude(*o->amax))
        *o->amax = float_of(largest);
    *o->inverse = 1.0f / job.scale;
    threads_run(plan->threads, parts, cast_part, &job);
    if (shape->bias)
        cpu_column_sums(plan->threads, job.x, shape->rows, shape->cols, o->dbias, o->accumulate);
}

static void work_quantize(struct cpu_plan *plan, const void *operands)
{
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

int cpu_plan_quantize(struct cpu_plan *plan, struct error *err)
{
    const struct quantize_shape *shape = &plan->operation.quantize;

    if (plan->operation.kind == OPERATION_SCALING) {
        plan->work = work_scaling;
        return 0;
    }
    if (shape->from == shape->to && type_is_fp8(shape->to) && shape->source == QUANTIZE_MATRIX &&
        !shape->bias) {
        plan->work = work_transpose;
        return 0;
    }
    if (shape->from != TYPE_FP32 || !type_is_fp8(shape->to))
        return cpu_refuse_type(err);
    plan->work = work_quantize;
    return cpu_workspace(
        plan,
        sizeof(float) *
            (size_t)(parts_of(shape) +
                     (shape->source == QUANTIZE_MATRIX ? 0 : shape->rows * shape->cols)),
        err);
}
