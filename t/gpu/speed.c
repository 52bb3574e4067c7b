/* Every operation of a training step in the shapes of real models, on one GPU: time, bandwidth
 * against a plain copy, arithmetic rate, and the difference from the same operation in fp32. The
 * sum of all of a step's operations is what a step would take without gaps.
 *
 * usage: speed [model ...]        models: gpt345m gpt1.3b llama8b-l8 small */
#include "device.h"
#include "rng.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct model {
    const char *name;
    int64_t layers, hidden, heads, kv_heads, ffn, sequence, micro, vocabulary;
    int llama;
};

static const struct model models[] = {
    {"gpt345m", 24, 1024, 16, 16, 4096, 1024, 32, 50304, 0},
    {"gpt1.3b", 24, 2048, 16, 16, 8192, 2048, 8, 50304, 0},
    {"llama8b-l8", 8, 4096, 32, 8, 14336, 4096, 4, 32000, 1},
    {"small", 2, 512, 8, 4, 1536, 320, 3, 1000, 1},
};

enum { MAX_SLOTS = 16, REPEATS = 10, CHECKED = 1 << 20 };

/* One tensor of an operation: 'wide' is the fp32 copy the reference works on. */
struct slot {
    int64_t count;
    int fixed; /* fp32 in any case, or integers */
    int output;
    void *memory, *wide;
};

static struct device *device;
static struct device_stream *stream;
static struct slot slots[MAX_SLOTS];
static int slot_count, reference;
static uint32_t drawn;
static double copy_rate, step_seconds, failures;

static void die(const struct error *err)
{
    fprintf(stderr, "speed: %s\n", err->text);
    exit(1);
}

static void *get(size_t bytes)
{
    struct error err;
    void *memory = device_allocate(device, bytes + 256, &err);

    if (!memory)
        die(&err);
    return memory;
}

static struct device_plan *plan(const struct operation *operation)
{
    struct error err;
    struct device_plan *made = plan_create(device, operation, &err);

    if (!made)
        die(&err);
    return made;
}

static void finish(void)
{
    struct error err;

    if (device_stream_wait(stream, 120, &err))
        die(&err);
}

static void fill(void *out, int64_t count, enum device_type type, double value)
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
    struct operation operation = {.kind = OPERATION_CONVERT, .convert = {count, a, b}};
    struct device_plan *made = plan(&operation);
    struct convert_operands o = {from, to};

    run_convert(made, stream, &o);
    plan_destroy(made);
}

/* Start a new operation. */
static void begin(void)
{
    finish();
    for (int i = 0; i < slot_count; i++) {
        device_release(device, slots[i].memory);
        device_release(device, slots[i].wide);
    }
    slot_count = 0;
}

/* A random input; with 'fixed' it is fp32 for both. Returns its number. */
static int input(int64_t count, double deviation, int fixed)
{
    struct operation operation = {.kind = OPERATION_NORMAL,
                                  .normal = {1, count, 0, 0, count, deviation}};
    struct device_plan *made = plan(&operation);
    struct slot *slot = &slots[slot_count];

    *slot = (struct slot){count, fixed, 0, NULL, get((size_t)count * 4)};
    run_normal(made, stream, &(struct normal_operands){slot->wide, 1, RNG_TEST + drawn++});
    plan_destroy(made);
    slot->memory = get((size_t)count * (fixed ? 4 : 2));
    convert(slot->wide, TYPE_FP32, slot->memory, fixed ? TYPE_FP32 : TYPE_BF16, count);
    if (!fixed)
        convert(slot->memory, TYPE_BF16, slot->wide, TYPE_FP32, count);
    finish();
    return slot_count++;
}

/* An output, full of NaN at first; with 'fixed' it is fp32 for both. */
static int output(int64_t count, int fixed)
{
    struct slot *slot = &slots[slot_count];

    *slot = (struct slot){count, fixed, 1, get((size_t)count * (fixed ? 4 : 2)),
                          get((size_t)count * 4)};
    fill(slot->memory, count, fixed ? TYPE_FP32 : TYPE_BF16, NAN);
    fill(slot->wide, count, TYPE_FP32, NAN);
    return slot_count++;
}

/* Integers below 'limit', the same for both: random, or with 'step' counting in such steps. */
static int integers(int64_t count, int64_t limit, int64_t step)
{
    struct error err;
    int32_t *host = device_host_allocate(device, (size_t)count * 4, &err);
    struct slot *slot = &slots[slot_count];

    if (!host)
        die(&err);
    *slot = (struct slot){count, 1, 0, get((size_t)count * 4), get((size_t)count * 4)};
    for (int64_t i = 0; i < count; i++)
        host[i] =
            (int32_t)(step
                          ? i % limit / step * step
                          : (int64_t)(rng_bits(3, RNG_TEST, drawn, (uint64_t)i) % (uint64_t)limit));
    drawn++;
    device_copy(stream, slot->memory, host, (size_t)count * 4, COPY_TO_DEVICE);
    device_copy(stream, slot->wide, host, (size_t)count * 4, COPY_TO_DEVICE);
    finish();
    device_host_release(device, host);
    return slot_count++;
}

/* Slot number i for the run that is going on. */
static void *p(int i)
{
    return i < 0 ? NULL : reference ? slots[i].wide : slots[i].memory;
}

static enum device_type type(void)
{
    return reference ? TYPE_FP32 : TYPE_BF16;
}

static float *fetch(const void *from, enum device_type as, int64_t count)
{
    struct error err;
    float *host = device_host_allocate(device, (size_t)count * 4, &err);
    void *wide = get((size_t)count * 4);

    if (!host)
        die(&err);
    convert(from, as, wide, TYPE_FP32, count);
    device_copy(stream, host, wide, (size_t)count * 4, COPY_TO_HOST);
    finish();
    device_release(device, wide);
    return host;
}

/* Norm of the difference over the norm, of elements of an output from 'first' on. */
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

/* The greater one of the first and the last elements of an output. */
static double difference(const struct slot *slot)
{
    int64_t count = slot->count < CHECKED ? slot->count : CHECKED;
    double first = difference_from(slot, 0, count);
    double last = difference_from(slot, slot->count - count, count);

    return last > first || isnan(last) ? last : first;
}

/* Run 'run' in bf16, timed, and once in fp32; print a line. 'times': how often a step does it. */
static void measure(const char *name, void (*run)(struct device_plan *plan),
                    struct device_plan *(*make)(void), double bytes, double flops, double times,
                    double tolerance, int check)
{
    struct error err;
    struct device_event *from = device_event_create(device, 1, &err);
    struct device_event *to = device_event_create(device, 1, &err);
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

            if (!(now <= worst))
                worst = now;
        }
    }
    for (int i = 0; i < 3; i++)
        run(made);
    device_event_record(from, stream);
    for (int i = 0; i < REPEATS; i++)
        run(made);
    device_event_record(to, stream);
    finish();
    seconds = device_event_seconds(from, to) / REPEATS;
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
    printf("\n");
    fflush(stdout);
    plan_destroy(made);
    device_event_destroy(from);
    device_event_destroy(to);
}

/* --- The operations ------------------------------------------------------------------------- */

static struct operation now;

static struct device_plan *make_now(void)
{
    struct operation operation = now;

    switch (operation.kind) {
    case OPERATION_LINEAR_FORWARD:
    case OPERATION_LINEAR_DGRAD:
    case OPERATION_LINEAR_WGRAD:
        operation.linear.type = type();
        break;
    case OPERATION_RESIDUAL_NORM:
    case OPERATION_RESIDUAL_NORM_BACKWARD:
        operation.residual_norm.type = type();
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
        operation.swiglu.type = type();
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

static int s[MAX_SLOTS]; /* slots of the operation, in the order of its case below */

static void run_now(struct device_plan *made)
{
    switch (now.kind) {
    case OPERATION_LINEAR_FORWARD:
        run_linear_forward(
            made, stream,
            &(struct linear_forward_operands){p(s[0]), p(s[1]), p(s[2]), p(s[3]), p(s[4])});
        break;
    case OPERATION_LINEAR_DGRAD:
        run_linear_dgrad(
            made, stream,
            &(struct linear_dgrad_operands){p(s[0]), p(s[1]), p(s[2]), p(s[3]), p(s[4]), 0});
        break;
    case OPERATION_LINEAR_WGRAD:
        run_linear_wgrad(made, stream,
                         &(struct linear_wgrad_operands){p(s[0]), p(s[1]), p(s[2]), p(s[3]), 0});
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
                                                           .rstd = p(s[8])});
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
                                                                             .dbias = p(s[9])});
        break;
    case OPERATION_ROPE:
        run_rope(made, stream, &(struct rope_operands){p(s[0]), p(s[1]), p(s[2]), p(s[3])});
        break;
    case OPERATION_SWIGLU:
        run_swiglu(made, stream, &(struct swiglu_operands){p(s[0]), p(s[1])});
        break;
    case OPERATION_SWIGLU_BACKWARD:
        run_swiglu_backward(made, stream,
                            &(struct swiglu_backward_operands){p(s[0]), p(s[1]), p(s[2])});
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
                                     p(s[0]), p(s[1]), p(s[2]), p(s[3]), p(s[4]), p(s[5])});
        break;
    case OPERATION_ADAM:
        run_adam(made, stream,
                 &(struct adam_operands){p(s[0]), p(s[1]), p(s[2]), p(s[3]), p(s[4]), p(s[5])});
        break;
    case OPERATION_SQUARE_SUM:
        run_square_sum(made, stream, &(struct square_sum_operands){p(s[0]), p(s[1])});
        break;
    default:
        break;
    }
}

static void linear(const char *name, int64_t rows, int64_t in, int64_t out, int bias, int gelu_out,
                   int gelu_in, double times, int check)
{
    double flops = 2.0 * (double)rows * (double)in * (double)out;
    char text[64];

    begin();
    now = (struct operation){.kind = OPERATION_LINEAR_FORWARD,
                             .linear = {rows, in, out, TYPE_BF16, bias && gelu_out >= 0,
                                        gelu_out > 0 ? ACTIVATION_GELU : ACTIVATION_NONE,
                                        gelu_out > 0}};
    s[0] = input(rows * in, 1, 0);
    s[1] = input(in * out, 0.02, 0);
    s[2] = input(out, 0.1, 0);
    s[3] = output(rows * out, 0);
    s[4] = gelu_out > 0 ? output(rows * out, 0) : -1;
    snprintf(text, sizeof(text), "%s forward", name);
    measure(text, run_now, make_now, 0, flops, times, 5e-3, check);

    begin();
    now = (struct operation){.kind = OPERATION_LINEAR_DGRAD,
                             .linear = {rows, in, out, TYPE_BF16, gelu_in,
                                        gelu_in ? ACTIVATION_GELU : ACTIVATION_NONE, 0}};
    s[0] = input(rows * out, 1, 0);
    s[1] = input(in * out, 0.02, 0);
    s[2] = gelu_in ? input(rows * in, 1, 0) : -1;
    s[3] = output(rows * in, 0);
    s[4] = gelu_in ? output(in, 1) : -1;
    snprintf(text, sizeof(text), "%s dgrad", name);
    measure(text, run_now, make_now, 0, flops, times, 5e-3, check);

    begin();
    now = (struct operation){
        .kind = OPERATION_LINEAR_WGRAD,
        .linear = {rows, in, out, TYPE_BF16, bias && gelu_out == 0, ACTIVATION_NONE, 0}};
    s[0] = input(rows * out, 1, 0);
    s[1] = input(rows * in, 1, 0);
    s[2] = output(in * out, 1);
    s[3] = now.linear.bias ? output(out, 1) : -1;
    snprintf(text, sizeof(text), "%s wgrad", name);
    measure(text, run_now, make_now, 0, flops, times, 5e-3, check);
}

static void norms(const struct model *m, int64_t rows, int check)
{
    int64_t cols = m->hidden;
    enum norm norm = m->llama ? NORM_RMS : NORM_LAYER;
    struct residual_norm_shape shape = {rows, cols, TYPE_BF16, norm, 1e-5, 1, !m->llama, 1, 0};
    double bytes = (double)(rows * cols) * 2, times = 2.0 * (double)m->layers;

    begin();
    now = (struct operation){.kind = OPERATION_RESIDUAL_NORM, .residual_norm = shape};
    s[0] = input(rows * cols, 1, 0);
    s[1] = m->llama ? -1 : input(cols, 0.1, 0);
    s[2] = input(rows * cols, 1, 0);
    s[3] = output(rows * cols, 0);
    s[4] = input(cols, 1, 0);
    s[5] = m->llama ? -1 : input(cols, 1, 0);
    s[6] = output(rows * cols, 0);
    s[7] = m->llama ? -1 : output(rows, 1);
    s[8] = output(rows, 1);
    measure("residual+norm", run_now, make_now, 4 * bytes, 0, times, 5e-3, check);

    begin();
    now = (struct operation){.kind = OPERATION_RESIDUAL_NORM_BACKWARD, .residual_norm = shape};
    s[0] = input(rows * cols, 1, 0);
    s[1] = input(rows * cols, 1, 0);
    s[2] = input(rows * cols, 1, 0);
    s[3] = input(cols, 1, 0);
    s[4] = m->llama ? -1 : input(rows, 0.01, 1);
    s[5] = input(rows, 1, 1);
    s[6] = output(rows * cols, 0);
    s[7] = output(cols, 1);
    s[8] = m->llama ? -1 : output(cols, 1);
    s[9] = m->llama ? -1 : output(cols, 1);
    measure("residual+norm backward", run_now, make_now, 4 * bytes, 0, times, 5e-3, check);
}

static struct attention_shape attention_shape;
static int64_t k_offset, v_offset;

static void *channel(int slot, int64_t offset)
{
    return (char *)p(slot) + offset * (int64_t)type_size(type());
}

static void run_attention_now(struct device_plan *made)
{
    struct attention_operands o = {channel(s[0], 0),
                                   channel(s[0], k_offset),
                                   channel(s[0], v_offset),
                                   p(s[1]),
                                   p(s[2]),
                                   p(s[5]),
                                   NULL,
                                   NULL,
                                   0};

    run_attention(made, stream, &o);
}

static void run_attention_backward_now(struct device_plan *made)
{
    struct attention_backward_operands o = {channel(s[0], 0),
                                            channel(s[0], k_offset),
                                            channel(s[0], v_offset),
                                            p(s[1]),
                                            p(s[3]),
                                            p(s[2]),
                                            channel(s[4], 0),
                                            channel(s[4], k_offset),
                                            channel(s[4], v_offset),
                                            p(s[5]),
                                            NULL,
                                            NULL,
                                            0};

    run_attention_backward(made, stream, &o);
}

static void attention(const struct model *m, int64_t rows, int check)
{
    int64_t head = m->hidden / m->heads, width = (m->heads + 2 * m->kv_heads) * head;
    double flops = 2.0 * (double)rows * (double)m->sequence * (double)m->hidden;

    begin();
    k_offset = m->heads * head;
    v_offset = k_offset + m->kv_heads * head;
    attention_shape = (struct attention_shape){.batch = m->micro,
                                               .q_rows = m->sequence,
                                               .kv_rows = m->sequence,
                                               .heads = m->heads,
                                               .kv_heads = m->kv_heads,
                                               .head_size = head,
                                               .type = TYPE_BF16,
                                               .q = {m->sequence * width, width, head},
                                               .kv = {m->sequence * width, width, head},
                                               .out = {m->sequence * m->hidden, m->hidden, head},
                                               .scale = 1 / sqrt((double)head),
                                               .causal = 1};
    now = (struct operation){.kind = OPERATION_ATTENTION, .attention = attention_shape};
    s[0] = input(rows * width, 1, 0);
    s[1] = output(rows * m->hidden, 0);
    s[2] = output(rows * m->heads, 1);
    s[5] = integers(rows, m->sequence, 200); /* documents of 200 tokens */
    measure("attention", run_attention_now, make_now, 0, flops, (double)m->layers, 5e-3, check);
    now.kind = OPERATION_ATTENTION_BACKWARD;
    s[3] = input(rows * m->hidden, 1, 0);
    s[4] = output(rows * width, 0);
    measure("attention backward", run_attention_backward_now, make_now, 0, 2.5 * flops,
            (double)m->layers, 1e-2, check);
    now.attention.documents = 1;
    now.kind = OPERATION_ATTENTION;
    measure("documents", run_attention_now, make_now, 0, flops, 0, 5e-3, check);
    now.kind = OPERATION_ATTENTION_BACKWARD;
    measure("documents backward", run_attention_backward_now, make_now, 0, 2.5 * flops, 0, 1e-2,
            check);
}

/* Dropout by the library: out is linear in v with one and the same mask in both directions, so the
 * sums of out * dout and v * dv agree; and probabilities keep their mean, so with v = 1 out is 1.
 */
static void attention_dropout(const struct model *m, int64_t rows)
{
    int64_t head = m->hidden / m->heads, width = (m->heads + 2 * m->kv_heads) * head;
    double a = 0, b = 0, norm = 0, mean = 0;
    struct operation forward, backward;
    struct device_plan *f, *g;
    struct step_state *state;
    struct error err;
    float *out, *dout, *qkv, *dqkv;
    int ones;

    begin();
    forward = (struct operation){.kind = OPERATION_ATTENTION, .attention = attention_shape};
    forward.attention.dropout = 0.1;
    backward = forward;
    backward.kind = OPERATION_ATTENTION_BACKWARD;
    s[0] = input(rows * width, 1, 0);
    s[1] = output(rows * m->hidden, 0);
    s[2] = output(rows * m->heads, 1);
    s[3] = input(rows * m->hidden, 1, 0);
    s[4] = output(rows * width, 0);
    s[5] = input((int64_t)sizeof(*state) / 4, 0, 1);
    ones = input(rows * width, 0, 0);
    fill(slots[ones].memory, rows * width, TYPE_BF16, 1);
    state = device_host_allocate(device, sizeof(*state), &err);
    memset(state, 0, sizeof(*state));
    state->seed = 1234;
    device_copy(stream, slots[s[5]].memory, state, sizeof(*state), COPY_TO_DEVICE);
    reference = 0;
    f = plan(&forward);
    g = plan(&backward);
    run_attention(f, stream,
                  &(struct attention_operands){channel(s[0], 0), channel(s[0], k_offset), p(ones),
                                               p(s[1]), p(s[2]), NULL, NULL, p(s[5]), 7});
    out = fetch(p(s[1]), TYPE_BF16, rows * m->hidden);
    for (int64_t i = 0; i < rows * m->hidden; i++)
        mean += out[i] / (double)(rows * m->hidden);
    device_host_release(device, out);
    run_attention(f, stream,
                  &(struct attention_operands){channel(s[0], 0), channel(s[0], k_offset),
                                               channel(s[0], v_offset), p(s[1]), p(s[2]), NULL,
                                               NULL, p(s[5]), 7});
    run_attention_backward(g, stream,
                           &(struct attention_backward_operands){
                               channel(s[0], 0), channel(s[0], k_offset), channel(s[0], v_offset),
                               p(s[1]), p(s[3]), p(s[2]), channel(s[4], 0), channel(s[4], k_offset),
                               channel(s[4], v_offset), NULL, NULL, p(s[5]), 7});
    out = fetch(p(s[1]), TYPE_BF16, rows * m->hidden);
    dout = fetch(p(s[3]), TYPE_BF16, rows * m->hidden);
    qkv = fetch(p(s[0]), TYPE_BF16, rows * width);
    dqkv = fetch(p(s[4]), TYPE_BF16, rows * width);
    for (int64_t i = 0; i < rows * m->hidden; i++) {
        a += (double)out[i] * dout[i];
        norm += (double)out[i] * out[i];
    }
    for (int64_t r = 0; r < rows; r++)
        for (int64_t c = v_offset; c < width; c++)
            b += (double)qkv[r * width + c] * dqkv[r * width + c];
    /* Rounding to 8 bits leaves some of the spread of a random sum. */
    a = fabs(a - b) / sqrt(norm);
    printf("  attention with dropout: mean %.4f (1), forward and gradient differ by %.4f%s\n", mean,
           a, fabs(mean - 1) < 0.02 && a < 0.1 ? "" : "  WRONG");
    failures += !(fabs(mean - 1) < 0.02 && a < 0.1);
    device_host_release(device, out), device_host_release(device, dout);
    device_host_release(device, qkv), device_host_release(device, dqkv);
    device_host_release(device, state);
    plan_destroy(f), plan_destroy(g);
}

static void llama_parts(const struct model *m, int64_t rows, int check)
{
    int64_t head = m->hidden / m->heads, width = (m->heads + 2 * m->kv_heads) * head;
    double turned = (double)(rows * (m->heads + m->kv_heads) * head) * 2;
    double bytes = (double)(rows * m->ffn) * 2;

    begin();
    now =
        (struct operation){.kind = OPERATION_ROPE,
                           .rope = {rows, m->heads + m->kv_heads, head, head, width, TYPE_BF16, 0}};
    s[0] = input(rows * width, 1, 0);
    s[1] = integers(rows, m->sequence, 1);
    s[2] = input(m->sequence * head / 2, 0.7, 1);
    s[3] = input(m->sequence * head / 2, 0.7, 1);
    slots[s[0]].output = 1;
    measure("rope", run_now, make_now, 2 * turned, 0, 2.0 * (double)m->layers, 5e-3, check);

    begin();
    now = (struct operation){.kind = OPERATION_SWIGLU, .swiglu = {rows, m->ffn, TYPE_BF16}};
    s[0] = input(rows * 2 * m->ffn, 1, 0);
    s[1] = output(rows * m->ffn, 0);
    measure("swiglu", run_now, make_now, 3 * bytes, 0, (double)m->layers, 5e-3, check);
    begin();
    now.kind = OPERATION_SWIGLU_BACKWARD;
    s[0] = input(rows * m->ffn, 1, 0);
    s[1] = input(rows * 2 * m->ffn, 1, 0);
    s[2] = output(rows * 2 * m->ffn, 0);
    measure("swiglu backward", run_now, make_now, 5 * bytes, 0, (double)m->layers, 5e-3, check);
}

static void embeddings(const struct model *m, int64_t rows, int check)
{
    double bytes = (double)(rows * m->hidden) * 2;

    begin();
    now = (struct operation){.kind = OPERATION_EMBEDDING,
                             .embedding = {rows, m->hidden, 0, m->vocabulary, TYPE_BF16, 1, 0}};
    s[0] = integers(rows, m->vocabulary, 0);
    s[1] = input(m->vocabulary * m->hidden, 1, 0);
    s[2] = integers(rows, m->sequence, 1);
    s[3] = input(m->sequence * m->hidden, 1, 0);
    s[4] = output(rows * m->hidden, 0);
    measure("embedding", run_now, make_now, 2 * bytes, 0, 1, 5e-3, check);
    begin();
    now.kind = OPERATION_EMBEDDING_BACKWARD;
    s[0] = integers(rows, m->vocabulary, 0);
    s[1] = input(rows * m->hidden, 1, 0);
    s[2] = output(m->vocabulary * m->hidden, 1);
    measure("embedding backward", run_now, make_now,
            3 * bytes + (double)(m->vocabulary * m->hidden) * 4, 0, 1, 5e-3, check);
    begin();
    now.embedding.table_rows = m->sequence;
    s[0] = integers(rows, m->sequence, 1);
    s[1] = input(rows * m->hidden, 1, 0);
    s[2] = output(m->sequence * m->hidden, 1);
    measure("position backward", run_now, make_now, bytes, 0, m->llama ? 0 : 1, 5e-3, check);
}

static void losses(const struct model *m, int64_t rows, int check)
{
    double bytes = (double)(rows * m->vocabulary) * 2;
    struct step_state *state;
    struct error err;

    begin();
    now = (struct operation){
        .kind = OPERATION_CROSS_ENTROPY_PARTIAL,
        .cross_entropy = {rows, m->vocabulary, 0, m->vocabulary - 47, TYPE_BF16, 1, 1}};
    s[0] = input(rows * m->vocabulary, 1, 0);
    s[1] = integers(rows, m->vocabulary - 47, 0);
    s[2] = output(rows * 3, 1);
    measure("cross entropy partial", run_now, make_now, bytes, 0, 0, 1e-4, check);
    now.kind = OPERATION_CROSS_ENTROPY_FINISH;
    slots[s[0]].output = 1;
    s[3] = input(rows, 1e-3, 1);
    s[4] = output(rows, 1);
    s[5] = input((int64_t)sizeof(*state) / 4, 0, 1);
    state = device_host_allocate(device, sizeof(*state), &err);
    memset(state, 0, sizeof(*state));
    state->loss_scale = 1;
    device_copy(stream, slots[s[5]].memory, state, sizeof(*state), COPY_TO_DEVICE);
    device_copy(stream, slots[s[5]].wide, state, sizeof(*state), COPY_TO_DEVICE);
    finish();
    measure("cross entropy finish", run_now, make_now, 2 * bytes, 0, 0, 5e-3, check);
    s[2] = -1;
    measure("cross entropy whole", run_now, make_now, 2 * bytes, 0, 1, 1, 0);
    device_host_release(device, state);
}

static void optimizer(const struct model *m, int check)
{
    int64_t head = m->hidden / m->heads, width = (m->heads + 2 * m->kv_heads) * head;
    int64_t count = m->layers * m->hidden * (width + m->hidden + (m->llama ? 3 : 2) * m->ffn) +
                    m->vocabulary * m->hidden * (m->llama ? 2 : 1);
    struct step_state *state;
    struct error err;

    begin();
    now = (struct operation){.kind = OPERATION_SQUARE_SUM, .square_sum = {count}};
    s[0] = input(count, 1, 1);
    s[1] = input(2, 0, 1);
    measure("square sum", run_now, make_now, (double)count * 4, 0, 1, 1e-6, 0);
    now = (struct operation){.kind = OPERATION_ADAM,
                             .adam = {count, count - 1000, 0.9, 0.95, 1e-8, TYPE_BF16}};
    s[1] = input(count, 0.02, 1);
    s[2] = input(count, 0, 1);
    s[3] = input(count, 0, 1);
    s[4] = output(count, 0);
    s[5] = input((int64_t)sizeof(*state) / 4, 0, 1);
    slots[s[1]].output = slots[s[2]].output = slots[s[3]].output = 1;
    state = device_host_allocate(device, sizeof(*state), &err);
    memset(state, 0, sizeof(*state));
    state->lr = 1e-3f;
    state->weight_decay = 0.1f;
    state->grad_factor = 1;
    device_copy(stream, slots[s[5]].memory, state, sizeof(*state), COPY_TO_DEVICE);
    device_copy(stream, slots[s[5]].wide, state, sizeof(*state), COPY_TO_DEVICE);
    finish();
    measure("adam", run_now, make_now, (double)count * 30, 0, 1, 5e-3, check);
    device_host_release(device, state);
}

static void copy_bandwidth(void)
{
    struct error err;
    struct device_event *from = device_event_create(device, 1, &err);
    struct device_event *to = device_event_create(device, 1, &err);
    size_t bytes = (size_t)1 << 30;
    void *a = get(bytes), *b = get(bytes);

    for (int i = 0; i < 23; i++) {
        if (i == 3)
            device_event_record(from, stream);
        device_copy(stream, b, a, bytes, COPY_ON_DEVICE);
    }
    device_event_record(to, stream);
    finish();
    copy_rate = 20 * 2 * (double)bytes / device_event_seconds(from, to);
    printf("%s: a copy moves %.2f TB/s\n", device->model, copy_rate * 1e-12);
    device_release(device, a);
    device_release(device, b);
    device_event_destroy(from);
    device_event_destroy(to);
}

static void measure_model(const struct model *m, int check)
{
    int64_t rows = m->micro * m->sequence, head = m->hidden / m->heads;
    int64_t width = (m->heads + 2 * m->kv_heads) * head;
    int bias = !m->llama;
    double layers = (double)m->layers;

    printf("%s: %lld tokens\n", m->name, (long long)rows);
    step_seconds = 0;
    linear("qkv", rows, m->hidden, width, bias, 0, 0, layers, check);
    linear("proj", rows, m->hidden, m->hidden, bias, -1, 0, layers, check);
    if (m->llama) {
        linear("fc1", rows, m->hidden, 2 * m->ffn, 0, 0, 0, layers, check);
        linear("fc2", rows, m->ffn, m->hidden, 0, -1, 0, layers, check);
    } else {
        linear("fc1", rows, m->hidden, m->ffn, 1, 1, 0, layers, check);
        linear("fc2", rows, m->ffn, m->hidden, 1, -1, 1, layers, check);
    }
    linear("head", rows, m->hidden, m->vocabulary, 0, -1, 0, 1, 0);
    attention(m, rows, check);
    attention_dropout(m, rows);
    norms(m, rows, check);
    if (m->llama)
        llama_parts(m, rows, check);
    embeddings(m, rows, check);
    losses(m, rows, check);
    optimizer(m, check);
    printf("  sum of a step: %.2f ms, %.0f tokens/s\n", step_seconds * 1e3,
           (double)rows / step_seconds);
    begin();
}

/* The kernels of ours that only move data, on tensors of ten times the L2 cache: their launches and
 * what the cache holds do not count there. */
static void measure_large(const struct model *m)
{
    int64_t rows = m->micro * m->sequence;

    while (rows * m->hidden * 2 < (int64_t)500 << 20)
        rows *= 2;
    printf("%s: %lld tokens, tensors beyond the cache\n", m->name, (long long)rows);
    norms(m, rows, 0);
    if (m->llama)
        llama_parts(m, rows, 0);
    embeddings(m, rows, 0);
    begin();
}

int main(int argc, char **argv)
{
    struct device_options options = {.cache_dir = getenv("MEGATRON_CACHE_DIR")};
    struct error err;

    device = device_open("cuda", &options, &err);
    if (!device)
        die(&err);
    stream = device_stream_create(device, 0, &err);
    if (!stream)
        die(&err);
    copy_bandwidth();
    for (size_t i = 0; i < sizeof(models) / sizeof(*models); i++) {
        int wanted = argc == 1;

        for (int a = 1; a < argc; a++)
            wanted |= strcmp(argv[a], models[i].name) == 0;
        if (wanted)
            measure_model(&models[i], 1);
        if (wanted && models[i].layers > 2)
            measure_large(&models[i]);
    }
    device_stream_destroy(stream);
    device_close(device);
    if (failures > 0)
        printf("%.0f operations are WRONG\n", failures);
    return failures > 0;
}
