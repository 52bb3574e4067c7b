/* SPDX-License-Identifier: Apache-2.0 */
/* Attention: by cuDNN or our own kernels if they support the shape; otherwise, or on request, with
 * the scores in memory, one sample at a time. */
#include "cuda.h"
#include "cuda_error.h"
#include "base/core/xmalloc.h"

#include <inttypes.h>
#include <stdlib.h>

/* The products of one sample; D = A B as in gemm.h. */
enum product { SCORES, OUTPUT, DPROBABILITIES, DQ, DK, DV, PRODUCTS };

struct attention {
    struct flash *flash;
    struct flash_shape shape;
    pthread_t maker; /* the thread that makes 'flash', the kernel with the number 'known' */
    int known;
    struct gemm *gemm[PRODUCTS];
};

/* Parts of the workspace if scores are in memory. */
struct space {
    float *scores, *dp, *delta;
    void *probabilities, *dscores, *gemm;
    size_t total;
};

static const struct attention_shape *shape_of(const struct cuda_plan *plan)
{
    return &plan->operation.attention;
}

/* Row pitch of the scores in elements: whole vectors, for kernels and products alike. */
static int pitch_of(const struct attention_shape *s)
{
    return (int)((s->kv_rows + 7) / 8 * 8);
}

static struct space divide(const struct cuda_plan *plan, void *workspace)
{
    const struct attention_shape *s = shape_of(plan);
    int backward = plan->base.kind == OPERATION_ATTENTION_BACKWARD;
    size_t elements = (size_t)(s->heads * s->q_rows * pitch_of(s));
    size_t wide = cuda_align(elements * sizeof(float));
    size_t narrow = cuda_align(elements * type_size(s->type));
    char *at = workspace;
    struct space space = {.gemm = at};

    at += GEMM_WORKSPACE;
    space.scores = (float *)at;
    at += wide;
    space.probabilities = at;
    at += narrow;
    if (backward) {
        space.dp = (float *)at;
        at += wide;
        space.dscores = at;
        at += narrow;
        space.delta = (float *)at;
        at += cuda_align((size_t)(s->batch * s->heads * s->q_rows) * sizeof(float));
    }
    space.total = (size_t)(at - (char *)workspace);
    return space;
}

static const void *at(const void *base, int64_t elements, enum device_type type)
{
    return (const char *)base + elements * (int64_t)type_size(type);
}

static void product(struct cuda_plan *plan, cudaStream_t stream, enum product which, const void *a,
                    const void *b, const void *d, int accumulate, void *workspace)
{
    struct attention *attention = plan->parts;
    struct gemm_operands o = {.a = a, .b = b, .d = (void *)d};

    if (gemm_run(attention->gemm[which], stream, &o, accumulate, workspace))
        cuda_fail_text(cuda_device_of(plan), "cuBLASLt failed in attention" CUDA_CHECK_NODE);
}

/* Each product is batched over the key heads, once per query head of a group. */
static void forward_sample(struct cuda_plan *plan, cudaStream_t stream, struct space space,
                           const struct attention_operands *o, int64_t b)
{
    const struct attention_shape *s = shape_of(plan);
    int64_t group = s->heads / s->kv_heads, scores = s->q_rows * pitch_of(s);
    const void *k = at(o->k, b * s->kv.batch, s->type), *v = at(o->v, b * s->kv.batch, s->type);

    for (int64_t r = 0; r < group; r++)
        product(plan, stream, SCORES, k, at(o->q, b * s->q.batch + r * s->q.head, s->type),
                space.scores + r * scores, 0, space.gemm);
    kernel_softmax(stream, s, b, pitch_of(s), space.scores, space.probabilities, o);
    for (int64_t r = 0; r < group; r++)
        product(plan, stream, OUTPUT, v, at(space.probabilities, r * scores, s->type),
                at(o->out, b * s->out.batch + r * s->out.head, s->type), 0, space.gemm);
}

static void forward(struct cuda_plan *plan, struct cuda_stream *stream, void *workspace,
                    const void *operands)
{
    struct space space = divide(plan, workspace);

    for (int64_t b = 0; b < shape_of(plan)->batch; b++)
        forward_sample(plan, stream->native, space, operands, b);
}

static void backward_sample(struct cuda_plan *plan, cudaStream_t stream, struct space space,
                            const struct attention_backward_operands *o, int64_t b)
{
    const struct attention_shape *s = shape_of(plan);
    int64_t group = s->heads / s->kv_heads, scores = s->q_rows * pitch_of(s);
    int64_t kv = b * s->kv.batch;
    enum device_type type = s->type;

    for (int64_t r = 0; r < group; r++) {
        product(plan, stream, SCORES, at(o->k, kv, type),
                at(o->q, b * s->q.batch + r * s->q.head, type), space.scores + r * scores, 0,
                space.gemm);
        product(plan, stream, DPROBABILITIES, at(o->v, kv, type),
                at(o->dout, b * s->out.batch + r * s->out.head, type), space.dp + r * scores, 0,
                space.gemm);
    }
    kernel_softmax_backward(stream, s, b, pitch_of(s), space.scores, space.dp, space.delta,
                            space.probabilities, space.dscores, o);
    for (int64_t r = 0; r < group; r++) {
        const void *p = at(space.probabilities, r * scores, type);
        const void *ds = at(space.dscores, r * scores, type);
        int64_t q = b * s->q.batch + r * s->q.head, out = b * s->out.batch + r * s->out.head;

        product(plan, stream, DV, at(o->dout, out, type), p, at(o->dv, kv, type), r > 0,
                space.gemm);
        product(plan, stream, DQ, at(o->k, kv, type), ds, at(o->dq, q, type), 0, space.gemm);
        product(plan, stream, DK, at(o->q, q, type), ds, at(o->dk, kv, type), r > 0, space.gemm);
    }
}

static void backward(struct cuda_plan *plan, struct cuda_stream *stream, void *workspace,
                     const void *operands)
{
    const struct attention_backward_operands *o = operands;
    struct space space = divide(plan, workspace);

    kernel_attention_delta(stream->native, shape_of(plan), o->out, o->dout, space.delta);
    for (int64_t b = 0; b < shape_of(plan)->batch; b++)
        backward_sample(plan, stream->native, space, o, b);
}

/* An operand of the products, which are batched over the kv heads of one sample. */
struct matrix {
    int64_t row, head; /* elements between heads */
    uint32_t alignment;
};

/* The largest power of two up to GEMM_ALIGNMENT that divides all byte offsets that were or-ed into
 * 'bits'. */
static uint32_t alignment(int64_t bits)
{
    bits |= GEMM_ALIGNMENT;
    return (uint32_t)(bits & -bits);
}

/* 'group': query heads per kv head. A product may start at any head of any row and sample, also of
 * packed QKV, where heads of an odd size are aligned only to their elements. */
static struct matrix heads_in(struct attention_stride s, int64_t group, enum device_type type)
{
    return (struct matrix){s.row, group * s.head,
                           alignment((s.batch | s.row | s.head) * (int64_t)type_size(type))};
}

static struct matrix scores_in(const struct attention_shape *s, enum device_type type)
{
    int64_t scores = s->q_rows * pitch_of(s);

    return (struct matrix){pitch_of(s), s->heads / s->kv_heads * scores,
                           alignment(scores * (int64_t)type_size(type))};
}

static int make_product(struct cuda_plan *plan, enum product which, struct gemm_shape shape,
                        const struct matrix *operands, struct error *err)
{
    struct attention *attention = plan->parts;
    const struct attention_shape *s = shape_of(plan);
    const struct matrix *a = &operands[0], *b = &operands[1], *d = &operands[2];

    shape.lda = a->row, shape.stride_a = a->head, shape.alignment_a = a->alignment;
    shape.ldb = b->row, shape.stride_b = b->head, shape.alignment_b = b->alignment;
    shape.ldd = d->row, shape.stride_d = d->head, shape.alignment_d = d->alignment;
    shape.batch = (int)s->kv_heads;
    shape.type = shape.bias_type = s->type;
    attention->gemm[which] = gemm_create(&cuda_device_of(plan)->gemm, &shape, NULL, err);
    return attention->gemm[which] ? 0 : -1;
}

static int make_products(struct cuda_plan *plan, struct error *err)
{
    const struct attention_shape *s = shape_of(plan);
    int64_t group = s->heads / s->kv_heads, size = s->head_size;
    const struct matrix q = heads_in(s->q, group, s->type), kv = heads_in(s->kv, 1, s->type),
                        out = heads_in(s->out, group, s->type), scores = scores_in(s, TYPE_FP32),
                        probabilities = scores_in(s, s->type);
    const struct gemm_shape to_scores = {
        .m = s->kv_rows, .n = s->q_rows, .k = size, .transpose_a = 1, .out = TYPE_FP32};
    const struct gemm_shape to_q = {.m = size, .n = s->q_rows, .k = s->kv_rows, .out = s->type};
    const struct gemm_shape to_kv = {
        .m = size, .n = s->kv_rows, .k = s->q_rows, .transpose_b = 1, .out = s->type};
    const struct {
        struct gemm_shape shape;
        struct matrix operands[3]; /* A, B, D */
        enum operation_kind only;  /* OPERATION_COUNT: in both directions */
    } products[PRODUCTS] = {
        [SCORES] = {to_scores, {kv, q, scores}, OPERATION_COUNT},
        [OUTPUT] = {to_q, {kv, probabilities, out}, OPERATION_ATTENTION},
        [DPROBABILITIES] = {to_scores, {kv, out, scores}, OPERATION_ATTENTION_BACKWARD},
        [DQ] = {to_q, {kv, probabilities, q}, OPERATION_ATTENTION_BACKWARD},
        [DK] = {to_kv, {q, probabilities, kv}, OPERATION_ATTENTION_BACKWARD},
        [DV] = {to_kv, {out, probabilities, kv}, OPERATION_ATTENTION_BACKWARD},
    };

    for (int i = 0; i < PRODUCTS; i++) {
        if (products[i].only != OPERATION_COUNT && products[i].only != plan->base.kind)
            continue;
        if (make_product(plan, (enum product)i, products[i].shape, products[i].operands, err))
            return -1;
    }
    return 0;
}

/* Prepare a run of flash.h on the stream: the seed of dropout begins the workspace. Returns it. */
static int64_t *begin_flash(struct cuda_plan *plan, struct cuda_stream *stream, void *workspace,
                            const struct step_state *state, uint32_t purpose,
                            const int64_t *row_index)
{
    if (shape_of(plan)->dropout > 0)
        kernel_draw_seed(stream->native, shape_of(plan), state, purpose, row_index, workspace);
    cudnnSetStream(cuda_device_of(plan)->cudnn, stream->native);
    return workspace;
}

static void flash_forward_work(struct cuda_plan *plan, struct cuda_stream *stream, void *workspace,
                               const void *operands)
{
    const struct attention_operands *o = operands;
    const struct attention *attention = plan->parts;
    int64_t *seed = begin_flash(plan, stream, workspace, o->state, o->purpose, o->row_index);
    struct flash_bounds bounds = {o->document_start, o->document_end};
    struct error err;

    if (flash_forward(attention->flash, o->q, o->k, o->v, o->out, o->lse, seed, bounds,
                      (char *)workspace + DEVICE_ALIGNMENT, &err))
        cuda_fail_text(cuda_device_of(plan), err.text);
}

static void flash_backward_work(struct cuda_plan *plan, struct cuda_stream *stream, void *workspace,
                                const void *operands)
{
    const struct attention_backward_operands *o = operands;
    const struct attention *attention = plan->parts;
    int64_t *seed = begin_flash(plan, stream, workspace, o->state, o->purpose, o->row_index);
    struct flash_bounds bounds = {o->document_start, o->document_end};
    struct error err;

    if (flash_backward(attention->flash, o->q, o->k, o->v, o->out, o->lse, o->dout, o->dq, o->dk,
                       o->dv, seed, bounds, (char *)workspace + DEVICE_ALIGNMENT, &err))
        cuda_fail_text(cuda_device_of(plan), err.text);
}

static struct flash_strides strides(struct attention_stride from)
{
    struct flash_strides to = {from.batch, from.head, from.row};

    return to;
}

static int is_back(const struct cuda_plan *plan)
{
    return plan->base.kind == OPERATION_ATTENTION_BACKWARD;
}

/* Take the kernel of flash.h. */
static void use_flash(struct cuda_plan *plan, struct flash *flash)
{
    struct attention *attention = plan->parts;

    attention->flash = flash;
    plan->workspace = DEVICE_ALIGNMENT + flash_workspace(flash);
    plan->work = is_back(plan) ? flash_backward_work : flash_forward_work;
}

/* Choose the kernel of flash.h, if it has one. Otherwise returns -1 with the reason. */
static int choose_flash(struct cuda_plan *plan, struct error *why)
{
    struct cuda_device *device = cuda_device_of(plan);
    const struct attention *attention = plan->parts;
    struct flash *flash;

    /* Both directions must drop the same elements: either the library does both, or we do. */
    if (attention->shape.dropout > 0) {
        struct flash *other = cuda_flash(device, &attention->shape, !is_back(plan), why);

        if (!other)
            return -1;
        flash_destroy(other);
    }
    flash = cuda_flash(device, &attention->shape, is_back(plan), why);
    if (!flash)
        return -1;
    use_flash(plan, flash);
    return 0;
}

static void advise(struct device *device, const struct error *why)
{
    error_set(&device->advice,
              "attention stores its scores in memory, which is slower and uses more memory: %s",
              why->text);
}

/* Compute attention with its scores in memory. */
static int use_products(struct cuda_plan *plan, struct error *err)
{
    plan->work = is_back(plan) ? backward : forward;
    plan->workspace = divide(plan, NULL).total;
    return make_products(plan, err);
}

/* Plans that threads make: cuDNN needs a tenth of a second for each, and until the first pass there
 * is other work. */

static void *make_flash(void *argument)
{
    struct cuda_plan *plan = argument;
    struct cuda_device *device = cuda_device_of(plan);
    struct attention *attention = plan->parts;

    pthread_mutex_lock(&device->making);
    if (!cudaSetDevice(device->index))
        attention->flash =
            flash_create(device->cudnn, &attention->shape, is_back(plan), attention->known, NULL);
    pthread_mutex_unlock(&device->making);
    return NULL;
}

/* Let a thread make the plan if its kernel is known. Returns -1 if it does not. */
static int make_later(struct cuda_plan *plan)
{
    struct cuda_device *device = cuda_device_of(plan);
    struct attention *attention = plan->parts;

    attention->known = cuda_flash_known(device, &attention->shape, is_back(plan));
    if (attention->known < 0 || attention->shape.dropout > 0 ||
        pthread_create(&attention->maker, NULL, make_flash, plan) != 0)
        return -1;
    plan->workspace = DEVICE_ALIGNMENT; /* at least: see cuda_attention_settle */
    plan->later = device->later;
    device->later = plan;
    return 0;
}

/* Use what the thread has made. A kernel that was known, but cannot be had now, is chosen anew. */
static int settle(struct cuda_plan *plan, struct error *err)
{
    struct attention *attention = plan->parts;
    struct error why;

    if (attention->flash) {
        use_flash(plan, attention->flash);
        return 0;
    }
    if (choose_flash(plan, &why) == 0) {
        tuning_save(cuda_device_of(plan)->gemm.tuning, NULL);
        return 0;
    }
    advise(plan->base.device, &why);
    return use_products(plan, err);
}

void cuda_attention_settle(struct cuda_device *device)
{
    struct error err;

    for (struct cuda_plan *plan = device->later; plan; plan = plan->later)
        pthread_join(((struct attention *)plan->parts)->maker, NULL);
    while (device->later) {
        struct cuda_plan *plan = device->later;

        device->later = plan->later;
        if (settle(plan, &err) < 0)
            cuda_fail_text(device, err.text);
        if (plan->workspace > device->workspace)
            device->workspace = plan->workspace;
    }
}

/* Use flash.h if it has a kernel for this. Otherwise returns -1 with the reason. */
static int try_flash(struct cuda_plan *plan, struct error *why)
{
    const struct attention_shape *s = shape_of(plan);
    struct cuda_device *device = cuda_device_of(plan);
    struct attention *attention = plan->parts;

    attention->shape = (struct flash_shape){
        .batch = s->batch,
        .heads = s->heads,
        .groups = s->kv_heads,
        .queries = s->q_rows,
        .keys = s->kv_rows,
        .width = s->head_size,
        .q = strides(s->q),
        .k = strides(s->kv),
        .v = strides(s->kv),
        .o = strides(s->out),
        .dq = strides(s->q),
        .dk = strides(s->kv),
        .dv = strides(s->kv),
        .type = s->type == TYPE_BF16 ? CUDNN_DATA_BFLOAT16 : CUDNN_DATA_HALF,
        .scale = (float)s->scale,
        .dropout = s->dropout,
        .causal = s->causal,
        .documents = s->documents,
        .ends = s->ends,
        .deterministic = device->deterministic,
    };

    if (s->head_size % 8)
        return error_set(why,
                         "heads of %" PRId64 " channels have no fused kernel; use a multiple of 8",
                         s->head_size);
    if (make_later(plan) == 0)
        return 0;
    cuda_attention_settle(device); /* they use the same handle */
    return choose_flash(plan, why);
}

/* A plan that is destroyed before it was used need not be completed. */
static void leave_makers(struct cuda_plan *plan)
{
    struct cuda_plan **at = &cuda_device_of(plan)->later;

    while (*at && *at != plan)
        at = &(*at)->later;
    if (!*at)
        return;
    pthread_join(((struct attention *)plan->parts)->maker, NULL);
    *at = plan->later;
}

static void destroy(struct cuda_plan *plan)
{
    struct attention *attention = plan->parts;

    if (!attention)
        return;
    leave_makers(plan);
    flash_destroy(attention->flash);
    for (int i = 0; i < PRODUCTS; i++)
        gemm_destroy(attention->gemm[i]);
    free(attention);
}

/* Cases in which flash.h is not expected to work. Its dropout uses its own random numbers; ours
 * depends on the row in the global batch and is the same on every layout of ranks. */
static int is_plain(const struct cuda_device *device, const struct attention_shape *s)
{
    return device->unfused_attention || s->cached || s->type == TYPE_FP32 || s->q_rows == 1 ||
           s->softcap > 0;
}

int cuda_plan_attention(struct cuda_plan *plan, struct error *err)
{
    const struct attention_shape *s = shape_of(plan);
    struct attention *attention;
    struct error why;

    if (s->cached &&
        (plan->base.kind != OPERATION_ATTENTION || !s->causal || s->ends || s->dropout > 0))
        return error_bug(err,
                         "attention on a KV cache must be causal, forward, without dropout and "
                         "without document ends");
    if (type_size(s->type) == 1)
        return error_bug(err, "the CUDA device has no attention in fp8");
    attention = xcalloc(1, sizeof(*attention));
    plan->parts = attention;
    plan->destroy = destroy;
    if (!is_plain(cuda_device_of(plan), s)) {
        if (try_flash(plan, &why) == 0)
            return 0;
        advise(plan->base.device, &why);
    } else if (s->softcap > 0 && !s->cached && s->type != TYPE_FP32) {
        error_set(&why, "no fused kernel has a soft cap on scores; this needs no action");
        advise(plan->base.device, &why);
    }
    return use_products(plan, err);
}
