/* SPDX-License-Identifier: Apache-2.0 */
/* Weights that are kept in fp8 only: casts of master weights, whole or in parts. */
#include "fp8_layers.h"
#include "model_private.h"

/* --- Memory and plans ------------------------------------------------------------------------- */

static int64_t squares_of(const struct fp8_weight *w)
{
    return w->out / SCALING_BLOCK * (w->in / SCALING_BLOCK);
}

/* The squares of all weights are side by side: one all-reduce combines their amaxes. */
void fp8_gather_lay_out(struct model *m, struct arena *arena)
{
    struct fp8_layers *f = &m->fp8;
    int64_t count = 0;

    if (!m->config.numerics.fp8.gather)
        return;
    if (!f->rules.blocks) {
        f->used = arena_take(arena, f->rules.count, sizeof(float));
        return;
    }
    for (int i = 0; i < m->parameters.tensor_count; i++)
        count += f->weights[i].gathered ? squares_of(&f->weights[i]) : 0;
    f->squares = arena_take(arena, count, sizeof(float));
    f->square_count = count;
    count = 0;
    for (int i = 0; i < m->parameters.tensor_count && f->squares; i++)
        if (f->weights[i].gathered) {
            f->weights[i].squares = f->squares + count;
            count += squares_of(&f->weights[i]);
        }
}

/* Elements first .. first + count - 1 of a weight. */
static struct operation squares_operation(const struct fp8_weight *w, int64_t first, int64_t count)
{
    return (struct operation){.kind = OPERATION_QUANTIZE_SQUARES,
                              .quantize_squares = {w->out, w->in, first, count}};
}

void fp8_gather_prepare(struct planner *p, struct model *m)
{
    struct fp8_layers *f = &m->fp8;
    struct operation scales = {.kind = OPERATION_WEIGHT_SCALES,
                               .weight_scales = {f->rules.count, INVERSE_STRIDE, f->rules.margin}};
    struct operation clear = {.kind = OPERATION_FILL, .fill = {f->square_count, TYPE_FP32, 0}};

    if (!m->config.numerics.fp8.gather)
        return;
    if (!f->rules.blocks) {
        f->weight_scales = plan_make(p, &scales);
        return;
    }
    for (int i = 0; i < m->parameters.tensor_count; i++) {
        struct fp8_weight *w = &f->weights[i];
        struct operation whole = squares_operation(w, 0, w->out * w->in);

        if (w->gathered)
            w->whole = plan_make(p, &whole);
    }
    if (f->square_count > 0)
        f->clear_squares = plan_make(p, &clear);
}

/* --- Parts of weights ------------------------------------------------------------------------- */

/* A cast with one scale takes any matrix of these elements: wide rows if whole groups of four of
 * them result. */
struct device_plan *model_plan_cast(struct planner *p, const struct model *m, int tensor,
                                    int64_t first, int64_t count)
{
    int64_t cols = count % 256 == 0 ? 64 : 32;
    struct operation op = {
        .kind = OPERATION_QUANTIZE,
        .quantize = {.rows = count / cols, .cols = cols, .from = TYPE_FP32, .to = TYPE_E4M3}};

    if (m->fp8.rules.blocks)
        op = squares_operation(&m->fp8.weights[tensor], first, count);
    return plan_make(p, &op);
}

void model_cast(struct model *m, struct device_plan *plan, int tensor, int64_t first,
                const float *master, int only_amax)
{
    const struct fp8_layers *f = &m->fp8;
    const struct fp8_weight *w = &f->weights[tensor];
    int64_t entry = w->entry + SCALED_WEIGHT;
    uint8_t *rows = (uint8_t *)weight(m, tensor) + first;

    if (f->rules.blocks)
        run_quantize_squares(
            plan, compute(m),
            &(struct quantize_squares_operands){.part = only_amax ? SQUARES_AMAX : SQUARES_CAST,
                                                .x = master,
                                                .out = rows,
                                                .squares = w->squares,
                                                .amax = f->amax + entry});
    else
        run_quantize(plan, compute(m),
                     &(struct quantize_operands){.x = master,
                                                 .rows = only_amax ? NULL : rows,
                                                 .scale = f->used + entry,
                                                 .amax = f->amax + entry,
                                                 .scaled = 1});
}

static void invert_squares(struct model *m, const struct fp8_weight *w)
{
    run_quantize_squares(
        w->whole, compute(m),
        &(struct quantize_squares_operands){.part = SQUARES_INVERSE,
                                            .squares = w->squares,
                                            .inverse = w->rows_inverse,
                                            .columns_inverse = w->columns_inverse});
}

/* The amaxes of inputs and gradients are 0 between the end of a step and the next pass. */
void model_weight_scales(struct model *m)
{
    struct fp8_layers *f = &m->fp8;
    int blocks = f->rules.blocks;
    int64_t count = blocks ? f->square_count : f->rules.count;

    if (!m->config.numerics.fp8.gather)
        return;
    if (!f->rules.delayed && m->parallel->data->size > 1 && count > 0)
        comm_all_reduce(m->parallel->data, compute(m), blocks ? f->squares : f->amax, (size_t)count,
                        TYPE_INT32, COMM_MAX);
    for (int i = 0; i < m->parameters.tensor_count && blocks; i++)
        if (f->weights[i].gathered)
            invert_squares(m, &f->weights[i]);
    if (!blocks)
        run_weight_scales(
            f->weight_scales, compute(m),
            &(struct weight_scales_operands){
                .scale = fp8_scales(f), .amax = f->amax, .used = f->used, .inverse = f->inverse});
}

/* --- Whole weights, before the first step ----------------------------------------------------- */

static void adopt_squares(struct model *m, int tensor, const float *x)
{
    const struct fp8_weight *w = &m->fp8.weights[tensor];

    model_cast(m, w->whole, tensor, 0, x, 1);
    invert_squares(m, w);
    model_cast(m, w->whole, tensor, 0, x, 0);
}

/* Cast with the scale of a checkpoint or, without one, with that of the weight itself. */
static int adopt(struct model *m, int tensor, const float *x, struct error *err)
{
    struct fp8_layers *f = &m->fp8;
    const struct fp8_weight *w = &f->weights[tensor];
    int64_t entry = w->entry + SCALED_WEIGHT;
    struct operation op = {.kind = OPERATION_QUANTIZE,
                           .quantize = {.rows = w->out,
                                        .cols = w->in,
                                        .from = TYPE_FP32,
                                        .to = TYPE_E4M3,
                                        .margin = f->rules.margin}};
    struct quantize_operands operands = {.x = x,
                                         .rows = weight(m, tensor),
                                         .scale = fp8_scales(f) + entry,
                                         .amax = f->amax + entry,
                                         .inverse = f->inverse + entry * INVERSE_STRIDE};

    return plan_run_once(compute(m), &op, &operands, sizeof(operands), err);
}

int fp8_gather_adopt(struct model *m, struct error *err)
{
    struct fp8_layers *f = &m->fp8;

    if (!m->config.numerics.fp8.gather)
        return 0;
    if (model_clear(m, f->amax, f->rules.count, TYPE_FP32, err) < 0 ||
        model_clear(m, f->squares, f->square_count, TYPE_FP32, err) < 0)
        return -1;
    for (int i = 0; i < m->parameters.tensor_count; i++) {
        const float *x = model_facts(m).start_weights + m->parameters.tensors[i].offset;

        if (!f->weights[i].gathered)
            continue;
        if (f->rules.blocks)
            adopt_squares(m, i, x);
        else if (adopt(m, i, x, err) < 0)
            return -1;
    }
    return device_stream_wait(compute(m), 600, err);
}
