/* SPDX-License-Identifier: Apache-2.0 */
/* Cross entropy in two halves, before and after the collective. */
#include "cpu.h"
#include "math.h"

#include <math.h>
#include <string.h>

/* Columns of this rank that belong to the unpadded vocabulary. */
static int64_t true_columns(const struct cross_entropy_shape *shape)
{
    int64_t columns = shape->vocabulary - shape->first;

    return columns < 0 ? 0 : columns < shape->cols ? columns : shape->cols;
}

CPU_CLONES static void partial_row(void *context, int64_t row)
{
    const struct cpu_job *job = context;
    const struct cross_entropy_partial_operands *o = job->operands;
    const struct cross_entropy_shape *shape = &job->plan->operation.cross_entropy;
    const float *logits = (const float *)o->logits + row * shape->cols;
    int64_t n = true_columns(shape), target = o->targets[row] - shape->first, i = 0;
    float lane[LANES] = {0}, max = vector_max(logits, n, -INFINITY);

    for (; i + LANES <= n; i += LANES)
        for (int l = 0; l < LANES; l++)
            lane[l] += fast_exp_to_88(logits[i + l] - max);
    for (int l = 0; i < n; i++, l++)
        lane[l] += fast_exp_to_88(logits[i] - max);
    o->partial[row] = max;
    o->partial[shape->rows + row] = n ? lanes_total(lane) : 0;
    o->partial[2 * shape->rows + row] = target >= 0 && target < n ? logits[target] : 0;
}

CPU_CLONES static void finish_row(void *context, int64_t row)
{
    const struct cpu_job *job = context;
    const struct cross_entropy_finish_operands *o = job->operands;
    const struct cross_entropy_shape *shape = &job->plan->operation.cross_entropy;
    float *logits = (float *)o->logits + row * shape->cols;
    int64_t n = true_columns(shape), target = o->targets[row] - shape->first;
    float max = -INFINITY, sum = 0, wanted = 0, factor;

    for (int p = 0; p < shape->parts; p++) {
        float other = o->partials[(p * 3) * shape->rows + row];

        max = other > max || isnan(other) ? other : max;
    }
    for (int p = 0; p < shape->parts; p++) {
        const float *partial = o->partials + p * 3 * shape->rows + row;

        if (partial[shape->rows] != 0)
            sum += partial[shape->rows] * expf(partial[0] - max);
        wanted += partial[2 * shape->rows];
    }
    ((float *)job->plan->workspace)[row] = logf(sum) + max - wanted;
    if (o->loss)
        o->loss[row] = logf(sum) + max - wanted;
    if (!shape->backward)
        return;
    factor = o->weight[row] * o->state->loss_scale;
    if (factor == 0) {
        memset(logits, 0, (size_t)shape->cols * sizeof(*logits));
        return;
    }
    for (int64_t i = 0; i < n; i++)
        logits[i] = fast_exp_to_88(logits[i] - max) * (factor / sum);
    if (target >= 0 && target < n)
        logits[target] -= factor;
    memset(logits + n, 0, (size_t)(shape->cols - n) * sizeof(*logits));
}

/* finish_row, and the gradient through the soft cap: 1 - (capped / cap)^2. */
CPU_CLONES static void finish_capped_row(void *context, int64_t row)
{
    const struct cpu_job *job = context;
    const struct cross_entropy_finish_operands *o = job->operands;
    const struct cross_entropy_shape *shape = &job->plan->operation.cross_entropy;
    float *logits = (float *)o->logits + row * shape->cols, by = 1 / (float)shape->softcap;
    float *kept = (float *)job->plan->workspace + shape->rows * 4 + row * shape->cols;

    if (shape->backward)
        memcpy(kept, logits, (size_t)shape->cols * sizeof(*logits));
    finish_row(context, row);
    for (int64_t i = 0; i < shape->cols && shape->backward; i++)
        logits[i] = logits[i] == 0 ? 0 : logits[i] * (1 - kept[i] * by * (kept[i] * by));
}

static void work_finish(struct cpu_plan *plan, const void *operands)
{
    struct cross_entropy_finish_operands all =
        *(const struct cross_entropy_finish_operands *)operands;
    const struct cross_entropy_finish_operands *o = &all;
    float *loss = plan->workspace;
    double total = 0;

    if (!all.partials) {
        float *partial = loss + plan->operation.cross_entropy.rows;

        cpu_run_parts(plan,
                      &(struct cross_entropy_partial_operands){all.logits, all.targets, partial},
                      plan->operation.cross_entropy.rows, partial_row);
        all.partials = partial;
    }
    cpu_run_parts(plan, o, plan->operation.cross_entropy.rows,
                  plan->operation.cross_entropy.softcap > 0 ? finish_capped_row : finish_row);
    for (int64_t row = 0; row < plan->operation.cross_entropy.rows; row++)
        if (o->weight[row] != 0)
            total += (double)o->weight[row] * loss[row];
    if (o->logged)
        total *= *o->logged;
    o->state->loss += total;
    if (plan->operation.cross_entropy.pair)
        o->state->pair_loss += total;
}

int cpu_plan_cross_entropy(struct cpu_plan *plan, struct error *err)
{
    const struct cross_entropy_shape *shape = &plan->operation.cross_entropy;

    if (shape->type != TYPE_FP32)
        return cpu_refuse_type(err);
    if (plan->operation.kind == OPERATION_CROSS_ENTROPY_PARTIAL) {
        cpu_plan_parts(plan, shape->rows, partial_row);
        return 0;
    }
    plan->work = work_finish;
    /* The loss of each row, the partials of a single part, and capped logits. */
    return cpu_workspace(
        plan, (size_t)(shape->rows * (4 + (shape->softcap > 0 ? shape->cols : 0))) * sizeof(float),
        err);
}
