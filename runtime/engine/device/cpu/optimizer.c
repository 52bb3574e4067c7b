/* SPDX-License-Identifier: Apache-2.0 */
/* Adam, SGD, Muon and norms on flat arenas, and the rules of a step. */
#include "cpu.h"
#include "base/core/half.h"

#include <math.h>

struct adam_constants {
    float beta1, beta2, epsilon, lr, factor, correction1, correction2;
};

/* Elements first .. last - 1 of an array, as fp32: in place, or in 'wide' if they are bf16. */
static float *widen(const void *from, enum device_type type, int64_t first, int64_t last,
                    float *wide)
{
    const uint16_t *narrow = from;

    if (type == TYPE_FP32)
        return (float *)(uintptr_t)from + first;
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
    const struct cpu_job *job = context;
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
    int64_t first = i * CPU_BLOCK,
            last = first + CPU_BLOCK < shape->count ? first + CPU_BLOCK : shape->count;
    int64_t middle = shape->decayed < first ? first : shape->decayed > last ? last : shape->decayed;
    float wide[CPU_BLOCK], wide1[CPU_BLOCK], wide2[CPU_BLOCK];
    struct part part = {.grad = widen(o->grad, shape->gradient, first, last, wide),
                        .master = o->master + first,
                        .weights = o->weights ? (float *)o->weights + first : NULL};

    part.moment1 = widen(o->moment1, shape->moment1, first, last, wide1);
    if (shape->kind == OPTIMIZER_SGD) {
        sgd_range(&part, &k, o->state->weight_decay, 0, middle - first);
        sgd_range(&part, &k, 0, middle - first, last - first);
        return;
    }
    part.moment2 = widen(o->moment2, shape->moment2, first, last, wide2);
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

    if (!o->state->skip)
        cpu_run_parts(plan, operands, cpu_blocks(plan->operation.adam.count), adam_part);
}

/* --- The elementwise parts of Muon; its products are linear operations ---------------------------
 */

CPU_CLONES static void momentum_range(const struct cpu_job *job, int64_t first, int64_t last)
{
    const struct muon_shape *shape = &job->plan->operation.muon;
    const struct muon_operands *o = job->operands;
    float *restrict x = o->x, *restrict moment = o->moment;
    float factor = o->state->grad_factor, beta = (float)shape->momentum;
    float rest = (float)(1 - shape->momentum);

    for (int64_t i = first; i < last; i++) {
        float g = x[i] * factor, m = moment[i] + rest * (g - moment[i]);

        moment[i] = m;
        x[i] = shape->nesterov ? g + beta * (m - g) : m;
    }
}

CPU_CLONES static void normalize_range(const struct cpu_job *job, int64_t first, int64_t last)
{
    const struct muon_operands *o = job->operands;
    const float *x = o->x;
    float *y = o->y, by = (float)(1 / fmax(sqrt(*o->square_sum), 1e-7));

    for (int64_t i = first; i < last; i++)
        y[i] = x[i] * by;
}

CPU_CLONES static void update_range(const struct cpu_job *job, int64_t first, int64_t last)
{
    const struct muon_operands *o = job->operands;
    const float *restrict x = o->x;
    float *restrict master = o->master;
    float lr = o->state->lr, keep = 1.0f - lr * o->state->weight_decay;

    for (int64_t i = first; i < last; i++)
        master[i] = master[i] * keep - lr * x[i];
    if (o->weights)
        for (int64_t i = first; i < last; i++)
            ((float *)o->weights)[i] = master[i];
}

static void muon_part(void *context, int64_t i)
{
    const struct cpu_job *job = context;
    int64_t count = job->plan->operation.muon.count, first = i * CPU_BLOCK;
    int64_t last = first + CPU_BLOCK < count ? first + CPU_BLOCK : count;

    switch (job->plan->operation.muon.part) {
    case MUON_MOMENTUM:
        momentum_range(job, first, last);
        break;
    case MUON_NORMALIZE:
        normalize_range(job, first, last);
        break;
    case MUON_UPDATE:
        update_range(job, first, last);
        break;
    }
}

static void work_muon(struct cpu_plan *plan, const void *operands)
{
    const struct muon_operands *o = operands;

    if (plan->operation.muon.part == MUON_NORMALIZE || !o->state->skip)
        cpu_run_parts(plan, operands, cpu_blocks(plan->operation.muon.count), muon_part);
}

/* --- Norms and steps ---------------------------------------------------------------------------
 */

CPU_CLONES static void square_sum_part(void *context, int64_t i)
{
    const struct cpu_job *job = context;
    const struct square_sum_operands *o = job->operands;
    int64_t count = job->plan->operation.square_sum.count;
    int64_t first = i * CPU_BLOCK, last = first + CPU_BLOCK < count ? first + CPU_BLOCK : count;
    float wide[CPU_BLOCK];
    const float *x = widen(o->x, job->plan->operation.square_sum.type, first, last, wide);
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
    int64_t blocks = cpu_blocks(plan->operation.square_sum.count);
    const double *partial = plan->workspace;

    cpu_run_parts(plan, operands, blocks, square_sum_part);
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
    case OPERATION_MUON:
        plan->work = work_muon;
        return plan->operation.muon.type == TYPE_FP32 ? 0 : cpu_refuse_type(err);
    case OPERATION_SQUARE_SUM:
        plan->work = work_square_sum;
        if (!cpu_is_gradient_type(plan->operation.square_sum.type))
            return cpu_refuse_type(err);
        return cpu_workspace(plan, (size_t)(cpu_blocks(count) + 1) * sizeof(double), err);
    default:
        plan->work = work_step;
        return 0;
    }
}
