/* SPDX-License-Identifier: Apache-2.0 */
/* Adam and norms on flat arenas, and the rules of a step. */
#include "cpu.h"
#include "base/core/half.h"

#include <math.h>

#define BLOCK 16384 /* elements that a thread processes at a time, and of one partial sum */

struct job {
    struct cpu_plan *plan;
    const void *operands;
};

struct adam_constants {
    float beta1, beta2, epsilon, lr, factor, correction1, correction2;
};

/* Elements first .. last - 1 of the gradients, as fp32; 'wide' is memory for them if they are of
 * another type. */
static const float *gradients(const void *from, enum device_type type, int64_t first, int64_t last,
                              float *wide)
{
    const uint16_t *narrow = from;

    if (type == TYPE_FP32)
        return (const float *)from + first;
    for (int64_t i = first; i < last; i++)
        wide[i - first] = bfloat_to_float(narrow[i]);
    return wide;
}

/* The same for moments, which can be changed; see keep_moments. */
static float *moments(void *from, enum device_type type, int64_t first, int64_t last, float *wide)
{
    const uint16_t *narrow = from;

    if (type == TYPE_FP32)
        return (float *)from + first;
    for (int64_t i = first; i < last; i++)
        wide[i - first] = bfloat_to_float(narrow[i]);
    return wide;
}

static void keep_moments(void *to, enum device_type type, int64_t first, int64_t last,
                         const float *wide)
{
    uint16_t *narrow = to;

    for (int64_t i = first; type != TYPE_FP32 && i < last; i++)
        narrow[i] = float_to_bfloat(wide[i - first]);
}

/* The elements that a thread processes at a time, in fp32. */
struct part {
    const float *grad;
    float *master, *moment1, *moment2, *weights; /* weights: or NULL */
};

/* Update elements first .. last - 1 of a part. */
CPU_CLONES static void adam_range(const struct part *part, const struct adam_constants *k,
                                  float decay, int64_t first, int64_t last)
{
    const float *restrict grad = part->grad;
    float *restrict master = part->master, *restrict m1 = part->moment1,
                    *restrict m2 = part->moment2;
    float keep = 1.0f - k->lr * decay;

    for (int64_t i = first; i < last; i++) {
        float g = grad[i] * k->factor;
        float a = k->beta1 * m1[i] + (1.0f - k->beta1) * g;
        float b = k->beta2 * m2[i] + (1.0f - k->beta2) * g * g;
        float update = (a / k->correction1) / (sqrtf(b / k->correction2) + k->epsilon);

        m1[i] = a;
        m2[i] = b;
        master[i] = master[i] * keep - k->lr * update;
    }
    for (int64_t i = first; part->weights && i < last; i++)
        part->weights[i] = master[i];
}

CPU_CLONES static void sgd_range(const struct part *part, const struct adam_constants *k,
                                 float decay, int64_t first, int64_t last)
{
    const float *restrict grad = part->grad;
    float *restrict master = part->master, *restrict momentum = part->moment1;

    for (int64_t i = first; i < last; i++) {
        float g = grad[i] * k->factor + decay * master[i];

        momentum[i] = k->beta1 * momentum[i] + g;
        master[i] -= k->lr * momentum[i];
    }
    for (int64_t i = first; part->weights && i < last; i++)
        part->weights[i] = master[i];
}

static void adam_part(void *context, int64_t i)
{
    const struct job *job = context;
    const struct adam_operands *o = job->operands;
    const struct adam_shape *shape = &job->plan->operation.adam;
    struct adam_constants k = {
        .beta1 = (float)shape->beta1,
        .beta2 = (float)shape->beta2,
        .epsilon = (float)shape->epsilon,
        .lr = shape->decoupled ? o->state->decoupled_lr : o->state->lr,
        .factor = o->state->grad_factor,
        .correction1 = o->state->correction1,
        .correction2 = o->state->correction2,
    };
    int64_t first = i * BLOCK, last = first + BLOCK < shape->count ? first + BLOCK : shape->count;
    int64_t middle = shape->decayed < first ? first : shape->decayed > last ? last : shape->decayed;
    float wide[BLOCK], wide1[BLOCK], wide2[BLOCK];
    struct part part = {.grad = gradients(o->grad, shape->gradient, first, last, wide),
                        .master = o->master + first,
                        .weights = o->weights ? (float *)o->weights + first : NULL};

    part.moment1 = moments(o->moment1, shape->moment1, first, last, wide1);
    if (shape->kind == OPTIMIZER_SGD) {
        sgd_range(&part, &k, o->state->weight_decay, 0, middle - first);
        sgd_range(&part, &k, 0, middle - first, last - first);
        return;
    }
    part.moment2 = moments(o->moment2, shape->moment2, first, last, wide2);
    adam_range(&part, &k, o->state->weight_decay, 0, middle - first);
    adam_range(&part, &k, 0, middle - first, last - first);
    keep_moments(o->moment1, shape->moment1, first, last, wide1);
    keep_moments(o->moment2, shape->moment2, first, last, wide2);
    for (int64_t j = first; shape->half && j < last; j++)
        o->master[j] = half_to_float(float_to_half(o->master[j]));
}

static void work_adam(struct cpu_plan *plan, const void *operands)
{
    const struct adam_operands *o = operands;
    struct job job = {plan, operands};

    if (!o->state->skip)
        threads_run(plan->threads, (plan->operation.adam.count + BLOCK - 1) / BLOCK, adam_part,
                    &job);
}

CPU_CLONES static void square_sum_part(void *context, int64_t i)
{
    const struct job *job = context;
    const struct square_sum_operands *o = job->operands;
    int64_t count = job->plan->operation.square_sum.count;
    int64_t first = i * BLOCK, last = first + BLOCK < count ? first + BLOCK : count;
    float wide[BLOCK];
    const float *x = gradients(o->x, job->plan->operation.square_sum.type, first, last, wide);
    double lane[8] = {0}, total = 0;
    int64_t e = 0;

    for (; e + 8 <= last - first; e += 8)
        for (int l = 0; l < 8; l++)
            lane[l] += (double)x[e + l] * x[e + l];
    for (; e < last - first; e++)
        lane[0] += (double)x[e] * x[e];
    for (int l = 0; l < 8; l++)
        total += lane[l];
    ((double *)job->plan->workspace)[i] = total;
}

static void work_square_sum(struct cpu_plan *plan, const void *operands)
{
    const struct square_sum_operands *o = operands;
    struct job job = {plan, operands};
    int64_t blocks = (plan->operation.square_sum.count + BLOCK - 1) / BLOCK;
    const double *partial = plan->workspace;

    threads_run(plan->threads, blocks, square_sum_part, &job);
    for (int64_t i = 0; i < blocks; i++)
        *o->sum += partial[i];
}

static void work_step(struct cpu_plan *plan, const void *operands)
{
    const struct step_operands *o = operands;

    switch (plan->operation.step.phase) {
    case STEP_BEGIN:
        step_begin(o->state);
        break;
    case STEP_CLIP:
        step_clip(o->state, &plan->operation.step.rules);
        break;
    case STEP_END:
        step_end(o->state, &plan->operation.step.rules);
        break;
    case STEP_RESET:
        step_reset(o->state);
        break;
    }
}

int cpu_plan_optimizer(struct cpu_plan *plan, struct error *err)
{
    int64_t count = plan->operation.square_sum.count;

    switch (plan->operation.kind) {
    case OPERATION_ADAM:
        plan->work = work_adam;
        if (plan->operation.adam.type != TYPE_FP32 ||
            !cpu_is_gradient_type(plan->operation.adam.gradient))
            return cpu_refuse_type(err);
        return 0;
    case OPERATION_SQUARE_SUM:
        plan->work = work_square_sum;
        if (!cpu_is_gradient_type(plan->operation.square_sum.type))
            return cpu_refuse_type(err);
        return cpu_workspace(plan, (size_t)((count + BLOCK - 1) / BLOCK + 1) * sizeof(double), err);
    default:
        plan->work = work_step;
        return 0;
    }
}
