/* SPDX-License-Identifier: Apache-2.0 */
/* Matrix products: each thread computes a part of the result and applies the epilogue while that
 * part is in the cache. */
#include "cpu.h"
#include "engine/device/cpu_workspace.h"
#include "engine/device/fp8.h"
#include "gemm.h"
#include "gemm_amx.h"
#include "base/core/half.h"
#include "math.h"

#include <stdlib.h>
#include <string.h>

enum { PRODUCT_ROWS = 16, PRODUCT_COLS = 24 };

/* A product C (m, n) = beta C + op(A) op(B), with the epilogue of each part of C. */
struct product {
    int64_t m, n, k;
    const float *a, *b;
    int64_t lda, ldb;
    int a_transposed, b_transposed;
    float *c;
    float alpha, beta;
    int64_t parts;
    int by_columns; /* parts are columns of C instead of rows */
    int amx;        /* by gemm_amx */
    const float *bias;
    float *pre;             /* output for the value before the activation, or NULL */
    const float *saved_pre; /* multiply by the activation's derivative at these values, or NULL */
    enum activation activation;
    void *workspace;
    uint16_t *narrow; /* C in bf16, which is then computed by pieces, or NULL */
    int accumulate;   /* of 'narrow' */
    float *pieces;    /* cpu_piece_bytes */
};

CPU_CLONES static void activate(enum activation activation, float *c, int64_t cols)
{
    if (activation == ACTIVATION_GELU_TANH)
        for (int64_t i = 0; i < cols; i++)
            c[i] = gelu_tanh(c[i]);
    else if (activation == ACTIVATION_GELU_ERF)
        for (int64_t i = 0; i < cols; i++)
            c[i] = gelu_erf(c[i]);
    else if (activation == ACTIVATION_SQUARED_RELU)
        for (int64_t i = 0; i < cols; i++)
            c[i] = squared_relu(c[i]);
}

CPU_CLONES static void differentiate(enum activation activation, const float *pre, float *c,
                                     int64_t cols)
{
    if (activation == ACTIVATION_GELU_TANH)
        for (int64_t i = 0; i < cols; i++)
            c[i] *= gelu_tanh_derivative(pre[i]);
    else if (activation == ACTIVATION_GELU_ERF)
        for (int64_t i = 0; i < cols; i++)
            c[i] *= gelu_erf_derivative(pre[i]);
    else
        for (int64_t i = 0; i < cols; i++)
            c[i] *= squared_relu_derivative(pre[i]);
}

CPU_CLONES static void epilogue(const struct product *p, int64_t row, int64_t rows, int64_t col,
                                int64_t cols)
{
    for (int64_t r = row; r < row + rows; r++) {
        float *c = p->c + r * p->n + col;

        if (p->bias)
            for (int64_t i = 0; i < cols; i++)
                c[i] += p->bias[col + i];
        if (p->pre)
            memcpy(p->pre + r * p->n + col, c, (size_t)cols * sizeof(*c));
        if (p->saved_pre)
            differentiate(p->activation, p->saved_pre + r * p->n + col, c, cols);
        else
            activate(p->activation, c, cols);
    }
}

/* Parts are multiples of the tiles of the products. */
static int64_t part_first(const struct product *p, int64_t i)
{
    int64_t total = p->by_columns ? p->n : p->m;
    int64_t tile = p->amx ? GEMM_AMX_TILE : p->by_columns ? PRODUCT_COLS : PRODUCT_ROWS;
    int64_t first = tile * cpu_part((total + tile - 1) / tile, p->parts, i);

    return first < total ? first : total;
}

/* Rows and columns of C. */
struct block {
    int64_t row, rows, col, cols;
};

/* Compute a block of C in 'c' with thread i's workspace. */
static void block_product(const struct product *p, const struct block *b, float *c, int64_t ldc,
                          int64_t i)
{
    (p->amx ? gemm_amx : gemm)(p->a_transposed, p->b_transposed, b->rows, b->cols, p->k, p->alpha,
                               p->a + b->row * (p->a_transposed ? 1 : p->lda), p->lda,
                               p->b + b->col * (p->b_transposed ? p->ldb : 1), p->ldb, p->beta, c,
                               ldc, (char *)p->workspace + (size_t)i * cpu_product_bytes());
}

CPU_CLONES static void narrow_piece(const struct product *p, const struct block *b,
                                    const float *piece)
{
    for (int64_t r = 0; r < b->rows; r++) {
        const float *from = piece + r * b->cols;
        uint16_t *to = p->narrow + (b->row + r) * p->n + b->col;

        for (int64_t e = 0; e < b->cols; e++)
            to[e] = float_to_bfloat(p->accumulate ? bfloat_to_float(to[e]) + from[e] : from[e]);
    }
}

static void narrow_part(const struct product *p, const struct block *all, int64_t i)
{
    float *piece = p->pieces + i * CPU_PIECE * CPU_PIECE;

    for (int64_t r = 0; r < all->rows; r += CPU_PIECE)
        for (int64_t c = 0; c < all->cols; c += CPU_PIECE) {
            const struct block b = {
                all->row + r, all->rows - r < CPU_PIECE ? all->rows - r : CPU_PIECE, all->col + c,
                all->cols - c < CPU_PIECE ? all->cols - c : CPU_PIECE};

            block_product(p, &b, piece, b.cols, i);
            narrow_piece(p, &b, piece);
        }
}

static void product_part(void *context, int64_t i)
{
    const struct product *p = context;
    int64_t first = part_first(p, i), size = part_first(p, i + 1) - first;
    const struct block b = {p->by_columns ? 0 : first, p->by_columns ? p->m : size,
                            p->by_columns ? first : 0, p->by_columns ? size : p->n};

    if (size == 0)
        return;
    if (p->narrow) {
        narrow_part(p, &b, i);
        return;
    }
    block_product(p, &b, p->c + b.row * p->n + b.col, p->n, i);
    epilogue(p, b.row, b.rows, b.col, b.cols);
}

size_t cpu_product_bytes(void)
{
    return gemm_amx_available() && gemm_amx_workspace_bytes > gemm_workspace_bytes
               ? gemm_amx_workspace_bytes
               : gemm_workspace_bytes;
}

static void product_run(struct cpu_plan *plan, struct product *p)
{
    struct threads *threads = plan->threads;

    p->by_columns = p->n > p->m;
    p->amx = gemm_amx_fits(p->m, p->n, p->k);
    p->parts = threads_count(threads);
    p->workspace = plan->product_space;
    threads_run(threads, p->parts, product_part, p);
}

/* --- fp8 -------------------------------------------------------------------------------------- */

/* A factor (rows, depth) of a product that sums over 'depth'. */
struct factor {
    const void *bytes;
    enum device_type type;
    enum scaled_part part;
    const float *inverse;
};

struct decoding {
    const struct factor *factor;
    float *to;
    int64_t rows, depth, parts;
    float numbers[256];
};

/* With blockwise scales the numbers are multiplied by powers of two here, which is exact. */
static void decode_part(void *context, int64_t i)
{
    const struct decoding *d = context;
    const struct factor *f = d->factor;
    const uint8_t *from = f->bytes;
    int64_t last = cpu_part(d->rows, d->parts, i + 1);

    for (int64_t r = cpu_part(d->rows, d->parts, i); r < last; r++)
        for (int64_t at = 0; at < d->depth; at += SCALING_BLOCK) {
            int64_t end = at + SCALING_BLOCK < d->depth ? at + SCALING_BLOCK : d->depth;
            float scale = f->part == SCALED_WHOLE
                              ? 1
                              : f->inverse[scaling_place(f->part, d->rows, d->depth, r, at)];

            for (int64_t e = r * d->depth + at; e < r * d->depth + end; e++)
                d->to[e] = d->numbers[from[e]] * scale;
        }
}

static void decode(struct cpu_plan *plan, const struct factor *factor, float *to, int64_t rows,
                   int64_t depth)
{
    struct decoding d = {factor, to, rows, depth, threads_count(plan->threads), {0}};

    for (int byte = 0; byte < 256; byte++)
        d.numbers[byte] = fp8_decode((uint8_t)byte, factor->type);
    threads_run(plan->threads, d.parts, decode_part, &d);
}

/* Weights have scales of squares, other factors of vectors. */
static struct factor factor_of(const struct cpu_plan *plan, const void *bytes,
                               enum device_type type, const struct operand_scale *scale,
                               int is_weight)
{
    enum scaled_part part = !plan->operation.linear.blocks ? SCALED_WHOLE
                            : is_weight                    ? SCALED_SQUARES
                                                           : SCALED_VECTORS;

    return (struct factor){bytes, type, part, scale->inverse};
}

/* The numbers of an fp8 product as fp32 matrices: A (m, k) and the transpose of B (n, k). Scales of
 * whole factors are applied to their product, as tensor cores do. */
static void product_of_fp8(struct cpu_plan *plan, struct product *p, struct factor a,
                           struct factor b)
{
    float *decoded = plan->workspace;

    decode(plan, &a, decoded, p->m, p->k);
    decode(plan, &b, decoded + p->m * p->k, p->n, p->k);
    p->a = decoded;
    p->lda = p->k;
    p->a_transposed = 0;
    p->b = decoded + p->m * p->k;
    p->ldb = p->k;
    p->b_transposed = 1;
    p->alpha = a.part == SCALED_WHOLE ? *a.inverse * *b.inverse : 1;
}

static int is_fp8(const struct cpu_plan *plan)
{
    const struct linear_types *types = &plan->operation.linear.types;

    return type_is_fp8(plan->operation.kind == OPERATION_LINEAR_WGRAD ? types->x : types->weight);
}

/* Is the main gradient bf16? */
static int is_narrow(const struct cpu_plan *plan)
{
    return plan->operation.kind == OPERATION_LINEAR_WGRAD &&
           plan->operation.linear.types.gradient != TYPE_FP32;
}

/* Of the factors of an fp8 product. */
static size_t factor_bytes(const struct cpu_plan *plan)
{
    const struct linear_shape *s = &plan->operation.linear;

    if (!is_fp8(plan))
        return 0;
    return plan->operation.kind == OPERATION_LINEAR_FORWARD
               ? cpu_factor_bytes(s->rows, s->out, s->in)
           : plan->operation.kind == OPERATION_LINEAR_DGRAD
               ? cpu_factor_bytes(s->rows, s->in, s->out)
               : cpu_factor_bytes(s->out, s->in, s->rows);
}

/* Both factors are fp8, and all else is fp32. */
static int check_fp8(const struct cpu_plan *plan, struct error *err)
{
    const struct linear_shape *s = &plan->operation.linear;
    int wgrad = plan->operation.kind == OPERATION_LINEAR_WGRAD;
    int forward = plan->operation.kind == OPERATION_LINEAR_FORWARD;
    enum device_type other = forward || wgrad ? s->types.x : s->types.y;
    enum device_type result = forward ? s->types.y : s->types.x;

    if (!type_is_fp8(other) || (wgrad ? !type_is_fp8(s->types.y) : result != TYPE_FP32) ||
        s->types.pre != TYPE_FP32 || (wgrad && s->bias))
        return cpu_refuse_type(err);
    if (other == TYPE_E5M2 && (wgrad ? s->types.y : s->types.weight) == TYPE_E5M2)
        return error_bug(err, "a product of two e5m2 factors is not supported");
    if (s->blocks && (s->rows | s->in | s->out) % SCALING_BLOCK)
        return error_bug(err, "an fp8 linear layer with blockwise scales needs multiples of %d",
                         SCALING_BLOCK);
    return 0;
}

/* --- Gates ------------------------------------------------------------------------------------ */

/* Run the gate's own operation, or with 'backward' its gradient. */
static void run_gate(const struct cpu_plan *plan, int backward, int64_t cols, const void *operands)
{
    const struct linear_shape *shape = &plan->operation.linear;
    struct cpu_plan inner = *plan;
    struct error ignored; /* all are fp32 */

    inner.operation =
        (struct operation){.kind = backward ? OPERATION_SWIGLU_BACKWARD : OPERATION_SWIGLU,
                           .swiglu = {shape->rows, cols, shape->types.x, shape->types.x,
                                      activation_gate(shape->activation)}};
    cpu_plan_elementwise(&inner, &ignored);
    inner.work(&inner, operands);
}

/* --- Operations ------------------------------------------------------------------------------- */

static void work_forward(struct cpu_plan *plan, const void *operands)
{
    const struct linear_shape *shape = &plan->operation.linear;
    const struct linear_forward_operands *o = operands;
    int gated = is_gated(shape->activation);
    struct product p = {
        .m = shape->rows,
        .n = shape->out,
        .k = shape->in,
        .a = o->x,
        .lda = shape->in,
        .b = o->weight,
        .ldb = shape->in,
        .b_transposed = 1,
        .c = gated ? o->pre : o->y,
        .alpha = 1,
        .bias = shape->bias ? o->bias : NULL,
        .pre = shape->save_pre && !gated ? o->pre : NULL,
        .activation = gated ? ACTIVATION_NONE : shape->activation,
    };

    if (is_fp8(plan))
        product_of_fp8(plan, &p, factor_of(plan, o->x, shape->types.x, &o->x_scale, 0),
                       factor_of(plan, o->weight, shape->types.weight, &o->weight_scale, 1));
    product_run(plan, &p);
    if (gated)
        run_gate(plan, 0, shape->out / 2, &(struct swiglu_operands){.x = o->pre, .y = o->y});
}

static void work_dgrad(struct cpu_plan *plan, const void *operands)
{
    const struct linear_shape *shape = &plan->operation.linear;
    const struct linear_dgrad_operands *o = operands;
    int gated = is_gated(shape->activation);
    enum activation activation = gated ? ACTIVATION_NONE : shape->activation;
    struct product p = {
        .m = shape->rows,
        .n = shape->in,
        .k = shape->out,
        .a = o->dy,
        .lda = shape->out,
        .b = o->weight,
        .ldb = shape->in,
        .c = gated ? o->product : o->dx,
        .alpha = 1,
        .saved_pre = activation != ACTIVATION_NONE ? o->pre : NULL,
        .activation = activation,
    };

    if (is_fp8(plan))
        product_of_fp8(plan, &p, factor_of(plan, o->dy, shape->types.y, &o->dy_scale, 0),
                       factor_of(plan, o->weight, shape->types.weight, &o->weight_scale, 1));
    product_run(plan, &p);
    if (gated)
        run_gate(plan, 1, shape->in,
                 &(struct swiglu_backward_operands){.dy = o->product, .x = o->pre, .dx = o->dx});
    if (shape->bias)
        cpu_column_sums(plan->threads, o->dx, shape->rows, shape->in, o->dbias, o->accumulate);
}

static void work_wgrad(struct cpu_plan *plan, const void *operands)
{
    const struct linear_shape *shape = &plan->operation.linear;
    const struct linear_wgrad_operands *o = operands;
    struct product p = {
        .m = shape->out,
        .n = shape->in,
        .k = shape->rows,
        .a = o->dy,
        .lda = shape->out,
        .a_transposed = 1,
        .b = o->x,
        .ldb = shape->in,
        .alpha = 1,
    };

    if (is_narrow(plan)) {
        p.narrow = o->dweight;
        p.accumulate = o->accumulate;
        p.pieces = (float *)(void *)((char *)plan->workspace + factor_bytes(plan));
    } else {
        p.c = o->dweight;
        p.beta = o->accumulate ? 1.0f : 0.0f;
    }
    if (is_fp8(plan))
        product_of_fp8(plan, &p, factor_of(plan, o->dy, shape->types.y, &o->dy_scale, 0),
                       factor_of(plan, o->x, shape->types.x, &o->x_scale, 0));
    product_run(plan, &p);
    if (shape->bias)
        cpu_column_sums(plan->threads, o->dy, shape->rows, shape->out, o->dbias, o->accumulate);
}

int cpu_plan_linear(struct cpu_plan *plan, struct error *err)
{
    const struct linear_shape *shape = &plan->operation.linear;

    if (!is_fp8(plan) && (shape->types.x != TYPE_FP32 || !linear_types_equal(&shape->types)))
        return cpu_refuse_type(err);
    if (!cpu_is_gradient_type(shape->types.gradient))
        return cpu_refuse_type(err);
    if (!linear_gate_is_valid(plan->operation.kind, shape))
        return error_bug(
            err, "a gate needs an even number of outputs in the forward pass, and no bias in "
                 "the gradient");
    if (shape->rows > INT32_MAX || shape->in > INT32_MAX || shape->out > INT32_MAX)
        return error_set(err,
                         "a matrix product of %lld x %lld x %lld is too large for the CPU device; "
                         "use a smaller batch",
                         (long long)shape->rows, (long long)shape->in, (long long)shape->out);
    plan->work = plan->operation.kind == OPERATION_LINEAR_FORWARD ? work_forward
                 : plan->operation.kind == OPERATION_LINEAR_DGRAD ? work_dgrad
                                                                  : work_wgrad;
    if (is_fp8(plan) && check_fp8(plan, err) < 0)
        return -1;
    if (!is_fp8(plan) && !is_narrow(plan))
        return 0;
    return cpu_shared_workspace(
        plan,
        factor_bytes(plan) + (is_narrow(plan) ? cpu_piece_bytes(threads_count(plan->threads)) : 0),
        err);
}

struct column_sums {
    const float *x;
    int64_t rows, cols, parts;
    float *out;
    int accumulate;
};

CPU_CLONES static void column_sums_part(void *context, int64_t i)
{
    const struct column_sums *s = context;
    int64_t first = cpu_part(s->cols, s->parts, i), last = cpu_part(s->cols, s->parts, i + 1);

    for (int64_t col = first; col < last; col += 256) {
        int64_t width = last - col < 256 ? last - col : 256;
        float total[256] = {0};

        /* Use partial sums, so that a long column does not lose precision. */
        for (int64_t row = 0; row < s->rows; row += 64) {
            int64_t end = row + 64 < s->rows ? row + 64 : s->rows;
            float part[256] = {0};

            for (int64_t r = row; r < end; r++)
                for (int64_t c = 0; c < width; c++)
                    part[c] += s->x[r * s->cols + col + c];
            for (int64_t c = 0; c < width; c++)
                total[c] += part[c];
        }
        for (int64_t c = 0; c < width; c++)
            s->out[col + c] = s->accumulate ? s->out[col + c] + total[c] : total[c];
    }
}

void cpu_column_sums(struct threads *threads, const float *x, int64_t rows, int64_t cols,
                     float *out, int accumulate)
{
    struct column_sums sums = {x, rows, cols, threads_count(threads), out, accumulate};

    threads_run(threads, sums.parts, column_sums_part, &sums);
}
