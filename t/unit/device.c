/* Every operation of the device against an independent reference in double precision: the values
 * forward, and the gradients against finite differences of that reference. The device and the type
 * come from MEGATRON_TEST_DEVICE (cpu) and MEGATRON_TEST_TYPE (fp32), so that every backend can be
 * put to the same test. */
#include "tap.h"
#include "device.h"
#include "rng.h"

#include <math.h>
#include <stdlib.h>

static struct device *device;
static struct device_stream *stream;
static enum device_type type = TYPE_FP32;
static uint64_t drawn;

/* --- Tensors: doubles on the host, 'type' on the device ----------------------------------------
 */

static double draw(void)
{
    double pair[2];

    rng_normal(7, RNG_TEST, 0, drawn++, pair);
    return pair[0];
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

static void encode(enum device_type as, const double *from, void *to, int64_t n)
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

static void *allocate(size_t bytes)
{
    struct error err;
    void *memory = device_allocate(device, bytes, &err);

    if (!memory) {
        printf("Bail out! %s\n", err.text);
        exit(1);
    }
    return memory;
}

static void transfer(void *to, const void *from, size_t bytes, enum device_copy direction)
{
    struct error err = {""};
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

struct tensor {
    int64_t n;
    enum device_type as;
    double *v; /* what the reference computes with; rounded to the type */
    void *d;   /* on the device */
};

static struct tensor tensor_as(enum device_type as, int64_t n, double scale, double offset)
{
    struct tensor t = {n, as, malloc((size_t)n * sizeof(double)), NULL};
    char *host = malloc((size_t)n * type_size(as));

    t.d = allocate((size_t)n * type_size(as));
    for (int64_t i = 0; i < n; i++)
        t.v[i] = round_to(as, (float)(draw() * scale + offset));
    encode(as, t.v, host, n);
    transfer(t.d, host, (size_t)n * type_size(as), COPY_TO_DEVICE);
    free(host);
    return t;
}

static struct tensor tensor(int64_t n, double scale)
{
    return tensor_as(type, n, scale, 0);
}

static void tensor_free(struct tensor *t)
{
    device_release(device, t->d);
    free(t->v);
}

static void *upload(const void *from, size_t bytes)
{
    void *to = allocate(bytes);

    transfer(to, from, bytes, COPY_TO_DEVICE);
    return to;
}

static double tolerance_of(enum device_type as)
{
    return as == TYPE_FP32 ? 2e-5 : as == TYPE_BF16 ? 3e-2 : 4e-3;
}

static double *download(const struct tensor *t)
{
    double *values = malloc((size_t)t->n * sizeof(double));
    void *host = malloc((size_t)t->n * type_size(t->as));

    transfer(host, t->d, (size_t)t->n * type_size(t->as), COPY_TO_HOST);
    decode(t->as, host, values, t->n);
    free(host);
    return values;
}

/* Largest difference relative to the largest value, as a share of what the type allows. */
static void agree(const struct tensor *got, const double *expected, const char *name)
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

/* The same, each element relative to its own 'size': 0 where nothing may be written. */
static void agree_each(const struct tensor *got, const double *expected, const double *size,
                       const char *name)
{
    double *values = download(got), tolerance = tolerance_of(type);
    int64_t wrong = 0, at = 0;

    for (int64_t i = got->n - 1; i >= 0; i--) {
        if (fabs(values[i] - expected[i]) <= tolerance * size[i])
            continue;
        wrong++;
        at = i;
    }
    if (!ok(wrong == 0, "%s", name))
        diag("%lld of %lld elements, the first is %lld: got %.9g, expected %.9g within %.3g",
             (long long)wrong, (long long)got->n, (long long)at, values[at], expected[at],
             tolerance * size[at]);
    free(values);
}

static struct device_plan *plan(const struct operation *operation)
{
    struct error err;
    struct device_plan *made = plan_create(device, operation, &err);

    if (!made) {
        printf("Bail out! plan: %s\n", err.text);
        exit(1);
    }
    return made;
}

static struct step_state *state_on_device(void)
{
    struct step_state state = {.iteration = 5, .seed = 99, .loss_scale = 2, .lr = 0.1f};

    return upload(&state, sizeof(state));
}

static struct step_state state_read(const struct step_state *on_device)
{
    struct step_state state;

    transfer(&state, on_device, sizeof(state), COPY_TO_HOST);
    return state;
}

/* --- Gradients: finite differences of sum(weight * output) in double precision ------------------
 */

struct probe {
    void (*forward)(void *context, double *out);
    void *context;
    const double *weight; /* gradient of the output */
    int64_t outputs;
};

static double objective(const struct probe *probe)
{
    double *out = malloc((size_t)probe->outputs * sizeof(double)), total = 0;

    probe->forward(probe->context, out);
    for (int64_t i = 0; i < probe->outputs; i++)
        total += out[i] * probe->weight[i];
    free(out);
    return total;
}

static double *difference(const struct probe *probe, double *x, int64_t n)
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

static void gradient_agrees(const struct probe *probe, struct tensor *x, const struct tensor *got,
                            const char *name)
{
    double *expected = difference(probe, x->v, x->n);

    agree(got, expected, name);
    free(expected);
}

/* The same where the device added to what 'before' says. */
static void gradient_added(const struct probe *probe, struct tensor *x, const struct tensor *got,
                           const char *name)
{
    double *expected = difference(probe, x->v, x->n);

    for (int64_t i = 0; i < x->n; i++)
        expected[i] += got->v[i];
    agree(got, expected, name);
    free(expected);
}

/* --- Linear --------------------------------------------------------------------------------- */

static double gelu_reference(double x)
{
    return 0.5 * x * (1 + tanh(sqrt(2 / M_PI) * (x + 0.044715 * x * x * x)));
}

struct linear_case {
    int64_t rows, in, out;
    const double *x, *weight, *bias;
    int gelu_out; /* activation after */
    int gelu_in;  /* x is activated first */
};

static void linear_reference(void *context, double *y)
{
    const struct linear_case *c = context;

    for (int64_t r = 0; r < c->rows; r++)
        for (int64_t o = 0; o < c->out; o++) {
            double sum = c->bias ? c->bias[o] : 0;

            for (int64_t i = 0; i < c->in; i++) {
                double x = c->x[r * c->in + i];

                sum += (c->gelu_in ? gelu_reference(x) : x) * c->weight[o * c->in + i];
            }
            y[r * c->out + o] = c->gelu_out ? gelu_reference(sum) : sum;
        }
}

static void test_linear_forward(int64_t rows, int64_t in, int64_t out, int bias, int activation)
{
    struct operation op = {.kind = OPERATION_LINEAR_FORWARD,
                           .linear = {rows, in, out, type, bias,
                                      activation ? ACTIVATION_GELU : ACTIVATION_NONE, activation}};
    struct tensor x = tensor(rows * in, 1), w = tensor(out * in, 0.3), b = tensor(out, 1);
    struct tensor y = tensor(rows * out, 9), pre = tensor(rows * out, 9);
    struct linear_case c = {rows, in, out, x.v, w.v, bias ? b.v : NULL, activation, 0};
    struct device_plan *p = plan(&op);
    double *expected = malloc((size_t)(rows * out) * sizeof(double));

    run_linear_forward(p, stream, &(struct linear_forward_operands){x.d, w.d, b.d, y.d, pre.d});
    linear_reference(&c, expected);
    agree(&y, expected, "linear forward");
    if (activation) {
        c.gelu_out = 0;
        linear_reference(&c, expected);
        agree(&pre, expected, "linear forward, before the activation");
    }
    plan_destroy(p);
    free(expected);
    tensor_free(&x), tensor_free(&w), tensor_free(&b), tensor_free(&y), tensor_free(&pre);
}

static double gelu_slope(double x)
{
    double t = tanh(sqrt(2 / M_PI) * (x + 0.044715 * x * x * x));

    return 0.5 * (1 + t) + 0.5 * x * (1 - t * t) * sqrt(2 / M_PI) * (1 + 3 * 0.044715 * x * x);
}

/* Sizes that kernels for whole tiles take; too many elements to take differences of. */
static void test_linear_tiles(int64_t rows, int64_t in, int64_t out, int bias, int accumulate)
{
    struct operation op = {.kind = OPERATION_LINEAR_DGRAD,
                           .linear = {rows, in, out, type, bias, ACTIVATION_GELU, 0}};
    struct tensor x = tensor(rows * in, 2), w = tensor(out * in, 0.1), dy = tensor(rows * out, 1);
    struct tensor dx = tensor(rows * in, 9), before = tensor_as(TYPE_FP32, in, 1, 0);
    struct device_plan *p = plan(&op);
    double *expected = calloc((size_t)(rows * in), sizeof(double));
    double *sums = calloc((size_t)in, sizeof(double));

    for (int64_t r = 0; r < rows; r++)
        for (int64_t o = 0; o < out; o++)
            for (int64_t i = 0; i < in; i++)
                expected[r * in + i] += dy.v[r * out + o] * w.v[o * in + i];
    for (int64_t i = 0; i < in && accumulate; i++)
        sums[i] = before.v[i];
    for (int64_t i = 0; i < rows * in; i++) {
        expected[i] *= gelu_slope(x.v[i]);
        sums[i % in] += expected[i];
    }
    run_linear_dgrad(p, stream,
                     &(struct linear_dgrad_operands){dy.d, w.d, x.d, dx.d, before.d, accumulate});
    agree(&dx, expected, "linear dgrad in tiles");
    if (bias)
        agree(&before, sums, "linear dgrad in tiles, bias gradient of the layer before");
    plan_destroy(p);
    free(expected), free(sums);
    tensor_free(&x), tensor_free(&w), tensor_free(&dy), tensor_free(&dx), tensor_free(&before);
}

static void test_linear_backward(int64_t rows, int64_t in, int64_t out, int activation,
                                 int accumulate)
{
    struct operation dgrad = {.kind = OPERATION_LINEAR_DGRAD,
                              .linear = {rows, in, out, type, activation,
                                         activation ? ACTIVATION_GELU : ACTIVATION_NONE, 0}};
    struct operation wgrad = {.kind = OPERATION_LINEAR_WGRAD,
                              .linear = {rows, in, out, type, 1, ACTIVATION_NONE, 0}};
    struct tensor x = tensor(rows * in, 1), w = tensor(out * in, 0.3), b = tensor(out, 1);
    struct tensor dy = tensor(rows * out, 1), dx = tensor(rows * in, 9);
    struct tensor dw = tensor_as(TYPE_FP32, out * in, 1, 0), db = tensor_as(TYPE_FP32, out, 1, 0);
    struct tensor before = tensor_as(TYPE_FP32, in, 1, 0);
    struct linear_case c = {rows, in, out, x.v, w.v, b.v, 0, activation};
    struct probe probe = {linear_reference, &c, dy.v, rows * out};
    struct device_plan *pd = plan(&dgrad), *pw = plan(&wgrad);
    double *sums = calloc((size_t)in, sizeof(double)), *expected = difference(&probe, x.v, x.n);

    run_linear_dgrad(pd, stream,
                     &(struct linear_dgrad_operands){dy.d, w.d, x.d, dx.d, before.d, accumulate});
    agree(&dx, expected, "linear dgrad");
    for (int64_t i = 0; i < rows * in; i++)
        sums[i % in] += expected[i];
    for (int64_t i = 0; i < in && accumulate; i++)
        sums[i] += before.v[i];
    if (activation)
        agree(&before, sums, "linear dgrad, bias gradient of the layer before");
    /* The weight gradient takes the activated x as it is. */
    c.gelu_in = 0;
    run_linear_wgrad(pw, stream,
                     &(struct linear_wgrad_operands){dy.d, x.d, dw.d, db.d, accumulate});
    (accumulate ? gradient_added : gradient_agrees)(&probe, &w, &dw, "linear wgrad");
    (accumulate ? gradient_added : gradient_agrees)(&probe, &b, &db, "linear bias gradient");
    plan_destroy(pd), plan_destroy(pw);
    free(sums), free(expected);
    tensor_free(&x), tensor_free(&w), tensor_free(&b), tensor_free(&dy), tensor_free(&dx);
    tensor_free(&dw), tensor_free(&db), tensor_free(&before);
}

/* --- Residual stream and norm ---------------------------------------------------------------- */

/* Elements that finite differences are taken of. */
enum { FEW = 2500 };

struct norm_case {
    struct residual_norm_shape shape;
    const double *x, *bias, *residual, *weight, *norm_bias;
    const int64_t *row_index;
    uint32_t purpose;
};

static double dropout_reference(double p, uint32_t purpose, uint64_t element)
{
    uint64_t number = rng_bits(99, purpose, 5, element / 8 * 2 + (element % 8) / 4);

    if (p == 0)
        return 1;
    number = number >> (16 * (element % 4)) & 0xFFFF;
    return number < (uint64_t)llround(p * 65536) ? 0 : 65536 / (65536 - round(p * 65536));
}

/* out: sum (rows, cols), then y (rows, cols) */
static void norm_reference(void *context, double *out)
{
    const struct norm_case *c = context;
    int64_t n = c->shape.cols, rows = c->shape.rows;

    for (int64_t r = 0; r < rows; r++) {
        double *sum = out + r * n, *y = out + (rows + r) * n, mean = 0, square = 0;

        for (int64_t i = 0; i < n; i++) {
            sum[i] = c->shape.residual ? c->residual[r * n + i] : 0;
            if (c->shape.input)
                sum[i] += (c->x[r * n + i] + (c->shape.bias ? c->bias[i] : 0)) *
                          dropout_reference(c->shape.dropout, c->purpose,
                                            (uint64_t)(c->row_index[r] * n + i));
            mean += sum[i] / (double)n;
        }
        if (c->shape.norm != NORM_LAYER)
            mean = 0;
        for (int64_t i = 0; i < n; i++)
            square += (sum[i] - mean) * (sum[i] - mean) / (double)n;
        for (int64_t i = 0; i < n; i++)
            y[i] = c->shape.norm == NORM_NONE
                       ? 0
                       : (sum[i] - mean) / sqrt(square + c->shape.epsilon) * c->weight[i] +
                             (c->shape.norm == NORM_LAYER ? c->norm_bias[i] : 0);
    }
}

/* Gradients by the book, for rows too many for finite differences. */
struct norm_gradients {
    double *residual, *x, *bias, *weight, *norm_bias;
};

static struct norm_gradients norm_gradient_reference(const struct norm_case *c, const double *d)
{
    int64_t n = c->shape.cols, rows = c->shape.rows;
    size_t size = (size_t)(rows * n);
    struct norm_gradients g = {calloc(size, sizeof(double)), calloc(size, sizeof(double)),
                               calloc((size_t)n, sizeof(double)), calloc((size_t)n, sizeof(double)),
                               calloc((size_t)n, sizeof(double))};
    double *out = malloc(2 * size * sizeof(double));

    norm_reference((void *)c, out);
    for (int64_t r = 0; r < rows; r++) {
        const double *sum = out + r * n, *dsum = d + r * n, *dy = d + (rows + r) * n;
        double mean = 0, square = 0, rstd, part = 0, along = 0;

        for (int64_t i = 0; i < n && c->shape.norm == NORM_LAYER; i++)
            mean += sum[i] / (double)n;
        for (int64_t i = 0; i < n; i++)
            square += (sum[i] - mean) * (sum[i] - mean) / (double)n;
        rstd = 1 / sqrt(square + c->shape.epsilon);
        for (int64_t i = 0; i < n; i++) {
            part += dy[i] * c->weight[i] / (double)n;
            along += dy[i] * c->weight[i] * (sum[i] - mean) * rstd / (double)n;
        }
        for (int64_t i = 0; i < n; i++) {
            double xhat = (sum[i] - mean) * rstd, all = dy[i] * c->weight[i] - xhat * along;

            if (c->shape.norm == NORM_LAYER)
                all -= part;
            g.residual[r * n + i] = dsum[i] + (c->shape.norm == NORM_NONE ? 0 : rstd * all);
            g.x[r * n + i] =
                g.residual[r * n + i] * dropout_reference(c->shape.dropout, c->purpose,
                                                          (uint64_t)(c->row_index[r] * n + i));
            g.bias[i] += g.x[r * n + i];
            g.weight[i] += dy[i] * xhat;
            g.norm_bias[i] += dy[i];
        }
    }
    free(out);
    return g;
}

static void sums_agree(const struct tensor *got, double *expected, int accumulate, const char *name)
{
    for (int64_t i = 0; i < got->n && accumulate; i++)
        expected[i] += got->v[i];
    agree(got, expected, name);
}

static void compare_gradients(const struct norm_case *c, const double *d, int accumulate,
                              const struct tensor *dresidual, const struct tensor *dx,
                              const struct tensor *dbias, const struct tensor *dweight,
                              const struct tensor *dnorm)
{
    struct norm_gradients g = norm_gradient_reference(c, d);

    if (c->shape.residual)
        agree(dresidual, g.residual, "gradient of the residual, by the book");
    if (c->shape.input)
        agree(c->shape.dropout > 0 ? dx : dresidual, g.x, "gradient of x, by the book");
    if (c->shape.input && c->shape.bias)
        sums_agree(dbias, g.bias, accumulate, "gradient of the bias, by the book");
    if (c->shape.norm != NORM_NONE)
        sums_agree(dweight, g.weight, accumulate, "gradient of the norm's weight, by the book");
    if (c->shape.norm == NORM_LAYER)
        sums_agree(dnorm, g.norm_bias, accumulate, "gradient of the norm's bias, by the book");
    free(g.residual), free(g.x), free(g.bias), free(g.weight), free(g.norm_bias);
}

static void test_residual_norm(struct residual_norm_shape shape, int accumulate)
{
    int64_t rows = shape.rows, n = shape.cols, all = rows * n;
    struct operation op = {.kind = OPERATION_RESIDUAL_NORM, .residual_norm = shape};
    struct tensor x = tensor(all, 1), bias = tensor(n, 1), residual = tensor(all, 2);
    struct tensor weight = tensor_as(type, n, 0.3, 1), norm_bias = tensor(n, 1);
    struct tensor sum = tensor(all, 9), y = tensor(all, 9), d = tensor(2 * all, 1);
    struct tensor mean = tensor_as(TYPE_FP32, rows, 1, 0), rstd = tensor_as(TYPE_FP32, rows, 1, 0);
    struct tensor dresidual = tensor(all, 9), dx = tensor(all, 9);
    struct tensor dweight = tensor_as(TYPE_FP32, n, 1, 0), dnorm = tensor_as(TYPE_FP32, n, 1, 0);
    struct tensor dbias = tensor_as(TYPE_FP32, n, 1, 0);
    struct step_state *state = state_on_device();
    int64_t *index = malloc((size_t)rows * sizeof(*index)), *index_d;
    struct norm_case c = {shape, x.v, bias.v, residual.v, weight.v, norm_bias.v, index, 0x30002};
    struct probe probe = {norm_reference, &c, d.v, 2 * all};
    double *expected = malloc((size_t)(2 * all) * sizeof(double));
    struct device_plan *forward = plan(&op), *backward;
    void *kept = shape.input ? sum.d : residual.d;
    void (*compare)(const struct probe *, struct tensor *, const struct tensor *, const char *) =
        accumulate ? gradient_added : gradient_agrees;

    for (int64_t r = 0; r < rows; r++)
        index[r] = 1000 + 7 * r;
    index_d = upload(index, (size_t)rows * sizeof(*index));
    run_residual_norm(forward, stream,
                      &(struct residual_norm_operands){x.d, bias.d, residual.d, sum.d, weight.d,
                                                       norm_bias.d, y.d, mean.d, rstd.d, index_d,
                                                       state, 0x30002});
    norm_reference(&c, expected);
    if (shape.input)
        agree(&sum, expected, "residual stream");
    if (shape.norm != NORM_NONE)
        agree(&y, expected + all, "norm");
    else
        memset(d.v + all, 0, (size_t)all * sizeof(double));
    op.kind = OPERATION_RESIDUAL_NORM_BACKWARD;
    backward = plan(&op);
    run_residual_norm_backward(backward, stream,
                               &(struct residual_norm_backward_operands){
                                   (char *)d.d + (size_t)all * type_size(type), d.d, kept, weight.d,
                                   mean.d, rstd.d, dresidual.d, dx.d, dweight.d, dnorm.d, dbias.d,
                                   accumulate, index_d, state, 0x30002});
    compare_gradients(&c, d.v, accumulate, &dresidual, &dx, &dbias, &dweight, &dnorm);
    if (shape.residual && all <= FEW)
        gradient_agrees(&probe, &residual, &dresidual, "gradient of the residual");
    if (shape.input && all <= FEW)
        gradient_agrees(&probe, &x, shape.dropout > 0 ? &dx : &dresidual, "gradient of x");
    if (shape.input && shape.bias && all <= FEW)
        compare(&probe, &bias, &dbias, "gradient of the bias");
    if (shape.norm != NORM_NONE && all <= FEW)
        compare(&probe, &weight, &dweight, "gradient of the norm's weight");
    if (shape.norm == NORM_LAYER && all <= FEW)
        compare(&probe, &norm_bias, &dnorm, "gradient of the norm's bias");
    plan_destroy(forward), plan_destroy(backward);
    free(index), free(expected);
    device_release(device, index_d), device_release(device, state);
    tensor_free(&x), tensor_free(&bias), tensor_free(&residual), tensor_free(&weight);
    tensor_free(&norm_bias), tensor_free(&sum), tensor_free(&y), tensor_free(&d);
    tensor_free(&mean), tensor_free(&rstd), tensor_free(&dresidual), tensor_free(&dx);
    tensor_free(&dweight), tensor_free(&dnorm), tensor_free(&dbias);
}

/* --- Attention ------------------------------------------------------------------------------- */

struct attention_case {
    struct attention_shape shape;
    const double *q, *k, *v;
    const int32_t *start;
    const int64_t *row_index;
    uint32_t purpose;
    double *lse;
    const int32_t *positions;
};

static void attention_reference(void *context, double *out)
{
    const struct attention_case *c = context;
    const struct attention_shape *s = &c->shape;
    double *p = malloc((size_t)s->kv_rows * sizeof(double));

    for (int64_t b = 0; b < s->batch; b++)
        for (int64_t h = 0; h < s->heads; h++)
            for (int64_t i = 0; i < s->q_rows; i++) {
                const double *q = c->q + b * s->q.batch + i * s->q.row + h * s->q.head;
                int64_t kv = b * s->kv.batch + h / (s->heads / s->kv_heads) * s->kv.head;
                int64_t last = s->cached   ? c->positions[b * s->q_rows + i]
                               : s->causal ? i + s->kv_rows - s->q_rows
                                           : s->kv_rows - 1;
                int64_t first = s->documents ? c->start[b * s->q_rows + i] : 0;
                int64_t row = c->row_index[b * s->q_rows + i];
                double sum = 0, *o = out + b * s->out.batch + i * s->out.row + h * s->out.head;

                for (int64_t j = first; j <= last; j++) {
                    p[j] = 0;
                    for (int64_t e = 0; e < s->head_size; e++)
                        p[j] += q[e] * c->k[kv + j * s->kv.row + e];
                    p[j] = exp(p[j] * s->scale);
                    sum += p[j];
                }
                if (c->lse)
                    c->lse[(b * s->heads + h) * s->q_rows + i] = log(sum);
                for (int64_t e = 0; e < s->head_size; e++)
                    o[e] = 0;
                for (int64_t j = first; j <= last; j++) {
                    uint64_t element =
                        (uint64_t)((((row / s->sequence) * s->all_heads + s->first_head + h) *
                                        s->sequence +
                                    row % s->sequence) *
                                       s->sequence +
                                   j);
                    double share = p[j] / sum * dropout_reference(s->dropout, c->purpose, element);

                    for (int64_t e = 0; e < s->head_size; e++)
                        o[e] += share * c->v[kv + j * s->kv.row + e];
                }
            }
    free(p);
}

/* A gradient laid out like its operand, and for each element what its rounding errors grow with. */
struct attention_gradient {
    double *v, *size;
};

/* Add 'factor' times 'x' to the row that begins at 'at'. Its errors are those of terms like
 * 'rough', each rounded by itself; the first element of 'size' gets the sum of their squares. */
static void add_term(struct attention_gradient *g, int64_t at, double factor, double rough,
                     const double *x, int64_t n)
{
    for (int64_t e = 0; e < n; e++)
        g->v[at + e] += factor * x[e];
    g->size[at] += rough * rough;
}

/* Size of the elements of each row, whose factors x are normal: hardly one is above 3. */
static void spread_size(double *size, struct attention_stride stride,
                        const struct attention_shape *s, int64_t heads, int64_t rows)
{
    for (int64_t b = 0; b < s->batch; b++)
        for (int64_t h = 0; h < heads; h++)
            for (int64_t i = 0; i < rows; i++) {
                double *row = size + b * stride.batch + i * stride.row + h * stride.head;

                for (int64_t e = s->head_size - 1; e >= 0; e--)
                    row[e] = 3 * sqrt(row[0]);
            }
}

/* Without dropout: dV = P^T dO, dS = P * (dO V^T - delta) * scale, dQ = dS K, dK = dS^T Q with
 * delta = sum(P * dO V^T) of a row. Adds to what is there. The error of delta is that of a product
 * of dO and normal numbers, also where delta itself is small. */
static void attention_gradient_reference(const struct attention_case *c, const double *dout,
                                         struct attention_gradient dq, struct attention_gradient dk,
                                         struct attention_gradient dv)
{
    const struct attention_shape *s = &c->shape;
    double *p = malloc((size_t)s->kv_rows * sizeof(double));
    double *dp = malloc((size_t)s->kv_rows * sizeof(double));

    for (int64_t b = 0; b < s->batch; b++)
        for (int64_t h = 0; h < s->heads; h++)
            for (int64_t i = 0; i < s->q_rows; i++) {
                int64_t q_at = b * s->q.batch + i * s->q.row + h * s->q.head;
                int64_t kv = b * s->kv.batch + h / (s->heads / s->kv_heads) * s->kv.head;
                const double *dy = dout + b * s->out.batch + i * s->out.row + h * s->out.head;
                int64_t first = s->documents ? c->start[b * s->q_rows + i] : 0;
                int64_t last = s->causal ? i + s->kv_rows - s->q_rows : s->kv_rows - 1;
                double sum = 0, delta = 0, norm = 0;

                for (int64_t e = 0; e < s->head_size; e++)
                    norm += dy[e] * dy[e];
                norm = sqrt(norm);
                for (int64_t j = first; j <= last; j++) {
                    p[j] = dp[j] = 0;
                    for (int64_t e = 0; e < s->head_size; e++) {
                        p[j] += c->q[q_at + e] * c->k[kv + j * s->kv.row + e];
                        dp[j] += dy[e] * c->v[kv + j * s->kv.row + e];
                    }
                    p[j] = exp(p[j] * s->scale);
                    sum += p[j];
                    delta += p[j] * dp[j];
                }
                delta /= sum;
                for (int64_t j = first; j <= last; j++) {
                    int64_t at = kv + j * s->kv.row;
                    double share = p[j] / sum, ds = share * (dp[j] - delta) * s->scale;
                    double rough = share * (fabs(dp[j]) + norm) * s->scale;

                    add_term(&dq, q_at, ds, rough, c->k + at, s->head_size);
                    add_term(&dk, at, ds, rough, c->q + q_at, s->head_size);
                    add_term(&dv, at, share, share, dy, s->head_size);
                }
            }
    free(p), free(dp);
    spread_size(dq.size, s->q, s, s->heads, s->q_rows);
    spread_size(dk.size, s->kv, s, s->kv_heads, s->kv_rows);
    spread_size(dv.size, s->kv, s, s->kv_heads, s->kv_rows);
}

/* Compare the gradients with the reference: queries are the first 'k_at' of 'width' columns of dq,
 * keys and values the others of dkv. What is not theirs stays as it was. */
static void attention_gradients_agree(const struct attention_case *c, const double *dout,
                                      const struct tensor *dq, const struct tensor *dkv,
                                      int64_t width, size_t k_at, size_t v_at)
{
    struct attention_gradient q = {malloc((size_t)dq->n * sizeof(double)),
                                   calloc((size_t)dq->n, sizeof(double))};
    struct attention_gradient kv = {malloc((size_t)dkv->n * sizeof(double)),
                                    calloc((size_t)dkv->n, sizeof(double))};

    for (int64_t i = 0; i < dq->n; i++)
        q.v[i] = i % width < (int64_t)k_at ? 0 : dq->v[i];
    for (int64_t i = 0; i < dkv->n; i++)
        kv.v[i] = i % width < (int64_t)k_at ? dkv->v[i] : 0;
    attention_gradient_reference(c, dout, q,
                                 (struct attention_gradient){kv.v + k_at, kv.size + k_at},
                                 (struct attention_gradient){kv.v + v_at, kv.size + v_at});
    agree_each(dq, q.v, q.size, "gradient of the queries, row by row");
    agree_each(dkv, kv.v, kv.size, "gradient of keys and values, row by row");
    free(q.v), free(q.size), free(kv.v), free(kv.size);
}

/* The device is deterministic: a second run, over the results of the first, gives the same bits. */
static void attention_gradients_repeat(struct device_plan *backward,
                                       const struct attention_backward_operands *operands,
                                       const struct tensor *dq, const struct tensor *dkv)
{
    double *q = download(dq), *kv = download(dkv), *q_again, *kv_again;

    run_attention_backward(backward, stream, operands);
    q_again = download(dq);
    kv_again = download(dkv);
    ok(memcmp(q, q_again, (size_t)dq->n * sizeof(*q)) == 0 &&
           memcmp(kv, kv_again, (size_t)dkv->n * sizeof(*kv)) == 0,
       "the gradient of attention repeats to the bit");
    free(q), free(kv), free(q_again), free(kv_again);
}

/* Where the document of a position of sample 'b' begins. */
static int64_t document_of(int64_t b, int64_t position)
{
    static const int64_t starts[] = {2, 5, 70, 71, 140, 330, 395};
    int64_t found = 0;

    for (size_t i = 0; i < sizeof(starts) / sizeof(*starts); i++)
        if (starts[i] + 3 * b <= position)
            found = starts[i] + 3 * b;
    return found;
}

/* Heads of 64 are too many elements to take differences of. */
static void test_attention(int64_t batch, int64_t q_rows, int64_t kv_rows, int64_t heads,
                           int64_t kv_heads, int64_t size, int causal, int documents,
                           double dropout)
{
    int64_t width = (heads + 2 * kv_heads) * size;
    struct attention_shape s = {
        .batch = batch,
        .q_rows = q_rows,
        .kv_rows = kv_rows,
        .heads = heads,
        .kv_heads = kv_heads,
        .head_size = size,
        .type = type,
        .q = {q_rows * width, width, size},
        .kv = {kv_rows * width, width, size},
        .out = {q_rows * heads * size, heads * size, size},
        .scale = 1 / sqrt((double)size),
        .causal = causal,
        .documents = documents,
        .dropout = dropout,
        .all_heads = 2 * heads,
        .first_head = heads,
        .sequence = kv_rows,
    };
    struct operation op = {.kind = OPERATION_ATTENTION, .attention = s};
    struct tensor q = tensor(batch * q_rows * width, 1), kv = tensor(batch * kv_rows * width, 1);
    struct tensor out = tensor(batch * q_rows * heads * size, 9);
    struct tensor dout = tensor(batch * q_rows * heads * size, 1);
    struct tensor dq = tensor(batch * q_rows * width, 9), dkv = tensor(batch * kv_rows * width, 9);
    struct tensor lse = tensor_as(TYPE_FP32, batch * heads * q_rows, 9, 0);
    int64_t *rows = malloc((size_t)(batch * q_rows) * sizeof(*rows)), *rows_d;
    int32_t *start = malloc((size_t)(batch * q_rows) * sizeof(*start)), *start_d;
    struct step_state *state = state_on_device();
    size_t k_at = (size_t)(heads * size), v_at = (size_t)((heads + kv_heads) * size);
    size_t element = type_size(type);
    double *expected = malloc((size_t)out.n * sizeof(double)), *sums, *grad;
    struct attention_backward_operands operands;
    struct attention_case c = {s, q.v, kv.v + k_at, kv.v + v_at, start, rows, 0x20001, NULL, NULL};
    struct probe probe = {attention_reference, &c, dout.v, out.n};
    struct device_plan *forward = plan(&op), *backward;

    sums = malloc((size_t)lse.n * sizeof(double));
    for (int64_t i = 0; i < batch * q_rows; i++) {
        int64_t position = i % q_rows + kv_rows - q_rows;

        rows[i] = (3 + i / q_rows) * kv_rows + position;
        start[i] = (int32_t)document_of(i / q_rows, position);
    }
    rows_d = upload(rows, (size_t)(batch * q_rows) * sizeof(*rows));
    start_d = upload(start, (size_t)(batch * q_rows) * sizeof(*start));
    run_attention(forward, stream,
                  &(struct attention_operands){q.d, (char *)kv.d + k_at * element,
                                               (char *)kv.d + v_at * element, out.d, lse.d, start_d,
                                               rows_d, state, 0x20001, NULL});
    c.lse = sums;
    attention_reference(&c, expected);
    c.lse = NULL;
    agree(&out, expected, "attention");
    agree(&lse, sums, "attention, log-sum-exp");
    op.kind = OPERATION_ATTENTION_BACKWARD;
    backward = plan(&op);
    operands = (struct attention_backward_operands){q.d,
                                                    (char *)kv.d + k_at * element,
                                                    (char *)kv.d + v_at * element,
                                                    out.d,
                                                    dout.d,
                                                    lse.d,
                                                    dq.d,
                                                    (char *)dkv.d + k_at * element,
                                                    (char *)dkv.d + v_at * element,
                                                    start_d,
                                                    rows_d,
                                                    state,
                                                    0x20001};
    run_attention_backward(backward, stream, &operands);
    if (dropout == 0)
        attention_gradients_agree(&c, dout.v, &dq, &dkv, width, k_at, v_at);
    /* Only the queries of q and only the keys and values of kv take part; the rest stays as it was.
     */
    if (size < 64) {
        grad = difference(&probe, q.v, q.n);
        for (int64_t i = 0; i < q.n; i++)
            if (i % width >= (int64_t)k_at)
                grad[i] = dq.v[i];
        agree(&dq, grad, "gradient of the queries");
        free(grad);
        grad = difference(&probe, kv.v, kv.n);
        for (int64_t i = 0; i < kv.n; i++)
            if (i % width < (int64_t)k_at)
                grad[i] = dkv.v[i];
        agree(&dkv, grad, "gradient of keys and values");
        free(grad);
    }
    attention_gradients_repeat(backward, &operands, &dq, &dkv);
    plan_destroy(forward), plan_destroy(backward);
    free(rows), free(start), free(expected), free(sums);
    device_release(device, rows_d), device_release(device, start_d), device_release(device, state);
    tensor_free(&q), tensor_free(&kv), tensor_free(&out), tensor_free(&dout), tensor_free(&dq);
    tensor_free(&dkv), tensor_free(&lse);
}

/* Queries anywhere on a cache of 'places', whose keys and values lie side by side. */
static void test_attention_cached(int64_t batch, int64_t q_rows, int64_t places, int64_t heads,
                                  int64_t kv_heads, int64_t size)
{
    int64_t width = (heads + 2 * kv_heads) * size, kv_width = 2 * kv_heads * size;
    int64_t room = places + 3; /* a cache is longer than what a plan looks at */
    struct attention_shape s = {
        .batch = batch,
        .q_rows = q_rows,
        .kv_rows = places,
        .heads = heads,
        .kv_heads = kv_heads,
        .head_size = size,
        .type = type,
        .q = {q_rows * width, width, size},
        .kv = {room * kv_width, kv_width, size},
        .out = {q_rows * heads * size, heads * size, size},
        .scale = 1 / sqrt((double)size),
        .causal = 1,
        .cached = 1,
        .all_heads = heads,
        .sequence = places,
    };
    struct operation op = {.kind = OPERATION_ATTENTION, .attention = s};
    struct tensor q = tensor(batch * q_rows * width, 1), kv = tensor(batch * room * kv_width, 1);
    struct tensor out = tensor(batch * q_rows * heads * size, 9);
    struct tensor lse = tensor_as(TYPE_FP32, batch * heads * q_rows, 9, 0);
    int64_t *rows = calloc((size_t)(batch * q_rows), sizeof(*rows)), v_at = kv_heads * size;
    int32_t *positions = malloc((size_t)(batch * q_rows) * sizeof(*positions)), *positions_d;
    double *expected = malloc((size_t)out.n * sizeof(double));
    double *sums = malloc((size_t)lse.n * sizeof(double));
    struct attention_case c = {s, q.v, kv.v, kv.v + v_at, NULL, rows, 0, sums, positions};
    struct device_plan *forward = plan(&op);

    /* Each sample is somewhere else; the last query of a sample is padding. */
    for (int64_t i = 0; i < batch * q_rows; i++)
        positions[i] = (int32_t)((i / q_rows * 5 + i % q_rows) % places);
    positions[batch * q_rows - 1] = q_rows > 1 ? 0 : (int32_t)places - 1;
    positions_d = upload(positions, (size_t)(batch * q_rows) * sizeof(*positions));
    run_attention(forward, stream,
                  &(struct attention_operands){
                      .q = q.d,
                      .k = kv.d,
                      .v = (char *)kv.d + (size_t)v_at * type_size(type),
                      .out = out.d,
                      .lse = lse.d,
                      .positions = positions_d,
                  });
    attention_reference(&c, expected);
    agree(&out, expected, "attention on a cache");
    agree(&lse, sums, "attention on a cache, log-sum-exp");
    plan_destroy(forward);
    free(rows), free(positions), free(expected), free(sums);
    device_release(device, positions_d);
    tensor_free(&q), tensor_free(&kv), tensor_free(&out), tensor_free(&lse);
}

/* --- Rows and elements ----------------------------------------------------------------------- */

struct swiglu_case {
    int64_t rows, cols;
    const double *x;
};

static void swiglu_reference(void *context, double *y)
{
    const struct swiglu_case *c = context;

    for (int64_t r = 0; r < c->rows; r++)
        for (int64_t i = 0; i < c->cols; i++) {
            double gate = c->x[r * 2 * c->cols + i], up = c->x[(r * 2 + 1) * c->cols + i];

            y[r * c->cols + i] = gate / (1 + exp(-gate)) * up;
        }
}

static void test_swiglu(int64_t rows, int64_t cols)
{
    struct operation op = {.kind = OPERATION_SWIGLU, .swiglu = {rows, cols, type}};
    struct tensor x = tensor(rows * 2 * cols, 2), y = tensor(rows * cols, 9);
    struct tensor dy = tensor(rows * cols, 1), dx = tensor(rows * 2 * cols, 9);
    struct swiglu_case c = {rows, cols, x.v};
    struct probe probe = {swiglu_reference, &c, dy.v, rows * cols};
    double *expected = malloc((size_t)(rows * cols) * sizeof(double));
    struct device_plan *forward = plan(&op), *backward;

    run_swiglu(forward, stream, &(struct swiglu_operands){x.d, y.d});
    swiglu_reference(&c, expected);
    agree(&y, expected, "swiglu");
    op.kind = OPERATION_SWIGLU_BACKWARD;
    backward = plan(&op);
    run_swiglu_backward(backward, stream, &(struct swiglu_backward_operands){dy.d, x.d, dx.d});
    gradient_agrees(&probe, &x, &dx, "gradient of swiglu");
    plan_destroy(forward), plan_destroy(backward);
    free(expected);
    tensor_free(&x), tensor_free(&y), tensor_free(&dy), tensor_free(&dx);
}

static void test_rope(int64_t rows, int64_t heads, int64_t size, int64_t rotary, int backward)
{
    int64_t stride = (heads + 1) * size, positions = 40, half = rotary / 2;
    struct operation op = {.kind = OPERATION_ROPE,
                           .rope = {rows, heads, size, rotary, stride, type, backward}};
    struct tensor x = tensor(rows * stride, 1);
    struct tensor cosine = tensor_as(TYPE_FP32, positions * half, 0, 0);
    struct tensor sine = tensor_as(TYPE_FP32, positions * half, 0, 0);
    int32_t *at = malloc((size_t)rows * sizeof(*at)), *at_d;
    float *table = malloc((size_t)(positions * half) * sizeof(float));
    struct device_plan *p = plan(&op);

    for (int64_t r = 0; r < rows; r++)
        at[r] = (int32_t)(r * 7 % positions);
    at_d = upload(at, (size_t)rows * sizeof(*at));
    for (int which = 0; which < 2; which++) {
        for (int64_t i = 0; i < positions * half; i++) {
            double angle =
                (double)(i / half) * pow(10000, -2.0 * (double)(i % half) / (double)rotary);

            table[i] = (float)(which ? sin(angle) : cos(angle));
            (which ? sine : cosine).v[i] = table[i];
        }
        transfer((which ? sine : cosine).d, table, (size_t)(positions * half) * sizeof(float),
                 COPY_TO_DEVICE);
    }
    run_rope(p, stream, &(struct rope_operands){x.d, at_d, cosine.d, sine.d});
    for (int64_t r = 0; r < rows; r++)
        for (int64_t h = 0; h < heads; h++)
            for (int64_t i = 0; i < half; i++) {
                double *a = x.v + r * stride + h * size + i, *b = a + half, u = *a, v = *b;
                double cos_ = cosine.v[at[r] * half + i], sin_ = sine.v[at[r] * half + i];

                if (backward)
                    sin_ = -sin_;
                *a = u * cos_ - v * sin_;
                *b = v * cos_ + u * sin_;
            }
    agree(&x, x.v, backward ? "rope backward" : "rope");
    plan_destroy(p);
    free(at), free(table);
    device_release(device, at_d);
    tensor_free(&x), tensor_free(&cosine), tensor_free(&sine);
}

/* Some indices lie before and behind the table. 'crowded': two of three rows have one index. */
static void test_embedding(int64_t rows, int64_t cols, int64_t table_rows, int accumulate,
                           int crowded)
{
    int64_t first = 20, positions = 9;
    struct operation op = {.kind = OPERATION_EMBEDDING,
                           .embedding = {rows, cols, first, table_rows, type, 1, 0}};
    struct tensor table = tensor(table_rows * cols, 1), second = tensor(positions * cols, 1);
    struct tensor out = tensor(rows * cols, 9), dout = tensor(rows * cols, 1);
    struct tensor dtable = tensor_as(TYPE_FP32, table_rows * cols, 1, 0);
    int32_t *index = malloc((size_t)rows * sizeof(*index)), *index_d;
    int32_t *position = malloc((size_t)rows * sizeof(*position)), *position_d;
    double *expected = malloc((size_t)(rows * cols) * sizeof(double));
    double *gradient = calloc((size_t)(table_rows * cols), sizeof(double));
    struct device_plan *forward = plan(&op), *backward;

    for (int64_t r = 0; r < rows; r++) {
        index[r] = (int32_t)(crowded && r % 3 ? first + table_rows / 2
                                              : first - 3 + r * 5 % (table_rows + 6));
        position[r] = (int32_t)(r % positions);
        for (int64_t i = 0; i < cols; i++) {
            int64_t t = index[r] - first;
            int mine = t >= 0 && t < table_rows;

            expected[r * cols + i] =
                (mine ? table.v[t * cols + i] : 0) + second.v[position[r] * cols + i];
            if (mine)
                gradient[t * cols + i] += dout.v[r * cols + i];
        }
    }
    index_d = upload(index, (size_t)rows * sizeof(*index));
    position_d = upload(position, (size_t)rows * sizeof(*position));
    run_embedding(forward, stream,
                  &(struct embedding_operands){index_d, table.d, position_d, second.d, out.d});
    agree(&out, expected, "embedding");
    for (int64_t i = 0; i < table_rows * cols && accumulate; i++)
        gradient[i] += dtable.v[i];
    op.kind = OPERATION_EMBEDDING_BACKWARD;
    backward = plan(&op);
    run_embedding_backward(
        backward, stream,
        &(struct embedding_backward_operands){index_d, dout.d, dtable.d, accumulate});
    agree(&dtable, gradient, "gradient of the embedding");
    plan_destroy(forward), plan_destroy(backward);
    free(index), free(position), free(expected), free(gradient);
    device_release(device, index_d), device_release(device, position_d);
    tensor_free(&table), tensor_free(&second), tensor_free(&out), tensor_free(&dout);
    tensor_free(&dtable);
}

/* --- Cross entropy, in 'parts' pieces of a padded vocabulary --------------------------------- */

struct loss_case {
    int64_t rows, cols, vocabulary;
    int parts;
    double **logits; /* one matrix per part */
    const int32_t *targets;
};

static void loss_reference(void *context, double *loss)
{
    const struct loss_case *c = context;

    for (int64_t r = 0; r < c->rows; r++) {
        double sum = 0, wanted = 0;

        for (int64_t v = 0; v < c->vocabulary; v++) {
            double logit = c->logits[v / c->cols][r * c->cols + v % c->cols];

            sum += exp(logit);
            if (v == c->targets[r])
                wanted = logit;
        }
        loss[r] = log(sum) - wanted;
    }
}

/* The gradient by the book, for logits too many for finite differences. */
static double *loss_gradient(const struct loss_case *c, const double *scaled, int part)
{
    double *gradient = malloc((size_t)(c->rows * c->cols) * sizeof(double));

    for (int64_t r = 0; r < c->rows; r++) {
        double sum = 0;

        for (int64_t v = 0; v < c->vocabulary; v++)
            sum += exp(c->logits[v / c->cols][r * c->cols + v % c->cols]);
        for (int64_t i = 0; i < c->cols; i++) {
            int64_t v = part * c->cols + i;
            double share = v < c->vocabulary ? exp(c->logits[part][r * c->cols + i]) / sum : 0;

            gradient[r * c->cols + i] = scaled[r] * (share - (v == c->targets[r]));
        }
    }
    return gradient;
}

/* whole: both halves in one call. */
static void test_cross_entropy(int64_t rows, int64_t cols, int parts, int64_t vocabulary, int whole)
{
    struct tensor logits[4], weight = tensor_as(TYPE_FP32, rows, 0.3, 1);
    struct tensor loss = tensor_as(TYPE_FP32, rows, 9, 0);
    double *values[4], *expected = malloc((size_t)rows * sizeof(double)), total = 0;
    int32_t *targets = malloc((size_t)rows * sizeof(*targets)), *targets_d;
    float *partials = allocate((size_t)(parts * 3 * rows) * sizeof(float));
    struct step_state *state = state_on_device(), after;
    struct operation op = {.cross_entropy = {rows, cols, 0, vocabulary, type, parts, 1}};
    struct loss_case c = {rows, cols, vocabulary, parts, values, targets};
    struct probe probe = {loss_reference, &c, NULL, rows};
    double *scaled = malloc((size_t)rows * sizeof(double)), *gradient;

    for (int64_t r = 0; r < rows; r++)
        targets[r] = (int32_t)(r * 11 % vocabulary);
    targets_d = upload(targets, (size_t)rows * sizeof(*targets));
    weight.v[0] = 0;
    {
        float *w = malloc((size_t)rows * sizeof(float));

        encode(TYPE_FP32, weight.v, w, rows);
        transfer(weight.d, w, (size_t)rows * sizeof(float), COPY_TO_DEVICE);
        free(w);
    }
    for (int p = 0; p < parts; p++) {
        struct device_plan *partial;

        logits[p] = tensor(rows * cols, 3);
        values[p] = logits[p].v;
        op.kind = OPERATION_CROSS_ENTROPY_PARTIAL;
        op.cross_entropy.first = p * cols;
        if (whole)
            continue;
        partial = plan(&op);
        run_cross_entropy_partial(partial, stream,
                                  &(struct cross_entropy_partial_operands){
                                      logits[p].d, targets_d, partials + p * 3 * rows});
        plan_destroy(partial);
    }
    loss_reference(&c, expected);
    for (int64_t r = 0; r < rows; r++) {
        scaled[r] = weight.v[r] * 2; /* the loss scale */
        total += weight.v[r] * expected[r];
    }
    probe.weight = scaled;
    for (int p = 0; p < parts; p++) {
        struct device_plan *finish;

        op.kind = OPERATION_CROSS_ENTROPY_FINISH;
        op.cross_entropy.first = p * cols;
        finish = plan(&op);
        run_cross_entropy_finish(finish, stream,
                                 &(struct cross_entropy_finish_operands){logits[p].d, targets_d,
                                                                         whole ? NULL : partials,
                                                                         weight.d, loss.d, state});
        agree(&loss, expected, "cross entropy");
        gradient = loss_gradient(&c, scaled, p);
        agree(&logits[p], gradient, "gradient of the logits, by the book");
        free(gradient);
        if (rows * cols <= FEW)
            gradient_agrees(&probe, &logits[p], &logits[p], "gradient of the logits");
        plan_destroy(finish);
    }
    after = state_read(state);
    ok(fabs(after.loss - parts * total) < 1e-4 * fabs(total) * (type == TYPE_FP32 ? 1 : 100),
       "the weighted sum is added to the loss of the step");
    for (int p = 0; p < parts; p++)
        tensor_free(&logits[p]);
    free(expected), free(targets), free(scaled);
    device_release(device, targets_d), device_release(device, partials);
    device_release(device, state);
    tensor_free(&weight), tensor_free(&loss);
}

/* --- Optimizer and small things -------------------------------------------------------------- */

static void test_adam(int64_t count, int64_t decayed, int separate, int skip)
{
    struct operation op = {.kind = OPERATION_ADAM,
                           .adam = {count, decayed, 0.9, 0.95, 1e-8, separate ? type : TYPE_FP32}};
    struct tensor grad = tensor_as(TYPE_FP32, count, 1, 0),
                  master = tensor_as(TYPE_FP32, count, 1, 0);
    struct tensor m1 = tensor_as(TYPE_FP32, count, 0.1, 0),
                  m2 = tensor_as(TYPE_FP32, count, 0, 0.01);
    struct tensor weights = tensor_as(separate ? type : TYPE_FP32, count, 1, 0);
    struct step_state state = {.lr = 0.01f,
                               .weight_decay = 0.1f,
                               .grad_factor = 0.5f,
                               .correction1 = (float)(1 - pow(0.9, 3)),
                               .correction2 = (float)(1 - pow(0.95, 3)),
                               .skip = skip};
    struct step_state *state_d = upload(&state, sizeof(state));
    double *e = malloc((size_t)count * sizeof(double)),
           *e1 = malloc((size_t)count * sizeof(double));
    struct device_plan *p = plan(&op);

    for (int64_t i = 0; i < count; i++) {
        double g = grad.v[i] * 0.5, a = 0.9 * m1.v[i] + 0.1 * g, b = 0.95 * m2.v[i] + 0.05 * g * g;
        double update = a / (1 - pow(0.9, 3)) / (sqrt(b / (1 - pow(0.95, 3))) + 1e-8);

        e[i] = master.v[i] * (i < decayed ? 1 - 0.01 * 0.1 : 1) - 0.01 * update;
        e1[i] = a;
    }
    run_adam(p, stream,
             &(struct adam_operands){grad.d, master.d, m1.d, m2.d, separate ? weights.d : NULL,
                                     state_d});
    agree(&master, skip ? master.v : e, skip ? "a skipped step changes nothing" : "Adam");
    agree(&m1, skip ? m1.v : e1, "first moment");
    if (separate)
        agree(&weights, skip ? weights.v : e, "the copy of the weights");
    plan_destroy(p);
    free(e), free(e1);
    device_release(device, state_d);
    tensor_free(&grad), tensor_free(&master), tensor_free(&m1), tensor_free(&m2);
    tensor_free(&weights);
}

static void test_square_sum(int64_t count)
{
    struct operation op = {.kind = OPERATION_SQUARE_SUM, .square_sum = {count}};
    struct tensor x = tensor_as(TYPE_FP32, count, 1, 0);
    double start = 3, expected = 3, got, *sum = upload(&start, sizeof(start));
    struct device_plan *p = plan(&op);

    for (int64_t i = 0; i < count; i++)
        expected += x.v[i] * x.v[i];
    run_square_sum(p, stream, &(struct square_sum_operands){x.d, sum});
    transfer(&got, sum, sizeof(got), COPY_TO_HOST);
    ok(fabs(got - expected) < 1e-9 * expected, "sum of squares of %lld", (long long)count);
    plan_destroy(p);
    device_release(device, sum);
    tensor_free(&x);
}

static void test_small(void)
{
    struct operation op = {.kind = OPERATION_ADD, .add = {1000, type}};
    struct tensor x = tensor(1000, 1), y = tensor(1000, 1), z = tensor_as(TYPE_FP32, 1000, 1, 0);
    struct device_plan *p = plan(&op);
    double e[1000];
    int32_t index[10] = {3, 99, -1, 0, 3, 42, 7, -1, 12, 98},
            *index_d = upload(index, sizeof(index));
    int32_t places[10] = {9, -1, 4, 3, 0, -1, 1, 8, 7, 5},
            *places_d = upload(places, sizeof(places));

    run_add(p, stream, &(struct add_operands){x.d, y.d});
    for (int i = 0; i < 1000; i++)
        e[i] = x.v[i] + y.v[i];
    agree(&y, e, "add");
    plan_destroy(p);

    op = (struct operation){.kind = OPERATION_ACTIVATION,
                            .activation = {1000, type, ACTIVATION_GELU}};
    p = plan(&op);
    run_activation(p, stream, &(struct activation_operands){x.d, y.d});
    for (int i = 0; i < 1000; i++)
        e[i] = gelu_reference(x.v[i]);
    agree(&y, e, "activation");
    plan_destroy(p);

    op = (struct operation){.kind = OPERATION_FILL, .fill = {110, type, 1.5}};
    p = plan(&op);
    run_fill(p, stream, &(struct fill_operands){z.d});
    plan_destroy(p);
    op = (struct operation){.kind = OPERATION_GATHER_ROWS, .gather_rows = {10, 9, type, 10, 11, 0}};
    p = plan(&op);
    run_gather_rows(p, stream, &(struct gather_rows_operands){x.d, index_d, z.d});
    for (int i = 0; i < 110; i++)
        if (i % 11 < 9)
            e[i] = index[i / 11] < 0 ? 0 : x.v[index[i / 11] * 10 + i % 11];
        else
            e[i] = 1.5; /* between the rows nothing is written */
    z.n = 110, z.as = type;
    agree(&z, e, "gather rows");
    plan_destroy(p);

    op = (struct operation){.kind = OPERATION_GATHER_ROWS, .gather_rows = {10, 9, type, 10, 11, 1}};
    p = plan(&op);
    run_gather_rows(p, stream, &(struct gather_rows_operands){x.d, places_d, z.d});
    for (int r = 0; r < 10; r++)
        for (int i = 0; i < 9 && places[r] >= 0; i++)
            e[places[r] * 11 + i] = x.v[r * 10 + i];
    agree(&z, e, "scatter rows");
    z.n = 1000, z.as = TYPE_FP32;
    plan_destroy(p);

    op = (struct operation){.kind = OPERATION_NORMAL, .normal = {7, 11, 3, 5, 40, 0.5}};
    p = plan(&op);
    run_normal(p, stream, &(struct normal_operands){z.d, 123, 77});
    for (int i = 0; i < 77; i++) {
        uint64_t n = (uint64_t)((3 + i / 11) * 40 + 5 + i % 11);
        double pair[2];

        rng_normal(123, 77, 0, n / 2, pair);
        e[i] = 0.5 * pair[n % 2];
    }
    z.n = 77;
    agree(&z, e, "normal numbers by global index");
    plan_destroy(p);

    op = (struct operation){.kind = OPERATION_FILL, .fill = {1000, type, 1.5}};
    p = plan(&op);
    run_fill(p, stream, &(struct fill_operands){x.d});
    for (int i = 0; i < 1000; i++)
        e[i] = 1.5;
    agree(&x, e, "fill");
    plan_destroy(p);

    op = (struct operation){.kind = OPERATION_CONVERT, .convert = {1000, type, TYPE_FP32}};
    p = plan(&op);
    run_convert(p, stream, &(struct convert_operands){x.d, z.d});
    z.n = 1000;
    agree(&z, e, "convert");
    plan_destroy(p);
    device_release(device, index_d), device_release(device, places_d);
    tensor_free(&x), tensor_free(&y), tensor_free(&z);
}

static void test_step(void)
{
    struct step_rules rules = {.lr = 1,
                               .min_lr = 0.1,
                               .style = LR_LINEAR,
                               .warmup_samples = 10,
                               .decay_samples = 110,
                               .beta1 = 0.9,
                               .beta2 = 0.95,
                               .clip = 1,
                               .dynamic_scale = 1,
                               .min_scale = 1,
                               .scale_window = 2,
                               .hysteresis = 2};
    struct step_state begin = {.samples = 10, .loss_scale = 4294967296.0f, .hysteresis = 2}, now;
    /* Norm of each step (Inf: overflow) and the loss scale after it, as a power of two. */
    static const struct {
        double norm;
        int scale;
    } rows[] = {{INFINITY, 32}, {NAN, 31},      {INFINITY, 30}, {1, 30},
                {1, 31},        {INFINITY, 31}, {INFINITY, 30}};
    struct step_state *state = upload(&begin, sizeof(begin));
    struct device_plan *clip, *end;
    struct operation op = {.kind = OPERATION_STEP, .step = {rules, STEP_CLIP}};

    clip = plan(&op);
    op.step.phase = STEP_END;
    end = plan(&op);
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        now = state_read(state);
        now.norm_squared = rows[i].norm * rows[i].norm * pow((double)now.loss_scale, 2);
        transfer(state, &now, sizeof(now), COPY_TO_DEVICE);
        run_step(clip, stream, &(struct step_operands){state});
        run_step(end, stream, &(struct step_operands){state});
        now = state_read(state);
        ok(now.loss_scale == ldexp(1, rows[i].scale), "loss scale 2^%d after step %zu",
           rows[i].scale, i + 1);
    }
    ok(now.taken == 2 && now.skipped == 5 && now.adam_step == 2, "steps taken and skipped");
    ok(now.scheduled_samples == 20 && fabs(now.lr - 0.91) < 1e-6, "lr of the schedule");
    ok(now.correction1 == (float)(1 - pow(0.9, 3)) && now.correction2 == (float)(1 - pow(0.95, 3)),
       "corrections of the next update, by the steps taken");
    plan_destroy(clip), plan_destroy(end);
    device_release(device, state);
}

int main(void)
{
    const char *name = getenv("MEGATRON_TEST_DEVICE"), *as = getenv("MEGATRON_TEST_TYPE");
    struct device_options options = {
        .threads = 2, .deterministic = 1, .cache_dir = getenv("MEGATRON_CACHE_DIR")};
    struct error err;

    type = as && strcmp(as, "bf16") == 0   ? TYPE_BF16
           : as && strcmp(as, "fp16") == 0 ? TYPE_FP16
                                           : type;
    device = device_open(name ? name : "cpu", &options, &err);
    if (!device)
        return skip_all(err.text);
    stream = device_stream_create(device, 0, &err);
    for (int64_t rows = 1; rows <= 4; rows++) /* few rows take another way on CPUs */
        test_linear_forward(rows, 40, 53, 1, 1);
    test_linear_backward(2, 24, 40, 1, 1);
    test_linear_forward(256, 256, 512, 1, 1);
    test_linear_forward(512, 320, 256, 0, 1);
    test_linear_tiles(256, 512, 256, 1, 1);
    test_linear_tiles(768, 256, 320, 1, 0);
    test_linear_tiles(256, 256, 384, 0, 0);
    test_linear_forward(5, 24, 32, 1, 1);
    test_linear_forward(17, 8, 40, 1, 0);
    test_linear_forward(64, 64, 128, 0, 0);
    test_linear_forward(7, 13, 11, 1, 1);
    test_linear_backward(7, 13, 11, 1, 1);
    test_linear_backward(5, 16, 8, 1, 0);
    test_linear_backward(9, 8, 24, 1, 1);
    test_linear_backward(16, 24, 8, 0, 1);
    for (int norm = NORM_NONE; norm <= NORM_RMS; norm++)
        for (int flags = 1; flags < 8; flags++) {
            struct residual_norm_shape s = {.rows = 5,
                                            .cols = 24,
                                            .type = type,
                                            .norm = norm,
                                            .epsilon = 1e-5,
                                            .input = (flags & 1) != 0,
                                            .residual = (flags & 2) != 0 || !(flags & 1),
                                            .bias = (flags & 4) != 0,
                                            .dropout = 0};

            test_residual_norm(s, flags & 1);
            s.dropout = 0.3;
            test_residual_norm(s, flags & 2);
        }
    test_residual_norm((struct residual_norm_shape){130, 40, type, NORM_LAYER, 1e-5, 1, 1, 1, 0},
                       0);
    /* Odd lengths, and lengths around the limits of kernels that hold a row. */
    for (int norm = NORM_LAYER; norm <= NORM_RMS; norm++) {
        struct residual_norm_shape s = {3, 37, type, norm, 1e-5, 1, 1, 1, 0.2};

        test_residual_norm(s, 0);
        s.cols = 264;
        test_residual_norm(s, 0);
        s.dropout = 0, s.rows = 1, s.cols = 2056;
        test_residual_norm(s, 0);
        s.cols = 2049;
        test_residual_norm(s, 0);
        /* Rows of one warp, of several, of whole and of started ones; more rows than a GPU has
         * groups of threads. */
        s.rows = 3, s.cols = 1024;
        test_residual_norm(s, 0);
        s.cols = 4096;
        test_residual_norm(s, 1);
        s.cols = 6152;
        test_residual_norm(s, 0);
        s.rows = 2, s.cols = 8200;
        test_residual_norm(s, 0);
        s.rows = 2600, s.cols = 512;
        test_residual_norm(s, 0);
        s.dropout = 0.1, s.cols = 520;
        test_residual_norm(s, 1);
        s.dropout = 0, s.rows = 1600, s.cols = 2056;
        test_residual_norm(s, 0);
        /* Wider than what a block holds. */
        s.rows = 3, s.cols = 16384;
        test_residual_norm(s, 1);
        s.dropout = 0.2, s.cols = 8203;
        test_residual_norm(s, 0);
        s.rows = norm == NORM_RMS ? 270 : 5, s.cols = 8208;
        test_residual_norm(s, 1);
    }
    for (int odd = 0; odd < 2; odd++) {
        struct residual_norm_shape s = {3000, 520 + odd, type, NORM_NONE, 1e-5, 1, 1, 1, 0};

        test_residual_norm(s, 0);
        s.dropout = 0.2, s.rows = 41;
        test_residual_norm(s, 1);
    }
    test_attention(2, 6, 6, 2, 2, 8, 1, 0, 0);
    test_attention(1, 9, 9, 4, 2, 8, 1, 1, 0);
    test_attention(2, 4, 8, 4, 1, 16, 1, 0, 0);
    test_attention(1, 7, 7, 2, 2, 8, 0, 0, 0);
    /* Heads of 64, for kernels that work in tiles of 64 or 128 rows: started and whole ones, one
     * and several, those without a key that is seen, and more of them than a GPU has processors. */
    test_attention(2, 1, 130, 2, 1, 64, 1, 0, 0);
    test_attention(3, 2, 65, 2, 2, 64, 1, 1, 0);
    test_attention(2, 65, 65, 2, 2, 64, 1, 0, 0);
    test_attention(1, 127, 127, 2, 1, 64, 0, 0, 0);
    test_attention(2, 128, 128, 2, 2, 64, 1, 0, 0);
    test_attention(1, 129, 129, 6, 2, 64, 1, 0, 0);
    test_attention(2, 200, 200, 2, 2, 64, 0, 0, 0);
    test_attention(2, 300, 300, 3, 1, 64, 1, 1, 0);
    test_attention(1, 520, 520, 2, 1, 64, 1, 0, 0);
    test_attention(1, 520, 520, 2, 2, 64, 1, 1, 0);
    test_attention(2, 130, 390, 6, 2, 64, 1, 0, 0);
    test_attention(2, 128, 512, 2, 2, 64, 1, 1, 0);
    test_attention(1, 70, 200, 2, 2, 64, 0, 0, 0);
    test_attention(5, 130, 130, 16, 4, 64, 1, 0, 0);
    if (type == TYPE_FP32)
        test_attention(2, 9, 9, 2, 1, 8, 1, 0, 0.25);
    test_attention_cached(3, 1, 16, 4, 4, 8);
    test_attention_cached(3, 1, 16, 4, 1, 16);
    test_attention_cached(2, 7, 24, 4, 2, 8);
    test_attention_cached(1, 150, 160, 2, 1, 8);
    test_swiglu(3, 16);
    test_swiglu(5, 40);
    test_swiglu(5, 13);
    test_swiglu(2, 4120);
    test_rope(9, 3, 16, 16, 0);
    test_rope(9, 3, 16, 8, 1);
    test_rope(5, 40, 128, 128, 0);
    test_rope(3, 128, 96, 96, 1);
    test_rope(4, 5, 24, 20, 0);
    test_embedding(0, 16, 13, 0, 0);
    test_embedding(50, 24, 13, 0, 0);
    test_embedding(50, 16, 13, 1, 0);
    test_embedding(700, 11, 13, 0, 0);
    test_embedding(3000, 40, 13, 1, 0);
    /* Tables of more than one digit of the sort, most of it untouched or not; so many rows on one
     * of the table's that they are added in pieces; rows of several warps, with odd ends. */
    test_embedding(50, 32, 700, 0, 0);
    test_embedding(3000, 272, 700, 1, 0);
    test_embedding(5300, 32, 13, 0, 0);
    test_embedding(5301, 528, 13, 1, 0);
    test_embedding(5300, 11, 13, 1, 0);
    test_embedding(700, 2064, 300, 0, 0);
    test_embedding(400, 16, 70000, 1, 0);
    test_embedding(9000, 48, 700, 0, 1);
    test_embedding(9000, 11, 700, 1, 1);
    test_embedding(263000, 16, 300, 1, 1);
    test_cross_entropy(6, 16, 1, 13, 0);
    test_cross_entropy(6, 16, 1, 13, 1);
    test_cross_entropy(3, 1001, 1, 1001, 1);
    test_cross_entropy(3, 5000, 1, 4997, 1);
    test_cross_entropy(3, 1001, 1, 1001, 0);
    test_cross_entropy(3, 20000, 1, 19990, 0); /* more than one round of a block */
    test_cross_entropy(1300, 40, 1, 37, 0);    /* more rows than blocks */
    test_cross_entropy(3, 44000, 1, 44000, 1);
    test_cross_entropy(3, 57344, 1, 57300, 1); /* rows beyond what a block holds */
    test_cross_entropy(5, 24, 3, 50, 0);
    test_cross_entropy(5, 24, 3, 40, 0); /* the last part is all padding */
    test_adam(1000, 700, 1, 0);
    test_adam(40000, 20000, 0, 0);
    test_adam(300, 0, 1, 1);
    test_square_sum(5);
    test_square_sum(100000);
    test_small();
    test_step();
    device_stream_destroy(stream);
    device_close(device);
    return done_testing();
}
