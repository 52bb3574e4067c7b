/* SPDX-License-Identifier: Apache-2.0 */
/* Parts of weights with blockwise scales: the reference for the kernels of a GPU. */
#include "cpu.h"
#include "engine/device/fp8.h"

#include <string.h>

static void raise_amax(float *amax, uint32_t bits)
{
    if (bits > cpu_magnitude(*amax))
        memcpy(amax, &bits, sizeof(bits));
}

/* SCALING_BLOCK elements of a row are in the same square. */
static void find_amaxes(const struct quantize_squares_shape *s,
                        const struct quantize_squares_operands *o)
{
    for (int64_t at = 0; at < s->count; at += SCALING_BLOCK) {
        uint32_t largest = 0;

        for (int64_t i = at; i < at + SCALING_BLOCK; i++)
            largest = cpu_magnitude(o->x[i]) > largest ? cpu_magnitude(o->x[i]) : largest;
        raise_amax(&o->squares[scaling_square(s->cols, s->first + at)], largest);
        raise_amax(o->amax, largest);
    }
}

struct job {
    const struct quantize_squares_shape *shape;
    const struct quantize_squares_operands *o;
};

enum { RUNS = 64 }; /* of SCALING_BLOCK elements, that a thread casts at a time */

static void cast_part(void *context, int64_t part)
{
    const struct job *job = context;
    int64_t first = part * RUNS * SCALING_BLOCK, last = first + RUNS * SCALING_BLOCK;

    last = last < job->shape->count ? last : job->shape->count;
    for (int64_t at = first; at < last; at += SCALING_BLOCK) {
        int64_t square = scaling_square(job->shape->cols, job->shape->first + at);
        float scale = scaling_block_factor(job->o->squares[square], SCALING_E4M3_MAX);

        for (int64_t i = at; i < at + SCALING_BLOCK; i++)
            job->o->out[i] = fp8_encode(job->o->x[i] * scale, TYPE_E4M3);
    }
}

static void invert(const struct quantize_squares_shape *s,
                   const struct quantize_squares_operands *o)
{
    for (int64_t r = 0; r < s->rows; r += SCALING_BLOCK)
        for (int64_t c = 0; c < s->cols; c += SCALING_BLOCK) {
            float amax = o->squares[scaling_square(s->cols, r * s->cols + c)];
            float scale = scaling_block_factor(amax, SCALING_E4M3_MAX);

            scaling_put_square(o->inverse, s->rows, s->cols, r, c, scale);
            scaling_put_square(o->columns_inverse, s->cols, s->rows, c, r, scale);
        }
}

static void work_squares(struct cpu_plan *plan, const void *operands)
{
    struct job job = {&plan->operation.quantize_squares, operands};

    switch (job.o->part) {
    case SQUARES_AMAX:
        find_amaxes(job.shape, job.o);
        break;
    case SQUARES_CAST:
        threads_run(plan->threads,
                    (job.shape->count + RUNS * SCALING_BLOCK - 1) / (RUNS * SCALING_BLOCK),
                    cast_part, &job);
        break;
    case SQUARES_INVERSE:
        invert(job.shape, job.o);
        break;
    }
}

int cpu_plan_squares(struct cpu_plan *plan, struct error *err)
{
    const struct quantize_squares_shape *s = &plan->operation.quantize_squares;

    if ((s->rows | s->cols | s->first | s->count) % SCALING_BLOCK)
        return error_bug(err, "a part of a weight with blockwise scales needs multiples of %d",
                         SCALING_BLOCK);
    plan->work = work_squares;
    return 0;
}
