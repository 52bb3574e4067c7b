/* SPDX-License-Identifier: Apache-2.0 */
/* Linear layers: a product, with everything around it either in the library's epilogue or in our
 * own kernel; linear_choice.c decides which. */
#include "cuda_error.h"
#include "base/core/xmalloc.h"
#include "hopper_linear.h"
#include "linear_private.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

void cuda_fail_product(struct cuda_plan *plan, cublasStatus_t status)
{
    char text[512];
    const struct linear_shape *s = shape_of(plan);

    snprintf(text, sizeof(text),
             "cuBLASLt: status %d in a linear layer (kind %d) of %" PRId64 " rows, %" PRId64
             " in, %" PRId64 " out" CUDA_CHECK_NODE,
             (int)status, (int)plan->base.kind, s->rows, s->in, s->out);
    cuda_fail_text(cuda_device_of(plan), text);
}

static void check(struct cuda_plan *plan, cublasStatus_t status)
{
    struct linear *linear = plan->parts;

    if (!status)
        return;
    if (linear->on_trial)
        linear->failed = 1;
    else
        cuda_fail_product(plan, status);
}

/* Forward, or the gradient of the input, all of it by our kernel. */
static void own(struct cuda_plan *plan, struct cuda_stream *stream, void *workspace,
                const void *operands)
{
    const struct linear_shape *s = shape_of(plan);
    struct linear *linear = plan->parts;
    int status = plan->base.kind == OPERATION_LINEAR_FORWARD
                     ? hopper_linear_forward(stream->native, s, operands)
                     : hopper_linear_gradient(stream->native, s, operands, workspace);

    if (!status)
        return;
    if (linear->on_trial)
        linear->failed = 1;
    else
        cuda_fail_text(cuda_device_of(plan),
                       "cannot launch the built-in kernel of a linear layer" CUDA_CHECK_NODE);
}

/* Gates -------------------------------------------------------------------------------------- */

static struct swiglu_shape gate_of(const struct linear_shape *s, int64_t cols)
{
    return (struct swiglu_shape){s->rows, cols, s->types.x, s->types.x,
                                 activation_gate(s->activation)};
}

/* Forward ------------------------------------------------------------------------------------ */

/* The activation by our kernel, from what the product has written. */
static void activate(const struct linear_shape *s, struct cuda_stream *stream, const void *pre,
                     void *y)
{
    const struct swiglu_shape gate = gate_of(s, s->out / 2);

    if (gated(s))
        kernel_swiglu(stream->native, &gate, &(struct swiglu_operands){.x = pre, .y = y});
    else
        kernel_activation(
            stream->native,
            &(struct activation_shape){s->rows * s->out, s->types.y, s->types.y, s->activation, 0},
            &(struct activation_operands){.x = pre, .y = y});
}

static void forward(struct cuda_plan *plan, struct cuda_stream *stream, void *workspace,
                    const void *operands)
{
    const struct linear_forward_operands *o = operands;
    const struct linear_shape *s = shape_of(plan);
    struct linear *linear = plan->parts;
    int apart = s->activation != ACTIVATION_NONE && linear->variant == SPLIT;
    struct gemm_operands g = {.a = o->weight,
                              .b = o->x,
                              .d = apart && (s->save_pre || gated(s)) ? o->pre : o->y,
                              .bias = (void *)o->bias,
                              .aux = o->pre};

    check(plan, gemm_run(linear->gemm, stream->native, &g, 0, workspace));
    if (apart)
        activate(s, stream, g.d, o->y);
}

static int make_forward(struct cuda_plan *plan, struct linear *linear, const struct scratch *t,
                        struct error *err)
{
    const struct linear_shape *s = shape_of(plan);
    struct gemm_shape shape = {.m = s->out,
                               .n = s->rows,
                               .k = s->in,
                               .transpose_a = 1,
                               .lda = s->in,
                               .ldb = s->in,
                               .ldd = s->out,
                               .type = s->types.x,
                               .out = s->types.x,
                               .bias_type = s->types.x,
                               .epilogue = s->bias ? GEMM_BIAS : GEMM_PLAIN};
    struct gemm_operands scratch = {0};

    plan->workspace = GEMM_WORKSPACE;
    if (linear->variant == OWN)
        return 0;
    if (linear->variant == FUSED && s->save_pre)
        shape.epilogue = s->bias ? GEMM_GELU_AUX_BIAS : GEMM_GELU_AUX;
    else if (linear->variant == FUSED)
        shape.epilogue = s->bias ? GEMM_GELU_BIAS : GEMM_GELU;
    if (t)
        scratch = (struct gemm_operands){.a = t->weight,
                                         .b = t->x,
                                         .d = gated(s) ? t->pre : t->y,
                                         .bias = t->bias,
                                         .aux = t->pre};
    linear->gemm = gemm_create(&cuda_device_of(plan)->gemm, &shape, t ? &scratch : NULL, err);
    return linear->gemm ? 0 : -1;
}

/* Gradient of the input ---------------------------------------------------------------------- */

static void split_dgrad(struct cuda_plan *plan, struct cuda_stream *stream, void *workspace,
                        const struct linear_dgrad_operands *o)
{
    const struct linear_shape *s = shape_of(plan);
    struct linear *linear = plan->parts;
    float *sums = (float *)((char *)workspace + GEMM_WORKSPACE);
    struct gemm_operands g = {.a = o->weight, .b = o->dy, .d = gated(s) ? o->product : o->dx};
    const struct swiglu_shape gate = gate_of(s, s->in);

    check(plan, gemm_run(linear->gemm, stream->native, &g, 0, workspace));
    if (gated(s)) {
        kernel_swiglu_backward(
            stream->native, &gate,
            &(struct swiglu_backward_operands){.dy = g.d, .x = o->pre, .dx = o->dx});
        return;
    }
    kernel_column_sums(stream->native, s->activation, s->types.x, s->rows, s->in, o->dx, o->pre,
                       o->dx, s->bias ? o->dbias : NULL, o->accumulate, sums);
}

static void dgrad(struct cuda_plan *plan, struct cuda_stream *stream, void *workspace,
                  const void *operands)
{
    const struct linear_dgrad_operands *o = operands;
    const struct linear_shape *s = shape_of(plan);
    struct linear *linear = plan->parts;
    char *space = (char *)workspace + GEMM_WORKSPACE;
    struct gemm_operands g = {
        .a = o->weight, .b = o->dy, .d = o->dx, .bias = space, .aux = (void *)o->pre};
    float *sums = (float *)space;

    if (linear->variant == SPLIT && s->activation != ACTIVATION_NONE) {
        split_dgrad(plan, stream, workspace, o);
        return;
    }
    if (linear->variant == FUSED && s->bias && linear->sum_type == TYPE_FP32 && !o->accumulate)
        g.bias = o->dbias;
    check(plan, gemm_run(linear->gemm, stream->native, &g, 0, workspace));
    if (!s->bias || g.bias == o->dbias)
        return;
    if (linear->variant == FUSED)
        kernel_add_to_fp32(stream->native, linear->sum_type, s->in, space, o->dbias, o->accumulate);
    else
        kernel_column_sums(stream->native, ACTIVATION_NONE, s->types.x, s->rows, s->in, o->dx, NULL,
                           NULL, o->dbias, o->accumulate, sums);
}

static int make_dgrad(struct cuda_plan *plan, struct linear *linear, const struct scratch *t,
                      struct error *err)
{
    const struct linear_shape *s = shape_of(plan);
    struct cuda_device *device = cuda_device_of(plan);
    size_t sums = kernel_column_sums_workspace(s->rows, s->in);
    struct gemm_shape shape = {.m = s->in,
                               .n = s->rows,
                               .k = s->out,
                               .lda = s->in,
                               .ldb = s->out,
                               .ldd = s->in,
                               .type = s->types.x,
                               .out = s->types.x,
                               .bias_type = linear->sum_type,
                               .epilogue = GEMM_PLAIN};
    struct gemm_operands scratch = {0};

    plan->workspace = GEMM_WORKSPACE + sums;
    if (linear->variant == OWN)
        return 0;
    if (linear->variant == FUSED)
        shape.epilogue = s->bias ? GEMM_DGELU_BGRAD : GEMM_DGELU;
    else if (linear->variant == FUSED_PART)
        shape.epilogue = GEMM_DGELU;
    if (t)
        scratch = (struct gemm_operands){
            .a = t->weight, .b = t->y, .d = t->x, .bias = t->dbias, .aux = t->pre};
    linear->gemm = gemm_create(&device->gemm, &shape, t ? &scratch : NULL, err);
    return linear->gemm ? 0 : -1;
}

/* Gradient of the weight --------------------------------------------------------------------- */

static void wgrad(struct cuda_plan *plan, struct cuda_stream *stream, void *workspace,
                  const void *operands)
{
    const struct linear_wgrad_operands *o = operands;
    const struct linear_shape *s = shape_of(plan);
    struct linear *linear = plan->parts;
    char *space = (char *)workspace + GEMM_WORKSPACE;
    struct gemm_operands g = {.a = o->x, .b = o->dy, .d = o->dweight, .bias = space};

    if (linear->variant == FUSED && linear->sum_type == TYPE_FP32 && !o->accumulate)
        g.bias = o->dbias;
    check(plan, gemm_run(linear->gemm, stream->native, &g, o->accumulate != 0, workspace));
    if (!s->bias || g.bias == o->dbias)
        return;
    if (linear->variant == FUSED)
        kernel_add_to_fp32(stream->native, linear->sum_type, s->out, space, o->dbias,
                           o->accumulate);
    else
        kernel_column_sums(stream->native, ACTIVATION_NONE, s->types.y, s->rows, s->out, o->dy,
                           NULL, NULL, o->dbias, o->accumulate, (float *)space);
}

static int make_wgrad(struct cuda_plan *plan, struct linear *linear, const struct scratch *t,
                      struct error *err)
{
    const struct linear_shape *s = shape_of(plan);
    struct cuda_device *device = cuda_device_of(plan);
    struct gemm_shape shape = {.m = s->in,
                               .n = s->out,
                               .k = s->rows,
                               .transpose_b = 1,
                               .lda = s->in,
                               .ldb = s->out,
                               .ldd = s->in,
                               .type = s->types.x,
                               .out = s->types.gradient,
                               .bias_type = linear->sum_type,
                               .epilogue = linear->variant == FUSED ? GEMM_BGRADB : GEMM_PLAIN};
    struct gemm_operands scratch = {0};

    if (t)
        scratch = (struct gemm_operands){.a = t->x, .b = t->y, .d = t->dweight, .bias = t->dbias};
    linear->gemm = gemm_create(&device->gemm, &shape, t ? &scratch : NULL, err);
    plan->workspace = GEMM_WORKSPACE + kernel_column_sums_workspace(s->rows, s->out);
    return linear->gemm ? 0 : -1;
}

/* Variants ----------------------------------------------------------------------------------- */

/* Epilogues are for 16-bit types in whole vectors. */
int linear_is_possible(const struct cuda_plan *plan, enum variant variant)
{
    const struct linear_shape *s = shape_of(plan);
    int gradient = plan->base.kind == OPERATION_LINEAR_DGRAD;

    if (variant == SPLIT)
        return 1;
    if (variant == OWN)
        return plan->base.kind != OPERATION_LINEAR_WGRAD && hopper_linear_fits(s, gradient) &&
               hopper_linear_workspace(s, gradient) <= GEMM_WORKSPACE;
    if (s->types.x == TYPE_FP32 || s->in % 8 || s->out % 8)
        return 0;
    switch (plan->base.kind) {
    case OPERATION_LINEAR_FORWARD:
        return variant == FUSED && s->activation == ACTIVATION_GELU_TANH;
    case OPERATION_LINEAR_DGRAD:
        return s->activation == ACTIVATION_GELU_TANH && (variant == FUSED || s->bias);
    default:
        return variant == FUSED && s->bias;
    }
}

void linear_set_work(struct cuda_plan *plan, const struct linear *linear)
{
    if (linear->variant == OWN)
        plan->work = own;
    else if (plan->base.kind == OPERATION_LINEAR_FORWARD)
        plan->work = forward;
    else if (plan->base.kind == OPERATION_LINEAR_DGRAD)
        plan->work = dgrad;
    else
        plan->work = wgrad;
}

int linear_make(struct cuda_plan *plan, struct linear *linear, const struct scratch *scratch,
                struct error *err)
{
    linear_set_work(plan, linear);
    switch (plan->base.kind) {
    case OPERATION_LINEAR_FORWARD:
        return make_forward(plan, linear, scratch, err);
    case OPERATION_LINEAR_DGRAD:
        return make_dgrad(plan, linear, scratch, err);
    default:
        return make_wgrad(plan, linear, scratch, err);
    }
}

int linear_make_variant(struct cuda_plan *plan, enum variant variant, struct linear *linear,
                        const struct scratch *scratch, struct error *err)
{
    *linear = (struct linear){.variant = variant, .sum_type = TYPE_FP32};
    if (linear_make(plan, linear, scratch, err) == 0)
        return 0;
    if (variant != FUSED || cuda_device_of(plan)->gemm.broken)
        return -1;
    linear->sum_type = shape_of(plan)->types.x;
    return linear_make(plan, linear, scratch, err);
}

static void destroy(struct cuda_plan *plan)
{
    struct linear *linear = plan->parts;

    if (linear)
        gemm_destroy(linear->gemm);
    free(linear);
}

int cuda_plan_linear(struct cuda_plan *plan, struct error *err)
{
    struct linear *linear;

    if (!linear_types_equal(&shape_of(plan)->types) || type_size(shape_of(plan)->types.x) == 1)
        return error_bug(err,
                         "the CUDA device needs one type, fp32, bf16 or fp16, for all operands of "
                         "a linear layer");
    if (shape_of(plan)->types.gradient != TYPE_FP32 &&
        (shape_of(plan)->types.gradient != TYPE_BF16 || shape_of(plan)->types.x != TYPE_BF16))
        return error_bug(err, "main gradients must be fp32, or bf16 if the layer is in bf16");
    if (!linear_gate_is_valid(plan->base.kind, shape_of(plan)))
        return error_bug(
            err, "a gate needs an even number of outputs in the forward pass, and no bias in "
                 "the gradient");
    linear = xcalloc(1, sizeof(*linear));
    plan->parts = linear;
    plan->destroy = destroy;
    return linear_choose(plan, linear, err);
}
