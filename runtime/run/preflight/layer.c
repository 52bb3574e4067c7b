/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"
#include "layer.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "lib/checksum.h"
#include "lib/clock.h"
#include "base/core/xmalloc.h"

#define DEADLINE 60.0 /* seconds of one wait */

/* On a busy machine the best of a few steps would depend on chance. */
enum { STEPS = 30 };

enum plan_name {
    NORM,
    QKV,
    ATTENTION,
    OUT,
    SUM_NORM,
    UP,
    DOWN,
    DOWN_DGRAD,
    DOWN_WGRAD,
    UP_DGRAD,
    UP_WGRAD,
    ATTENTION_BACKWARD,
    QKV_WGRAD,
    PLANS
};

struct layer {
    struct device *device;
    struct device_stream *stream;
    struct device_event *begin, *end;
    struct device_plan *plans[PLANS];
    enum device_type type;
    int64_t rows, hidden, heads;
    char *memory, *host;
    size_t used, size, host_size;
    char *x, *weights[4], *norm_weight, *norm_bias; /* inputs */
    char *normed, *qkv, *mixed, *projected, *sum, *second, *up, *pre, *y;
    char *dup, *dsecond, *dqkv; /* gradients */
    float *lse, *mean, *rstd, *wgrads[3];
};

/* Memory and inputs ----------------------------------------------------------------------------
 */

static void *take(struct layer *l, int64_t count, enum device_type type)
{
    size_t bytes = (size_t)count * type_size(type);
    void *at = l->memory ? l->memory + l->used : NULL;

    l->used += (bytes + DEVICE_ALIGNMENT - 1) / DEVICE_ALIGNMENT * DEVICE_ALIGNMENT;
    return at;
}

/* Called twice: without memory, to find its size, and with it. */
static void lay_out(struct layer *l)
{
    int64_t n = l->rows, h = l->hidden;
    static const int64_t in[4] = {1, 1, 1, 4}, out[4] = {3, 1, 4, 1};

    l->used = 0;
    l->x = take(l, n * h, l->type);
    for (int i = 0; i < 4; i++)
        l->weights[i] = take(l, in[i] * h * out[i] * h, l->type);
    l->norm_weight = take(l, h, l->type);
    l->norm_bias = take(l, h, l->type);
    l->normed = take(l, n * h, l->type);
    l->qkv = take(l, 3 * n * h, l->type);
    l->mixed = take(l, n * h, l->type);
    l->projected = take(l, n * h, l->type);
    l->sum = take(l, n * h, l->type);
    l->second = take(l, n * h, l->type);
    l->up = take(l, 4 * n * h, l->type);
    l->pre = take(l, 4 * n * h, l->type);
    l->y = take(l, n * h, l->type);
    l->dup = take(l, 4 * n * h, l->type);
    l->dsecond = take(l, n * h, l->type);
    l->dqkv = take(l, 3 * n * h, l->type);
    l->lse = take(l, n * l->heads, TYPE_FP32);
    l->mean = take(l, n, TYPE_FP32);
    l->rstd = take(l, n, TYPE_FP32);
    l->wgrads[0] = take(l, 4 * h * h, TYPE_FP32);
    l->wgrads[1] = take(l, 4 * h * h, TYPE_FP32);
    l->wgrads[2] = take(l, 3 * h * h, TYPE_FP32);
}

static struct device_plan *plan(struct layer *l, const struct operation *operation,
                                struct error *err)
{
    return plan_create(l->device, operation, err);
}

/* Normally distributed numbers, written as fp32 to wgrads[0], which is large enough, and converted.
 */
static int fill_normal(struct layer *l, void *to, int64_t count, double deviation, uint32_t purpose,
                       struct error *err)
{
    struct operation normal = {
        .kind = OPERATION_NORMAL,
        .normal = {.rows = 1, .cols = count, .all_cols = count, .deviation = deviation}};
    struct operation convert = {.kind = OPERATION_CONVERT,
                                .convert = {count, TYPE_FP32, l->type, 0}};
    struct device_plan *numbers = plan(l, &normal, err);
    struct device_plan *converted = numbers ? plan(l, &convert, err) : NULL;
    int rc = converted ? 0 : -1;

    if (rc == 0) {
        run_normal(numbers, l->stream, &(struct normal_operands){l->wgrads[0], 1, purpose});
        run_convert(converted, l->stream, &(struct convert_operands){l->wgrads[0], to});
        rc = device_stream_wait(l->stream, DEADLINE, err);
    }
    plan_destroy(numbers);
    plan_destroy(converted);
    return rc;
}

static int fill_inputs(struct layer *l, struct error *err)
{
    static const int64_t sizes[4] = {3, 1, 4, 4};
    int64_t h = l->hidden, rows = l->rows < 4 * h ? l->rows : 4 * h;

    for (uint32_t i = 0; i < 4; i++)
        if (fill_normal(l, l->weights[i], sizes[i] * h * h, 0.02, i, err) < 0)
            return -1;
    return fill_normal(l, l->norm_weight, h, 1, 4, err) < 0 ||
                   fill_normal(l, l->norm_bias, h, 0.1, 5, err) < 0 ||
                   fill_normal(l, l->x, rows * h, 1, 6, err) < 0
               ? -1
               : 0;
}

/* Plans ----------------------------------------------------------------------------------------
 */

static struct operation linear(const struct layer *l, enum operation_kind kind, int64_t in,
                               int64_t out, int gelu)
{
    return (struct operation){
        .kind = kind,
        .linear = {.rows = l->rows,
                   .in = in * l->hidden,
                   .out = out * l->hidden,
                   .types = linear_types(l->type),
                   .activation = gelu ? ACTIVATION_GELU_TANH : ACTIVATION_NONE,
                   .save_pre = gelu && kind == OPERATION_LINEAR_FORWARD}};
}

static struct operation norm(const struct layer *l, int input)
{
    return (struct operation){.kind = OPERATION_RESIDUAL_NORM,
                              .residual_norm = {.rows = l->rows,
                                                .cols = l->hidden,
                                                .type = l->type,
                                                .y_type = l->type,
                                                .norm = NORM_LAYER,
                                                .epsilon = 1e-5,
                                                .input = input,
                                                .residual = 1}};
}

static struct operation attention(const struct layer *l, enum operation_kind kind)
{
    int64_t size = l->hidden / l->heads;
    struct attention_stride qkv = {l->rows * 3 * l->hidden, 3 * l->hidden, size};
    struct attention_stride out = {l->rows * l->hidden, l->hidden, size};

    return (struct operation){.kind = kind,
                              .attention = {.batch = 1,
                                            .q_rows = l->rows,
                                            .kv_rows = l->rows,
                                            .heads = l->heads,
                                            .kv_heads = l->heads,
                                            .head_size = size,
                                            .type = l->type,
                                            .q = qkv,
                                            .kv = qkv,
                                            .out = out,
                                            .scale = 1 / sqrt((double)size),
                                            .causal = 1,
                                            .all_heads = l->heads,
                                            .sequence = l->rows}};
}

static int make_plans(struct layer *l, struct error *err)
{
    const struct operation operations[PLANS] = {
        [NORM] = norm(l, 0),
        [QKV] = linear(l, OPERATION_LINEAR_FORWARD, 1, 3, 0),
        [ATTENTION] = attention(l, OPERATION_ATTENTION),
        [OUT] = linear(l, OPERATION_LINEAR_FORWARD, 1, 1, 0),
        [SUM_NORM] = norm(l, 1),
        [UP] = linear(l, OPERATION_LINEAR_FORWARD, 1, 4, 1),
        [DOWN] = linear(l, OPERATION_LINEAR_FORWARD, 4, 1, 0),
        [DOWN_DGRAD] = linear(l, OPERATION_LINEAR_DGRAD, 4, 1, 1),
        [DOWN_WGRAD] = linear(l, OPERATION_LINEAR_WGRAD, 4, 1, 0),
        [UP_DGRAD] = linear(l, OPERATION_LINEAR_DGRAD, 1, 4, 0),
        [UP_WGRAD] = linear(l, OPERATION_LINEAR_WGRAD, 1, 4, 0),
        [ATTENTION_BACKWARD] = attention(l, OPERATION_ATTENTION_BACKWARD),
        [QKV_WGRAD] = linear(l, OPERATION_LINEAR_WGRAD, 1, 3, 0),
    };

    for (int i = 0; i < PLANS; i++) {
        l->plans[i] = plan(l, &operations[i], err);
        if (!l->plans[i])
            return -1;
    }
    return 0;
}

struct layer *layer_create(struct device *device, const char *choices, struct error *err)
{
    int gpu = strcmp(device->name, "cpu") != 0;
    struct layer *l = xcalloc(1, sizeof(*l));

    l->device = device;
    l->type = device_supports(device, TYPE_BF16) ? TYPE_BF16 : TYPE_FP32;
    l->rows = gpu ? 4096 : 128;
    l->hidden = gpu ? 4096 : 256;
    l->heads = gpu ? 32 : 4;
    lay_out(l);
    l->size = l->used;
    l->host_size = (size_t)(4 * l->hidden * l->hidden) * sizeof(float);
    l->memory = device_allocate(device, l->size, err);
    l->host = l->memory ? device_host_allocate(device, l->host_size, err) : NULL;
    l->stream = device_stream_create(device, 0);
    l->begin = device_event_create(device, 1);
    l->end = device_event_create(device, 1);
    if (l->host)
        lay_out(l);
    if (!l->host ||
        (choices && choices[0] && device->choose && device->choose(device, choices, 0, err) < 0) ||
        make_plans(l, err) < 0 || fill_inputs(l, err) < 0) {
        layer_destroy(l);
        return NULL;
    }
    return l;
}

void layer_destroy(struct layer *l)
{
    if (!l)
        return;
    for (int i = 0; i < PLANS; i++)
        plan_destroy(l->plans[i]);
    device_event_destroy(l->begin);
    device_event_destroy(l->end);
    device_stream_destroy(l->stream);
    device_host_release(l->device, l->host);
    device_release(l->device, l->memory);
    free(l);
}

/* Steps ----------------------------------------------------------------------------------------
 */

static void forward(struct layer *l)
{
    size_t third = (size_t)l->hidden * type_size(l->type);
    struct device_stream *s = l->stream;

    run_residual_norm(l->plans[NORM], s,
                      &(struct residual_norm_operands){.residual = l->x,
                                                       .weight = l->norm_weight,
                                                       .norm_bias = l->norm_bias,
                                                       .y = l->normed,
                                                       .mean = l->mean,
                                                       .rstd = l->rstd});
    run_linear_forward(
        l->plans[QKV], s,
        &(struct linear_forward_operands){.x = l->normed, .weight = l->weights[0], .y = l->qkv});
    run_attention(l->plans[ATTENTION], s,
                  &(struct attention_operands){.q = l->qkv,
                                               .k = l->qkv + third,
                                               .v = l->qkv + 2 * third,
                                               .out = l->mixed,
                                               .lse = l->lse});
    run_linear_forward(l->plans[OUT], s,
                       &(struct linear_forward_operands){
                           .x = l->mixed, .weight = l->weights[1], .y = l->projected});
    run_residual_norm(l->plans[SUM_NORM], s,
                      &(struct residual_norm_operands){.x = l->projected,
                                                       .residual = l->x,
                                                       .sum = l->sum,
                                                       .weight = l->norm_weight,
                                                       .norm_bias = l->norm_bias,
                                                       .y = l->second,
                                                       .mean = l->mean,
                                                       .rstd = l->rstd});
    run_linear_forward(l->plans[UP], s,
                       &(struct linear_forward_operands){
                           .x = l->second, .weight = l->weights[2], .y = l->up, .pre = l->pre});
    run_linear_forward(
        l->plans[DOWN], s,
        &(struct linear_forward_operands){.x = l->up, .weight = l->weights[3], .y = l->y});
}

/* The output serves as its own gradient. */
static void backward(struct layer *l)
{
    size_t third = (size_t)l->hidden * type_size(l->type);
    struct device_stream *s = l->stream;

    run_linear_dgrad(l->plans[DOWN_DGRAD], s,
                     &(struct linear_dgrad_operands){
                         .dy = l->y, .weight = l->weights[3], .pre = l->pre, .dx = l->dup});
    run_linear_wgrad(
        l->plans[DOWN_WGRAD], s,
        &(struct linear_wgrad_operands){.dy = l->y, .x = l->up, .dweight = l->wgrads[0]});
    run_linear_dgrad(
        l->plans[UP_DGRAD], s,
        &(struct linear_dgrad_operands){.dy = l->dup, .weight = l->weights[2], .dx = l->dsecond});
    run_linear_wgrad(
        l->plans[UP_WGRAD], s,
        &(struct linear_wgrad_operands){.dy = l->dup, .x = l->second, .dweight = l->wgrads[1]});
    run_attention_backward(l->plans[ATTENTION_BACKWARD], s,
                           &(struct attention_backward_operands){.q = l->qkv,
                                                                 .k = l->qkv + third,
                                                                 .v = l->qkv + 2 * third,
                                                                 .out = l->mixed,
                                                                 .dout = l->dsecond,
                                                                 .lse = l->lse,
                                                                 .dq = l->dqkv,
                                                                 .dk = l->dqkv + third,
                                                                 .dv = l->dqkv + 2 * third});
    run_linear_wgrad(
        l->plans[QKV_WGRAD], s,
        &(struct linear_wgrad_operands){.dy = l->dqkv, .x = l->normed, .dweight = l->wgrads[2]});
}

static int hash_results(struct layer *l, uint64_t *hash, struct error *err)
{
    size_t n = (size_t)(l->rows * l->hidden), h = (size_t)(l->hidden * l->hidden);
    const struct {
        const void *data;
        size_t bytes;
    } results[] = {
        {l->y, n * type_size(l->type)},        {l->dqkv, 3 * n * type_size(l->type)},
        {l->wgrads[0], 4 * h * sizeof(float)}, {l->wgrads[1], 4 * h * sizeof(float)},
        {l->wgrads[2], 3 * h * sizeof(float)},
    };
    struct checksum sum;

    checksum_begin(&sum);
    for (size_t i = 0; i < sizeof(results) / sizeof(*results); i++) {
        size_t bytes = results[i].bytes < l->host_size ? results[i].bytes : l->host_size;

        device_copy(l->stream, l->host, results[i].data, bytes, COPY_TO_HOST);
        if (device_stream_wait(l->stream, DEADLINE, err) < 0)
            return -1;
        checksum_add(&sum, l->host, bytes);
    }
    *hash = checksum_end(&sum);
    return 0;
}

static int time_step(struct layer *l, double *seconds, struct error *err)
{
    int gpu = strcmp(l->device->name, "cpu") != 0;
    double begin = clock_read(CLOCK_PROCESS_CPUTIME_ID);

    device_event_record(l->begin, l->stream);
    forward(l);
    backward(l);
    device_event_record(l->end, l->stream);
    if (device_stream_wait(l->stream, DEADLINE, err) < 0)
        return -1;
    *seconds =
        gpu ? device_event_seconds(l->begin, l->end) : clock_read(CLOCK_PROCESS_CPUTIME_ID) - begin;
    return 0;
}

int layer_run(struct layer *l, double seconds, struct layer_result *result, struct error *err)
{
    double now = clock_now(), until = now + seconds, limit = now + 5 * seconds;
    double best = INFINITY, took;
    int last = 0;

    *result = (struct layer_result){0};
    while (!last) {
        uint64_t hash;

        if (time_step(l, &took, err) < 0)
            return -1;
        now = clock_now();
        last = result->steps >= 2 && (now >= limit || (now >= until && result->steps >= STEPS));
        /* The first step is a warm-up. */
        if (result->steps++ > 0)
            best = fmin(best, took);
        if (result->steps > 1 && result->steps % 16 != 0 && !last)
            continue;
        if (hash_results(l, &hash, err) < 0)
            return -1;
        if (result->steps == 1)
            result->hash = hash;
        result->unstable += hash != result->hash;
    }
    result->rate = best > 0 ? 1 / best : 0;
    return 0;
}

/* Memory and copies ----------------------------------------------------------------------------
 */

enum { BLOCK = 1 << 24 }; /* elements: a wrong bit in one of them changes the sum of squares */

/* Fill all blocks with 'value', then compare the sums of squares: equal data has equal sums. */
static int test_pattern(struct layer *l, float *memory, int64_t blocks, double *sums, double value,
                        int64_t *wrong, struct error *err)
{
    struct device_stream *stream = l->stream;
    const double *host = (const double *)(void *)l->host; /* has room for 'blocks' numbers */
    struct operation fill = {.kind = OPERATION_FILL, .fill = {BLOCK, TYPE_FP32, value}};
    struct operation clear = {.kind = OPERATION_FILL, .fill = {2 * blocks, TYPE_FP32, 0}};
    struct operation square = {.kind = OPERATION_SQUARE_SUM, .square_sum = {BLOCK, TYPE_FP32}};
    struct device_plan *fills = plan(l, &fill, err);
    struct device_plan *clears = plan(l, &clear, err);
    struct device_plan *squares = plan(l, &square, err);
    double expected = 0;
    int rc = fills && clears && squares ? 0 : -1;

    if (rc == 0) {
        run_fill(clears, stream, &(struct fill_operands){sums});
        for (int64_t i = 0; i < blocks; i++)
            run_fill(fills, stream, &(struct fill_operands){memory + i * BLOCK});
        for (int64_t i = 0; i < blocks; i++)
            run_square_sum(squares, stream,
                           &(struct square_sum_operands){memory + i * BLOCK, sums + i});
        device_copy(stream, l->host, sums, (size_t)blocks * sizeof(*sums), COPY_TO_HOST);
        rc = device_stream_wait(stream, DEADLINE, err);
    }
    /* The value of most blocks; a first block that is wrong must not condemn all others. */
    for (int64_t i = 0, most = 0; rc == 0 && i < blocks && i < 8; i++) {
        int64_t equal = 0;

        for (int64_t k = 0; k < blocks; k++)
            equal += host[k] == host[i];
        if (equal > most) {
            most = equal;
            expected = host[i];
        }
    }
    for (int64_t i = 0; rc == 0 && i < blocks; i++)
        *wrong += host[i] != expected;
    plan_destroy(fills);
    plan_destroy(clears);
    plan_destroy(squares);
    return rc;
}

int layer_test_memory(struct layer *l, size_t bytes, int64_t *wrong, size_t *tested,
                      struct error *err)
{
    /* Bits 1010..., and 0101... as fp32, exactly. */
    static const double patterns[] = {-0x1.555554p-42, 0x1.aaaaaap+43};
    int64_t blocks = (int64_t)(bytes / (BLOCK * sizeof(float)));
    float *memory;
    double *sums;
    int rc;

    if (blocks < 2)
        return 0;
    memory = device_allocate(l->device, (size_t)blocks * BLOCK * sizeof(float), err);
    sums = memory ? device_allocate(l->device, (size_t)blocks * sizeof(*sums), err) : NULL;
    rc = sums ? 0 : -1;
    for (size_t i = 0; rc == 0 && i < sizeof(patterns) / sizeof(*patterns); i++)
        rc = test_pattern(l, memory, blocks, sums, patterns[i], wrong, err);
    *tested += sums ? (size_t)blocks * BLOCK * sizeof(float) : 0;
    device_release(l->device, sums);
    device_release(l->device, memory);
    return rc;
}

int layer_test_copies(struct layer *l, double *rate, struct error *err)
{
    *rate = INFINITY;
    for (int direction = 0; direction < 2; direction++) {
        double best = INFINITY;

        for (int i = 0; i < 4; i++) {
            double begin = clock_now();

            /* 'host' is as large as the first weight gradient. */
            if (direction == 0)
                device_copy(l->stream, l->wgrads[0], l->host, l->host_size, COPY_TO_DEVICE);
            else
                device_copy(l->stream, l->host, l->wgrads[0], l->host_size, COPY_TO_HOST);
            if (device_stream_wait(l->stream, DEADLINE, err) < 0)
                return -1;
            if (i > 0) /* the first one touches the pages */
                best = fmin(best, clock_now() - begin);
        }
        *rate = fmin(*rate, (double)l->host_size / best);
    }
    return 0;
}
