/* SPDX-License-Identifier: Apache-2.0 */
/* Norms of query and key heads within packed projections, and their gradient. */
#include "cpu.h"
#include "math.h"

#include <math.h>
#include <string.h>

/* Rows of a thread at a time, and of one partial sum of the weights' gradients: sums do not depend
 * on the number of threads. */
#define BLOCK_ROWS 64

struct job {
    const struct head_norm_shape *shape;
    const struct head_norm_operands *forward;
    const struct head_norm_backward_operands *backward;
    float *partial; /* (blocks, 2, widths): dweight of queries and keys, dbias of both */
};

static int64_t columns(const struct head_norm_shape *s)
{
    return s->counts[0] * s->widths[0] + s->counts[1] * s->widths[1] + s->rest;
}

static int64_t blocks_of(const struct head_norm_shape *s)
{
    return (s->rows + BLOCK_ROWS - 1) / BLOCK_ROWS;
}

static void normalize(const struct job *job, int which, int64_t vector, const float *x, float *y)
{
    const struct head_norm_shape *s = job->shape;
    const struct head_norm_operands *o = job->forward;
    const float *weight = o->weight[which], *bias = o->bias[which];
    int64_t n = s->widths[which];
    float mean = 0, squares = 0, rstd, one = s->add_one ? 1 : 0;

    if (s->norm == NORM_LAYER)
        mean = vector_sum(x, n) / (float)n;
    for (int64_t i = 0; i < n; i++)
        squares += (x[i] - mean) * (x[i] - mean);
    rstd = 1.0f / sqrtf(squares / (float)n + (float)s->epsilon);
    for (int64_t i = 0; i < n; i++)
        y[i] = (x[i] - mean) * rstd * (weight[i] + one) + (s->norm == NORM_LAYER ? bias[i] : 0.0f);
    o->rstd[vector] = rstd;
    if (s->norm == NORM_LAYER)
        o->mean[vector] = mean;
}

CPU_CLONES static void forward_block(void *context, int64_t block)
{
    const struct job *job = context;
    const struct head_norm_shape *s = job->shape;
    int64_t end = (block + 1) * BLOCK_ROWS, cols = columns(s);

    for (int64_t row = block * BLOCK_ROWS; row < end && row < s->rows; row++) {
        const float *x = (const float *)job->forward->x + row * cols;
        float *y = (float *)job->forward->y + row * cols;
        int64_t vector = row * (s->counts[0] + s->counts[1]);

        for (int which = 0; which < 2; which++)
            for (int64_t i = 0; i < s->counts[which]; i++) {
                normalize(job, which, vector++, x, y);
                x += s->widths[which];
                y += s->widths[which];
            }
        memcpy(y, x, (size_t)s->rest * sizeof(*y));
    }
}

static void differentiate(const struct job *job, int which, int64_t vector, const float *x,
                          float *d, float *dweight, float *dbias)
{
    const struct head_norm_shape *s = job->shape;
    const struct head_norm_backward_operands *o = job->backward;
    const float *weight = o->weight[which];
    int64_t n = s->widths[which];
    float rstd = o->rstd[vector], mean = s->norm == NORM_LAYER ? o->mean[vector] : 0;
    float sum = 0, sum_x = 0, one = s->add_one ? 1 : 0;

    for (int64_t i = 0; i < n; i++) {
        float normal = (x[i] - mean) * rstd, g = d[i] * (weight[i] + one);

        dweight[i] += d[i] * normal;
        dbias[i] += d[i];
        sum += g;
        sum_x += g * normal;
    }
    sum = s->norm == NORM_LAYER ? sum / (float)n : 0;
    sum_x /= (float)n;
    for (int64_t i = 0; i < n; i++)
        d[i] = (d[i] * (weight[i] + one) - sum - (x[i] - mean) * rstd * sum_x) * rstd;
}

CPU_CLONES static void backward_block(void *context, int64_t block)
{
    const struct job *job = context;
    const struct head_norm_shape *s = job->shape;
    int64_t end = (block + 1) * BLOCK_ROWS, cols = columns(s), widths = s->widths[0] + s->widths[1];
    float *partial = job->partial + block * 2 * widths;

    memset(partial, 0, (size_t)(2 * widths) * sizeof(*partial));
    for (int64_t row = block * BLOCK_ROWS; row < end && row < s->rows; row++) {
        const float *x = (const float *)job->backward->x + row * cols;
        float *d = (float *)job->backward->d + row * cols;
        int64_t vector = row * (s->counts[0] + s->counts[1]);

        for (int which = 0; which < 2; which++)
            for (int64_t i = 0; i < s->counts[which]; i++) {
                float *dweight = partial + (which ? s->widths[0] : 0);

                differentiate(job, which, vector++, x, d, dweight, dweight + widths);
                x += s->widths[which];
                d += s->widths[which];
            }
    }
}

static void work_forward(struct cpu_plan *plan, const void *operands)
{
    struct job job = {.shape = &plan->operation.head_norm, .forward = operands};

    threads_run(plan->threads, blocks_of(job.shape), forward_block, &job);
}

static void work_backward(struct cpu_plan *plan, const void *operands)
{
    struct job job = {
        .shape = &plan->operation.head_norm, .backward = operands, .partial = plan->workspace};
    const struct head_norm_shape *s = job.shape;
    const struct head_norm_backward_operands *o = operands;
    int64_t widths = s->widths[0] + s->widths[1];

    threads_run(plan->threads, blocks_of(s), backward_block, &job);
    for (int which = 0; which < 4; which++) {
        float *out = which < 2 ? o->dweight[which] : o->dbias[which - 2];
        const float *part = job.partial + (which % 2 ? s->widths[0] : 0) + which / 2 * widths;

        if (which >= 2 && s->norm != NORM_LAYER)
            continue;
        for (int64_t i = 0; i < s->widths[which % 2]; i++) {
            float sum = 0;

            for (int64_t block = 0; block < blocks_of(s); block++)
                sum += part[block * 2 * widths + i];
            out[i] = o->accumulate ? out[i] + sum : sum;
        }
    }
}

int cpu_plan_head_norm(struct cpu_plan *plan, struct error *err)
{
    const struct head_norm_shape *s = &plan->operation.head_norm;
    int64_t widths = s->widths[0] + s->widths[1];

    if (s->type != TYPE_FP32)
        return cpu_refuse_type(err);
    if (plan->operation.kind == OPERATION_HEAD_NORM) {
        plan->work = work_forward;
        return 0;
    }
    plan->work = work_backward;
    return cpu_workspace(plan, (size_t)(blocks_of(s) * 2 * widths) * sizeof(float), err);
}
