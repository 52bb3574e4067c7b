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

/* 2^x; exp(x) = exponent(x * LOG2E) */
constexpr float LOG2E = 1.4426950408889634f;

__device__ inline float exponent(float x)
{
    float y;

    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}

/* Add eight logits. */
__device__ inline void add_vector(softmax_sum &mine, const float *v)
{
    float maximum = mine.maximum;

#pragma unroll
    for (int k = 0; k < VECTOR; k++)
        maximum = fmaxf(maximum, v[k]);
    if (maximum == -INFINITY)
        return;
    const float shift = -maximum * LOG2E;
    float sum = mine.sum * exponent(mine.maximum * LOG2E + shift);
#pragma unroll
    for (int k = 0; k < VECTOR; k++)
        sum += exponent(v[k] * LOG2E + shift);
    mine.sum = sum;
    mine.maximum = maximum;
}

/* Columns c .. c + 7 of which those from 'limit' on take no part. */
__device__ inline void cut(float *v, int64_t c, int64_t limit)
{
    if (c + VECTOR > limit) {
#pragma unroll
        for (int k = 0; k < VECTOR; k++)
            v[k] = c + k < limit ? v[k] : -INFINITY;
    }
}

/* Eight logits become their gradient: factor * (softmax - onehot of 'target'). */
__device__ inline void gradient_vector(float *v, int64_t c, int64_t limit, int64_t target,
                                       float lse, float factor)
{
    const float shift = -lse * LOG2E;

    cut(v, c, limit); /* exp(-inf) is 0 */
#pragma unroll
    for (int k = 0; k < VECTOR; k++)
        v[k] = exponent(v[k] * LOG2E + shift) * factor;
    if (target >= c && target < c + VECTOR) {
#pragma unroll
        for (int k = 0; k < VECTOR; k++)
            v[k] -= c + k == target ? factor : 0.0f;
    }
}

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

#pragma unroll 4
    for (int64_t c = (int64_t)threadIdx.x * VECTOR; c < limit; c += (int64_t)THREADS * VECTOR) {
        float v[VECTOR];

        load_vector(x + c, v, cols - c, wide);
        cut(v, c, limit);
        add_vector(mine, v);
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
        gradient_vector(v, c, limit, target, lse, factor);
        store_vector(x + c, v, cols - c, wide);
    }
}

/* Both halves in one pass: the row waits in shared memory for its gradient. 16-bit types, whole
 * vectors. */
template <typename T>
__global__ void __launch_bounds__(THREADS, 2)
    whole(cross_entropy_finish_operands o, double *weighted, int cols, int64_t first, int limit,
          bool backward)
{
    extern __shared__ __align__(16) char memory[];
    const int64_t row = blockIdx.x;
    T *x = (T *)o.logits + row * cols;
    T *kept = (T *)memory;
    const int half = cols / VECTOR / 2 * VECTOR;
    softmax_sum mine = {-INFINITY, 0};

    for (int c = threadIdx.x * VECTOR; c < half; c += THREADS * VECTOR)
        copy_async<16>(kept + c, x + c);
    copy_commit();
    for (int c = half + threadIdx.x * VECTOR; c < cols; c += THREADS * VECTOR)
        copy_async<16>(kept + c, x + c);
    copy_commit();
    for (int part = 0; part < 2; part++) {
        const int end = part ? cols : half;

        if (part == 0)
            copy_wait<1>();
        else
            copy_wait<0>();
            /* Each thread reads what it copied itself. */
#pragma unroll 2
        for (int c = (part ? half : 0) + threadIdx.x * VECTOR; c < end; c += THREADS * VECTOR) {
            float v[VECTOR];

            load_vector(kept + c, v, VECTOR, true);
            cut(v, c, limit);
            add_vector(mine, v);
        }
    }
    mine = merge_block(mine); /* a barrier: all of the row is there for everyone */
    const float lse = logf(mine.sum) + mine.maximum, weight = o.weight[row];
    const int64_t target = o.targets[row] - first;
    if (threadIdx.x == 0) {
        const float loss = lse - (target >= 0 && target < limit ? to_float(kept[target]) : 0.0f);

        if (o.loss)
            o.loss[row] = loss;
        weighted[row] = weight != 0.0f ? (double)weight * loss : 0.0;
    }
    if (!backward)
        return;
    const float factor = weight * o.state->loss_scale;
#pragma unroll 2
    for (int c = threadIdx.x * VECTOR; c < cols; c += THREADS * VECTOR) {
        float v[VECTOR];

        load_vector(kept + c, v, VECTOR, true);
        gradient_vector(v, c, limit, target, lse, factor);
        store_vector(x + c, v, VECTOR, true);
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

/* Rows up to this many bytes wait in shared memory; two blocks on a multiprocessor. */
constexpr int64_t WHOLE_BYTES = 110 * 1024;

template <typename T>
static void launch_whole(cudaStream_t stream, const cross_entropy_shape *s,
                         const cross_entropy_finish_operands *o, double *weighted)
{
    const size_t bytes = (size_t)s->cols * sizeof(T);

    cudaFuncSetAttribute(whole<T>, cudaFuncAttributeMaxDynamicSharedMemorySize, (int)bytes);
    cudaFuncSetAttribute(whole<T>, cudaFuncAttributePreferredSharedMemoryCarveout,
                         cudaSharedmemCarveoutMaxShared);
    whole<T><<<(unsigned)s->rows, THREADS, bytes, stream>>>(*o, weighted, (int)s->cols, s->first,
                                                            (int)true_columns(s), s->backward != 0);
}

extern "C" size_t kernel_cross_entropy_finish_workspace(const cross_entropy_shape *s)
{
    return (size_t)s->rows * (sizeof(double) + 3 * sizeof(float));
}

extern "C" void kernel_cross_entropy_finish(cudaStream_t stream, const cross_entropy_shape *s,
                                            const cross_entropy_finish_operands *operands,
                                            void *workspace)
{
    cross_entropy_finish_operands o = *operands;
    const bool wide = s->cols % VECTOR == 0 && is_wide(o.logits);
    const bool fits =
        wide && s->type != TYPE_FP32 && s->cols * (int64_t)type_size(s->type) <= WHOLE_BYTES;
    double *weighted = (double *)workspace;

    if (!o.partials && fits) {
        if (s->type == TYPE_BF16)
            launch_whole<bf16>(stream, s, &o, weighted);
        else
            launch_whole<fp16>(stream, s, &o, weighted);
    } else {
        if (!o.partials) {
            float *partial = (float *)(weighted + s->rows);
            const cross_entropy_partial_operands first = {o.logits, o.targets, partial};

            kernel_cross_entropy_partial(stream, s, &first);
            o.partials = partial;
        }
        WITH_TYPE(s->type, (finish<T><<<(unsigned)s->rows, THREADS, 0, stream>>>(
                               o, weighted, s->rows, s->cols, s->first, true_columns(s), s->parts,
                               s->backward != 0, wide)));
    }
    add_loss<<<1, 1024, 0, stream>>>(weighted, s->rows, o.state);
}
