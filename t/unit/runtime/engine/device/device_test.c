/* SPDX-License-Identifier: Apache-2.0 */
#include "device_test.h"
#include "tap.h"
#include "base/core/rng.h"

#include <math.h>
#include <stdlib.h>

struct device *device;
struct device_stream *stream;
enum device_type type = TYPE_FP32;
int deterministic = 1, unfused;
static uint64_t drawn;

static double draw(void)
{
    static double pair[2];

    if (drawn % 2 == 0)
        rng_normal(7, RNG_TEST, 0, drawn / 2, pair);
    return pair[drawn++ % 2];
}

int64_t gpu_rows(int64_t rows)
{
    const char *name = getenv("MEGATRON_TEST_DEVICE");

    return (!name || strcmp(name, "cpu") == 0) && rows > 61 ? 61 : rows;
}

static float round_to(enum device_type to, float x)
{
    uint32_t bits;

    memcpy(&bits, &x, sizeof(bits));
    if (to == TYPE_BF16)
        bits = (bits + 0x7FFF + ((bits >> 16) & 1)) & 0xFFFF0000;
    else if (to == TYPE_FP16)
        return (float)(_Float16)x;
    memcpy(&x, &bits, sizeof(x));
    return x;
}

void encode(enum device_type as, const double *from, void *to, int64_t n)
{
    for (int64_t i = 0; i < n; i++) {
        float x = round_to(as, (float)from[i]);
        uint32_t bits;

        memcpy(&bits, &x, sizeof(bits));
        if (as == TYPE_BF16)
            ((uint16_t *)to)[i] = (uint16_t)(bits >> 16);
        else if (as == TYPE_FP16)
            ((_Float16 *)to)[i] = (_Float16)x;
        else
            ((float *)to)[i] = x;
    }
}

static void decode(enum device_type as, const void *from, double *to, int64_t n)
{
    for (int64_t i = 0; i < n; i++) {
        if (as == TYPE_BF16) {
            uint32_t bits = (uint32_t)((const uint16_t *)from)[i] << 16;
            float x;

            memcpy(&x, &bits, sizeof(x));
            to[i] = x;
        } else if (as == TYPE_FP16) {
            to[i] = (double)((const _Float16 *)from)[i];
        } else {
            to[i] = ((const float *)from)[i];
        }
    }
}

void *allocate(size_t bytes)
{
    struct error err;
    void *memory = device_allocate(device, bytes, &err);

    if (!memory) {
        printf("Bail out! %s\n", err.text);
        exit(1);
    }
    return memory;
}

void transfer(void *to, const void *from, size_t bytes, enum device_copy direction)
{
    struct error err = {.text = ""};
    void *host = device_host_allocate(device, bytes, &err);

    if (direction == COPY_TO_DEVICE) {
        memcpy(host, from, bytes);
        device_copy(stream, to, host, bytes, direction);
    } else {
        device_copy(stream, host, from, bytes, direction);
    }
    if (device_stream_wait(stream, 60, &err) < 0) {
        printf("Bail out! %s\n", err.text);
        exit(1);
    }
    if (direction == COPY_TO_HOST)
        memcpy(to, host, bytes);
    device_host_release(device, host);
}

void tensor_put(const struct tensor *t, const double *values)
{
    void *host = malloc((size_t)t->n * type_size(t->as));

    encode(t->as, values, host, t->n);
    transfer(t->d, host, (size_t)t->n * type_size(t->as), COPY_TO_DEVICE);
    free(host);
}

struct tensor tensor_as(enum device_type as, int64_t n, double scale, double offset)
{
    struct tensor t = {n, as, malloc((size_t)n * sizeof(double)), NULL};

    t.d = allocate((size_t)n * type_size(as));
    for (int64_t i = 0; i < n; i++)
        t.v[i] = round_to(as, (float)(draw() * scale + offset));
    tensor_put(&t, t.v);
    return t;
}

struct tensor tensor(int64_t n, double scale)
{
    return tensor_as(type, n, scale, 0);
}

void tensor_free(struct tensor *t)
{
    device_release(device, t->d);
    free(t->v);
}

void *upload(const void *from, size_t bytes)
{
    void *to = allocate(bytes);

    transfer(to, from, bytes, COPY_TO_DEVICE);
    return to;
}

double tolerance_of(enum device_type as)
{
    return as == TYPE_FP32 ? 2e-5 : as == TYPE_BF16 ? 3e-2 : 4e-3;
}

double least_of(enum device_type as)
{
    return as == TYPE_FP16 ? 0x1p-14 : 0x1p-126;
}

double *download(const struct tensor *t)
{
    double *values = malloc((size_t)t->n * sizeof(double));
    void *host = malloc((size_t)t->n * type_size(t->as));

    transfer(host, t->d, (size_t)t->n * type_size(t->as), COPY_TO_HOST);
    decode(t->as, host, values, t->n);
    free(host);
    return values;
}

void agree(const struct tensor *got, const double *expected, const char *name)
{
    double *values = download(got), worst = 0, size = 0, tolerance = tolerance_of(type);
    int64_t at = 0;

    for (int64_t i = 0; i < got->n; i++) {
        double difference = fabs(values[i] - expected[i]);

        size = fmax(size, fabs(expected[i]));
        if (!(difference <= worst) && !isnan(worst)) {
            worst = difference;
            at = i;
        }
    }
    if (!ok(worst <= tolerance * fmax(size, 1e-3), "%s", name))
        diag("element %lld of %lld: got %.9g, expected %.9g", (long long)at, (long long)got->n,
             values[at], expected[at]);
    free(values);
}

/* Each element within 'tolerance' times its 'size' or, if that is not given, times its own value,
 * at least 1. */
static void compare_each(const struct tensor *got, const double *expected, const double *size,
                         double tolerance, const char *name)
{
    double *values = download(got), allowed = 0, most;
    int64_t wrong = 0, at = 0;

    for (int64_t i = got->n - 1; i >= 0; i--) {
        most = tolerance * (size ? size[i] : fmax(1, fabs(expected[i])));
        if (fabs(values[i] - expected[i]) <= most)
            continue;
        wrong++;
        at = i;
        allowed = most;
    }
    if (!ok(wrong == 0, "%s", name))
        diag("%lld of %lld elements, the first is %lld: got %.9g, expected %.9g within %.3g",
             (long long)wrong, (long long)got->n, (long long)at, values[at], expected[at], allowed);
    free(values);
}

void agree_each(const struct tensor *got, const double *expected, const double *size,
                const char *name)
{
    compare_each(got, expected, size, tolerance_of(type), name);
}

void agree_closely(const struct tensor *got, const double *expected, const char *name)
{
    compare_each(got, expected, NULL, fmin(1e-4, tolerance_of(type)), name);
}

struct device_plan *plan(const struct operation *operation)
{
    struct error err;
    struct device_plan *made = plan_create(device, operation, &err);

    if (!made) {
        printf("Bail out! plan: %s\n", err.text);
        exit(1);
    }
    return made;
}

struct step_state *state_on_device(void)
{
    struct step_state state = {.iteration = 5, .seed = 99, .loss_scale = 2, .lr = 0.1f};

    return upload(&state, sizeof(state));
}

struct step_state *adam_state_on_device(void)
{
    struct step_state state = {.lr = 0.01f,
                               .weight_decay = 0.1f,
                               .grad_factor = 0.5f,
                               .correction1 = 0.1f,
                               .correction2 = 0.05f};

    return upload(&state, sizeof(state));
}

struct step_state state_read(const struct step_state *on_device)
{
    struct step_state state;

    transfer(&state, on_device, sizeof(state), COPY_TO_HOST);
    return state;
}

static double objective(const struct probe *probe)
{
    double *out = malloc((size_t)probe->outputs * sizeof(double)), total = 0;

    probe->forward(probe->context, out);
    for (int64_t i = 0; i < probe->outputs; i++)
        total += out[i] * probe->weight[i];
    free(out);
    return total;
}

double *difference(const struct probe *probe, double *x, int64_t n)
{
    double *gradient = malloc((size_t)n * sizeof(double)), h = 1e-5;

    for (int64_t i = 0; i < n; i++) {
        double keep = x[i], up, down;

        x[i] = keep + h;
        up = objective(probe);
        x[i] = keep - h;
        down = objective(probe);
        x[i] = keep;
        gradient[i] = (up - down) / (2 * h);
    }
    return gradient;
}

void gradient_agrees(const struct probe *probe, struct tensor *x, const struct tensor *got,
                     const char *name)
{
    double *expected = difference(probe, x->v, x->n);

    agree(got, expected, name);
    free(expected);
}

void gradient_added(const struct probe *probe, struct tensor *x, const struct tensor *got,
                    const char *name)
{
    double *expected = difference(probe, x->v, x->n);

    for (int64_t i = 0; i < x->n; i++)
        expected[i] += got->v[i];
    agree(got, expected, name);
    free(expected);
}

double activation_reference(enum activation activation, double x)
{
    if (activation == ACTIVATION_NONE)
        return x;
    if (activation == ACTIVATION_SQUARED_RELU)
        return x > 0 ? x * x : 0;
    if (activation == ACTIVATION_GELU_ERF)
        return 0.5 * x * erfc(-x / sqrt(2));
    if (activation == ACTIVATION_TANH)
        return tanh(x);
    return 0.5 * x * (1 + tanh(sqrt(2 / M_PI) * (x + 0.044715 * x * x * x)));
}

double activation_slope(enum activation activation, double x)
{
    double t = tanh(sqrt(2 / M_PI) * (x + 0.044715 * x * x * x));

    if (activation == ACTIVATION_GELU_ERF)
        return 0.5 * erfc(-x / sqrt(2)) + x * exp(-x * x / 2) / sqrt(2 * M_PI);
    if (activation == ACTIVATION_TANH)
        return 1 - tanh(x) * tanh(x);
    if (activation == ACTIVATION_SQUARED_RELU)
        return x > 0 ? 2 * x : 0;
    return 0.5 * (1 + t) + 0.5 * x * (1 - t * t) * sqrt(2 / M_PI) * (1 + 3 * 0.044715 * x * x);
}

double gate_reference(enum gate kind, double gate, double up)
{
    if (kind == GATE_GELU_TANH)
        return activation_reference(ACTIVATION_GELU_TANH, gate) * up;
    return gate / (1 + exp(kind == GATE_SILU ? -gate : -1.702 * gate)) * up;
}

double dropout_reference(double p, uint32_t purpose, uint64_t element)
{
    uint64_t number = rng_bits(99, purpose, 5, element / 8 * 2 + (element % 8) / 4);

    if (p == 0)
        return 1;
    number = number >> (16 * (element % 4)) & 0xFFFF;
    return number < (uint64_t)llround(p * 65536) ? 0 : 65536 / (65536 - round(p * 65536));
}
