/* SPDX-License-Identifier: Apache-2.0 */
#include "calibrate.h"

#include <math.h>
#include <string.h>

#include "lib/clock.h"

#define DEADLINE      120.0 /* seconds of one wait */
#define SMALL_KERNELS 6     /* of a layer, forward: norms, rotary positions, activation */

/* What all measurements share: one stream, and memory for every operand. */
struct bench {
    struct device *device;
    struct device_stream *stream;
    enum device_type type;
    char *memory;
    size_t size;
    double seconds; /* that a measurement should take at least */
    int64_t unit;   /* rows and columns of the largest product */
};

static size_t aligned(size_t bytes)
{
    return (bytes + DEVICE_ALIGNMENT - 1) / DEVICE_ALIGNMENT * DEVICE_ALIGNMENT;
}

/* Random numbers in all of the memory: zeros or equal numbers would need less power than those of a
 * model, and run at a higher clock. */
static int fill_memory(struct bench *b, struct error *err)
{
    size_t element = type_size(b->type), filled = b->size / 16;
    int64_t count = (int64_t)(filled / element);
    struct operation normal = {
        .kind = OPERATION_NORMAL,
        .normal = {.rows = 1, .cols = count, .all_cols = count, .deviation = 1}};
    struct operation convert = {.kind = OPERATION_CONVERT,
                                .convert = {count, TYPE_FP32, b->type, 0}};
    struct device_plan *numbers = plan_create(b->device, &normal, err);
    struct device_plan *converted = numbers ? plan_create(b->device, &convert, err) : NULL;
    char *half = b->memory + b->size / 2;
    int rc = converted ? 0 : -1;

    if (rc == 0) {
        run_normal(numbers, b->stream, &(struct normal_operands){(float *)(void *)half, 1, 0});
        run_convert(converted, b->stream,
                    &(struct convert_operands){(float *)(void *)half, b->memory});
        for (; filled < b->size; filled *= 2)
            device_copy(b->stream, b->memory + filled, b->memory, filled, COPY_ON_DEVICE);
        rc = device_stream_wait(b->stream, DEADLINE, err);
    }
    plan_destroy(numbers);
    plan_destroy(converted);
    return rc;
}

static int bench_open(struct bench *b, struct device *device, struct error *err)
{
    int fast = strcmp(device->name, "cpu") != 0;

    *b = (struct bench){.device = device,
                        .type = device_supports(device, TYPE_BF16) ? TYPE_BF16 : TYPE_FP32,
                        .seconds = fast ? 0.3 : 0.01,
                        .unit = fast ? 8192 : 512,
                        .size = fast ? (size_t)1 << 30 : (size_t)64 << 20};
    b->memory = device_allocate(device, b->size, err);
    b->stream = device_stream_create(device, 0);
    if (!b->memory)
        return -1;
    return fill_memory(b, err);
}

static void bench_close(struct bench *b)
{
    device_stream_destroy(b->stream);
    device_release(b->device, b->memory);
}

/* Seconds of one call of 'work': the median of three series, each long enough for the power limit
 * to lower the clock. */
static int measure(struct bench *b, void (*work)(struct bench *b, void *context), void *context,
                   double *seconds, struct error *err)
{
    int64_t count = 1;
    double all[3];

    for (int series = 0; series < 3;) {
        double begin = clock_now(), took;

        for (int64_t i = 0; i < count; i++)
            work(b, context);
        if (device_stream_wait(b->stream, DEADLINE, err) < 0)
            return -1;
        took = clock_now() - begin;
        if (took < b->seconds && count < 1 << 20) {
            count *= 2; /* this was the warm-up */
            continue;
        }
        all[series++] = took / (double)count;
    }
    *seconds = fmax(fmin(all[0], all[1]), fmin(fmax(all[0], all[1]), all[2]));
    return 0;
}

/* --- Matrix products ------------------------------------------------------------------------- */

struct product {
    struct device_plan *plan;
    struct linear_forward_operands operands;
};

static void run_product(struct bench *b, void *context)
{
    struct product *p = context;

    run_linear_forward(p->plan, b->stream, &p->operands);
}

static int time_product(struct bench *b, int64_t rows, int64_t in, int64_t out, double *seconds,
                        struct error *err)
{
    size_t element = type_size(b->type);
    size_t x = aligned(element * (size_t)(rows * in));
    size_t weight = aligned(element * (size_t)(in * out));
    struct operation operation = {.kind = OPERATION_LINEAR_FORWARD,
                                  .linear = {.rows = rows,
                                             .in = in,
                                             .out = out,
                                             .types = linear_types(b->type),
                                             .activation = ACTIVATION_NONE}};
    struct product p = {
        .operands = {.x = b->memory, .weight = b->memory + x, .y = b->memory + x + weight}};
    int rc;

    p.plan = plan_create(b->device, &operation, err);
    if (!p.plan)
        return -1;
    rc = measure(b, run_product, &p, seconds, err);
    plan_destroy(p.plan);
    return rc;
}

/* Time per operation is (1 + half / depth) / rate; two depths give both. A tiny product gives what
 * every one costs besides. */
static int measure_products(struct bench *b, double *rate, double *half, double *launch,
                            struct error *err)
{
    double unit = (double)b->unit, depth = unit / 8, deep, flat, per_deep, per_flat;

    if (time_product(b, b->unit, b->unit, b->unit, &deep, err) < 0 ||
        time_product(b, b->unit, b->unit / 8, b->unit, &flat, err) < 0 ||
        time_product(b, 64, 64, 64, launch, err) < 0)
        return -1;
    per_deep = deep / (2 * unit * unit * unit);
    per_flat = flat / (2 * unit * unit * depth);
    *half = fmax(0, (per_flat - per_deep) / (per_deep / depth - per_flat / unit));
    *rate = (1 + *half / unit) / per_deep;
    return 0;
}

/* --- Attention and copies -------------------------------------------------------------------- */

struct attention {
    struct device_plan *plan;
    struct attention_operands operands;
};

static void run_one_attention(struct bench *b, void *context)
{
    struct attention *a = context;

    run_attention(a->plan, b->stream, &a->operands);
}

/* Causal attention with heads of 128: half of the scores count. */
static int measure_attention(struct bench *b, double *rate, struct error *err)
{
    int64_t rows = b->unit / 2, heads = b->unit / 256, width = 128 * heads;
    size_t tensor = aligned(type_size(b->type) * (size_t)(rows * width));
    struct attention_stride stride = {rows * width, width, 128};
    struct operation operation = {.kind = OPERATION_ATTENTION,
                                  .attention = {.batch = 1,
                                                .q_rows = rows,
                                                .kv_rows = rows,
                                                .heads = heads,
                                                .kv_heads = heads,
                                                .head_size = 128,
                                                .type = b->type,
                                                .q = stride,
                                                .kv = stride,
                                                .out = stride,
                                                .scale = 0.088,
                                                .causal = 1}};
    struct attention a = {.operands = {.q = b->memory,
                                       .k = b->memory + tensor,
                                       .v = b->memory + 2 * tensor,
                                       .out = b->memory + 3 * tensor,
                                       .lse = (float *)(void *)(b->memory + 4 * tensor)}};
    double seconds;
    int rc;

    a.plan = plan_create(b->device, &operation, err);
    if (!a.plan)
        return -1;
    rc = measure(b, run_one_attention, &a, &seconds, err);
    plan_destroy(a.plan);
    *rate = 2 * (double)rows * (double)rows * (double)width / seconds;
    return rc;
}

static void run_copy(struct bench *b, void *context)
{
    (void)context;
    device_copy(b->stream, b->memory, b->memory + b->size / 2, b->size / 2, COPY_ON_DEVICE);
}

static double share(double rate, double of, double least, double most)
{
    return fmin(most, fmax(least, rate / of));
}

int calibrate(struct machine *machine, struct device *device, struct error *err)
{
    struct machine_gpu *gpu = &machine->gpu;
    struct machine_rates *rates = &gpu->rates;
    double product = 0, half = 0, launch = 0, attention = 0, seconds = 1, bandwidth;
    struct bench b;
    int rc = bench_open(&b, device, err);

    if (rc == 0)
        rc = measure_products(&b, &product, &half, &launch, err);
    if (rc == 0)
        rc = measure_attention(&b, &attention, err);
    if (rc == 0)
        rc = measure(&b, run_copy, NULL, &seconds, err);
    bench_close(&b);
    if (rc < 0)
        return -1;
    bandwidth = (double)b.size / seconds; /* half of it read, half of it written */
    if (gpu->flops[MACHINE_BF16] <= 0)
        gpu->flops[MACHINE_BF16] = product / rates->product;
    if (gpu->memory_bandwidth <= 0)
        gpu->memory_bandwidth = bandwidth / rates->hbm;
    rates->product = share(product, gpu->flops[MACHINE_BF16] * machine->efficiency, 0.01, 1);
    rates->half_depth = fmin(half, 10000);
    rates->launch = fmin(launch, 1e-3);
    /* The steps of this program are graphs without work of the host between them. */
    rates->layer = fmin(SMALL_KERNELS * rates->launch, 0.1);
    rates->fixed = fmin(SMALL_KERNELS * rates->launch, 0.1);
    rates->flash = share(attention, gpu->flops[MACHINE_BF16], 0.01, 1);
    rates->hbm = share(bandwidth, gpu->memory_bandwidth, 0.1, 1);
    return 0;
}
