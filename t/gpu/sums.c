/* The kernels that stand beside a product where its epilogue is not the fastest: bandwidth against
 * a plain copy, on tensors far beyond the L2 cache. What they compute is tested by device.t. */
#include "kernels.h"

#include <cuda_runtime_api.h>
#include <stdio.h>
#include <stdlib.h>

enum { REPEATS = 10, ROWS = 65536 };

struct work {
    int64_t cols;
    char *x, *pre, *y; /* (ROWS, cols) */
    float *out, *workspace;
    int processors;
};

static void check(cudaError_t status)
{
    if (!status)
        return;
    fprintf(stderr, "sums: %s\n", cudaGetErrorString(status));
    exit(1);
}

static size_t tensor_bytes(const struct work *w)
{
    return (size_t)(ROWS * w->cols) * type_size(TYPE_BF16);
}

static void copy(const struct work *w)
{
    check(cudaMemcpyAsync(w->y, w->x, tensor_bytes(w), cudaMemcpyDeviceToDevice, NULL));
}

static void gelu(const struct work *w)
{
    kernel_gelu(NULL, TYPE_BF16, ROWS * w->cols, w->x, w->y);
}

static void sums(const struct work *w)
{
    kernel_column_sums(NULL, TYPE_BF16, ROWS, w->cols, w->x, NULL, NULL, w->out, 0, w->workspace,
                       w->processors);
}

static void gelu_gradient_and_sums(const struct work *w)
{
    kernel_column_sums(NULL, TYPE_BF16, ROWS, w->cols, w->x, w->pre, w->y, w->out, 0, w->workspace,
                       w->processors);
}

static double seconds_of(void (*run)(const struct work *w), const struct work *w)
{
    cudaEvent_t from, to;
    float milliseconds;

    check(cudaEventCreate(&from));
    check(cudaEventCreate(&to));
    for (int i = 0; i < 3; i++)
        run(w);
    check(cudaEventRecord(from, NULL));
    for (int i = 0; i < REPEATS; i++)
        run(w);
    check(cudaEventRecord(to, NULL));
    check(cudaEventSynchronize(to));
    check(cudaGetLastError());
    check(cudaEventElapsedTime(&milliseconds, from, to));
    cudaEventDestroy(from);
    cudaEventDestroy(to);
    return milliseconds * 1e-3 / REPEATS;
}

static void measure(int64_t cols, int processors)
{
    static const struct {
        const char *name;
        void (*run)(const struct work *w);
        int tensors; /* that move */
    } kernels[] = {{"gelu", gelu, 2},
                   {"sums of columns", sums, 1},
                   {"gelu's gradient and sums", gelu_gradient_and_sums, 3}};
    struct work w = {.cols = cols, .processors = processors};
    size_t bytes = tensor_bytes(&w);
    double copied;

    check(cudaMalloc((void **)&w.x, bytes));
    check(cudaMalloc((void **)&w.pre, bytes));
    check(cudaMalloc((void **)&w.y, bytes));
    check(cudaMalloc((void **)&w.out, (size_t)cols * sizeof(float)));
    check(cudaMalloc((void **)&w.workspace, kernel_column_sums_workspace(ROWS, cols, processors)));
    kernel_noise(NULL, TYPE_BF16, ROWS * cols, w.x);
    kernel_noise(NULL, TYPE_BF16, ROWS * cols, w.pre);
    copied = 2 * (double)bytes / seconds_of(copy, &w);
    printf("%d rows of %lld: a copy moves %.2f TB/s\n", ROWS, (long long)cols, copied * 1e-12);
    for (size_t i = 0; i < sizeof(kernels) / sizeof(*kernels); i++) {
        double rate = kernels[i].tensors * (double)bytes / seconds_of(kernels[i].run, &w);

        printf("  %-26s %6.2f TB/s %3.0f%%\n", kernels[i].name, rate * 1e-12, 100 * rate / copied);
    }
    cudaFree(w.x), cudaFree(w.pre), cudaFree(w.y), cudaFree(w.out), cudaFree(w.workspace);
}

int main(void)
{
    int processors;

    check(cudaDeviceGetAttribute(&processors, cudaDevAttrMultiProcessorCount, 0));
    measure(4096, processors); /* gpt345m, between its two layers of an MLP */
    measure(8192, processors); /* gpt1.3b */
    return 0;
}
