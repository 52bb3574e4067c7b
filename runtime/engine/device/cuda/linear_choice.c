/* SPDX-License-Identifier: Apache-2.0 */
/* Which variant of a linear layer is fastest for its shape, with which algorithm of its product:
 * those that may win are timed, and the answer is kept in the tuning file. */
#include "cuda_error.h"
#include "hopper_linear.h"
#include "linear_private.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A variant with one of the algorithms that may be the fastest for its product. */
struct trial {
    struct cuda_plan *plan;
    const struct scratch *scratch;
    struct linear *linear;
    int finalist; /* -1: there is nothing to decide about the product */
};

enum { MOST_TRIALS = VARIANTS * GEMM_FINALISTS };

static int run_trial(void *argument)
{
    struct trial *trial = argument;
    struct cuda_plan *plan = trial->plan;
    const struct scratch *t = trial->scratch;
    struct cuda_stream stream = {.native = cuda_device_of(plan)->gemm.stream};

    plan->parts = trial->linear;
    linear_set_work(plan, trial->linear);
    if (trial->finalist >= 0)
        gemm_use(trial->linear->gemm, trial->finalist);
    trial->linear->on_trial = 1;
    trial->linear->failed = 0;
    if (plan->base.kind == OPERATION_LINEAR_FORWARD) {
        struct linear_forward_operands o = {
            .x = t->x, .weight = t->weight, .bias = t->bias, .y = t->y, .pre = t->pre};

        plan->work(plan, &stream, t->workspace, &o);
    } else if (plan->base.kind == OPERATION_LINEAR_DGRAD) {
        struct linear_dgrad_operands o = {.dy = t->y,
                                          .weight = t->weight,
                                          .pre = t->pre,
                                          .dx = gated(shape_of(plan)) ? t->pre : t->x,
                                          .product = t->x,
                                          .dbias = t->dbias};

        plan->work(plan, &stream, t->workspace, &o);
    } else {
        struct linear_wgrad_operands o = {
            .dy = t->y, .x = t->x, .dweight = t->dweight, .dbias = t->dbias};

        plan->work(plan, &stream, t->workspace, &o);
    }
    trial->linear->on_trial = 0;
    return trial->linear->failed ? -1 : 0;
}

/* Allocate every operand and fill it with noise, because time depends on the data. Returns -1 if
 * there is not enough memory; then nothing is timed. */
static int scratch_create(struct cuda_plan *plan, struct scratch *t)
{
    const struct linear_shape *s = shape_of(plan);
    struct cuda_device *device = cuda_device_of(plan);
    size_t size = type_size(s->types.x), wide = (size_t)(s->in > s->out ? s->in : s->out);
    size_t x = cuda_align((size_t)(s->rows * s->in) * size);
    size_t y = cuda_align((size_t)(s->rows * s->out) * size), pre = y;
    size_t weight = cuda_align((size_t)(s->in * s->out) * size);
    size_t dweight = cuda_align((size_t)(s->in * s->out) * type_size(s->types.gradient));
    size_t vector = cuda_align(wide * sizeof(float));
    size_t sums_in = kernel_column_sums_workspace(s->rows, s->in);
    size_t sums_out = kernel_column_sums_workspace(s->rows, s->out);
    size_t workspace = GEMM_WORKSPACE + (sums_in > sums_out ? sums_in : sums_out);
    char *at;

    if (plan->base.kind == OPERATION_LINEAR_DGRAD)
        pre = gated(s) ? 2 * x : x;
    else if (gated(s))
        y = cuda_align((size_t)(s->rows * (s->out / 2)) * size);
    if (s->activation == ACTIVATION_NONE)
        pre = 0;
    if (plan->base.kind != OPERATION_LINEAR_WGRAD)
        dweight = 0;
    if (cudaMalloc(&t->all, x + y + pre + weight + dweight + 2 * vector + workspace)) {
        cudaGetLastError();
        return -1;
    }
    at = t->all;
    t->x = at;
    t->y = at += x;
    t->pre = at += y;
    t->weight = at += pre;
    t->dweight = at += weight;
    t->bias = at += dweight;
    t->dbias = (float *)(at += vector);
    t->workspace = at + vector;
    kernel_noise(device->gemm.stream, s->types.x, (int64_t)((x + y + pre + weight) / size), t->all);
    kernel_noise(device->gemm.stream, s->types.x, (int64_t)(vector / size), t->bias);
    return 0;
}

/* A gate after any product but ours leaves no choice: then it is that of the product alone. */
static void make_key(const struct cuda_plan *plan, char *key, size_t size)
{
    const struct linear_shape *s = shape_of(plan);
    int ours = linear_is_possible(plan, OWN), alone = gated(s) && !ours;
    char more[32] = "";

    if (ours)
        snprintf(more, sizeof(more), ":ours%d", HOPPER_LINEAR_VERSION);
    if (plan->base.kind == OPERATION_LINEAR_WGRAD && s->types.gradient != TYPE_FP32)
        snprintf(more, sizeof(more), ":gradient%d", (int)s->types.gradient);
    snprintf(key, size, "linear%d:%" PRId64 ":%" PRId64 ":%" PRId64 ":%d:%d:%d:%d%s",
             (int)plan->base.kind, s->rows, s->in, s->out, (int)s->types.x, s->bias,
             alone ? (int)ACTIVATION_NONE : (int)s->activation, alone ? 0 : s->save_pre, more);
}

/* Remember the variant. The times of all that were timed follow, for people. */
static void remember(struct cuda_plan *plan, const struct linear *linear, const char *notes)
{
    char key[256], value[128];

    make_key(plan, key, sizeof(key));
    snprintf(value, sizeof(value), "%d%s", (int)linear->variant, notes);
    tuning_put(cuda_device_of(plan)->gemm.tuning, key, value);
}

/* Contest ------------------------------------------------------------------------------------- */

/* Create all possible variants; returns their number, or -1 if one broke the GPU. If it is 0, 'err'
 * has the reason. */
static int make_variants(struct cuda_plan *plan, struct linear made[VARIANTS],
                         const struct scratch *scratch, struct error *err)
{
    int count = 0;

    for (int v = 0; v < VARIANTS; v++) {
        struct error why;

        if (!linear_is_possible(plan, (enum variant)v))
            continue;
        if (linear_make_variant(plan, (enum variant)v, &made[count], scratch, &why) == 0) {
            count++;
            continue;
        }
        if (v == SPLIT || cuda_device_of(plan)->gemm.broken)
            error_set(err, "%s", why.text);
        if (cuda_device_of(plan)->gemm.broken) {
            while (count > 0)
                gemm_destroy(made[--count].gemm);
            return -1;
        }
    }
    return count;
}

/* All variants, with all algorithms that may be the fastest for their products. */
struct contest {
    struct linear made[VARIANTS];
    struct trial trials[MOST_TRIALS];
    struct timing_candidate candidates[MOST_TRIALS]; /* the fastest first */
    int made_count, count, close;                    /* the first few are close to the best */
};

/* If there is one variant, the time of its product was just measured. */
static void enter(struct contest *c, const struct trial *trial, int alone)
{
    const struct gemm *gemm = trial->linear->gemm;
    int decided = trial->finalist < 0;

    c->trials[c->count] = *trial;
    c->candidates[c->count] = (struct timing_candidate){
        .call = run_trial,
        .argument = &c->trials[c->count],
        .handicap = decided ? 1 : gemm->finalists[trial->finalist].handicap,
        .once = decided || !alone ? 0 : gemm->finalists[trial->finalist].seconds,
    };
    c->count++;
}

static void enter_variant(struct contest *c, struct cuda_plan *plan, const struct scratch *scratch,
                          struct linear *linear)
{
    int finalists = linear->gemm ? linear->gemm->finalists_count : 0, alone = c->made_count == 1;

    if (finalists == 0)
        enter(c, &(struct trial){plan, scratch, linear, -1}, alone);
    for (int i = 0; i < finalists; i++)
        enter(c, &(struct trial){plan, scratch, linear, i}, alone);
}

/* The fastest candidate that runs, of one variant or (NULL) of all; NULL: none does. */
static const struct timing_candidate *find_best(const struct contest *c, const struct linear *made)
{
    for (int i = 0; i < c->count; i++) {
        const struct trial *trial = c->candidates[i].argument;

        if (c->candidates[i].seconds > 0 && (!made || trial->linear == made))
            return &c->candidates[i];
    }
    return NULL;
}

/* Remember the products of the variants that competed to the end, and let them run the best
 * algorithm. Also write down the times of all. */
static void remember_products(const struct contest *c, char *times, size_t size)
{
    const struct timing_candidate *winner = find_best(c, NULL);

    for (int i = 0; i < c->made_count; i++) {
        const struct timing_candidate *best = find_best(c, &c->made[i]);
        struct gemm *gemm = c->made[i].gemm;
        size_t used = strlen(times);
        int decided = best && (best == winner || best < c->candidates + c->close);

        snprintf(times + used, size - used, ",%d:%.0fus", (int)c->made[i].variant,
                 best ? best->seconds * 1e6 : -1);
        if (!gemm || gemm->finalists_count == 0)
            continue;
        if (decided) {
            gemm_use(gemm, ((const struct trial *)best->argument)->finalist);
            gemm_remember(gemm);
        } else {
            gemm_forget(gemm);
        }
    }
}

/* Time and sort the candidates. Returns -1 with a sentence if none runs. */
static int hold_contest(struct contest *c, struct gemm_context *context, struct error *err)
{
    c->close = gemm_rank(context, c->candidates, c->count, err);
    if (c->close < 0)
        return -1;
    if (find_best(c, NULL))
        return 0;
    return cuda_error(err, cudaStreamSynchronize(context->stream),
                      "no kernel of cuBLASLt runs a linear layer of this model");
}

/* Time all possible variants; the fastest stays in 'linear'. */
static int take_fastest(struct cuda_plan *plan, struct linear *linear,
                        const struct scratch *scratch, struct error *err)
{
    struct contest c = {0};
    const struct linear *winner = NULL;
    char times[112] = "";
    int provisional = 0, rc;

    c.made_count = make_variants(plan, c.made, scratch, err);
    if (c.made_count <= 0)
        return -1;
    for (int i = 0; i < c.made_count; i++) {
        enter_variant(&c, plan, scratch, &c.made[i]);
        provisional |= c.made[i].gemm && c.made[i].gemm->provisional;
    }
    rc = hold_contest(&c, &cuda_device_of(plan)->gemm, err);
    plan->parts = linear; /* trials have changed it */
    if (rc == 0) {
        remember_products(&c, times, sizeof(times));
        winner = ((struct trial *)find_best(&c, NULL)->argument)->linear;
    }
    for (int i = 0; i < c.made_count; i++) {
        if (&c.made[i] == winner)
            *linear = c.made[i];
        else
            gemm_destroy(c.made[i].gemm);
    }
    if (rc < 0)
        return -1;
    linear_set_work(plan, linear);
    if (provisional)
        snprintf(times + strlen(times), sizeof(times) - strlen(times), "%c", TUNING_PROVISIONAL);
    remember(plan, linear, times);
    return 0;
}

/* Create the variant that was found earlier, with the product that it was found with. */
static int recall(struct cuda_plan *plan, struct linear *linear)
{
    const enum device_type sum_types[] = {TYPE_FP32, shape_of(plan)->types.x};
    const char *known;
    enum variant variant;
    char key[256];

    make_key(plan, key, sizeof(key));
    known = tuning_get(cuda_device_of(plan)->gemm.tuning, key);
    if (!known || known[0] < '0' || known[0] >= '0' + VARIANTS)
        return -1;
    variant = (enum variant)(known[0] - '0');
    if (!linear_is_possible(plan, variant))
        return -1;
    for (size_t i = 0; i < sizeof(sum_types) / sizeof(*sum_types); i++) {
        *linear = (struct linear){.variant = variant, .sum_type = sum_types[i]};
        if (linear_make(plan, linear, NULL, NULL) == 0 &&
            (variant == OWN || linear->gemm->remembered))
            return 0;
        gemm_destroy(linear->gemm);
        linear->gemm = NULL;
    }
    return -1;
}

/* Without memory for trials. It is remembered only if it must be the same in the next run. */
static int take_first(struct cuda_plan *plan, struct linear *linear, struct error *err)
{
    static const char untimed[] = {TUNING_PROVISIONAL, '\0'};

    if (linear_make_variant(plan, SPLIT, linear, NULL, err) < 0)
        return -1;
    if (cuda_device_of(plan)->deterministic) {
        gemm_remember(linear->gemm);
        remember(plan, linear, untimed);
    }
    return 0;
}

int linear_choose(struct cuda_plan *plan, struct linear *linear, struct error *err)
{
    struct scratch scratch = {0};
    int result;

    if (recall(plan, linear) == 0)
        return 0;
    cuda_attention_settle(cuda_device_of(plan)); /* its threads would disturb the timing */
    if (scratch_create(plan, &scratch))
        return take_first(plan, linear, err);
    result = take_fastest(plan, linear, &scratch, err);
    cudaFree(scratch.all);
    return result;
}
