/* SPDX-License-Identifier: Apache-2.0 */
/* Tensors on the GPU, operations on them in bf16 and in fp32, and their times. */
#include "speed.h"
#include "base/core/rng.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { REPEATS = 10, CHECKED = 1 << 20 };

struct device *device;
struct device_stream *stream;
struct slot slots[MAX_SLOTS];
struct operation now;
int s[MAX_SLOTS], reference;
double copy_rate, step_seconds, failures;
int with_energy, with_algorithms;
struct energy step_energy;
static int slot_count;
static uint32_t drawn;

void die(const struct error *err)
{
    fprintf(stderr, "speed: %s\n", err->text);
    exit(1);
}

/* Operands are adjacent in one block of memory, as in training; data for checks is at its other
 * end. Valid until 'begin'. */
static struct {
    char *memory;
    size_t size, from, to; /* from, to: the unused part */
} arena;

void take_memory(void)
{
    struct device_memory memory;
    struct error err;

    if (device_memory(device, &memory, &err))
        die(&err);
    arena.size = memory.available / 1024 * 768; /* plans have their own memory */
    arena.to = arena.size;
    arena.memory = device_allocate(device, arena.size, &err);
    if (!arena.memory)
        die(&err);
}

void release_memory(void)
{
    finish();
    device_release(device, arena.memory);
}

static size_t rounded(size_t bytes)
{
    size_t whole = (bytes + 255) / 256 * 256;

    if (arena.to - arena.from < whole) {
        fprintf(stderr, "speed: the GPU has too little memory\n");
        exit(1);
    }
    return whole;
}

static void *get(size_t bytes)
{
    size_t whole = rounded(bytes);

    arena.from += whole;
    return arena.memory + arena.from - whole;
}

static void *get_beside(size_t bytes)
{
    arena.to -= rounded(bytes);
    return arena.memory + arena.to;
}

struct device_plan *plan(const struct operation *operation)
{
    struct error err;
    struct device_plan *made = plan_create(device, operation, &err);

    if (!made)
        die(&err);
    return made;
}

void finish(void)
{
    struct error err;

    if (device_stream_wait(stream, 120, &err))
        die(&err);
}

void fill(void *out, int64_t count, enum device_type type, double value)
{
    struct operation operation = {.kind = OPERATION_FILL, .fill = {count, type, value}};
    struct device_plan *made = plan(&operation);
    struct fill_operands o = {out};

    run_fill(made, stream, &o);
    plan_destroy(made);
}

static void convert(const void *from, enum device_type a, void *to, enum device_type b,
                    int64_t count)
{
    struct operation operation = {.kind = OPERATION_CONVERT,
                                  .convert = {.count = count, .from = a, .to = b}};
    struct device_plan *made = plan(&operation);
    struct convert_operands o = {from, to};

    run_convert(made, stream, &o);
    plan_destroy(made);
}

void begin(void)
{
    finish();
    arena.from = 0;
    arena.to = arena.size;
    slot_count = 0;
}

int input(int64_t count, double deviation, int fixed)
{
    struct operation operation = {.kind = OPERATION_NORMAL,
                                  .normal = {1, count, 0, 0, count, deviation}};
    struct device_plan *made = plan(&operation);
    struct slot *slot = &slots[slot_count];

    *slot = (struct slot){count, fixed, 0, NULL, get_beside((size_t)count * 4)};
    run_normal(made, stream, &(struct normal_operands){slot->wide, 1, RNG_TEST + drawn++});
    plan_destroy(made);
    slot->memory = get((size_t)count * (fixed ? 4 : 2));
    convert(slot->wide, TYPE_FP32, slot->memory, fixed ? TYPE_FP32 : TYPE_BF16, count);
    if (!fixed)
        convert(slot->memory, TYPE_BF16, slot->wide, TYPE_FP32, count);
    finish();
    return slot_count++;
}

int output(int64_t count, int fixed)
{
    struct slot *slot = &slots[slot_count];

    *slot = (struct slot){count, fixed, 1, get((size_t)count * (fixed ? 4 : 2)),
                          get_beside((size_t)count * 4)};
    fill(slot->memory, count, fixed ? TYPE_FP32 : TYPE_BF16, NAN);
    fill(slot->wide, count, TYPE_FP32, NAN);
    return slot_count++;
}

int constant(const void *bytes, size_t size)
{
    struct error err;
    void *host = device_host_allocate(device, size, &err);
    struct slot *slot = &slots[slot_count];

    if (!host)
        die(&err);
    *slot = (struct slot){(int64_t)size / 4, 1, 0, get(size), get_beside(size)};
    memcpy(host, bytes, size);
    device_copy(stream, slot->memory, host, size, COPY_TO_DEVICE);
    device_copy(stream, slot->wide, host, size, COPY_TO_DEVICE);
    finish();
    device_host_release(device, host);
    return slot_count++;
}

int integers(int64_t count, int64_t limit, int64_t step)
{
    int32_t *all = malloc((size_t)count * sizeof(*all));
    int slot;

    if (!all)
        abort();
    for (int64_t i = 0; i < count; i++)
        all[i] =
            (int32_t)(step == SCATTERED ? i * 7919 % limit /* a prime */
                      : step
                          ? i % limit / step * step
                          : (int64_t)(rng_bits(3, RNG_TEST, drawn, (uint64_t)i) % (uint64_t)limit));
    drawn++;
    slot = constant(all, (size_t)count * sizeof(*all));
    free(all);
    return slot;
}

void *p(int i)
{
    return i < 0 ? NULL : reference ? slots[i].wide : slots[i].memory;
}

enum device_type type(void)
{
    return reference ? TYPE_FP32 : TYPE_BF16;
}

float *fetch(const void *from, enum device_type as, int64_t count)
{
    struct error err;
    float *host = device_host_allocate(device, (size_t)count * 4, &err);
    size_t taken = arena.to;
    void *wide = get_beside((size_t)count * 4);

    if (!host)
        die(&err);
    convert(from, as, wide, TYPE_FP32, count);
    device_copy(stream, host, wide, (size_t)count * 4, COPY_TO_HOST);
    finish();
    arena.to = taken;
    return host;
}

/* Norm of the difference over the norm, for elements of an output starting at 'first'. */
static double difference_from(const struct slot *slot, int64_t first, int64_t count)
{
    enum device_type as = slot->fixed ? TYPE_FP32 : TYPE_BF16;
    float *a = fetch((char *)slot->memory + first * (int64_t)type_size(as), as, count);
    float *b = fetch((char *)slot->wide + first * 4, TYPE_FP32, count);
    double up = 0, down = 0;

    for (int64_t i = 0; i < count; i++) {
        up += ((double)a[i] - b[i]) * ((double)a[i] - b[i]);
        down += (double)b[i] * b[i];
    }
    device_host_release(device, a);
    device_host_release(device, b);
    return sqrt(up / (down > 0 ? down : 1));
}

/* The larger value of the first and the last elements of an output. */
static double difference(const struct slot *slot)
{
    int64_t count = slot->count < CHECKED ? slot->count : CHECKED;
    double first = difference_from(slot, 0, count);
    double last = difference_from(slot, slot->count - count, count);

    return last > first || isnan(last) ? last : first;
}

double time_briefly(void (*run)(struct device_plan *), struct device_plan *made)
{
    struct device_event *from = device_event_create(device, 1);
    struct device_event *to = device_event_create(device, 1);
    double seconds;

    for (int i = 0; i < 3; i++)
        run(made);
    device_event_record(from, stream);
    for (int i = 0; i < REPEATS; i++)
        run(made);
    device_event_record(to, stream);
    finish();
    seconds = device_event_seconds(from, to) / REPEATS;
    device_event_destroy(from);
    device_event_destroy(to);
    return seconds;
}

static void print_energy(void (*run)(struct device_plan *), struct device_plan *made, double once,
                         double times)
{
    struct energy energy = energy_measure(run, made, once);

    step_energy.seconds += energy.seconds * times;
    step_energy.joules += energy.joules * times;
    printf("  sustained %8.3f ms %4.0f W %7.2f J", energy.seconds * 1e3,
           energy.joules / energy.seconds, energy.joules * times);
}

void measure(const char *name, void (*run)(struct device_plan *plan),
             struct device_plan *(*make)(void), double bytes, double flops, double times,
             double tolerance, int check)
{
    struct device_plan *made;
    double seconds, worst = 0;
    const char *only = getenv("SPEED_ONLY"); /* part of a name */

    if (only && !strstr(name, only))
        return;
    reference = 0;
    made = make();
    run(made);
    finish();
    if (check) {
        struct device_plan *wide;

        reference = 1;
        wide = make();
        run(wide);
        finish();
        plan_destroy(wide);
        reference = 0;
        for (int i = 0; i < slot_count; i++) {
            double now = slots[i].output ? difference(&slots[i]) : 0;

            if (isnan(now) || now > worst) /* NaN stays NaN */
                worst = now;
        }
    }
    seconds = time_briefly(run, made);
    step_seconds += seconds * times;
    printf("  %-26s %8.3f ms", name, seconds * 1e3);
    if (flops > 0)
        printf("  %6.0f TFLOP/s", flops / seconds * 1e-12);
    else
        printf("  %6.2f TB/s %3.0f%%", bytes / seconds * 1e-12, 100 * bytes / seconds / copy_rate);
    printf("  x%-3.0f %7.2f ms", times, seconds * times * 1e3);
    if (check) {
        int bad = !(worst <= tolerance);

        printf("  error %.1e%s", worst, bad ? "  WRONG" : "");
        failures += bad;
    }
    if (with_energy && (times > 0 || with_algorithms))
        print_energy(run, made, seconds, times);
    printf("\n");
    fflush(stdout);
    plan_destroy(made);
}

/* --- The operations ------------------------------------------------------------------------- */

struct device_plan *make_now(void)
{
    struct operation operation = now;

    switch (operation.kind) {
    case OPERATION_LINEAR_FORWARD:
    case OPERATION_LINEAR_DGRAD:
    case OPERATION_LINEAR_WGRAD:
        operation.linear.types = linear_types(type());
        break;
    case OPERATION_RESIDUAL_NORM:
    case OPERATION_RESIDUAL_NORM_BACKWARD:
        operation.residual_norm.type = operation.residual_norm.y_type = type();
        break;
    case OPERATION_ATTENTION:
    case OPERATION_ATTENTION_BACKWARD:
        operation.attention.type = type();
        break;
    case OPERATION_ROPE:
        operation.rope.type = type();
        break;
    case OPERATION_SWIGLU:
    case OPERATION_SWIGLU_BACKWARD:
        operation.swiglu.type = operation.swiglu.y_type = type();
        break;
    case OPERATION_EMBEDDING:
    case OPERATION_EMBEDDING_BACKWARD:
        operation.embedding.type = type();
        break;
    case OPERATION_CROSS_ENTROPY_PARTIAL:
    case OPERATION_CROSS_ENTROPY_FINISH:
        operation.cross_entropy.type = type();
        break;
    case OPERATION_ADAM:
        operation.adam.type = type();
        break;
    default:
        break;
    }
    return plan(&operation);
}

void run_now(struct device_plan *made)
{
    switch (now.kind) {
    case OPERATION_LINEAR_FORWARD:
        run_linear_forward(
            made, stream,
            &(struct linear_forward_operands){
                .x = p(s[0]), .weight = p(s[1]), .bias = p(s[2]), .y = p(s[3]), .pre = p(s[4])});
        break;
    case OPERATION_LINEAR_DGRAD:
        run_linear_dgrad(made, stream,
                         &(struct linear_dgrad_operands){.dy = p(s[0]),
                                                         .weight = p(s[1]),
                                                         .pre = p(s[2]),
                                                         .dx = p(s[3]),
                                                         .dbias = p(s[4]),
                                                         .product = p(s[5])});
        break;
    case OPERATION_LINEAR_WGRAD:
        run_linear_wgrad(made, stream,
                         &(struct linear_wgrad_operands){
                             .dy = p(s[0]), .x = p(s[1]), .dweight = p(s[2]), .dbias = p(s[3])});
        break;
    case OPERATION_RESIDUAL_NORM:
        run_residual_norm(made, stream,
                          &(struct residual_norm_operands){.x = p(s[0]),
                                                           .bias = p(s[1]),
                                                           .residual = p(s[2]),
                                                           .sum = p(s[3]),
                                                           .weight = p(s[4]),
                                                           .norm_bias = p(s[5]),
                                                           .y = p(s[6]),
                                                           .mean = p(s[7]),
                                                           .rstd = p(s[8]),
                                                           .row_index = p(s[9]),
                                                           .state = p(s[10])});
        break;
    case OPERATION_RESIDUAL_NORM_BACKWARD:
        run_residual_norm_backward(made, stream,
                                   &(struct residual_norm_backward_operands){.dy = p(s[0]),
                                                                             .dsum = p(s[1]),
                                                                             .sum = p(s[2]),
                                                                             .weight = p(s[3]),
                                                                             .mean = p(s[4]),
                                                                             .rstd = p(s[5]),
                                                                             .dresidual = p(s[6]),
                                                                             .dweight = p(s[7]),
                                                                             .dnorm_bias = p(s[8]),
                                                                             .dbias = p(s[9]),
                                                                             .dx = p(s[10]),
                                                                             .row_index = p(s[11]),
                                                                             .state = p(s[12])});
        break;
    case OPERATION_ROPE:
        run_rope(made, stream, &(struct rope_operands){p(s[0]), p(s[1]), p(s[2]), p(s[3])});
        break;
    case OPERATION_SWIGLU:
        run_swiglu(made, stream, &(struct swiglu_operands){.x = p(s[0]), .y = p(s[1])});
        break;
    case OPERATION_SWIGLU_BACKWARD:
        run_swiglu_backward(
            made, stream,
            &(struct swiglu_backward_operands){.dy = p(s[0]), .x = p(s[1]), .dx = p(s[2])});
        break;
    case OPERATION_EMBEDDING:
        run_embedding(made, stream,
                      &(struct embedding_operands){p(s[0]), p(s[1]), p(s[2]), p(s[3]), p(s[4])});
        break;
    case OPERATION_EMBEDDING_BACKWARD:
        run_embedding_backward(made, stream,
                               &(struct embedding_backward_operands){p(s[0]), p(s[1]), p(s[2]), 0});
        break;
    case OPERATION_CROSS_ENTROPY_PARTIAL:
        run_cross_entropy_partial(
            made, stream, &(struct cross_entropy_partial_operands){p(s[0]), p(s[1]), p(s[2])});
        break;
    case OPERATION_CROSS_ENTROPY_FINISH:
        run_cross_entropy_finish(made, stream,
                                 &(struct cross_entropy_finish_operands){
                                     p(s[0]), p(s[1]), p(s[2]), p(s[3]), p(s[4]), p(s[5]), NULL});
        break;
    case OPERATION_ADAM:
        run_adam(made, stream,
                 &(struct adam_operands){.grad = p(s[0]),
                                         .master = p(s[1]),
                                         .moment1 = p(s[2]),
                                         .moment2 = p(s[3]),
                                         .weights = p(s[4]),
                                         .state = p(s[5])});
        break;
    case OPERATION_SQUARE_SUM:
        run_square_sum(made, stream, &(struct square_sum_operands){p(s[0]), p(s[1])});
        break;
    default:
        break;
    }
}

void copy_bandwidth(void)
{
    struct device_event *from = device_event_create(device, 1);
    struct device_event *to = device_event_create(device, 1);
    size_t bytes = (size_t)1 << 30;
    const void *a = slots[input((int64_t)bytes / 2, 1, 0)].memory;
    void *b = get(bytes);

    for (int i = 0; i < 23; i++) {
        if (i == 3)
            device_event_record(from, stream);
        device_copy(stream, b, a, bytes, COPY_ON_DEVICE);
    }
    device_event_record(to, stream);
    finish();
    copy_rate = 20 * 2 * (double)bytes / device_event_seconds(from, to);
    printf("%s: a copy moves %.2f TB/s\n", device->model, copy_rate * 1e-12);
    device_event_destroy(from);
    device_event_destroy(to);
    begin();
}
