/* SPDX-License-Identifier: Apache-2.0 */
/* The fingerprints used to compare results of products: equal for equal elements, and different
 * when a tile is missing, misplaced or never written. Also the check of an algorithm with them,
 * using the test's own algorithms. */
#include "tap.h"
#include "engine/device/cuda/gemm_private.h"
#include "engine/device/cuda/kernels.h"

#include <cuda_runtime_api.h>
#include <math.h>
#include <stdint.h>
#include <stdlib.h>

enum { COLUMNS = 2048, ROWS = 3000, TILE_COLUMNS = 128, TILE_ROWS = 256, COUNT = COLUMNS * ROWS };

struct work {
    uint16_t *host, *x; /* bf16; x and everything else is on the GPU */
    double *numbers;
};

static int check(cudaError_t status)
{
    if (status)
        diag("%s", cudaGetErrorString(status));
    return status == cudaSuccess;
}

static int take(struct work *w, int64_t first, int64_t count, double *numbers)
{
    if (!check(cudaMemcpy(w->x, w->host, COUNT * sizeof(*w->x), cudaMemcpyHostToDevice)))
        return 0;
    kernel_fingerprint(NULL, TYPE_BF16, count, w->x + first, w->numbers, w->numbers + FINGERPRINT);
    return check(
        cudaMemcpy(numbers, w->numbers, FINGERPRINT * sizeof(*numbers), cudaMemcpyDeviceToHost));
}

/* The largest difference of the signed sums, relative to the norm. */
static double difference(const double *a, const double *b)
{
    double most = 0;

    for (int i = 0; i < FINGERPRINT - 1; i++)
        most = fmax(most, fabs(a[i] - b[i]) / sqrt(a[FINGERPRINT - 1]));
    return most;
}

static uint16_t *element(struct work *w, int row, int column)
{
    return &w->host[(int64_t)row * COLUMNS + column];
}

static void test_tile(struct work *w, const double *whole, int row, int column)
{
    uint16_t kept[TILE_ROWS][TILE_COLUMNS];
    double numbers[FINGERPRINT] = {0};

    for (int r = 0; r < TILE_ROWS; r++)
        for (int c = 0; c < TILE_COLUMNS; c++) {
            kept[r][c] = *element(w, row + r, column + c);
            *element(w, row + r, column + c) = 0;
        }
    ok(take(w, 0, COUNT, numbers) && difference(whole, numbers) > 1e-3,
       "a missing tile at %d, %d shows: %.1e", row, column, difference(whole, numbers));
    for (int r = 0; r < TILE_ROWS; r++)
        for (int c = 0; c < TILE_COLUMNS; c++)
            *element(w, row + r, column + c) = kept[TILE_ROWS - 1 - r][c];
    ok(take(w, 0, COUNT, numbers) && difference(whole, numbers) > 1e-3,
       "so does one with its rows out of order: %.1e", difference(whole, numbers));
    for (int r = 0; r < TILE_ROWS; r++)
        for (int c = 0; c < TILE_COLUMNS; c++)
            *element(w, row + r, column + c) = kept[r][c];
}

static void test_prints(struct work *w)
{
    double whole[FINGERPRINT], again[FINGERPRINT], expected = 0;

    srand(3);
    for (int64_t i = 0; i < COUNT; i++) /* +-1 to +-2 */
        w->host[i] = (uint16_t)(0x3F80 | (rand() & 0x7F) | (rand() & 1) << 15);
    ok(take(w, 0, COUNT, whole) && take(w, 0, COUNT, again) &&
           memcmp(whole, again, sizeof(whole)) == 0,
       "the same bits again");
    for (int64_t i = 0; i < COUNT; i++) {
        uint32_t bits = (uint32_t)w->host[i] << 16;
        float x;

        memcpy(&x, &bits, sizeof(x));
        expected += (double)x * x;
    }
    ok(fabs(whole[FINGERPRINT - 1] - expected) < 1e-6 * expected, "the sum of squares");
    test_tile(w, whole, 0, 0);
    test_tile(w, whole, ROWS - TILE_ROWS, COLUMNS - TILE_COLUMNS);
    test_tile(w, whole, 1000, 512);
    ok(take(w, 1, 1003, whole) && take(w, 1, 1004, again) && difference(whole, again) > 1e-3,
       "an odd number of elements that are not aligned: each counts");
    *element(w, 17, 5) = 0xFFFF;
    ok(take(w, 0, COUNT, whole) && isnan(whole[0]) && isnan(whole[FINGERPRINT - 1]),
       "an element that nobody wrote");
}

/* What the test's algorithms do, selected by their first number. */
enum { RIGHT, WITHOUT_TILE, WRITES_NOTHING, DIFFERS, FAILS };

cublasStatus_t gemm_launch(struct gemm *gemm, cudaStream_t stream,
                           const struct gemm_operands *operands,
                           const cublasLtMatmulAlgo_t *algorithm, float beta, void *workspace)
{
    static int runs;
    uint16_t *d = operands->d;

    (void)gemm, (void)beta, (void)workspace;
    if (algorithm->data[0] == FAILS)
        return CUBLAS_STATUS_EXECUTION_FAILED;
    if (algorithm->data[0] != WRITES_NOTHING)
        cudaMemcpyAsync(d, operands->a, COUNT * sizeof(*d), cudaMemcpyDeviceToDevice, stream);
    if (algorithm->data[0] == WITHOUT_TILE)
        cudaMemset2DAsync(d + 1000 * COLUMNS + 512, COLUMNS * sizeof(*d), 0,
                          TILE_COLUMNS * sizeof(*d), TILE_ROWS, stream);
    if (algorithm->data[0] == DIFFERS && runs++ % 2) /* within rounding error */
        cudaMemsetAsync(d, 0, sizeof(*d), stream);
    return CUBLAS_STATUS_SUCCESS;
}

static void test_check(struct work *w)
{
    static const char *const does[] = {"is right", "leaves out a tile", "writes nothing",
                                       "gives other bits when repeated", "fails"};
    struct gemm_context context = {.workspace = w->numbers};
    struct gemm gemm = {.context = &context,
                        .shape = {.m = COLUMNS, .n = ROWS, .out = TYPE_BF16, .type = TYPE_BF16}};
    struct gemm_operands operands = {.a = w->x};
    cublasLtMatmulAlgo_t trusted = {{RIGHT}};

    *element(w, 17, 5) = 0x3F80;
    if (!check(cudaMalloc(&operands.d, COUNT * sizeof(*w->x))) ||
        !check(cudaMemcpy(w->x, w->host, COUNT * sizeof(*w->x), cudaMemcpyHostToDevice)))
        return;
    for (int i = RIGHT; i <= FAILS; i++) {
        cublasLtMatmulAlgo_t algorithm = {{(uint64_t)i}};

        ok(gemm_check(&gemm, &operands, &trusted, &algorithm) == (i == RIGHT),
           "an algorithm that %s", does[i]);
    }
    cudaFree(operands.d);
}

int main(void)
{
    struct work w = {.host = malloc(COUNT * sizeof(*w.host))};

    if (!check(cudaMalloc((void **)&w.x, COUNT * sizeof(*w.x))) ||
        !check(cudaMalloc((void **)&w.numbers, 1 << 20)))
        return skip_all("no GPU");
    test_prints(&w);
    test_check(&w);
    cudaFree(w.x);
    cudaFree(w.numbers);
    free(w.host);
    return done_testing();
}
