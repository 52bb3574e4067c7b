/* SPDX-License-Identifier: Apache-2.0 */
/* The elementwise parts of Muon; its products are linear operations. */
#include "cpu.h"

#include <math.h>

#define BLOCK 16384 /* elements that a thread processes at a time */

struct job {
    const struct muon_shape *shape;
    const struct muon_operands *operands;
};

CPU_CLONES static void momentum_range(const struct job *job, int64_t first, int64_t last)
{
    float *restrict x = job->operands->x, *restrict moment = job->operands->moment;
    float factor = job->operands->state->grad_factor, beta = (float)job->shape->momentum;
    float rest = (float)(1 - job->shape->momentum);

    for (int64_t i = first; i < last; i++) {
        float g = x[i] * factor, m = moment[i] + rest * (g - moment[i]);

        moment[i] = m;
        x[i] = job->shape->nesterov ? g + beta * (m - g) : m;
    }
}

CPU_CLONES static void normalize_range(const struct job *job, int64_t first, int64_t last)
{
    const float *x = job->operands->x;
    float *y = job->operands->y, by = (float)(1 / fmax(sqrt(*job->operands->square_sum), 1e-7));

    for (int64_t i = first; i < last; i++)
        y[i] = x[i] * by;
}

CPU_CLONES static void update_range(const struct job *job, int64_t first, int64_t last)
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
    const struct job *job = context;
    int64_t count = job->shape->count, first = i * BLOCK;
    int64_t last = first + BLOCK < count ? first + BLOCK : count;

    switch (job->shape->part) {
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
    struct job job = {&plan->operation.muon, operands};

    if (job.shape->part == MUON_NORMALIZE || !job.operands->state->skip)
        threads_run(plan->threads, (job.shape->count + BLOCK - 1) / BLOCK, muon_part, &job);
}

int cpu_plan_muon(struct cpu_plan *plan, struct error *err)
{
    plan->work = work_muon;
    return plan->operation.muon.type == TYPE_FP32 ? 0 : cpu_refuse_type(err);
}
