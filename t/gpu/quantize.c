/* SPDX-License-Identifier: Apache-2.0 */
/* The kernels that produce fp8 operands (runtime/engine/device/cuda/quantize.cu,
 * quantize_blocks.cu) against double precision and fp8.h: both layouts, scales of blocks, the
 * largest magnitude, column sums; then their bandwidth. */
#include "engine/device/fp8.h"
#include "engine/device/cuda/kernels.h"
#include "tap.h"

#include <stdlib.h>

/* A value whose neighbors of this relative distance round to different bytes may be either. */
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
    t.workspace_d = device_memory_of(
        kernel_quantize_workspace(&(struct quantize_shape){.rows = rows, .cols = 2 * cols}));
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

static struct quantize_shape shape_of(const struct test *t, int kind, enum scaled_part part,
                                      int bias)
{
    static const enum quantize_source sources[KINDS] = {QUANTIZE_MATRIX, QUANTIZE_ACTIVATION,
                                                        QUANTIZE_ACTIVATION_GRADIENT, QUANTIZE_GATE,
                                                        QUANTIZE_GATE_GRADIENT};

    return (struct quantize_shape){.rows = t->rows,
                                   .cols = kind == SWIGLU_GRADIENT ? 2 * t->cols : t->cols,
                                   .from = TYPE_BF16,
                                   .to = t->type,
                                   .bias = bias,
                                   .source = sources[kind],
                                   .activation = ACTIVATION_GELU_TANH,
                                   .part = part};
}

static void run(const struct test *t, int kind)
{
    struct quantize_shape s =
        shape_of(t, kind, SCALED_WHOLE, kind == CAST || kind == GELU_GRADIENT);

    cudaMemset(t->amax_d, 0, sizeof(float));
    kernel_quantize(0, &s,
                    &(struct quantize_operands){.x = t->x_d,
                                                .dy = t->dy_d,
                                                .rows = t->rows_d,
                                                .columns = t->columns_d,
                                                .scale = t->scale_d,
                                                .scaled = 1,
                                                .amax = t->amax_d,
                                                .dbias = t->sums_d},
                    t->workspace_d);
}

/* Element (r, c) of what a kernel is to write, before scaling. */
static double expected(const struct test *t, int kind, int64_t r, int64_t c)
{
    double gate, up, dy, open, u, tanh_u;
    int64_t wide = 2 * t->cols;

    if (kind == CAST)
        return from_bf16(t->x[r * t->cols + c]);
    if (kind == GELU || kind == GELU_GRADIENT) {
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

/* 'slack': the rounding error of terms that cancel, as those of a derivative near its zero. */
static int agrees(uint8_t byte, double value, double slack, double scale, enum device_type type)
{
    double apart = fabs(value) * TOLERANCE + slack;
    double low = (value - apart) * scale, high = (value + apart) * scale;

    return byte == fp8_encode((float)low, type) || byte == fp8_encode((float)high, type) ||
           byte == fp8_encode((float)(value * scale), type);
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
            wrong += !agrees(rows[r * cols + c], value, 0, (double)SCALE, t->type);
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
    kernel_quantize(
        0,
        &(struct quantize_shape){.rows = t->rows, .cols = t->cols, .from = t->type, .to = t->type},
        &(struct quantize_operands){.x = t->rows_d, .columns = t->columns_d}, t->workspace_d);
    cudaMemcpy(again, t->columns_d, n, cudaMemcpyDeviceToHost);
    ok(memcmp(columns, again, n) == 0, "a transpose alone gives the same bytes");
    free(columns), free(again);
}

/* --- Blockwise scales ------------------------------------------------------------------------- */

static const char *const part_names[] = {"whole", "1 x 128", "128 x 128"};

/* A block that is 'high' rows high, from (row, at) on, of a factor (rows, depth): its scale is the
 * largest power of two with which no value is too large, and every byte follows from it. Returns
 * what is wrong with it: 1 the scale, 2 a byte. */
static int check_block(const double *values, const uint8_t *bytes, int64_t depth, int64_t row,
                       int64_t at, int64_t high, float inverse, double slack, enum device_type type)
{
    double largest = 0, scale = 1 / (double)inverse, most = (double)fp8_largest(type);
    int exponent, wrong = 0;

    for (int64_t r = row; r < row + high; r++)
        for (int64_t c = at; c < at + SCALING_BLOCK; c++)
            largest = fmax(largest, fabs(values[r * depth + c]));
    if (frexp(scale, &exponent) != 0.5)
        return 1;
    if (largest == 0 ? scale != 1
                     : largest * scale > most * (1 + TOLERANCE) ||
                           2 * largest * scale < most * (1 - TOLERANCE))
        return 1;
    for (int64_t r = row; r < row + high; r++)
        for (int64_t c = at; c < at + SCALING_BLOCK; c++)
            wrong |= !agrees(bytes[r * depth + c], values[r * depth + c], slack, scale, type);
    return 2 * wrong;
}

/* All blocks of a factor (rows, depth). */
static void check_factor(const char *layout, enum scaled_part part, const double *values,
                         const uint8_t *bytes, const float *inverse, int64_t rows, int64_t depth,
                         double slack, enum device_type type)
{
    int64_t high = part == SCALED_SQUARES ? SCALING_BLOCK : 1, wrong[3] = {0}, first = -1;

    for (int64_t r = 0; r < rows; r += high)
        for (int64_t at = 0; at < depth; at += SCALING_BLOCK) {
            int64_t place = part == SCALED_SQUARES
                                ? r / 128 * ((depth / 128 + 3) / 4 * 4) + at / 128
                                : at / 128 * rows + r;
            int what = check_block(values, bytes, depth, r, at, high, inverse[place], slack, type);

            wrong[what]++;
            if (what > 0 && first < 0)
                first = r * depth + at;
        }
    ok(wrong[1] + wrong[2] == 0,
       "  %s: of %lld blocks, %lld scales and the bytes of %lld others are wrong", layout,
       (long long)(wrong[0] + wrong[1] + wrong[2]), (long long)wrong[1], (long long)wrong[2]);
    if (first >= 0)
        diag("the first is at row %lld, column %lld of %lld x %lld", (long long)(first / depth),
             (long long)(first % depth), (long long)rows, (long long)depth);
}

static void check_sums(const double *values, const float *sums, int64_t rows, int64_t cols)
{
    double error = 0;

    for (int64_t c = 0; c < cols; c++) {
        double sum = 0, magnitude = 0;

        for (int64_t r = 0; r < rows; r++)
            sum += values[r * cols + c], magnitude += fabs(values[r * cols + c]);
        error = fmax(error, fabs(sums[c] - sum) / fmax(magnitude, 1e-30));
    }
    ok(error < 1e-5, "  column sums: error %.2g", error);
}

static void check_blocks(const struct test *t, int kind, enum scaled_part part)
{
    int bias = part == SCALED_VECTORS && (kind == CAST || kind == GELU_GRADIENT);
    double slack = kind == GELU_GRADIENT || kind == SWIGLU_GRADIENT ? 1e-6 : 0;
    struct quantize_shape s = shape_of(t, kind, part, bias);
    size_t n = (size_t)(s.rows * s.cols);
    size_t counts[2] = {(size_t)scaling_count(part, s.rows, s.cols) * sizeof(float),
                        (size_t)scaling_count(part, s.cols, s.rows) * sizeof(float)};
    float *inverse_d[2] = {device_memory_of(counts[0]), device_memory_of(counts[1])}, amax;
    float *inverse[2] = {malloc(counts[0]), malloc(counts[1])};
    double *values = malloc(n * sizeof(double)), *turned = malloc(n * sizeof(double)), largest = 0;
    uint8_t *rows = malloc(n), *columns = malloc(n);
    float *sums = malloc((size_t)s.cols * sizeof(*sums));
    struct quantize_operands o = {.x = t->x_d,
                                  .dy = t->dy_d,
                                  .rows = t->rows_d,
                                  .columns = t->columns_d,
                                  .amax = t->amax_d,
                                  .inverse = inverse_d[0],
                                  .columns_inverse = inverse_d[1],
                                  .dbias = t->sums_d};

    cudaMemset(t->amax_d, 0, sizeof(float));
    kernel_quantize(0, &s, &o, t->workspace_d);
    cudaMemcpy(rows, t->rows_d, n, cudaMemcpyDeviceToHost);
    cudaMemcpy(columns, t->columns_d, n, cudaMemcpyDeviceToHost);
    cudaMemcpy(&amax, t->amax_d, sizeof(amax), cudaMemcpyDeviceToHost);
    cudaMemcpy(sums, t->sums_d, (size_t)s.cols * sizeof(*sums), cudaMemcpyDeviceToHost);
    for (int i = 0; i < 2; i++)
        cudaMemcpy(inverse[i], inverse_d[i], counts[i], cudaMemcpyDeviceToHost);
    for (int64_t r = 0; r < s.rows; r++)
        for (int64_t c = 0; c < s.cols; c++) {
            double value = expected(t, kind, r, c);

            values[r * s.cols + c] = turned[c * s.rows + r] = value;
            largest = fmax(largest, fabs(value));
        }
    ok(fabs(amax - largest) <= 1e-5 * largest,
       "%s of %lld x %lld to %s, blocks of %s: largest magnitude %.9g, expected %.9g", names[kind],
       (long long)s.rows, (long long)s.cols, t->type == TYPE_E4M3 ? "e4m3" : "e5m2",
       part_names[part], (double)amax, largest);
    check_factor("by row", part, values, rows, inverse[0], s.rows, s.cols, slack, t->type);
    check_factor("transposed", part, turned, columns, inverse[1], s.cols, s.rows, slack, t->type);
    if (bias)
        check_sums(values, sums, s.rows, s.cols);
    for (int i = 0; i < 2; i++)
        cudaFree(inverse_d[i]), free(inverse[i]);
    free(values), free(turned), free(rows), free(columns), free(sums);
}

/* Zeros, Inf and NaN: their blocks have the scale 1, others do not change. */
static void check_special_blocks(void)
{
    enum { SIDE = 256, ZERO_ROW = 3, INF_ROW = 5, NAN_ROW = 200 };
    struct test t = begin(SIDE, SIDE, TYPE_E4M3);
    struct quantize_shape s = shape_of(&t, CAST, SCALED_VECTORS, 0);
    float *inverse_d[2] = {device_memory_of(2 * SIDE * sizeof(float)),
                           device_memory_of(2 * SIDE * sizeof(float))};
    float inverse[2 * SIDE], amax;
    uint8_t *rows = malloc(SIDE * SIDE);
    struct quantize_operands o = {.x = t.x_d,
                                  .rows = t.rows_d,
                                  .columns = t.columns_d,
                                  .amax = t.amax_d,
                                  .inverse = inverse_d[0],
                                  .columns_inverse = inverse_d[1]};

    for (int c = 0; c < 128; c++)
        t.x[ZERO_ROW * SIDE + c] = 0;
    t.x[INF_ROW * SIDE + 127] = 0x7f80;
    t.x[NAN_ROW * SIDE + 128] = 0x7fc0;
    cudaMemcpy(t.x_d, t.x, SIDE * SIDE * sizeof(*t.x), cudaMemcpyHostToDevice);
    cudaMemset(t.amax_d, 0, sizeof(float));
    kernel_quantize(0, &s, &o, t.workspace_d);
    cudaMemcpy(rows, t.rows_d, SIDE * SIDE, cudaMemcpyDeviceToHost);
    cudaMemcpy(inverse, inverse_d[0], sizeof(inverse), cudaMemcpyDeviceToHost);
    cudaMemcpy(&amax, t.amax_d, sizeof(amax), cudaMemcpyDeviceToHost);
    ok(isnan(amax), "blocks with Inf and NaN: the amax is NaN");
    ok(inverse[ZERO_ROW] == 1 && inverse[INF_ROW] == 1 && inverse[SIDE + NAN_ROW] == 1,
       "  their scales and that of zeros are 1");
    ok(inverse[SIDE + ZERO_ROW] != 1 && inverse[SIDE + INF_ROW] != 1 && inverse[NAN_ROW] != 1,
       "  those of their neighbors are not");
    ok(rows[ZERO_ROW * SIDE] == 0 && rows[INF_ROW * SIDE + 127] == 0x7e &&
           (rows[NAN_ROW * SIDE + 128] & 0x7f) == 0x7f,
       "  zero stays, Inf saturates, NaN stays");
    free(rows);
    cudaFree(inverse_d[0]), cudaFree(inverse_d[1]);
    end(&t);
}

static void check_all_blocks(void)
{
    static const int64_t shapes[][2] = {{128, 128}, {640, 256}, {1152, 640}};

    for (size_t i = 0; i < sizeof(shapes) / sizeof(*shapes); i++)
        for (int e5m2 = 0; e5m2 < 2; e5m2++) {
            struct test t = begin(shapes[i][0], shapes[i][1], e5m2 ? TYPE_E5M2 : TYPE_E4M3);

            for (int kind = 0; kind < KINDS; kind++)
                check_blocks(&t, kind, SCALED_VECTORS);
            if (!e5m2)
                check_blocks(&t, CAST, SCALED_SQUARES);
            end(&t);
        }
    check_special_blocks();
}

static void run_blocks(const struct test *t, int kind, float *const inverse[2])
{
    struct quantize_shape s = shape_of(t, kind, SCALED_VECTORS, 0);

    kernel_quantize(0, &s,
                    &(struct quantize_operands){.x = t->x_d,
                                                .dy = t->dy_d,
                                                .rows = t->rows_d,
                                                .columns = t->columns_d,
                                                .amax = t->amax_d,
                                                .inverse = inverse[0],
                                                .columns_inverse = inverse[1]},
                    NULL);
}

static void measure(int64_t rows, int64_t cols)
{
    static const int bytes[KINDS] = {4, 4, 6, 6, 10}; /* moved per element of a half of x */
    struct test t = begin(rows, cols, TYPE_E4M3);
    size_t scales = (size_t)(2 * rows * cols / SCALING_BLOCK) * sizeof(float);
    float *const inverse[2] = {device_memory_of(scales), device_memory_of(scales)};
    cudaEvent_t from, to;

    cudaEventCreate(&from), cudaEventCreate(&to);
    for (int kind = 0; kind < 2 * KINDS; kind++) {
        enum { REPEATS = 20 };
        int blocks = kind >= KINDS, what = kind % KINDS;
        float milliseconds = 0;

        for (int i = 0; i <= REPEATS; i++) {
            if (i == 1)
                cudaEventRecord(from, 0);
            if (blocks)
                run_blocks(&t, what, inverse);
            else
                run(&t, what);
        }
        cudaEventRecord(to, 0);
        cudaEventSynchronize(to);
        cudaEventElapsedTime(&milliseconds, from, to);
        diag("%s%s, %lld x %lld: %.1f us, %.2f TB/s", names[what], blocks ? ", blocks" : "",
             (long long)rows, (long long)cols, 1e3 * milliseconds / REPEATS,
             1e-9 * bytes[what] * (double)(rows * cols) * REPEATS / milliseconds);
    }
    cudaEventDestroy(from), cudaEventDestroy(to);
    cudaFree(inverse[0]), cudaFree(inverse[1]);
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
    check_all_blocks();
    ok(cudaDeviceSynchronize() == cudaSuccess, "no kernel failed");
    measure(32768, 4096);
    measure(16384, 8192);
    return done_testing();
}
