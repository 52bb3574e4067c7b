/* SPDX-License-Identifier: Apache-2.0 */
/* Plans that consist of one or two of our kernels. */
#include "cuda.h"
#include "engine/device/operation_name.h"
#include "quantize.h"

#define STREAM stream->native

/* Operations whose kernel needs only a shape and operands. */
#define PLAIN_WORK(name, member)                                                                 \
    static void work_##name(struct cuda_plan *plan, struct cuda_stream *stream, void *workspace, \
                            const void *operands)                                                \
    {                                                                                            \
        (void)workspace;                                                                         \
        kernel_##name(STREAM, &plan->operation.member, operands);                                \
    }
PLAIN_WORK(rope, rope)
PLAIN_WORK(head_norm, head_norm)
PLAIN_WORK(scale, scale)
PLAIN_WORK(softcap, softcap)
PLAIN_WORK(clip, clip)
PLAIN_WORK(scaling, scaling)
PLAIN_WORK(weight_scales, weight_scales)
PLAIN_WORK(quantize_squares, quantize_squares)
PLAIN_WORK(swiglu, swiglu)
PLAIN_WORK(swiglu_backward, swiglu)
PLAIN_WORK(embedding, embedding)
PLAIN_WORK(cross_entropy_partial, cross_entropy)
PLAIN_WORK(adam, adam)
PLAIN_WORK(muon, muon)
PLAIN_WORK(step, step)
PLAIN_WORK(convert, convert)
PLAIN_WORK(add, add)
PLAIN_WORK(gather_rows, gather_rows)
PLAIN_WORK(normal, normal)
PLAIN_WORK(fill, fill)
#undef PLAIN_WORK

static void work_activation(struct cuda_plan *plan, struct cuda_stream *stream, void *workspace,
                            const void *operands)
{
    const struct activation_shape *s = &plan->operation.activation;
    const struct activation_operands *o = operands;

    const void *from = s->backward ? o->dy : o->x;

    (void)workspace;
    if (s->activation == ACTIVATION_NONE && from != o->y)
        cudaMemcpyAsync(o->y, from, (size_t)s->count * type_size(s->type), cudaMemcpyDeviceToDevice,
                        STREAM);
    else if (s->activation != ACTIVATION_NONE && s->backward)
        kernel_activation_backward(STREAM, s->activation, s->type, s->count, o->x, o->dy, o->y);
    else if (s->activation != ACTIVATION_NONE)
        kernel_activation(STREAM, s->activation, s->type, s->count, o->x, o->y);
}

static void work_residual_norm(struct cuda_plan *plan, struct cuda_stream *stream, void *workspace,
                               const void *operands)
{
    (void)workspace;
    kernel_residual_norm(STREAM, &plan->operation.residual_norm, operands);
}

static void work_residual_norm_backward(struct cuda_plan *plan, struct cuda_stream *stream,
                                        void *workspace, const void *operands)
{
    kernel_residual_norm_backward(STREAM, &plan->operation.residual_norm, operands, workspace,
                                  cuda_device_of(plan)->processors);
}

static void work_head_norm_backward(struct cuda_plan *plan, struct cuda_stream *stream,
                                    void *workspace, const void *operands)
{
    kernel_head_norm_backward(STREAM, &plan->operation.head_norm, operands, workspace,
                              cuda_device_of(plan)->processors);
}

static void work_embedding_backward(struct cuda_plan *plan, struct cuda_stream *stream,
                                    void *workspace, const void *operands)
{
    kernel_embedding_backward(STREAM, &plan->operation.embedding, operands, workspace);
}

static void work_cross_entropy_finish(struct cuda_plan *plan, struct cuda_stream *stream,
                                      void *workspace, const void *operands)
{
    kernel_cross_entropy_finish(STREAM, &plan->operation.cross_entropy, operands, workspace);
}

static void work_square_sum(struct cuda_plan *plan, struct cuda_stream *stream, void *workspace,
                            const void *operands)
{
    kernel_square_sum(STREAM, &plan->operation.square_sum, operands, workspace);
}

/* The workspace has the largest magnitudes first, then partial column sums. */
static void work_quantize(struct cuda_plan *plan, struct cuda_stream *stream, void *workspace,
                          const void *operands)
{
    const struct quantize_shape *s = &plan->operation.quantize;
    const struct quantize_operands *o = operands;
    uint32_t *largest = workspace;
    const struct quantize_result result = {.type = s->to,
                                           .rows = o->rows,
                                           .columns = o->columns,
                                           .scale = o->scale,
                                           .amax = o->amax,
                                           .largest = o->scaled ? NULL : largest,
                                           .margin = s->margin,
                                           .inverse = o->inverse};

    float *dbias = s->bias ? o->dbias : NULL, *sums = (float *)(largest + QUANTIZE_PARTS);

    if (s->part != SCALED_WHOLE) {
        kernel_quantize_blocks(STREAM, s, o, workspace);
        return;
    }
    switch (s->source) {
    case QUANTIZE_ACTIVATION:
        kernel_quantize_gelu(STREAM, s->from, s->rows, s->cols, o->x, &result);
        break;
    case QUANTIZE_ACTIVATION_GRADIENT:
        kernel_quantize_gelu_backward(STREAM, s->from, s->rows, s->cols, o->dy, o->x, &result,
                                      dbias, o->accumulate, sums);
        break;
    case QUANTIZE_GATE:
        kernel_quantize_swiglu(STREAM, s->from, s->rows, s->cols, o->x, &result);
        break;
    case QUANTIZE_GATE_GRADIENT:
        kernel_quantize_swiglu_backward(STREAM, s->from, s->rows, s->cols / 2, o->dy, o->x, &result,
                                        dbias, o->accumulate, sums);
        break;
    default:
        if (s->from == s->to)
            kernel_transpose_bytes(STREAM, s->rows, s->cols, o->x, o->columns);
        else if (s->from == TYPE_FP32)
            kernel_quantize_master(STREAM, s->rows, s->cols, o->x, &result);
        else
            kernel_quantize(STREAM, s->from, s->rows, s->cols, s->cols, o->x, &result, dbias,
                            o->accumulate, sums);
        break;
    }
}

typedef void work_function(struct cuda_plan *plan, struct cuda_stream *stream, void *workspace,
                           const void *operands);

static work_function *const works[OPERATION_COUNT] = {
    [OPERATION_ACTIVATION] = work_activation,
    [OPERATION_RESIDUAL_NORM] = work_residual_norm,
    [OPERATION_RESIDUAL_NORM_BACKWARD] = work_residual_norm_backward,
    [OPERATION_ROPE] = work_rope,
    [OPERATION_SWIGLU] = work_swiglu,
    [OPERATION_SWIGLU_BACKWARD] = work_swiglu_backward,
    [OPERATION_EMBEDDING] = work_embedding,
    [OPERATION_EMBEDDING_BACKWARD] = work_embedding_backward,
    [OPERATION_CROSS_ENTROPY_PARTIAL] = work_cross_entropy_partial,
    [OPERATION_CROSS_ENTROPY_FINISH] = work_cross_entropy_finish,
    [OPERATION_ADAM] = work_adam,
    [OPERATION_SQUARE_SUM] = work_square_sum,
    [OPERATION_STEP] = work_step,
    [OPERATION_CONVERT] = work_convert,
    [OPERATION_ADD] = work_add,
    [OPERATION_GATHER_ROWS] = work_gather_rows,
    [OPERATION_NORMAL] = work_normal,
    [OPERATION_FILL] = work_fill,
    [OPERATION_HEAD_NORM] = work_head_norm,
    [OPERATION_HEAD_NORM_BACKWARD] = work_head_norm_backward,
    [OPERATION_SCALE] = work_scale,
    [OPERATION_SOFTCAP] = work_softcap,
    [OPERATION_CLIP] = work_clip,
    [OPERATION_MUON] = work_muon,
    [OPERATION_QUANTIZE] = work_quantize,
    [OPERATION_SCALING] = work_scaling,
    [OPERATION_WEIGHT_SCALES] = work_weight_scales,
    [OPERATION_QUANTIZE_SQUARES] = work_quantize_squares,
};

static size_t workspace_of(const struct cuda_plan *plan)
{
    const struct operation *operation = &plan->operation;

    switch (operation->kind) {
    case OPERATION_RESIDUAL_NORM_BACKWARD:
        return kernel_residual_norm_backward_workspace(
            &operation->residual_norm, ((struct cuda_device *)plan->base.device)->processors);
    case OPERATION_HEAD_NORM_BACKWARD:
        return kernel_head_norm_backward_workspace(
            &operation->head_norm, ((struct cuda_device *)plan->base.device)->processors);
    case OPERATION_EMBEDDING_BACKWARD:
        return kernel_embedding_backward_workspace(&operation->embedding);
    case OPERATION_CROSS_ENTROPY_FINISH:
        return kernel_cross_entropy_finish_workspace(&operation->cross_entropy);
    case OPERATION_SQUARE_SUM:
        return kernel_square_sum_workspace();
    case OPERATION_QUANTIZE:
        if (operation->quantize.part != SCALED_WHOLE)
            return kernel_quantize_blocks_workspace(&operation->quantize);
        return QUANTIZE_PARTS * sizeof(uint32_t) +
               kernel_quantize_workspace(operation->quantize.rows, operation->quantize.cols);
    default:
        return 0;
    }
}

/* A norm of 16-bit rows may leave its result as e4m3, in whole vectors. */
static int casts_norm(const struct residual_norm_shape *s)
{
    return type_size(s->type) == 2 && s->y_type == TYPE_E4M3 && s->norm != NORM_NONE &&
           s->cols % 16 == 0;
}

/* Would a kernel have to write another type than it reads, or compute in fp8? */
static int has_mixed_types(const struct operation *op)
{
    switch (op->kind) {
    case OPERATION_ACTIVATION:
        return op->activation.type != op->activation.y_type || type_size(op->activation.type) == 1;
    case OPERATION_RESIDUAL_NORM:
        if (casts_norm(&op->residual_norm))
            return 0;
        /* fallthrough */
    case OPERATION_RESIDUAL_NORM_BACKWARD:
        return op->residual_norm.type != op->residual_norm.y_type ||
               type_size(op->residual_norm.type) == 1;
    case OPERATION_SWIGLU:
    case OPERATION_SWIGLU_BACKWARD:
        return op->swiglu.type != op->swiglu.y_type || type_size(op->swiglu.type) == 1;
    case OPERATION_FILL:
        return type_size(op->fill.type) == 1 && op->fill.value != 0;
    default:
        return 0;
    }
}

/* Do the sizes fit whole vectors, or the blocks of a scale? */
static int cast_fits(const struct quantize_shape *s)
{
    int64_t unit = s->part == SCALED_WHOLE ? 16 : SCALING_BLOCK;
    int square = s->part == SCALED_SQUARES;

    return s->rows % unit == 0 &&
           s->cols % (s->source == QUANTIZE_GATE_GRADIENT ? 2 * unit : unit) == 0 &&
           (s->part == SCALED_WHOLE || type_size(s->from) == 2) &&
           (!square || (s->to == TYPE_E4M3 && s->source == QUANTIZE_MATRIX && !s->bias));
}

/* Master weights, or a part of them, which are not transposed. */
static int casts_masters(const struct quantize_shape *s)
{
    return s->from == TYPE_FP32 && s->to == TYPE_E4M3 && s->source == QUANTIZE_MATRIX && !s->bias &&
           s->part == SCALED_WHOLE && s->rows % 4 == 0 && s->cols % 16 == 0;
}

/* Other casts are from 16 to 8 bits, in whole vectors, and compute GELU by tanh and SwiGLU; what
 * was cast already is transposed. */
static int casts(const struct quantize_shape *s)
{
    int active = s->source == QUANTIZE_ACTIVATION || s->source == QUANTIZE_ACTIVATION_GRADIENT;
    int gated = s->source == QUANTIZE_GATE || s->source == QUANTIZE_GATE_GRADIENT;
    int transposes = s->from == s->to && s->source == QUANTIZE_MATRIX && !s->bias;

    if (casts_masters(s))
        return 1;
    return (type_size(s->from) == 2 || transposes) && type_size(s->to) == 1 && cast_fits(s) &&
           (!active || s->activation == ACTIVATION_GELU_TANH) && (!gated || s->gate == GATE_SILU) &&
           (!s->bias || (s->source != QUANTIZE_ACTIVATION && s->source != QUANTIZE_GATE));
}

static int squares_fit(const struct quantize_squares_shape *s)
{
    return (s->rows | s->cols | s->first | s->count) % SCALING_BLOCK == 0;
}

int cuda_plan_kernel(struct cuda_plan *plan, struct error *err)
{
    const struct operation *operation = &plan->operation;

    if ((unsigned)operation->kind >= OPERATION_COUNT || !works[operation->kind])
        return error_bug(err, "no CUDA kernel for %s", operation_name(operation->kind));
    if (has_mixed_types(operation))
        return error_bug(err,
                         "the CUDA device needs one type, fp32, bf16 or fp16, for all operands "
                         "of a norm or an activation");
    if (operation->kind == OPERATION_QUANTIZE && !casts(&operation->quantize))
        return error_bug(err,
                         "no CUDA kernel casts a matrix of this type, size or activation to fp8");
    if (operation->kind == OPERATION_QUANTIZE_SQUARES && !squares_fit(&operation->quantize_squares))
        return error_bug(err, "a part of a weight with blockwise scales needs multiples of %d",
                         SCALING_BLOCK);
    plan->work = works[operation->kind];
    plan->workspace = workspace_of(plan);
    return 0;
}
