/* SPDX-License-Identifier: Apache-2.0 */
/* Linear layers and attention: the compute-bound operations. */
#include "speed.h"
#include "base/core/rng.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void measure_pass(const struct linear_case *c, const char *pass, double times, int check)
{
    const struct linear_shape *shape = &now.linear;
    double flops = 2.0 * (double)shape->rows * (double)shape->in * (double)shape->out;
    char text[64], *before = with_algorithms ? choices() : NULL;

    snprintf(text, sizeof(text), "%s %s", c->name, pass);
    measure(text, run_now, make_now, 0, flops, times, 5e-3, check);
    if (before)
        measure_algorithms(before);
    free(before);
}

void measure_linear_forward(const struct linear_case *c, int64_t rows, double times, int check)
{
    begin();
    now = (struct operation){.kind = OPERATION_LINEAR_FORWARD,
                             .linear = {rows, c->in, c->out, linear_types(TYPE_BF16), c->bias,
                                        c->after, c->after != ACTIVATION_NONE, 0}};
    s[0] = input(rows * c->in, 1, 0);
    s[1] = input(c->in * c->out, 0.02, 0);
    s[2] = c->bias ? input(c->out, 0.1, 0) : -1;
    s[3] = output(rows * (is_gated(c->after) ? c->out / 2 : c->out), 0);
    s[4] = c->after ? output(rows * c->out, 0) : -1;
    measure_pass(c, "forward", times, check);
}

void measure_linear_dgrad(const struct linear_case *c, int64_t rows, double times, int check)
{
    int gated = is_gated(c->before);
    int64_t pre = gated ? 2 * c->in : c->in;

    begin();
    now = (struct operation){.kind = OPERATION_LINEAR_DGRAD,
                             .linear = {rows, c->in, c->out, linear_types(TYPE_BF16),
                                        c->before && !gated, c->before, 0, 0}};
    s[0] = input(rows * c->out, 1, 0);
    s[1] = input(c->in * c->out, 0.02, 0);
    s[2] = c->before ? input(rows * pre, 1, 0) : -1;
    s[3] = output(rows * pre, 0);
    s[4] = now.linear.bias ? output(c->in, 1) : -1;
    s[5] = gated ? output(rows * c->in, 0) : -1;
    if (gated)
        slots[s[5]].output = 0; /* memory that not every kernel uses */
    measure_pass(c, "dgrad", times, check);
}

static void measure_linear_wgrad(const struct linear_case *c, int64_t rows, double times, int check)
{
    begin();
    now = (struct operation){.kind = OPERATION_LINEAR_WGRAD,
                             .linear = {rows, c->in, c->out, linear_types(TYPE_BF16),
                                        c->bias && !c->after, ACTIVATION_NONE, 0, 0}};
    s[0] = input(rows * c->out, 1, 0);
    s[1] = input(rows * c->in, 1, 0);
    s[2] = output(c->in * c->out, 1);
    s[3] = now.linear.bias ? output(c->out, 1) : -1;
    measure_pass(c, "wgrad", times, check);
}

void measure_linear(const struct linear_case *c, int64_t rows, double times, int check)
{
    measure_linear_forward(c, rows, times, check);
    measure_linear_dgrad(c, rows, times, check);
    measure_linear_wgrad(c, rows, times, check);
}

static struct attention_shape attention_shape;
static int64_t k_offset, v_offset;

static void *channel(int slot, int64_t offset)
{
    return (char *)p(slot) + offset * (int64_t)type_size(type());
}

static void run_attention_now(struct device_plan *made)
{
    struct attention_operands o = {.q = channel(s[0], 0),
                                   .k = channel(s[0], k_offset),
                                   .v = channel(s[0], v_offset),
                                   .out = p(s[1]),
                                   .lse = p(s[2]),
                                   .document_start = p(s[5])};

    run_attention(made, stream, &o);
}

static void run_attention_backward_now(struct device_plan *made)
{
    struct attention_backward_operands o = {.q = channel(s[0], 0),
                                            .k = channel(s[0], k_offset),
                                            .v = channel(s[0], v_offset),
                                            .out = p(s[1]),
                                            .dout = p(s[3]),
                                            .lse = p(s[2]),
                                            .dq = channel(s[4], 0),
                                            .dk = channel(s[4], k_offset),
                                            .dv = channel(s[4], v_offset),
                                            .document_start = p(s[5])};

    run_attention_backward(made, stream, &o);
}

void force(const char *choices, const char *key, const char *value, int remember)
{
    char text[2048];
    struct error err;

    snprintf(text, sizeof(text), "%.*s\n%s %s\n", (int)strcspn(choices, "\n"), choices, key, value);
    if (device->choose(device, text, remember, &err))
        die(&err);
}

void restore(const char *choices)
{
    struct error err;

    if (device->choose(device, choices, 1, &err))
        die(&err);
}

char *choices(void)
{
    struct error err;
    char *text = device->choices(device, &err);

    if (!text)
        die(&err);
    return text;
}

/* The choice that includes our kernels and is in 'after' but not in 'before'. */
static int new_choice(const char *before, const char *after, char key[512], char value[512])
{
    for (const char *line = after; *line; line += strcspn(line, "\n") + 1)
        if (sscanf(line, "%511s %511s", key, value) == 2 && strstr(key, ":ours") &&
            !strstr(before, key))
            return 1;
    return 0;
}

/* Attention as chosen by timing and, if our kernel was a candidate, each kernel by itself. */
static void measure_kernels(const char *name, void (*run)(struct device_plan *), double flops,
                            double times, double tolerance, int check)
{
    static const int kernels[] = {0, 1, 2, 3, 100};
    char *before = choices(), *after, key[512], value[512], part[16], line[32];

    measure(name, run, make_now, 0, flops, times, tolerance, check);
    after = choices();
    if (new_choice(before, after, key, value)) {
        for (size_t i = 0; i < sizeof(kernels) / sizeof(*kernels); i++) {
            snprintf(part, sizeof(part), ",%d:", kernels[i]);
            if (!strstr(value, part))
                continue;
            snprintf(part, sizeof(part), "%d", kernels[i]);
            snprintf(line, sizeof(line), kernels[i] == 100 ? "  by ours" : "  by cuDNN's kernel %d",
                     kernels[i]);
            force(after, key, part, 0);
            measure(line, run, make_now, 0, flops, 0, tolerance, check);
        }
        force(after, key, value, 0);
    }
    free(before), free(after);
}

static void measure_forward(const char *name, double flops, double times, int check)
{
    now.kind = OPERATION_ATTENTION;
    measure_kernels(name, run_attention_now, flops, times, 5e-3, check);
}

static void measure_gradient(const char *name, double flops, double times, int check)
{
    now.kind = OPERATION_ATTENTION_BACKWARD;
    measure_kernels(name, run_attention_backward_now, 2.5 * flops, times, 1e-2, check);
}

void measure_attention(const struct model *m, int64_t rows, int check)
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
    now = (struct operation){.attention = attention_shape};
    s[0] = input(rows * width, 1, 0);
    s[1] = output(rows * m->hidden, 0);
    s[2] = output(rows * m->heads, 1);
    s[5] = integers(rows, m->sequence, 200); /* documents of 200 tokens */
    measure_forward("attention", flops, (double)m->layers, check);
    s[3] = input(rows * m->hidden, 1, 0);
    s[4] = output(rows * width, 0);
    measure_gradient("attention backward", flops, (double)m->layers, check);
    now.attention.documents = 1;
    measure_forward("documents", flops, 0, check);
    measure_gradient("documents backward", flops, 0, check);
}

/* The library's dropout: out is linear in v with the same mask in both directions, so the sums of
 * out * dout and v * dv agree; and probabilities keep their mean, so with v = 1 out is 1. */
void measure_attention_dropout(const struct model *m, int64_t rows)
{
    int64_t head = m->hidden / m->heads, width = (m->heads + 2 * m->kv_heads) * head;
    double a = 0, b = 0, norm = 0, mean = 0;
    struct operation forward, backward;
    struct device_plan *f, *g;
    struct step_state state = {.seed = 1234};
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
    s[5] = constant(&state, sizeof(state));
    ones = input(rows * width, 0, 0);
    fill(slots[ones].memory, rows * width, TYPE_BF16, 1);
    reference = 0;
    f = plan(&forward);
    g = plan(&backward);
    run_attention(f, stream,
                  &(struct attention_operands){.q = channel(s[0], 0),
                                               .k = channel(s[0], k_offset),
                                               .v = p(ones),
                                               .out = p(s[1]),
                                               .lse = p(s[2]),
                                               .state = p(s[5]),
                                               .purpose = 7});
    out = fetch(p(s[1]), TYPE_BF16, rows * m->hidden);
    for (int64_t i = 0; i < rows * m->hidden; i++)
        mean += out[i] / (double)(rows * m->hidden);
    device_host_release(device, out);
    run_attention(f, stream,
                  &(struct attention_operands){.q = channel(s[0], 0),
                                               .k = channel(s[0], k_offset),
                                               .v = channel(s[0], v_offset),
                                               .out = p(s[1]),
                                               .lse = p(s[2]),
                                               .state = p(s[5]),
                                               .purpose = 7});
    run_attention_backward(g, stream,
                           &(struct attention_backward_operands){.q = channel(s[0], 0),
                                                                 .k = channel(s[0], k_offset),
                                                                 .v = channel(s[0], v_offset),
                                                                 .out = p(s[1]),
                                                                 .dout = p(s[3]),
                                                                 .lse = p(s[2]),
                                                                 .dq = channel(s[4], 0),
                                                                 .dk = channel(s[4], k_offset),
                                                                 .dv = channel(s[4], v_offset),
                                                                 .state = p(s[5]),
                                                                 .purpose = 7});
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
    plan_destroy(f), plan_destroy(g);
}
