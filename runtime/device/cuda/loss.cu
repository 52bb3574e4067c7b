/* Cross entropy in two halves around the collective. */
#include "common.cuh"

namespace
{

constexpr int THREADS = 512;
constexpr int WARPS = THREADS / WARP;

/* A running maximum and the sum of exp(x - maximum). */
struct softmax_sum {
    float maximum, sum;
};

__device__ inline softmax_sum merge(softmax_sum a, softmax_sum b)
{
    const float maximum = fmaxf(a.maximum, b.maximum);

    if (maximum == -INFINITY)
        return a;
    a.sum = a.sum * __expf(a.maximum - maximum) + b.sum * __expf(b.maximum - maximum);
    a.maximum = maximum;
    return a;
}

__device__ inline softmax_sum merge_block(softmax_sum mine)
{
    __shared__ softmax_sum shared[WARPS];

    for (int offset = WARP / 2; offset > 0; offset /= 2) {
        softmax_sum other = {__shfl_xor_sync(0xffffffffu, mine.maximum, offset),
                             __shfl_xor_sync(0xffffffffu, mine.sum, offset)};
        mine = merge(mine, other);
    }
    if (threadIdx.x % WARP == 0)
        shared[threadIdx.x / WARP] = mine;
    __syncthreads();
    mine = shared[0];
    for (int w = 1; w < WARPS; w++)
        mine = merge(mine, shared[w]);
    return mine;
}

template <typename T>
__global__ void __launch_bounds__(THREADS)
    partial(const T *logits, const int32_t *targets, float *out, int64_t rows, int64_t cols,
            int64_t first, int64_t limit, bool wide)
{
    const int64_t row = blockIdx.x;
    const T *x = logits + row * cols;
    softmax_sum mine = {-INFINITY, 0};

#pragma unroll 2
    for (int64_t c = (int64_t)threadIdx.x * VECTOR; c < limit; c += (int64_t)THREADS * VECTOR) {
        float v[VECTOR], maximum = mine.maximum;

        load_vector(x + c, v, cols - c, wide);
#pragma unroll
        for (int k = 0; k < VECTOR; k++) {
            v[k] = c + k < limit ? v[k] : -INFINITY;
            maximum = fmaxf(maximum, v[k]);
        }
        if (maximum == -INFINITY)
            continue;
        mine.sum *= __expf(mine.maximum - maximum);
        mine.maximum = maximum;
#pragma unroll
        for (int k = 0; k < VECTOR; k++)
            mine.sum += __expf(v[k] - maximum);
    }
    mine = merge_block(mine);
    if (threadIdx.x == 0) {
        const int64_t target = targets[row] - first;

        out[row] = mine.maximum;
        out[rows + row] = mine.sum;
        out[2 * rows + row] = target >= 0 && target < limit ? to_float(x[target]) : 0.0f;
    }
}

template <typename T>
__global__ void __launch_bounds__(THREADS)
    finish(cross_entropy_finish_operands o, double *weighted, int64_t rows, int64_t cols,
           int64_t first, int64_t limit, int parts, bool backward, bool wide)
{
    const int64_t row = blockIdx.x;
    float maximum = -INFINITY, sum = 0, target_logit = 0;

    for (int p = 0; p < parts; p++)
        maximum = fmaxf(maximum, o.partials[(int64_t)p * 3 * rows + row]);
    for (int p = 0; p < parts; p++) {
        const float *part = o.partials + (int64_t)p * 3 * rows + row;

        if (part[0] > -INFINITY)
            sum += part[rows] * expf(part[0] - maximum);
        target_logit += part[2 * rows];
    }
    const float lse = logf(sum) + maximum, weight = o.weight[row];
    if (threadIdx.x == 0) {
        const float loss = lse - target_logit;

        if (o.loss)
            o.loss[row] = loss;
        weighted[row] = weight != 0.0f ? (double)weight * loss : 0.0;
    }
    if (!backward)
        return;
    T *x = (T *)o.logits + row * cols;
    const float factor = weight * o.state->loss_scale;
    const int64_t target = o.targets[row] - first;
#pragma unroll 2
    for (int64_t c = (int64_t)threadIdx.x * VECTOR; c < cols; c += (int64_t)THREADS * VECTOR) {
        float v[VECTOR];

        load_vector(x + c, v, cols - c, wide);
#pragma unroll
        for (int k = 0; k < VECTOR; k++) {
            const float p = __expf(v[k] - lse) - (c + k == target ? 1.0f : 0.0f);

            v[k] = c + k < limit ? p * factor : 0.0f;
        }
        store_vector(x + c, v, cols - c, wide);
    }
}

__global__ void add_loss(const double *weighted, int64_t rows, step_state *state)
{
    __shared__ double shared[WARP];
    double sum = 0;

    for (int64_t i = threadIdx.x; i < rows; i += blockDim.x)
        sum += weighted[i];
    sum = warp_sum(sum);
    if (threadIdx.x % WARP == 0)
        shared[threadIdx.x / WARP] = sum;
    __syncthreads();
    if (threadIdx.x == 0) {
        for (int w = 1; w < (int)blockDim.x / WARP; w++)
            sum += shared[w];
        state->loss += sum;
    }
}

int64_t true_columns(const cross_entropy_shape *s)
{
    const int64_t limit = s->vocabulary - s->first;

    return limit < 0 ? 0 : smaller(limit, s->cols);
}

} // namespace

extern "C" void kernel_cross_entropy_partial(cudaStream_t stream, const cross_entropy_shape *s,
                                             const cross_entropy_partial_operands *o)
{
    const bool wide = s->cols % VECTOR == 0 && is_wide(o->logits);

    WITH_TYPE(s->type, (partial<<<(unsigned)s->rows, THREADS, 0, stream>>>(
                           (const T *)o->logits, o->targets, o->partial, s->rows, s->cols, s->first,
                           true_columns(s), wide)));
}

extern "C" size_t kernel_cross_entropy_finish_workspace(const cross_entropy_shape *s)
{
    return (size_t)s->rows * sizeof(double);
}

extern "C" void kernel_cross_entropy_finish(cudaStream_t stream, const cross_entropy_shape *s,
                                            const cross_entropy_finish_operands *o, void *workspace)
{
    const bool wide = s->cols % VECTOR == 0 && is_wide(o->logits);

    WITH_TYPE(s->type, (finish<T><<<(unsigned)s->rows, THREADS, 0, stream>>>(
                           *o, (double *)workspace, s->rows, s->cols, s->first, true_columns(s),
                           s->parts, s->backward != 0, wide)));
    add_loss<<<1, 1024, 0, stream>>>((const double *)workspace, s->rows, o->state);
}
