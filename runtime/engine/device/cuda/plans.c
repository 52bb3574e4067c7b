/* SPDX-License-Identifier: Apache-2.0 */
/* Plans that consist of our kernels; operations.def tells which. */
#include "cuda.h"

/* How an operation works, and the bytes of memory that it needs on the stream. */
struct work {
    void (*run)(struct cuda_plan *plan, struct cuda_stream *stream, void *workspace,
                const void *operands);
    size_t (*space)(const struct operation *operation); /* NULL: 0 */
};

#define KERNEL(name, shape)                                                                      \
    static void work_##name(struct cuda_plan *plan, struct cuda_stream *stream, void *workspace, \
                            const void *operands)                                                \
    {                                                                                            \
        (void)workspace;                                                                         \
        kernel_##name(stream->native, &plan->operation.shape, operands);                         \
    }
#define KERNEL_AND_SPACE(name, shape)                                                            \
    static void work_##name(struct cuda_plan *plan, struct cuda_stream *stream, void *workspace, \
                            const void *operands)                                                \
    {                                                                                            \
        kernel_##name(stream->native, &plan->operation.shape, operands, workspace);              \
    }                                                                                            \
    static size_t space_##name(const struct operation *operation)                                \
    {                                                                                            \
        return kernel_##name##_workspace(&operation->shape);                                     \
    }
#define LINEAR(...)
#define ATTENTION(...)
#define OPERATION(kind, name, shape, category, label, cpu, cuda) cuda(name, shape)
#include "engine/device/operations.def"
#undef KERNEL
#undef KERNEL_AND_SPACE
#undef LINEAR
#undef ATTENTION

static const struct work works[OPERATION_COUNT] = {
#define KERNEL(name)                                             work_##name, NULL
#define KERNEL_AND_SPACE(name)                                   work_##name, space_##name
#define LINEAR(name)                                             NULL, NULL
#define ATTENTION(name)                                          NULL, NULL
#define OPERATION(kind, name, shape, category, label, cpu, cuda) [OPERATION_##kind] = {cuda(name)},
#include "engine/device/operations.def"
};

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
    const struct work *work = &works[operation->kind];

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
    plan->work = work->run;
    plan->workspace = work->space ? work->space(operation) : 0;
    return 0;
}
