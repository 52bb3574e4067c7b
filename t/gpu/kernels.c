/* SPDX-License-Identifier: Apache-2.0 */
/* The kernels used instead of a product's epilogue when that is not the fastest, and the softmax of
 * attention with its scores in memory: bandwidth relative to a plain copy, on tensors far larger
 * than the L2 cache. device.t tests their results. */
#include "engine/device/cuda/kernels.h"

#include <cuda_runtime_api.h>
#include <stdio.h>
#include <stdlib.h>

enum { REPEATS = 10, ROWS = 65536 };

struct work {
    int64_t cols;
    char *x, *pre, *y; /* (ROWS, cols) */
    float *out, *workspace;
};

/* Attention with dropout: the scores of all heads of a sample, and the tensors computed from them.
 */
struct scores {
    struct attention_shape shape;
    int pitch;
    struct attention_operands forward;
    struct attention_backward_operands backward;
    float *scores, *dp, *delta;
    void *probabilities, *dscores;
};

static void check(cudaError_t status)
{
    if (!status)
        return;
    fprintf(stderr, "kernels: %s\n", cudaGetErrorString(status));
    exit(1);
}

static size_t tensor_bytes(const struct work *w)
{
    return (size_t)(ROWS * w->cols) * type_size(TYPE_BF16);
}

static void copy(const void *all)
{
    const struct work *w = all;

    check(cudaMemcpyAsync(w->y, w->x, tensor_bytes(w), cudaMemcpyDeviceToDevice, NULL));
}

static void gelu(const void *all)
{
    const struct work *w = all;

    kernel_activation(
        NULL,
        &(struct activation_shape){ROWS * w->cols, TYPE_BF16, TYPE_BF16, ACTIVATION_GELU_TANH, 0},
        &(struct activation_operands){.x = w->x, .y = w->y});
}

static void sums(const void *all)
{
    const struct work *w = all;

    kernel_column_sums(NULL, ACTIVATION_NONE, TYPE_BF16, ROWS, w->cols, w->x, NULL, NULL, w->out, 0,
                       w->workspace);
}

static void gelu_gradient_and_sums(const void *all)
{
    const struct work *w = all;

    kernel_column_sums(NULL, ACTIVATION_GELU_TANH, TYPE_BF16, ROWS, w->cols, w->x, w->pre, w->y,
                       w->out, 0, w->workspace);
}

static void softmax(const void *all)
{
    const struct scores *s = all;

    kernel_softmax(NULL, &s->shape, 0, s->pitch, s->scores, s->probabilities, &s->forward);
}

static void softmax_backward(const void *all)
{
    const struct scores *s = all;

    kernel_softmax_backward(NULL, &s->shape, 0, s->pitch, s->scores, s->dp, s->delta,
                            s->probabilities, s->dscores, &s->backward);
}

static double seconds_of(void (*run)(const void *all), const void *all)
{
    cudaEvent_t from, to;
    float milliseconds;

    check(cudaEventCreate(&from));
    check(cudaEventCreate(&to));
    for (int i = 0; i < 3; i++)
        run(all);
    check(cudaEventRecord(from, NULL));
    for (int i = 0; i < REPEATS; i++)
        run(all);
    check(cudaEventRecord(to, NULL));
    check(cudaEventSynchronize(to));
    check(cudaGetLastError());
    check(cudaEventElapsedTime(&milliseconds, from, to));
    cudaEventDestroy(from);
    cudaEventDestroy(to);
    return milliseconds * 1e-3 / REPEATS;
}

static void print_rate(const char *name, double bytes, double seconds, double copied)
{
    double rate = bytes / seconds;

    printf("  %-26s %6.2f TB/s %3.0f%%\n", name, rate * 1e-12, 100 * rate / copied);
}

/* Returns the bandwidth of a copy. */
static double measure(int64_t cols)
{
    static const struct {
        const char *name;
        void (*run)(const void *all);
        int tensors; /* that move */
    } kernels[] = {{"gelu", gelu, 2},
                   {"sums of columns", sums, 1},
                   {"gelu's gradient and sums", gelu_gradient_and_sums, 3}};
    struct work w = {.cols = cols};
    size_t bytes = tensor_bytes(&w);
    double copied;

    check(cudaMalloc((void **)&w.x, bytes));
    check(cudaMalloc((void **)&w.pre, bytes));
    check(cudaMalloc((void **)&w.y, bytes));
    check(cudaMalloc((void **)&w.out, (size_t)cols * sizeof(float)));
    check(cudaMalloc((void **)&w.workspace, kernel_column_sums_workspace(ROWS, cols)));
    kernel_noise(NULL, TYPE_BF16, ROWS * cols, w.x);
    kernel_noise(NULL, TYPE_BF16, ROWS * cols, w.pre);
    copied = 2 * (double)bytes / seconds_of(copy, &w);
    printf("%d rows of %lld: a copy moves %.2f TB/s\n", ROWS, (long long)cols, copied * 1e-12);
    for (size_t i = 0; i < sizeof(kernels) / sizeof(*kernels); i++)
        print_rate(kernels[i].name, kernels[i].tensors * (double)bytes,
                   seconds_of(kernels[i].run, &w), copied);
    cudaFree(w.x), cudaFree(w.pre), cudaFree(w.y), cudaFree(w.out), cudaFree(w.workspace);
    return copied;
}

/* The minimum number of bytes, with every row read once; the second read hits the cache. */
static void measure_softmax(int64_t length, double dropout, double copied)
{
    enum { HEADS = 32 };
    struct step_state state = {.iteration = 5, .seed = 99};
    size_t rows = HEADS * (size_t)length, count;
    size_t at = (size_t)length * sizeof(int64_t);
    struct scores s = {.shape = {.batch = 1,
                                 .q_rows = length,
                                 .kv_rows = length,
                                 .heads = HEADS,
                                 .kv_heads = HEADS,
                                 .head_size = 64,
                                 .type = TYPE_BF16,
                                 .scale = 0.125,
                                 .dropout = dropout,
                                 .all_heads = HEADS,
                                 .sequence = length},
                       .pitch = (int)((length + 7) / 8 * 8)};
    char *key; /* row numbers, all 0, and the state */

    count = rows * (size_t)s.pitch;
    check(cudaMalloc((void **)&s.scores, count * sizeof(float)));
    check(cudaMalloc((void **)&s.dp, count * sizeof(float)));
    check(cudaMalloc((void **)&s.delta, rows * sizeof(float)));
    check(cudaMalloc((void **)&s.forward.lse, rows * sizeof(float)));
    check(cudaMalloc(&s.probabilities, count * 2));
    check(cudaMalloc(&s.dscores, count * 2));
    check(cudaMalloc((void **)&key, at + sizeof(state)));
    check(cudaMemset(key, 0, at));
    check(cudaMemcpy(key + at, &state, sizeof(state), cudaMemcpyHostToDevice));
    kernel_noise(NULL, TYPE_FP32, (int64_t)count, s.scores);
    kernel_noise(NULL, TYPE_FP32, (int64_t)count, s.dp);
    kernel_noise(NULL, TYPE_FP32, (int64_t)rows, s.delta);
    s.forward.row_index = (const int64_t *)key;
    s.forward.state = (const struct step_state *)(key + at);
    s.backward.row_index = s.forward.row_index;
    s.backward.state = s.forward.state;
    s.backward.lse = s.forward.lse;
    printf("%d heads of %lld rows and keys, dropout %g\n", HEADS, (long long)length, dropout);
    print_rate("softmax", 6 * (double)count, seconds_of(softmax, &s), copied);
    print_rate("softmax backward", 12 * (double)count, seconds_of(softmax_backward, &s), copied);
    cudaFree(s.scores), cudaFree(s.dp), cudaFree(s.delta), cudaFree(s.forward.lse);
    cudaFree(s.probabilities), cudaFree(s.dscores), cudaFree(key);
}

int main(void)
{
    double copied;

    measure(4096);          /* gpt345m, between the two layers of an MLP */
    copied = measure(8192); /* gpt1.3b */
    measure_softmax(1024, 0, copied);
    measure_softmax(1024, 0.1, copied);
    measure_softmax(2048, 0, copied);
    measure_softmax(2048, 0.1, copied);
    measure_softmax(2047, 0.1, copied);
    measure_softmax(4096, 0.1, copied);
    return 0;
}
