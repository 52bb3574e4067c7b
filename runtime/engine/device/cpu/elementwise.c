/* SPDX-License-Identifier: Apache-2.0 */
/* Operations on independent elements or rows. */
#include "cpu.h"
#include "base/core/half.h"
#include "math.h"
#include "base/core/rng.h"

#include <math.h>
#include <string.h>

enum { ROPE_ROWS = 16 }; /* of a part */

/* Bounds of block i of 'count' items. */
#define BOUNDS(count, block) \
    int64_t first = i * (block), last = first + (block) < (count) ? first + (block) : (count)

CPU_CLONES static void activation_part(void *context, int64_t i)
{
    const struct cpu_job *job = context;
    const struct activation_operands *o = job->operands;
    const struct activation_shape *shape = &job->plan->operation.activation;
    BOUNDS(shape->count, CPU_BLOCK);
    const float *x = o->x;
    float *y = o->y;

    if (shape->activation == ACTIVATION_NONE)
        memmove(y + first, x + first, (size_t)(last - first) * sizeof(*y));
    else if (shape->activation == ACTIVATION_GELU_TANH)
        for (int64_t e = first; e < last; e++)
            y[e] = gelu_tanh(x[e]);
    else if (shape->activation == ACTIVATION_GELU_ERF)
        for (int64_t e = first; e < last; e++)
            y[e] = gelu_erf(x[e]);
    else if (shape->activation == ACTIVATION_SQUARED_RELU)
        for (int64_t e = first; e < last; e++)
            y[e] = squared_relu(x[e]);
    else
        for (int64_t e = first; e < last; e++)
            y[e] = fast_tanh(x[e]);
}

CPU_CLONES static void activation_backward_part(void *context, int64_t i)
{
    const struct cpu_job *job = context;
    const struct activation_operands *o = job->operands;
    const struct activation_shape *shape = &job->plan->operation.activation;
    BOUNDS(shape->count, CPU_BLOCK);
    const float *x = o->x, *dy = o->dy;
    float *y = o->y;

    if (shape->activation == ACTIVATION_NONE)
        memmove(y + first, dy + first, (size_t)(last - first) * sizeof(*y));
    else if (shape->activation == ACTIVATION_GELU_TANH)
        for (int64_t e = first; e < last; e++)
            y[e] = dy[e] * gelu_tanh_derivative(x[e]);
    else if (shape->activation == ACTIVATION_GELU_ERF)
        for (int64_t e = first; e < last; e++)
            y[e] = dy[e] * gelu_erf_derivative(x[e]);
    else if (shape->activation == ACTIVATION_SQUARED_RELU)
        for (int64_t e = first; e < last; e++)
            y[e] = dy[e] * squared_relu_derivative(x[e]);
    else
        for (int64_t e = first; e < last; e++) {
            float t = fast_tanh(x[e]);

            y[e] = dy[e] * (1.0f - t * t);
        }
}

CPU_CLONES static void rope_part(void *context, int64_t i)
{
    const struct cpu_job *job = context;
    const struct rope_operands *o = job->operands;
    const struct rope_shape *shape = &job->plan->operation.rope;
    int64_t half = shape->rotary / 2;
    BOUNDS(shape->rows, ROPE_ROWS);

    for (int64_t row = first; row < last; row++) {
        const float *cosine = o->cosine + o->positions[row] * half;
        const float *sine = o->sine + o->positions[row] * half;

        for (int64_t head = 0; head < shape->heads; head++) {
            float *a = (float *)o->x + row * shape->row_stride + head * shape->head_size;
            float *b = a + half;

            for (int64_t c = 0; c < half; c++) {
                float s = shape->backward ? -sine[c] : sine[c];
                float u = a[c], v = b[c];

                a[c] = u * cosine[c] - v * s;
                b[c] = v * cosine[c] + u * s;
            }
        }
    }
}

CPU_CLONES static void swiglu_part(void *context, int64_t row)
{
    const struct cpu_job *job = context;
    const struct swiglu_operands *o = job->operands;
    int64_t n = job->plan->operation.swiglu.cols;
    const float *gate = (const float *)o->x + row * 2 * n, *up = gate + n;
    float *y = (float *)o->y + row * n;

    if (job->plan->operation.swiglu.gate == GATE_SILU)
        for (int64_t i = 0; i < n; i++)
            y[i] = gate[i] * sigmoid(gate[i]) * up[i];
    else if (job->plan->operation.swiglu.gate == GATE_GELU_TANH)
        for (int64_t i = 0; i < n; i++)
            y[i] = gelu_tanh(gate[i]) * up[i];
    else
        for (int64_t i = 0; i < n; i++)
            y[i] = quick_gelu(gate[i]) * up[i];
}

CPU_CLONES static void swiglu_backward_part(void *context, int64_t row)
{
    const struct cpu_job *job = context;
    const struct swiglu_backward_operands *o = job->operands;
    int64_t n = job->plan->operation.swiglu.cols;
    const float *dy = (const float *)o->dy + row * n;
    const float *gate = (const float *)o->x + row * 2 * n, *up = gate + n;
    float *dgate = (float *)o->dx + row * 2 * n, *dup = dgate + n;

    if (job->plan->operation.swiglu.gate == GATE_SILU)
        for (int64_t i = 0; i < n; i++) {
            float g = gate[i], u = up[i], d = dy[i], s = sigmoid(g);

            dup[i] = d * g * s;
            dgate[i] = d * u * s * (1.0f + g * (1.0f - s));
        }
    else if (job->plan->operation.swiglu.gate == GATE_GELU_TANH)
        for (int64_t i = 0; i < n; i++) {
            float g = gate[i], u = up[i], d = dy[i];

            dup[i] = d * gelu_tanh(g);
            dgate[i] = d * u * gelu_tanh_derivative(g);
        }
    else
        for (int64_t i = 0; i < n; i++) {
            float g = gate[i], u = up[i], d = dy[i];

            dup[i] = d * quick_gelu(g);
            dgate[i] = d * u * quick_gelu_derivative(g);
        }
}

CPU_CLONES static void add_part(void *context, int64_t i)
{
    const struct cpu_job *job = context;
    const struct add_operands *o = job->operands;
    BOUNDS(job->plan->operation.add.count, CPU_BLOCK);
    const float *x = o->x;
    float *y = o->y;

    for (int64_t e = first; e < last; e++)
        y[e] += x[e];
}

CPU_CLONES static void scale_part(void *context, int64_t i)
{
    const struct cpu_job *job = context;
    const struct scale_operands *o = job->operands;
    float *x = o->x, factor = (float)job->plan->operation.scale.factor;
    BOUNDS(job->plan->operation.scale.count, CPU_BLOCK);

    for (int64_t e = first; e < last; e++)
        x[e] *= factor;
}

CPU_CLONES static void softcap_part(void *context, int64_t i)
{
    const struct cpu_job *job = context;
    const struct softcap_operands *o = job->operands;
    float *x = o->x, cap = (float)job->plan->operation.softcap.cap;
    BOUNDS(job->plan->operation.softcap.count, CPU_BLOCK);

    for (int64_t e = first; e < last; e++)
        x[e] = cap * tanhf(x[e] / cap);
}

CPU_CLONES static void clip_part(void *context, int64_t i)
{
    const struct cpu_job *job = context;
    const struct clip_shape *shape = &job->plan->operation.clip;
    const struct clip_operands *o = job->operands;
    const float *x = o->x, limit = (float)shape->limit;
    float *y = o->y;
    BOUNDS(shape->count, CPU_BLOCK);

    for (int64_t e = first; e < last && !shape->backward; e++)
        y[e] = x[e] > limit ? limit : x[e] < -limit ? -limit : x[e];
    for (int64_t e = first; e < last && shape->backward; e++)
        y[e] = x[e] > limit || x[e] < -limit ? 0.0f : y[e];
}

static void narrow_part(void *context, int64_t i)
{
    const struct cpu_job *job = context;
    const struct convert_operands *o = job->operands;
    int64_t count = job->plan->operation.convert.count;
    BOUNDS(count, o->to == o->from ? count : CPU_BLOCK);

    for (int64_t e = first; e < last; e++)
        ((uint16_t *)o->to)[e] = float_to_bfloat(((const float *)o->from)[e]);
}

static void work_convert(struct cpu_plan *plan, const void *operands)
{
    const struct convert_operands *o = operands;

    if (plan->operation.convert.to == TYPE_BF16) {
        /* In place each element must be read before earlier ones are written over it. */
        cpu_run_parts(plan, operands,
                      o->to == o->from ? 1 : cpu_blocks(plan->operation.convert.count),
                      narrow_part);
        return;
    }
    memmove(o->to, o->from, (size_t)plan->operation.convert.count * sizeof(float));
    for (int64_t i = 0; plan->operation.convert.half && i < plan->operation.convert.count; i++)
        ((float *)o->to)[i] = half_to_float(float_to_half(((float *)o->to)[i]));
}

static void normal_part(void *context, int64_t row)
{
    const struct cpu_job *job = context;
    const struct normal_operands *o = job->operands;
    const struct normal_shape *shape = &job->plan->operation.normal;
    uint64_t first = (uint64_t)((shape->first_row + row) * shape->all_cols + shape->first_col);
    float *out = o->out + row * shape->cols;
    double pair[2];

    for (int64_t i = 0; i < shape->cols; i++) {
        uint64_t element = first + (uint64_t)i;

        if (i == 0 || element % 2 == 0)
            rng_normal(o->seed, o->purpose, 0, element / 2, pair);
        out[i] = (float)(shape->deviation * pair[element % 2]);
    }
}

static void work_fill(struct cpu_plan *plan, const void *operands)
{
    const struct fill_operands *o = operands;
    const struct fill_shape *shape = &plan->operation.fill;

    if (shape->value == 0)
        memset(o->out, 0, (size_t)shape->count * type_size(shape->type));
    else
        for (int64_t i = 0; i < shape->count; i++)
            ((float *)o->out)[i] = (float)shape->value;
}

/* The type of both operands; if they differ, a type that is rejected. */
static enum device_type one_type(enum device_type from, enum device_type to)
{
    return from == to ? to : TYPE_BF16;
}

int cpu_plan_elementwise(struct cpu_plan *plan, struct error *err)
{
    const struct operation *op = &plan->operation;
    enum device_type type = TYPE_FP32;

    switch (op->kind) {
    case OPERATION_ACTIVATION:
        cpu_plan_parts(plan, cpu_blocks(op->activation.count),
                       op->activation.backward ? activation_backward_part : activation_part);
        type = one_type(op->activation.type, op->activation.y_type);
        break;
    case OPERATION_ROPE:
        cpu_plan_parts(plan, (op->rope.rows + ROPE_ROWS - 1) / ROPE_ROWS, rope_part);
        type = op->rope.type;
        break;
    case OPERATION_SWIGLU:
    case OPERATION_SWIGLU_BACKWARD:
        cpu_plan_parts(plan, op->swiglu.rows,
                       op->kind == OPERATION_SWIGLU ? swiglu_part : swiglu_backward_part);
        type = one_type(op->swiglu.type, op->swiglu.y_type);
        break;
    case OPERATION_ADD:
        cpu_plan_parts(plan, cpu_blocks(op->add.count), add_part);
        type = op->add.type;
        break;
    case OPERATION_SCALE:
        cpu_plan_parts(plan, cpu_blocks(op->scale.count), scale_part);
        type = op->scale.type;
        break;
    case OPERATION_SOFTCAP:
        cpu_plan_parts(plan, cpu_blocks(op->softcap.count), softcap_part);
        type = op->softcap.type;
        break;
    case OPERATION_CLIP:
        cpu_plan_parts(plan, cpu_blocks(op->clip.count), clip_part);
        type = op->clip.type;
        break;
    case OPERATION_CONVERT:
        plan->work = work_convert;
        if (op->convert.from != TYPE_FP32 || op->convert.to != TYPE_BF16)
            type = one_type(op->convert.from, op->convert.to);
        break;
    case OPERATION_NORMAL:
        cpu_plan_parts(plan, op->normal.rows, normal_part);
        break;
    default:
        plan->work = work_fill;
        type = op->fill.value == 0 ? TYPE_FP32 : op->fill.type;
        break;
    }
    if (type != TYPE_FP32)
        return cpu_refuse_type(err);
    return 0;
}
