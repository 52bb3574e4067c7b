/* SPDX-License-Identifier: Apache-2.0 */
/* Linear layers with fp8 factors: a product by cuBLASLt, which takes them only as A transposed and
 * B not, with the summed dimension contiguous in both. Bias is in its epilogue, the activation and
 * column sums are in our kernels.
 *
 * Accumulation: fast in the forward pass, with promotion to fp32 in both gradients, as Transformer
 * Engine does it. With blockwise scales there is no fast accumulation. */
#include "cuda.h"

#include <inttypes.h>
#include <stdlib.h>

enum { UNIT = 16 }; /* bytes: leading dimensions and addresses are multiples of it */

static const struct linear_shape *shape_of(const struct cuda_plan *plan)
{
    return &plan->operation.linear;
}

static void run(struct cuda_plan *plan, struct cuda_stream *stream, const struct gemm_operands *g,
                int accumulate, void *workspace)
{
    cublasStatus_t status = gemm_run(plan->parts, stream->native, g, accumulate, workspace);

    if (status)
        cuda_fail_product(plan, status);
}

static void forward(struct cuda_plan *plan, struct cuda_stream *stream, void *workspace,
                    const void *operands)
{
    const struct linear_forward_operands *o = operands;
    const struct linear_shape *s = shape_of(plan);
    int active = s->activation != ACTIVATION_NONE;
    struct gemm_operands g = {.a = o->weight,
                              .b = o->x,
                              .d = active && s->save_pre ? o->pre : o->y,
                              .bias = (void *)o->bias,
                              .scale_a = o->weight_scale.inverse,
                              .scale_b = o->x_scale.inverse};

    run(plan, stream, &g, 0, workspace);
    if (active)
        kernel_activation(
            stream->native,
            &(struct activation_shape){s->rows * s->out, s->types.y, s->types.y, s->activation, 0},
            &(struct activation_operands){.x = g.d, .y = o->y});
}

static void dgrad(struct cuda_plan *plan, struct cuda_stream *stream, void *workspace,
                  const void *operands)
{
    const struct linear_dgrad_operands *o = operands;
    const struct linear_shape *s = shape_of(plan);
    float *sums = (float *)((char *)workspace + GEMM_WORKSPACE);
    int active = s->activation != ACTIVATION_NONE;
    struct gemm_operands g = {.a = o->weight,
                              .b = o->dy,
                              .d = o->dx,
                              .scale_a = o->weight_scale.inverse,
                              .scale_b = o->dy_scale.inverse};

    run(plan, stream, &g, 0, workspace);
    if (active || s->bias)
        kernel_column_sums(stream->native, s->activation, s->types.x, s->rows, s->in, o->dx,
                           active ? o->pre : NULL, active ? o->dx : NULL, s->bias ? o->dbias : NULL,
                           o->accumulate, sums);
}

static void wgrad(struct cuda_plan *plan, struct cuda_stream *stream, void *workspace,
                  const void *operands)
{
    const struct linear_wgrad_operands *o = operands;
    struct gemm_operands g = {.a = o->x,
                              .b = o->dy,
                              .d = o->dweight,
                              .scale_a = o->x_scale.inverse,
                              .scale_b = o->dy_scale.inverse};

    run(plan, stream, &g, o->accumulate != 0, workspace);
}

/* --- Plans ------------------------------------------------------------------------------------ */

/* The product of a kind, column-major: D (m x n), sums over k. */
static struct gemm_shape product_of(const struct cuda_plan *plan)
{
    const struct linear_shape *s = shape_of(plan);
    const enum scaled_part squares = s->blocks ? SCALED_SQUARES : SCALED_WHOLE;
    const enum scaled_part vectors = s->blocks ? SCALED_VECTORS : SCALED_WHOLE;
    struct gemm_shape g = {.transpose_a = 1,
                           .type = s->types.pre,
                           .bias_type = s->types.pre,
                           .out = s->types.pre,
                           .epilogue = GEMM_PLAIN};

    switch (plan->base.kind) {
    case OPERATION_LINEAR_FORWARD:
        g.m = s->out, g.n = s->rows, g.k = s->in;
        g.fp8_a = s->types.weight, g.fp8_b = s->types.x;
        g.epilogue = s->bias ? GEMM_BIAS : GEMM_PLAIN;
        g.fast = !s->blocks;
        g.part_a = squares, g.part_b = vectors;
        break;
    case OPERATION_LINEAR_DGRAD:
        g.m = s->in, g.n = s->rows, g.k = s->out;
        g.fp8_a = s->types.weight, g.fp8_b = s->types.y;
        g.part_a = squares, g.part_b = vectors;
        break;
    default:
        g.m = s->in, g.n = s->out, g.k = s->rows;
        g.fp8_a = s->types.x, g.fp8_b = s->types.y;
        g.part_a = vectors, g.part_b = vectors;
        g.out = s->types.gradient;
        break;
    }
    g.lda = g.ldb = g.k;
    g.ldd = g.m;
    return g;
}

/* Operands for timing: factors of normal numbers, because time depends on the data. */
struct scratch {
    struct gemm_operands operands;
    void *all;
};

/* Cast a factor (rows, depth) of noise; 'scale' is 1, or where its scales go. */
static void cast_noise(cudaStream_t stream, int64_t rows, int64_t depth, enum device_type type,
                       enum scaled_part part, void *noise, void *to, float *scale)
{
    const struct quantize_shape shape = {
        .rows = rows, .cols = depth, .from = TYPE_BF16, .to = type, .part = part};
    const struct quantize_operands operands = {.x = noise,
                                               .rows = to,
                                               .scale = scale,
                                               .scaled = 1,
                                               .inverse = part == SCALED_WHOLE ? NULL : scale};

    kernel_noise(stream, TYPE_BF16, rows * depth, noise);
    kernel_quantize(stream, &shape, &operands, NULL);
}

static int scratch_create(struct cuda_plan *plan, const struct gemm_shape *g, struct scratch *t)
{
    struct cuda_device *device = cuda_device_of(plan);
    cudaStream_t stream = device->gemm.stream;
    const float one = 1;
    int64_t more = g->m > g->n ? g->m : g->n;
    size_t a = cuda_align((size_t)(g->m * g->k)), b = cuda_align((size_t)(g->n * g->k));
    size_t d = cuda_align((size_t)(g->m * g->n) * type_size(g->out));
    size_t bias = cuda_align((size_t)g->m * type_size(g->bias_type));
    size_t wide = cuda_align((size_t)(more * g->k) * type_size(TYPE_BF16));
    size_t scales_a = cuda_align((size_t)scaling_count(g->part_a, g->m, g->k) * sizeof(float));
    size_t scales_b = cuda_align((size_t)scaling_count(g->part_b, g->n, g->k) * sizeof(float));
    char *at, *noise;
    float *scale_a, *scale_b;

    if (cudaMalloc(&t->all, a + b + d + bias + wide + scales_a + scales_b)) {
        cudaGetLastError();
        return -1;
    }
    at = t->all;
    noise = at + a + b + d + bias;
    scale_a = (float *)(noise + wide);
    scale_b = (float *)(noise + wide + scales_a);
    cudaMemcpyAsync(scale_a, &one, sizeof(one), cudaMemcpyHostToDevice, stream);
    cudaMemcpyAsync(scale_b, &one, sizeof(one), cudaMemcpyHostToDevice, stream);
    cast_noise(stream, g->m, g->k, g->fp8_a, g->part_a, noise, at, scale_a);
    cast_noise(stream, g->n, g->k, g->fp8_b, g->part_b, noise, at + a, scale_b);
    kernel_noise(stream, g->bias_type, g->m, at + a + b + d);
    t->operands = (struct gemm_operands){.a = at,
                                         .b = at + a,
                                         .d = at + a + b,
                                         .bias = at + a + b + d,
                                         .scale_a = scale_a,
                                         .scale_b = scale_b};
    return 0;
}

static void destroy(struct cuda_plan *plan)
{
    gemm_destroy(plan->parts);
}

int cuda_linear_is_fp8(const struct operation *operation)
{
    const struct linear_types *types = &operation->linear.types;

    return type_size(operation->kind == OPERATION_LINEAR_WGRAD ? types->x : types->weight) == 1;
}

/* Both factors are fp8, not both e5m2, and all else is one 16-bit type. */
static int check(const struct cuda_plan *plan, const struct gemm_shape *g, struct error *err)
{
    const struct linear_shape *s = shape_of(plan);
    int wgrad_kind = plan->base.kind == OPERATION_LINEAR_WGRAD;
    enum device_type result = plan->base.kind == OPERATION_LINEAR_FORWARD ? s->types.y : s->types.x;
    int unit = s->blocks ? SCALING_BLOCK : UNIT;

    if (!linear_gate_is_valid(plan->base.kind, s))
        return error_bug(err, "no fp8 linear layer has a gate");
    if (s->blocks && !device_supports_blocks(plan->base.device))
        return error_bug(err, "this GPU or cuBLASLt has no blockwise scales of fp8 factors");
    if (g->fp8_a == TYPE_E5M2 && g->fp8_b == TYPE_E5M2)
        return error_bug(err, "a product of two e5m2 factors is not supported");
    if (type_size(g->fp8_a) != 1 || type_size(g->fp8_b) != 1 || type_size(s->types.pre) != 2 ||
        (!wgrad_kind && result != s->types.pre) || (wgrad_kind && s->bias) ||
        (s->types.gradient != TYPE_FP32 &&
         (s->types.gradient != TYPE_BF16 || s->types.pre != TYPE_BF16)))
        return error_bug(err,
                         "the CUDA device needs two fp8 factors and bf16 or fp16 for all other "
                         "operands of an fp8 linear layer");
    if ((g->m | g->n | g->k) % unit) {
        error_set(err,
                  "an fp8 linear layer of %" PRId64 " rows, %" PRId64 " in, %" PRId64
                  " out: all must be multiples of %d",
                  s->rows, s->in, s->out, unit);
        return error_append(err, "; change these sizes of the model, or train without fp8");
    }
    return 0;
}

/* The product with the algorithm that was found earlier, without memory for trials; NULL: none is
 * known. */
static struct gemm *recall(struct gemm_context *context, const struct gemm_shape *g)
{
    struct gemm *gemm = gemm_create(context, g, NULL, NULL);

    if (gemm && gemm->remembered)
        return gemm;
    gemm_destroy(gemm);
    return NULL;
}

/* With the fastest algorithm, if there is memory for trials. */
static struct gemm *make(struct gemm_context *context, const struct gemm_shape *g,
                         const struct gemm_operands *scratch, struct error *err)
{
    struct gemm *gemm = gemm_create(context, g, scratch, err);

    if (!gemm || !scratch || gemm_decide(gemm, scratch, err) == 0)
        return gemm;
    gemm_destroy(gemm);
    return NULL;
}

int cuda_plan_linear_fp8(struct cuda_plan *plan, struct error *err)
{
    const struct linear_shape *s = shape_of(plan);
    struct cuda_device *device = cuda_device_of(plan);
    struct gemm_shape g = product_of(plan);
    struct scratch scratch = {0};
    int timed = 1;

    if (check(plan, &g, err) < 0)
        return -1;
    plan->parts = recall(&device->gemm, &g);
    if (!plan->parts) {
        cuda_attention_settle(device); /* its threads would disturb the timing */
        timed = scratch_create(plan, &g, &scratch) == 0;
        plan->parts = make(&device->gemm, &g, timed ? &scratch.operands : NULL, err);
        cudaFree(scratch.all);
    }
    if (!plan->parts)
        return -1;
    plan->destroy = destroy;
    plan->work = plan->base.kind == OPERATION_LINEAR_FORWARD ? forward
                 : plan->base.kind == OPERATION_LINEAR_DGRAD ? dgrad
                                                             : wgrad;
    plan->workspace = GEMM_WORKSPACE + (plan->base.kind == OPERATION_LINEAR_DGRAD
                                            ? kernel_column_sums_workspace(s->rows, s->in)
                                            : 0);
    /* Without memory for trials. The next deterministic run must choose the same. */
    if (!timed && device->deterministic && !((struct gemm *)plan->parts)->remembered)
        gemm_remember(plan->parts);
    return 0;
}
