/* SPDX-License-Identifier: Apache-2.0 */
/* Linear layers: a product, with everything around it either in the library's epilogue or in our
 * own kernel, whichever is faster for this shape. */
#include "cuda.h"
#include "cuda_error.h"
#include "hopper_linear.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* How the work around the product is done. */
enum variant {
    SPLIT,      /* all of it in our own kernels */
    FUSED,      /* all of it in the product's epilogue */
    FUSED_PART, /* the activation's gradient in the epilogue, the column sums in our kernel */
    OWN,        /* the product, too, in our kernel */
    VARIANTS,
};

struct linear {
    struct gemm *gemm; /* NULL: OWN */
    enum variant variant;
    enum device_type sum_type; /* type of the sums that an epilogue computes */
    int on_trial;              /* a product that fails then is not a failure of the device */
    int failed;                /* being timed */
};

/* Memory for timing: every operand of the layer. With a gate, 'x' of the gradient is the product,
 * and dx replaces 'pre'. */
struct scratch {
    void *x, *weight, *bias, *y, *pre, *workspace, *dweight;
    float *dbias;
    void *all;
};

static const struct linear_shape *shape_of(const struct cuda_plan *plan)
{
    return &plan->operation.linear;
}

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

static int gated(const struct linear_shape *s)
{
    return is_gated(s->activation);
}

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
        kernel_activation(stream->native, s->activation, s->types.y, s->rows * s->out, pre, y);
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
                       o->dx, s->bias ? o->dbias : NULL, o->accumulate, sums,
                       cuda_device_of(plan)->processors);
}

static void dgrad(struct cuda_plan *plan, struct cuda_stream *stream, void *workspace,
                  const void *operands)
{
    const struct linear_dgrad_operands *o = operands;
    const struct linear_shape *s = shape_of(plan);
    struct linear *linear = plan->parts;
    struct cuda_device *device = cuda_device_of(plan);
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
                           NULL, o->dbias, o->accumulate, sums, device->processors);
}

static int make_dgrad(struct cuda_plan *plan, struct linear *linear, const struct scratch *t,
                      struct error *err)
{
    const struct linear_shape *s = shape_of(plan);
    struct cuda_device *device = cuda_device_of(plan);
    size_t sums = kernel_column_sums_workspace(s->rows, s->in, device->processors);
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
                           NULL, NULL, o->dbias, o->accumulate, (float *)space,
                           cuda_device_of(plan)->processors);
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
    plan->workspace =
        GEMM_WORKSPACE + kernel_column_sums_workspace(s->rows, s->out, device->processors);
    return linear->gemm ? 0 : -1;
}

/* Choosing ----------------------------------------------------------------------------------- */

/* Is a variant valid for this plan? Epilogues are for 16-bit types in whole vectors. */
static int possible(const struct cuda_plan *plan, enum variant variant)
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

static void set_work(struct cuda_plan *plan, const struct linear *linear)
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

static int make(struct cuda_plan *plan, struct linear *linear, const struct scratch *scratch,
                struct error *err)
{
    set_work(plan, linear);
    switch (plan->base.kind) {
    case OPERATION_LINEAR_FORWARD:
        return make_forward(plan, linear, scratch, err);
    case OPERATION_LINEAR_DGRAD:
        return make_dgrad(plan, linear, scratch, err);
    default:
        return make_wgrad(plan, linear, scratch, err);
    }
}

/* Sums in fp32 if the library supports it, else in the type of the layer. */
static int make_variant(struct cuda_plan *plan, enum variant variant, struct linear *linear,
                        const struct scratch *scratch, struct error *err)
{
    *linear = (struct linear){.variant = variant, .sum_type = TYPE_FP32};
    if (make(plan, linear, scratch, err) == 0)
        return 0;
    if (variant != FUSED || cuda_device_of(plan)->gemm.broken)
        return -1;
    linear->sum_type = shape_of(plan)->types.x;
    return make(plan, linear, scratch, err);
}

struct trial {
    struct cuda_plan *plan;
    const struct scratch *scratch;
    struct linear *linear;
};

static int run_trial(void *argument)
{
    struct trial *trial = argument;
    struct cuda_plan *plan = trial->plan;
    const struct scratch *t = trial->scratch;
    struct cuda_stream stream = {.native = cuda_device_of(plan)->gemm.stream};

    plan->parts = trial->linear;
    set_work(plan, trial->linear);
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
    size_t sums_in = kernel_column_sums_workspace(s->rows, s->in, device->processors);
    size_t sums_out = kernel_column_sums_workspace(s->rows, s->out, device->processors);
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
    int ours = possible(plan, OWN), alone = gated(s) && !ours;
    char more[32] = "";

    if (ours)
        snprintf(more, sizeof(more), ":ours%d", HOPPER_LINEAR_VERSION);
    if (plan->base.kind == OPERATION_LINEAR_WGRAD && s->types.gradient != TYPE_FP32)
        snprintf(more, sizeof(more), ":gradient%d", (int)s->types.gradient);
    snprintf(key, size, "linear%d:%" PRId64 ":%" PRId64 ":%" PRId64 ":%d:%d:%d:%d%s",
             (int)plan->base.kind, s->rows, s->in, s->out, (int)s->types.x, s->bias,
             alone ? (int)ACTIVATION_NONE : (int)s->activation, alone ? 0 : s->save_pre, more);
}

/* Remember the variant. The text after it is for people who read the file. */
static int remember(struct cuda_plan *plan, const struct linear *linear, const char *notes,
                    struct error *err)
{
    char key[256], value[128];

    make_key(plan, key, sizeof(key));
    snprintf(value, sizeof(value), "%d%s", (int)linear->variant, notes);
    return tuning_put(cuda_device_of(plan)->gemm.tuning, key, value, err);
}

/* Create all possible variants; returns their number, or -1 if one broke the GPU. If it is 0, 'err'
 * has the reason. */
static int make_variants(struct cuda_plan *plan, struct linear made[VARIANTS],
                         const struct scratch *scratch, struct error *err)
{
    int count = 0;

    for (int v = 0; v < VARIANTS; v++) {
        struct error why;

        if (!possible(plan, (enum variant)v))
            continue;
        if (make_variant(plan, (enum variant)v, &made[count], scratch, &why) == 0) {
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

/* Time all possible variants; the fastest stays in 'linear'. */
static int choose(struct cuda_plan *plan, struct linear *linear, const struct scratch *scratch,
                  struct error *err)
{
    struct cuda_device *device = cuda_device_of(plan);
    struct linear made[VARIANTS];
    struct trial trials[VARIANTS];
    struct timing_candidate candidates[VARIANTS];
    int count = make_variants(plan, made, scratch, err), provisional = 0;
    char times[112] = "";

    if (count <= 0)
        return -1;
    for (int i = 0; i < count; i++) {
        trials[i] = (struct trial){plan, scratch, &made[i]};
        candidates[i] = (struct timing_candidate){run_trial, &trials[i], 1, 0, 0};
        provisional |= made[i].gemm && gemm_is_provisional(made[i].gemm);
    }
    gemm_rank_candidates(&device->gemm, candidates, count);
    plan->parts = linear;
    linear->variant = VARIANTS;
    for (int i = 0; i < count; i++) {
        struct linear *one = ((struct trial *)candidates[i].argument)->linear;
        double seconds = candidates[i].seconds;

        snprintf(times + strlen(times), sizeof(times) - strlen(times), ",%d:%.0fus",
                 (int)one->variant, seconds * 1e6);
        if (i == 0 && seconds > 0)
            *linear = *one;
        else
            gemm_destroy(one->gemm);
    }
    if (linear->variant == VARIANTS) {
        cudaError_t status = cudaStreamSynchronize(device->gemm.stream);

        return cuda_error(err, status, "no kernel of cuBLASLt runs a linear layer of this model");
    }
    set_work(plan, linear);
    if (provisional)
        snprintf(times + strlen(times), sizeof(times) - strlen(times), "%c", TUNING_PROVISIONAL);
    return remember(plan, linear, times, err);
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
    if (!possible(plan, variant))
        return -1;
    for (size_t i = 0; i < sizeof(sum_types) / sizeof(*sum_types); i++) {
        *linear = (struct linear){.variant = variant, .sum_type = sum_types[i]};
        if (make(plan, linear, NULL, NULL) == 0 &&
            (variant == OWN || gemm_is_remembered(linear->gemm)))
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

    if (make_variant(plan, SPLIT, linear, NULL, err) < 0)
        return -1;
    if (!cuda_device_of(plan)->deterministic)
        return 0;
    return gemm_remember(linear->gemm, err) < 0 ? -1 : remember(plan, linear, untimed, err);
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
    struct scratch scratch = {0};
    int result;

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
    linear = calloc(1, sizeof(*linear));
    if (!linear)
        return error_set(err, "out of memory");
    plan->parts = linear;
    plan->destroy = destroy;
    if (recall(plan, linear) == 0)
        return 0;
    if (scratch_create(plan, &scratch))
        return take_first(plan, linear, err);
    result = choose(plan, linear, &scratch, err);
    cudaFree(scratch.all);
    return result;
}
