/* SPDX-License-Identifier: Apache-2.0 */
#include "newton_schulz.h"
#include "base/core/xmalloc.h"
#include "engine/device/plans.h"

#include <stdlib.h>

/* The plans of one step's factors. */
struct factors {
    struct device_plan *a, *b, *c;
};

struct newton_schulz {
    int64_t rows, cols, side; /* A is (side, side) */
    enum device_type type;
    int steps;
    struct device_plan *clear, *square_sum, *normalize;
    struct device_plan *gram, *gram_convert; /* A; convert only if it is computed in fp32 first */
    struct device_plan *square;              /* A A */
    struct device_plan *product;             /* (b A + c A A) X, or X (b A + c A A) */
    struct device_plan *add_small, *add_large;
    struct device_plan *convert, *scale; /* the result */
    struct factors *factors;
};

/* The memory of one call. */
struct space {
    double *square_sum;
    void *x, *y;   /* (rows, cols) */
    void *a, *b;   /* (side, side) */
    float *a_fp32; /* (side, side), or NULL */
    size_t bytes;
};

static void *take(char *base, size_t *used, int64_t elements, size_t size)
{
    size_t at = *used;

    *used += ((size_t)elements * size + DEVICE_ALIGNMENT - 1) / DEVICE_ALIGNMENT * DEVICE_ALIGNMENT;
    return base ? base + at : NULL;
}

static int is_tall(int64_t rows, int64_t cols)
{
    return rows > cols;
}

static struct space layout(void *base, int64_t rows, int64_t cols, enum device_type type)
{
    int64_t side = is_tall(rows, cols) ? cols : rows;
    size_t size = type_size(type);
    struct space s = {0};

    s.square_sum = take(base, &s.bytes, 1, sizeof(double));
    s.x = take(base, &s.bytes, rows * cols, size);
    s.y = take(base, &s.bytes, rows * cols, size);
    s.a = take(base, &s.bytes, side * side, size);
    s.b = take(base, &s.bytes, side * side, size);
    if (is_tall(rows, cols) && type != TYPE_FP32)
        s.a_fp32 = take(base, &s.bytes, side * side, sizeof(float));
    return s;
}

size_t newton_schulz_space(int64_t rows, int64_t cols, enum device_type type)
{
    return layout(NULL, rows, cols, type).bytes;
}

static struct device_plan *make(struct planner *p, struct operation op)
{
    return plan_make(p, &op);
}

static struct device_plan *make_product(struct planner *p, enum operation_kind kind, int64_t rows,
                                        int64_t in, int64_t out, enum device_type type)
{
    return make(p,
                (struct operation){
                    .kind = kind,
                    .linear = {.rows = rows, .in = in, .out = out, .types = linear_types(type)}});
}

static struct device_plan *make_scale(struct planner *p, int64_t count, enum device_type type,
                                      double factor)
{
    return make(p, (struct operation){.kind = OPERATION_SCALE, .scale = {count, type, factor}});
}

static struct device_plan *make_add(struct planner *p, int64_t count, enum device_type type)
{
    return make(p, (struct operation){.kind = OPERATION_ADD, .add = {count, type}});
}

static struct device_plan *make_convert(struct planner *p, int64_t count, enum device_type from,
                                        enum device_type to)
{
    return make(p, (struct operation){.kind = OPERATION_CONVERT,
                                      .convert = {.count = count, .from = from, .to = to}});
}

static void make_products(struct newton_schulz *ns, struct planner *m)
{
    int64_t side = ns->side, rows = ns->rows, cols = ns->cols;
    int tall = is_tall(rows, cols);

    /* A = X^T X as the gradient of a weight, or X X^T as a layer. */
    ns->gram = make_product(m, tall ? OPERATION_LINEAR_WGRAD : OPERATION_LINEAR_FORWARD, rows, cols,
                            side, ns->type);
    if (tall && ns->type != TYPE_FP32)
        ns->gram_convert = make_convert(m, side * side, TYPE_FP32, ns->type);
    ns->square = make_product(m, OPERATION_LINEAR_FORWARD, side, side, side, ns->type);
    ns->product = make_product(m, tall ? OPERATION_LINEAR_FORWARD : OPERATION_LINEAR_DGRAD, rows,
                               cols, side, ns->type);
}

static void make_plans(struct newton_schulz *ns, const struct newton_schulz_rule *rule,
                       double scale, struct planner *m)
{
    int64_t count = ns->rows * ns->cols, small = ns->side * ns->side;

    /* One double, as two floats. */
    ns->clear = make(m, (struct operation){.kind = OPERATION_FILL, .fill = {2, TYPE_FP32, 0}});
    ns->square_sum =
        make(m, (struct operation){.kind = OPERATION_SQUARE_SUM, .square_sum = {count, TYPE_FP32}});
    ns->normalize = make(
        m, (struct operation){.kind = OPERATION_MUON,
                              .muon = {.count = count, .part = MUON_NORMALIZE, .type = ns->type}});
    make_products(ns, m);
    ns->add_small = make_add(m, small, ns->type);
    ns->add_large = make_add(m, count, ns->type);
    ns->convert = make_convert(m, count, ns->type, TYPE_FP32);
    ns->scale = make_scale(m, count, TYPE_FP32, scale);
    for (int i = 0; i < ns->steps; i++)
        ns->factors[i] = (struct factors){make_scale(m, count, ns->type, rule->coefficients[i][0]),
                                          make_scale(m, small, ns->type, rule->coefficients[i][1]),
                                          make_scale(m, small, ns->type, rule->coefficients[i][2])};
}

struct newton_schulz *newton_schulz_create(struct planner *planner,
                                           const struct newton_schulz_rule *rule, int64_t rows,
                                           int64_t cols, enum device_type type, double scale)
{
    struct newton_schulz *ns = xcalloc(1, sizeof(*ns));

    ns->factors = xcalloc((size_t)rule->steps + 1, sizeof(*ns->factors));
    ns->rows = rows;
    ns->cols = cols;
    ns->side = is_tall(rows, cols) ? cols : rows;
    ns->type = type;
    ns->steps = rule->steps;
    make_plans(ns, rule, scale, planner);
    return ns;
}

void newton_schulz_destroy(struct newton_schulz *ns)
{
    if (ns)
        free(ns->factors);
    free(ns);
}

static void run_gram(const struct newton_schulz *ns, struct device_stream *stream,
                     const struct space *s)
{
    float *wide = s->a_fp32 ? s->a_fp32 : s->a;

    if (!is_tall(ns->rows, ns->cols)) {
        run_linear_forward(ns->gram, stream,
                           &(struct linear_forward_operands){.x = s->x, .weight = s->x, .y = s->a});
        return;
    }
    run_linear_wgrad(ns->gram, stream,
                     &(struct linear_wgrad_operands){.dy = s->x, .x = s->x, .dweight = wide});
    if (ns->gram_convert)
        run_convert(ns->gram_convert, stream, &(struct convert_operands){wide, s->a});
}

static void iterate(const struct newton_schulz *ns, struct device_stream *stream,
                    const struct space *s, const struct factors *f)
{
    run_gram(ns, stream, s);
    /* B = c A A + b A; A is symmetric */
    run_linear_forward(ns->square, stream,
                       &(struct linear_forward_operands){.x = s->a, .weight = s->a, .y = s->b});
    run_scale(f->c, stream, &(struct scale_operands){s->b});
    run_scale(f->b, stream, &(struct scale_operands){s->a});
    run_add(ns->add_small, stream, &(struct add_operands){s->a, s->b});
    /* X = a X + B X, or X B */
    if (is_tall(ns->rows, ns->cols))
        run_linear_forward(ns->product, stream,
                           &(struct linear_forward_operands){.x = s->x, .weight = s->b, .y = s->y});
    else
        run_linear_dgrad(ns->product, stream,
                         &(struct linear_dgrad_operands){.dy = s->b, .weight = s->x, .dx = s->y});
    run_scale(f->a, stream, &(struct scale_operands){s->x});
    run_add(ns->add_large, stream, &(struct add_operands){s->y, s->x});
}

void newton_schulz_run(const struct newton_schulz *ns, struct device_stream *stream, float *x,
                       void *space)
{
    struct space s = layout(space, ns->rows, ns->cols, ns->type);

    run_fill(ns->clear, stream, &(struct fill_operands){s.square_sum});
    run_square_sum(ns->square_sum, stream, &(struct square_sum_operands){x, s.square_sum});
    run_muon(ns->normalize, stream,
             &(struct muon_operands){.x = x, .square_sum = s.square_sum, .y = s.x});
    for (int i = 0; i < ns->steps; i++)
        iterate(ns, stream, &s, &ns->factors[i]);
    run_convert(ns->convert, stream, &(struct convert_operands){s.x, x});
    run_scale(ns->scale, stream, &(struct scale_operands){x});
}
