/* SPDX-License-Identifier: Apache-2.0 */
/* bias + dropout + residual + norm, and its gradient, in one pass over each row. */
#include "cpu.h"
#include "math.h"
#include "base/core/rng.h"

#include <math.h>
#include <stdlib.h>

/* Rows that a thread processes at a time, and of one partial sum of the column gradients: sums do
 * not depend on the number of threads. */
#define BLOCK_ROWS 64

struct drop {
    uint32_t threshold;
    float scale;
    uint64_t seed;
    uint32_t purpose, step;
};

static struct drop drop_of(double probability, const struct step_state *state, uint32_t purpose)
{
    struct drop drop = {dropout_threshold(probability), dropout_scale(probability), 0, purpose, 0};

    if (drop.threshold) {
        drop.seed = state->seed;
        drop.step = (uint32_t)state->iteration;
    }
    return drop;
}

/* Apply dropout to elements first .. first + n - 1 of the draw. */
static void drop_row(const struct drop *drop, uint64_t first, float *x, int64_t n)
{
    int64_t i = 0;

    while (i < n) {
        uint64_t element = first + (uint64_t)i;
        struct rng_block block = rng_philox(drop->seed, element / 8, drop->purpose, drop->step);
        int64_t end = i + 8 - (int64_t)(element & 7);

        for (; i < n && i < end; i++) {
            uint32_t lane = rng_dropout_lane(block, first + (uint64_t)i);

            x[i] = lane < drop->threshold ? 0.0f : x[i] * drop->scale;
        }
    }
}

struct forward {
    const struct residual_norm_shape *shape;
    const struct residual_norm_operands *o;
    struct drop drop;
};

/* Columns processed at a time in a stack buffer; a multiple of the random numbers in a block. */
#define CHUNK 512

/* sum = residual + dropout(x + bias) for one row. */
static void forward_dropped(const struct forward *f, int64_t row, float *sum)
{
    int64_t n = f->shape->cols, at = row * n;
    const float *x = (const float *)f->o->x + at, *bias = f->o->bias;
    const float *residual = f->shape->residual ? (const float *)f->o->residual + at : NULL;
    float value[CHUNK];

    for (int64_t c = 0; c < n; c += CHUNK) {
        int64_t width = n - c < CHUNK ? n - c : CHUNK;

        for (int64_t i = 0; i < width; i++)
            value[i] = x[c + i] + (f->shape->bias ? bias[c + i] : 0);
        drop_row(&f->drop, (uint64_t)(f->o->row_index[row] * n + c), value, width);
        for (int64_t i = 0; i < width; i++)
            sum[c + i] = (residual ? residual[c + i] : 0) + value[i];
    }
}

/* The row of the residual stream after this operation: written to 'sum' unless it is the residual.
 */
static const float *forward_sum(const struct forward *f, int64_t row)
{
    int64_t n = f->shape->cols, at = row * n;
    const float *residual = f->shape->residual ? (const float *)f->o->residual + at : NULL;
    const float *x = (const float *)f->o->x + at, *bias = f->o->bias;
    float *sum = (float *)f->o->sum + at;

    if (!f->shape->input)
        return residual;
    if (f->drop.threshold)
        forward_dropped(f, row, sum);
    else if (residual && f->shape->bias)
        for (int64_t i = 0; i < n; i++)
            sum[i] = residual[i] + (x[i] + bias[i]);
    else
        for (int64_t i = 0; i < n; i++)
            sum[i] = (residual ? residual[i] : 0) + (x[i] + (f->shape->bias ? bias[i] : 0));
    return sum;
}

CPU_CLONES static void forward_row(const struct forward *f, int64_t row)
{
    int64_t n = f->shape->cols;
    const float *sum = forward_sum(f, row), *weight = f->o->weight, *bias = f->o->norm_bias;
    float *y, mean = 0, variance = 0, rstd, one = f->shape->add_one ? 1 : 0;

    if (f->shape->norm == NORM_NONE)
        return;
    y = (float *)f->o->y + row * n;
    if (f->shape->norm == NORM_RMS) {
        rstd = 1.0f / sqrtf(vector_dot(sum, sum, n) / (float)n + (float)f->shape->epsilon);
        for (int64_t i = 0; i < n; i++)
            y[i] = sum[i] * rstd * (weight[i] + one);
    } else {
        mean = vector_sum(sum, n) / (float)n;
        {
            float lane[LANES] = {0};
            int64_t i = 0;

            for (; i + LANES <= n; i += LANES)
                for (int l = 0; l < LANES; l++)
                    lane[l] += (sum[i + l] - mean) * (sum[i + l] - mean);
            for (int l = 0; i < n; i++, l++)
                lane[l] += (sum[i] - mean) * (sum[i] - mean);
            variance = lanes_total(lane) / (float)n;
        }
        rstd = 1.0f / sqrtf(variance + (float)f->shape->epsilon);
        for (int64_t i = 0; i < n; i++)
            y[i] = (sum[i] - mean) * rstd * (weight[i] + one) + bias[i];
        f->o->mean[row] = mean;
    }
    f->o->rstd[row] = rstd;
}

static void forward_block(void *context, int64_t block)
{
    const struct forward *f = context;
    int64_t end = (block + 1) * BLOCK_ROWS;

    for (int64_t row = block * BLOCK_ROWS; row < end && row < f->shape->rows; row++)
        forward_row(f, row);
}

static void work_forward(struct cpu_plan *plan, const void *operands)
{
    struct forward f = {&plan->operation.residual_norm, operands, {0, 0, 0, 0, 0}};

    f.drop = drop_of(f.shape->dropout, f.o->state, f.o->purpose);
    threads_run(plan->threads, (f.shape->rows + BLOCK_ROWS - 1) / BLOCK_ROWS, forward_block, &f);
}

static struct quantize_shape cast_of(const struct residual_norm_shape *shape)
{
    return (struct quantize_shape){
        .rows = shape->rows, .cols = shape->cols, .from = TYPE_FP32, .to = shape->y_type};
}

/* y is computed in the workspace and cast from there. */
static void work_forward_cast(struct cpu_plan *plan, const void *operands)
{
    struct residual_norm_operands o = *(const struct residual_norm_operands *)operands;
    const struct quantize_shape shape = cast_of(&plan->operation.residual_norm);
    const struct quantize_operands result = {.rows = o.y,
                                             .scale = o.y_scale.scale,
                                             .amax = o.y_scale.amax,
                                             .inverse = o.y_scale.inverse};

    o.y = (char *)plan->workspace + cpu_cast_workspace(&shape);
    work_forward(plan, &o);
    cpu_cast(plan, &shape, o.y, &result);
}

struct backward {
    const struct residual_norm_shape *shape;
    const struct residual_norm_backward_operands *o;
    struct drop drop;
    float *partial; /* (blocks, 3, cols): dweight, dnorm_bias, dbias */
};

/* out = dsum + gradient through the norm of one row; adds to the norm's column gradients. */
CPU_CLONES static void backward_norm_row(const struct backward *b, int64_t row, const float *dsum,
                                         float *out, float *dweight, float *dbias)
{
    int64_t n = b->shape->cols, i = 0;
    const float *dy = (const float *)b->o->dy + row * n, *x = (const float *)b->o->sum + row * n;
    const float *weight = b->o->weight;
    int layer = b->shape->norm == NORM_LAYER;
    float rstd = b->o->rstd[row], mean = layer ? b->o->mean[row] : 0;
    float sum_g = 0, sum_gx = 0, one = b->shape->add_one ? 1 : 0, lane_g[LANES] = {0},
          lane_gx[LANES] = {0};

    if (b->o->dy_more) {
        const float *more = (const float *)b->o->dy_more + row * n;

        for (int64_t k = 0; k < n; k++)
            out[k] = dy[k] + more[k];
        dy = out;
    }
    for (; i + LANES <= n; i += LANES)
        for (int l = 0; l < LANES; l++) {
            float g = dy[i + l] * (weight[i + l] + one), normal = (x[i + l] - mean) * rstd;

            lane_g[l] += g;
            lane_gx[l] += g * normal;
        }
    for (int l = 0; i < n; i++, l++) {
        float g = dy[i] * (weight[i] + one);

        lane_g[l] += g;
        lane_gx[l] += g * (x[i] - mean) * rstd;
    }
    sum_g = layer ? lanes_total(lane_g) / (float)n : 0;
    sum_gx = lanes_total(lane_gx) / (float)n;
    for (i = 0; i < n; i++) {
        float normal = (x[i] - mean) * rstd, g = dy[i];

        dweight[i] += g * normal;
        dbias[i] += g;
        out[i] = (dsum ? dsum[i] : 0) + (g * (weight[i] + one) - sum_g - normal * sum_gx) * rstd;
    }
}

/* Gradient of x: dx = dropout'(d), and its column sums in dbias. */
CPU_CLONES static void backward_input_row(const struct backward *b, int64_t row, const float *d,
                                          float *dbias)
{
    int64_t n = b->shape->cols;
    float value[CHUNK];

    for (int64_t c = 0; c < n; c += CHUNK) {
        int64_t width = n - c < CHUNK ? n - c : CHUNK;

        for (int64_t i = 0; i < width; i++)
            value[i] = d[c + i];
        if (b->shape->dropout > 0) { /* even at a very low rate: the caller then uses dx */
            float *dx = (float *)b->o->dx + row * n + c;

            drop_row(&b->drop, (uint64_t)(b->o->row_index[row] * n + c), value, width);
            for (int64_t i = 0; i < width; i++)
                dx[i] = value[i];
        }
        for (int64_t i = 0; i < width; i++)
            dbias[c + i] += value[i];
    }
}

static void backward_block(void *context, int64_t block)
{
    const struct backward *b = context;
    int64_t n = b->shape->cols, end = (block + 1) * BLOCK_ROWS;
    float *partial = b->partial + block * 3 * n;

    for (int64_t i = 0; i < 3 * n; i++)
        partial[i] = 0;
    for (int64_t row = block * BLOCK_ROWS; row < end && row < b->shape->rows; row++) {
        const float *dsum = b->o->dsum ? (const float *)b->o->dsum + row * n : NULL;
        float *out = (float *)b->o->dresidual + row * n;

        if (b->shape->norm != NORM_NONE)
            backward_norm_row(b, row, dsum, out, partial, partial + n);
        else
            for (int64_t i = 0; i < n; i++)
                out[i] = dsum ? dsum[i] : 0;
        if (b->shape->input && (b->shape->dropout > 0 || b->shape->bias))
            backward_input_row(b, row, out, partial + 2 * n);
    }
}

static void work_backward(struct cpu_plan *plan, const void *operands)
{
    struct backward b = {
        &plan->operation.residual_norm, operands, {0, 0, 0, 0, 0}, plan->workspace};
    int64_t n = b.shape->cols, blocks = (b.shape->rows + BLOCK_ROWS - 1) / BLOCK_ROWS;
    float *out[3] = {b.shape->norm != NORM_NONE ? b.o->dweight : NULL,
                     b.shape->norm == NORM_LAYER ? b.o->dnorm_bias : NULL,
                     b.shape->input && b.shape->bias ? b.o->dbias : NULL};

    b.drop = drop_of(b.shape->dropout, b.o->state, b.o->purpose);
    threads_run(plan->threads, blocks, backward_block, &b);
    for (int which = 0; which < 3; which++) {
        if (!out[which])
            continue;
        if (!b.o->accumulate)
            for (int64_t i = 0; i < n; i++)
                out[which][i] = 0;
        for (int64_t block = 0; block < blocks; block++)
            for (int64_t i = 0; i < n; i++)
                out[which][i] += b.partial[(block * 3 + which) * n + i];
    }
}

int cpu_plan_residual_norm(struct cpu_plan *plan, struct error *err)
{
    const struct residual_norm_shape *shape = &plan->operation.residual_norm;
    int64_t blocks = (shape->rows + BLOCK_ROWS - 1) / BLOCK_ROWS;
    const struct quantize_shape cast = cast_of(shape);
    int casts = plan->operation.kind == OPERATION_RESIDUAL_NORM && shape->y_type == TYPE_E4M3 &&
                shape->norm != NORM_NONE;

    if (shape->type != TYPE_FP32 || (shape->y_type != TYPE_FP32 && !casts))
        return cpu_refuse_type(err);
    if (!shape->input && !shape->residual)
        return error_bug(err, "a step of the residual stream needs an input or a residual");
    if (casts) {
        plan->work = work_forward_cast;
        return cpu_shared_workspace(
            plan, cpu_cast_workspace(&cast) + (size_t)(shape->rows * shape->cols) * sizeof(float),
            err);
    }
    if (plan->operation.kind == OPERATION_RESIDUAL_NORM) {
        plan->work = work_forward;
        return 0;
    }
    plan->work = work_backward;
    return cpu_workspace(plan, (size_t)(blocks * 3 * shape->cols) * sizeof(float), err);
}
