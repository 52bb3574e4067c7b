/* SPDX-License-Identifier: Apache-2.0 */
/* The kernels that produce fp8 operands (runtime/device/cuda/quantize.cu) against double precision
 * and fp8.h: both layouts, the largest magnitude, column sums; then their bandwidth. */
#include "fp8.h"
#include "quantize.h"
#include "tap.h"

#include <stdlib.h>

/* A value whose neighbours of this relative distance round to different bytes may be either. */
static const double TOLERANCE = 1e-5;

enum { CAST, GELU, GELU_GRADIENT, SWIGLU, SWIGLU_GRADIENT, KINDS };
static const char *const names[KINDS] = {"cast", "GELU", "gradient of GELU", "SwiGLU",
                                         "gradient of SwiGLU"};

struct test {
    int64_t rows, cols; /* of x without the second half that SwiGLU has */
    enum device_type type;
    uint16_t *x, *dy; /* (rows, 2 * cols), (rows, cols) as bf16 */
    void *x_d, *dy_d;
    char *rows_d, *columns_d; /* results */
    float *scale_d, *amax_d, *sums_d, *workspace_d;
};

static const float SCALE = 37;

static float from_bf16(uint16_t bits)
{
    union {
        uint32_t u;
        float f;
    } both = {.u = (uint32_t)bits << 16};

    return both.f;
}

/* Numbers of many magnitudes, of both signs. */
static uint16_t random_bf16(void)
{
    static uint32_t state = 1;
    uint32_t exponent;

    state = state * 1664525u + 1013904223u;
    exponent = 118 + (state >> 8) % 11; /* 2^-9 to 2 */
    return (uint16_t)((state >> 31) << 15 | exponent << 7 | (state >> 20 & 0x7f));
}

static void *device_memory_of(size_t bytes)
{
    void *memory = NULL;

    if (cudaMalloc(&memory, bytes)) {
        ok(0, "cannot allocate %zu bytes on the GPU", bytes);
        exit(done_testing());
    }
    return memory;
}

static struct test begin(int64_t rows, int64_t cols, enum device_type type)
{
    struct test t = {.rows = rows, .cols = cols, .type = type};
    size_t n = (size_t)(rows * cols);

    t.x = malloc(2 * n * sizeof(*t.x));
    t.dy = malloc(n * sizeof(*t.dy));
    for (size_t i = 0; i < 2 * n; i++)
        t.x[i] = random_bf16();
    for (size_t i = 0; i < n; i++)
        t.dy[i] = random_bf16();
    t.x_d = device_memory_of(2 * n * sizeof(*t.x));
    t.dy_d = device_memory_of(n * sizeof(*t.dy));
    t.rows_d = device_memory_of(2 * n);
    t.columns_d = device_memory_of(2 * n);
    t.scale_d = device_memory_of(sizeof(float));
    t.amax_d = device_memory_of(sizeof(float));
    t.sums_d = device_memory_of(2 * (size_t)cols * sizeof(float));
    t.workspace_d = device_memory_of(kernel_quantize_workspace(rows, 2 * cols));
    cudaMemcpy(t.x_d, t.x, 2 * n * sizeof(*t.x), cudaMemcpyHostToDevice);
    cudaMemcpy(t.dy_d, t.dy, n * sizeof(*t.dy), cudaMemcpyHostToDevice);
    cudaMemcpy(t.scale_d, &SCALE, sizeof(SCALE), cudaMemcpyHostToDevice);
    return t;
}

static void end(struct test *t)
{
    void *const all[] = {t->x_d,     t->dy_d,   t->rows_d, t->columns_d,
                         t->scale_d, t->amax_d, t->sums_d, t->workspace_d};

    for (size_t i = 0; i < sizeof(all) / sizeof(*all); i++)
        cudaFree(all[i]);
    free(t->x), free(t->dy);
}

static void run(const struct test *t, int kind)
{
    struct quantize_result result = {.type = t->type,
                                     .rows = t->rows_d,
                                     .columns = t->columns_d,
                                     .scale = t->scale_d,
                                     .amax = t->amax_d};
    int64_t r = t->rows, c = t->cols;

    cudaMemset(t->amax_d, 0, sizeof(float));
    if (kind == CAST)
        kernel_quantize(0, TYPE_BF16, r, c, 2 * c, t->x_d, &result, t->sums_d, 0, t->workspace_d);
    else if (kind == GELU)
        kernel_quantize_gelu(0, TYPE_BF16, r, c, t->x_d, &result);
    else if (kind == GELU_GRADIENT)
        kernel_quantize_gelu_backward(0, TYPE_BF16, r, c, t->dy_d, t->x_d, &result, t->sums_d, 0,
                                      t->workspace_d);
    else if (kind == SWIGLU)
        kernel_quantize_swiglu(0, TYPE_BF16, r, c, t->x_d, &result);
    else
        kernel_quantize_swiglu_backward(0, TYPE_BF16, r, c, t->dy_d, t->x_d, &result, NULL, 0,
                                        NULL);
}

/* Element (r, c) of what a kernel is to write, before scaling. */
static double expected(const struct test *t, int kind, int64_t r, int64_t c)
{
    double gate, up, dy, open, u, tanh_u;
    int64_t wide = 2 * t->cols;

    if (kind == CAST)
        return from_bf16(t->x[r * wide + c]);
    if (kind == GELU || kind == GELU_GRADIENT) { /* x is dense there */
        double x = from_bf16(t->x[r * t->cols + c]);

        u = 0.7978845608028654 * (x + 0.044715 * x * x * x), tanh_u = tanh(u);
        if (kind == GELU)
            return 0.5 * x * (1 + tanh_u);
        return from_bf16(t->dy[r * t->cols + c]) *
               (0.5 * (1 + tanh_u) +
                0.5 * x * (1 - tanh_u * tanh_u) * 0.7978845608028654 * (1 + 3 * 0.044715 * x * x));
    }
    gate = from_bf16(t->x[r * wide + c % t->cols]);
    up = from_bf16(t->x[r * wide + t->cols + c % t->cols]);
    dy = from_bf16(t->dy[r * t->cols + c % t->cols]);
    open = 1 / (1 + exp(-gate));
    if (kind == SWIGLU)
        return gate * open * up;
    return c < t->cols ? dy * up * (open + gate * open * (1 - open)) : dy * gate * open;
}

static int agrees(uint8_t byte, double value, enum device_type type)
{
    double low = value * SCALE * (1 - TOLERANCE), high = value * SCALE * (1 + TOLERANCE);

    return byte == fp8_encode((float)low, type) || byte == fp8_encode((float)high, type) ||
           byte == fp8_encode((float)(value * SCALE), type);
}

static void check(const struct test *t, int kind)
{
    int64_t cols = kind == SWIGLU_GRADIENT ? 2 * t->cols : t->cols, wrong = 0, turned = 0;
    size_t n = (size_t)(t->rows * cols);
    uint8_t *rows = malloc(n), *columns = malloc(n);
    float *sums = malloc((size_t)cols * sizeof(*sums)), amax;
    double largest = 0, sum_error = 0;

    run(t, kind);
    cudaMemcpy(rows, t->rows_d, n, cudaMemcpyDeviceToHost);
    cudaMemcpy(columns, t->columns_d, n, cudaMemcpyDeviceToHost);
    cudaMemcpy(&amax, t->amax_d, sizeof(amax), cudaMemcpyDeviceToHost);
    cudaMemcpy(sums, t->sums_d, (size_t)t->cols * sizeof(*sums), cudaMemcpyDeviceToHost);
    for (int64_t c = 0; c < cols; c++) {
        double sum = 0, magnitude = 0;

        for (int64_t r = 0; r < t->rows; r++) {
            double value = expected(t, kind, r, c);

            largest = fmax(largest, fabs(value));
            sum += value, magnitude += fabs(value);
            wrong += !agrees(rows[r * cols + c], value, t->type);
            turned += columns[c * t->rows + r] == rows[r * cols + c];
        }
        if (kind == CAST || kind == GELU_GRADIENT)
            sum_error = fmax(sum_error, fabs(sums[c] - sum) / magnitude);
    }
    ok(wrong == 0, "%s of %lld x %lld: %lld bytes are wrong", names[kind], (long long)t->rows,
       (long long)cols, (long long)wrong);
    ok(turned == t->rows * cols, "  both layouts hold the same bytes");
    ok(fabs(amax - largest) <= 1e-5 * largest, "  largest magnitude %.9g, expected %.9g",
       (double)amax, largest);
    ok(sum_error < 1e-5, "  column sums: error %.2g", sum_error);
    free(rows), free(columns), free(sums);
}

static void check_transpose(const struct test *t)
{
    size_t n = (size_t)(t->rows * t->cols);
    uint8_t *columns = malloc(n), *again = malloc(n);

    run(t, CAST);
    cudaMemcpy(columns, t->columns_d, n, cudaMemcpyDeviceToHost);
    cudaMemset(t->columns_d, 0, n);
    kernel_transpose_bytes(0, t->rows, t->cols, t->rows_d, t->columns_d);
    cudaMemcpy(again, t->columns_d, n, cudaMemcpyDeviceToHost);
    ok(memcmp(columns, again, n) == 0, "a transpose alone gives the same bytes");
    free(columns), free(again);
}

static void measure(int64_t rows, int64_t cols)
{
    static const int bytes[KINDS] = {4, 4, 6, 6, 10}; /* moved per element of a half of x */
    struct test t = begin(rows, cols, TYPE_E4M3);
    cudaEvent_t from, to;

    cudaEventCreate(&from), cudaEventCreate(&to);
    for (int kind = 0; kind < KINDS; kind++) {
        enum { REPEATS = 20 };
        float milliseconds = 0;

        run(&t, kind);
        cudaEventRecord(from, 0);
        for (int i = 0; i < REPEATS; i++)
            run(&t, kind);
        cudaEventRecord(to, 0);
        cudaEventSynchronize(to);
        cudaEventElapsedTime(&milliseconds, from, to);
        diag("%s, %lld x %lld: %.1f us, %.2f TB/s", names[kind], (long long)rows, (long long)cols,
             1e3 * milliseconds / REPEATS,
             1e-9 * bytes[kind] * (double)(rows * cols) * REPEATS / milliseconds);
    }
    cudaEventDestroy(from), cudaEventDestroy(to);
    end(&t);
}

int main(void)
{
    static const int64_t shapes[][2] = {{16, 16}, {48, 80}, {1040, 144}, {512, 1024}, {272, 4112}};
    int count = 0;

    if (cudaGetDeviceCount(&count) || count == 0)
        return skip_all("no GPU");
    for (size_t i = 0; i < sizeof(shapes) / sizeof(*shapes); i++)
        for (int e5m2 = 0; e5m2 < 2; e5m2++) {
            struct test t = begin(shapes[i][0], shapes[i][1], e5m2 ? TYPE_E5M2 : TYPE_E4M3);

            for (int kind = 0; kind < KINDS; kind++)
                check(&t, kind);
            check_transpose(&t);
            end(&t);
        }
    ok(cudaDeviceSynchronize() == cudaSuccess, "no kernel failed");
    measure(32768, 4096);
    measure(16384, 8192);
    return done_testing();
}
