/* SPDX-License-Identifier: Apache-2.0 */
/* Cross entropy in two halves, before and after the collective. */
#include "common.cuh"

namespace
{

constexpr int THREADS = 512;
constexpr int WARPS = THREADS / WARP;

/* A running maximum and the sum of exp(x - maximum). */
struct softmax_sum {
    float maximum, sum;
};

/* Add eight logits. */
__device__ inline void add_vector(softmax_sum &mine, const float *v)
{
    float maximum = mine.maximum;

#pragma unroll
    for (int k = 0; k < VECTOR; k++)
        maximum = fmaxf(maximum, v[k]);
    if (maximum == -INFINITY) {
        for (int k = 0; k < VECTOR; k++)
            mine.sum += isnan(v[k]) ? v[k] : 0.0f; /* the maximum does not propagate NaN */
        return;
    }
    const float shift = -maximum * LOG2_E;
    float sum = mine.sum * power_of_two(mine.maximum * LOG2_E + shift);
#pragma unroll
    for (int k = 0; k < VECTOR; k++)
        sum += power_of_two(v[k] * LOG2_E + shift);
    mine.sum = sum;
    mine.maximum = maximum;
}

/* Columns c .. c + 7, ignoring those from 'limit' on. */
__device__ inline void cut(float *v, int64_t c, int64_t limit)
{
    if (c + VECTOR > limit) {
#pragma unroll
        for (int k = 0; k < VECTOR; k++)
            v[k] = c + k < limit ? v[k] : -INFINITY;
    }
}

/* How the logits of a row become their gradient: factor * (softmax - onehot of 'target'), times the
 * derivative of the soft cap that made the logits. */
struct row_gradient {
    float shift, factor;
    int64_t limit, target;
    float by; /* 1 / cap; 0: none */

    /* A masked row contributes nothing, whatever its logits are. */
    __device__ inline row_gradient(float lse, float weight, int64_t columns, int64_t wanted,
                                   float softcap)
        : shift(weight == 0.0f ? 0.0f : -lse * LOG2_E), factor(weight),
          limit(weight == 0.0f ? 0 : columns), target(wanted < columns ? wanted : -1),
          by(softcap > 0.0f ? 1.0f / softcap : 0.0f)
    {
    }

    /* For eight logits, starting at column c. */
    __device__ inline void apply(float *v, int64_t c) const
    {
        float slope[VECTOR];

#pragma unroll
        for (int k = 0; k < VECTOR; k++)
            slope[k] = 1.0f - v[k] * by * (v[k] * by);
        cut(v, c, limit); /* exp(-inf) is 0 */
#pragma unroll
        for (int k = 0; k < VECTOR; k++)
            v[k] = power_of_two(v[k] * LOG2_E + shift) * factor;
        if (target >= c && target < c + VECTOR) {
#pragma unroll
            for (int k = 0; k < VECTOR; k++)
                v[k] -= c + k == target ? factor : 0.0f;
        }
        if (by > 0.0f) {
#pragma unroll
            for (int k = 0; k < VECTOR; k++)
                v[k] = v[k] == 0.0f ? 0.0f : v[k] * slope[k];
        }
    }
};

/* Reduce over a whole warp. */
__device__ inline softmax_sum merge_warp(softmax_sum mine)
{
    const float maximum = warp_max(mine.maximum);

    if (maximum == -INFINITY) { /* all lanes are empty, or NaN */
        mine.sum = warp_sum(mine.sum);
        return mine;
    }
    mine.sum = warp_sum(mine.sum * power_of_two((mine.maximum - maximum) * LOG2_E));
    mine.maximum = maximum;
    return mine;
}

/* Combine the results of 'warps' warps in 'slots', in every lane. */
__device__ inline softmax_sum merge_slots(const softmax_sum *slots, int warps)
{
    const int lane = threadIdx.x % WARP;
    softmax_sum mine = {-INFINITY, 0};

    if (lane < warps)
        mine = slots[lane];
    return merge_warp(mine);
}

__device__ inline softmax_sum merge_block(softmax_sum mine)
{
    __shared__ softmax_sum slots[WARPS];

    mine = merge_warp(mine);
    if (threadIdx.x % WARP == 0)
        slots[threadIdx.x / WARP] = mine;
    __syncthreads();
    return merge_slots(slots, WARPS);
}

/* Blocks iterate over rows, several vectors per thread at a time. The next vectors are loaded while
 * these are added up, also across the ends of rows. */
constexpr int PARTIAL_THREADS = 256, PARTIAL_BLOCKS = 4;

template <typename T, bool WIDE>
__global__ void __launch_bounds__(PARTIAL_THREADS, PARTIAL_BLOCKS)
    partial(const T *logits, const int32_t *targets, float *out, int64_t rows, int64_t cols,
            int64_t first, int limit)
{
    constexpr int COUNT = sizeof(T) == 4 ? 2 : 4, WALK = PARTIAL_THREADS * VECTOR;
    __shared__ softmax_sum slots[2][PARTIAL_THREADS / WARP];
    const int own = threadIdx.x * VECTOR;
    softmax_sum mine = {-INFINITY, 0};
    packed<T> next[COUNT];
    int64_t row = blockIdx.x;
    int base = 0, parity = 0;

    auto fetch = [&](int64_t from, int c) {
#pragma unroll
        for (int k = 0; k < COUNT; k++)
            next[k] = load_part<WIDE>(logits + from * cols + c + k * WALK,
                                      from < rows ? limit - c - k * WALK : 0);
    };

    fetch(row, own);
    while (row < rows) {
        const bool last = base + COUNT * WALK >= limit;
        const int64_t next_row = last ? row + gridDim.x : row;
        const int next_base = last ? 0 : base + COUNT * WALK;
        packed<T> now[COUNT];

#pragma unroll
        for (int k = 0; k < COUNT; k++)
            now[k] = next[k];
        fetch(next_row, next_base + own);
#pragma unroll
        for (int k = 0; k < COUNT; k++) {
            const int c = base + own + k * WALK;
            float v[VECTOR];

            if (c >= limit)
                break;
            unpack(now[k], v);
            cut(v, c, limit);
            add_vector(mine, v);
        }
        if (last) {
            mine = merge_warp(mine);
            if (threadIdx.x % WARP == 0)
                slots[parity][threadIdx.x / WARP] = mine;
            __syncthreads();
            /* The next row uses the other slots, so the other warps need not wait. */
            if (threadIdx.x < WARP) {
                mine = merge_slots(slots[parity], PARTIAL_THREADS / WARP);
                if (threadIdx.x == 0) {
                    const int64_t target = targets[row] - first;
                    const bool here = target >= 0 && target < limit;

                    out[row] = mine.maximum;
                    out[rows + row] = mine.sum;
                    out[2 * rows + row] = here ? to_float(logits[row * cols + target]) : 0.0f;
                }
            }
            mine = {-INFINITY, 0};
            parity ^= 1;
        }
        row = next_row;
        base = next_base;
    }
}

template <typename T>
__global__ void __launch_bounds__(THREADS)
    finish(cross_entropy_finish_operands o, double *weighted, int64_t rows, int64_t cols,
           int64_t first, int64_t limit, int parts, bool backward, float softcap, bool wide)
{
    const int64_t row = blockIdx.x;
    float maximum = -INFINITY, sum = 0, target_logit = 0;

    for (int p = 0; p < parts; p++)
        maximum = fmaxf(maximum, o.partials[(int64_t)p * 3 * rows + row]);
    for (int p = 0; p < parts; p++) {
        const float *part = o.partials + (int64_t)p * 3 * rows + row;

        if (part[rows] != 0.0f)
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
    const row_gradient gradient(lse, weight * o.state->loss_scale, limit, o.targets[row] - first,
                                softcap);
#pragma unroll 2
    for (int64_t c = (int64_t)threadIdx.x * VECTOR; c < cols; c += (int64_t)THREADS * VECTOR) {
        float v[VECTOR];

        load_vector(x + c, v, cols - c, wide);
        gradient.apply(v, c);
        store_vector(x + c, v, cols - c, wide);
    }
}

/* Both halves in one pass: the row is kept in shared memory for its gradient. 16-bit types, whole
 * vectors. BLOCKS: blocks per multiprocessor; while one loads, another computes. */
template <typename T, int BLOCKS>
__global__ void __launch_bounds__(THREADS, BLOCKS)
    whole(cross_entropy_finish_operands o, double *weighted, int cols, int64_t first, int limit,
          bool backward, float softcap)
{
    extern __shared__ __align__(16) char memory[];
    const int64_t row = blockIdx.x;
    T *x = (T *)o.logits + row * cols;
    T *kept = (T *)memory;
    const int half = cols / VECTOR / 2 * VECTOR;
    const int64_t target = o.targets[row] - first;
    const float weight = o.weight[row];
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
    mine = merge_block(mine); /* a barrier: the whole row is visible to all threads */
    const float lse = logf(mine.sum) + mine.maximum;
    if (threadIdx.x == 0) {
        const float loss = lse - (target >= 0 && target < limit ? to_float(kept[target]) : 0.0f);

        if (o.loss)
            o.loss[row] = loss;
        weighted[row] = weight != 0.0f ? (double)weight * loss : 0.0;
    }
    if (!backward)
        return;
    const row_gradient gradient(lse, weight * o.state->loss_scale, limit, target, softcap);
#pragma unroll 2
    for (int c = threadIdx.x * VECTOR; c < cols; c += THREADS * VECTOR) {
        float v[VECTOR];

        load_vector(kept + c, v, VECTOR, true);
        gradient.apply(v, c);
        store_vector(x + c, v, VECTOR, true);
    }
}

__global__ void add_loss(const double *weighted, int64_t rows, const float *logged, int pair,
                         step_state *state)
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
        if (logged)
            sum *= *logged;
        state->loss += sum;
        if (pair)
            state->pair_loss += sum;
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
    const unsigned blocks = (unsigned)smaller(s->rows, (int64_t)processor_count() * PARTIAL_BLOCKS);
    const int limit = (int)true_columns(s);

    if (s->rows == 0)
        return;
    if (s->cols % VECTOR == 0 && is_wide(o->logits))
        WITH_TYPE(s->type, (partial<T, true><<<blocks, PARTIAL_THREADS, 0, stream>>>(
                               (const T *)o->logits, o->targets, o->partial, s->rows, s->cols,
                               s->first, limit)));
    else
        WITH_TYPE(s->type, (partial<T, false><<<blocks, PARTIAL_THREADS, 0, stream>>>(
                               (const T *)o->logits, o->targets, o->partial, s->rows, s->cols,
                               s->first, limit)));
}

/* Rows up to this size are kept in shared memory: two blocks per multiprocessor, three for shorter
 * rows. */
constexpr int64_t WHOLE_BYTES = 110 * 1024, SHORT_BYTES = 73 * 1024;

template <typename T, int BLOCKS>
static void launch_whole(cudaStream_t stream, const cross_entropy_shape *s,
                         const cross_entropy_finish_operands *o, double *weighted)
{
    const auto kernel = whole<T, BLOCKS>;
    const size_t bytes = (size_t)s->cols * sizeof(T);

    cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, (int)bytes);
    cudaFuncSetAttribute(kernel, cudaFuncAttributePreferredSharedMemoryCarveout,
                         cudaSharedmemCarveoutMaxShared);
    kernel<<<(unsigned)s->rows, THREADS, bytes, stream>>>(*o, weighted, (int)s->cols, s->first,
                                                          (int)true_columns(s), s->backward != 0,
                                                          (float)s->softcap);
}

template <typename T>
static void launch_any_whole(cudaStream_t stream, const cross_entropy_shape *s,
                             const cross_entropy_finish_operands *o, double *weighted)
{
    if (s->cols * (int64_t)sizeof(T) <= SHORT_BYTES)
        launch_whole<T, 3>(stream, s, o, weighted);
    else
        launch_whole<T, 2>(stream, s, o, weighted);
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
    const int64_t bytes = s->cols * (int64_t)type_size(s->type);
    const bool fits =
        wide && s->type != TYPE_FP32 && bytes <= WHOLE_BYTES && shared_fits((size_t)bytes);
    double *weighted = (double *)workspace;

    if (!o.partials && fits) {
        if (s->type == TYPE_BF16)
            launch_any_whole<bf16>(stream, s, &o, weighted);
        else
            launch_any_whole<fp16>(stream, s, &o, weighted);
    } else {
        if (!o.partials) {
            float *partial = (float *)(weighted + s->rows);
            const cross_entropy_partial_operands first = {o.logits, o.targets, partial};

            kernel_cross_entropy_partial(stream, s, &first);
            o.partials = partial;
        }
        WITH_TYPE(s->type, (finish<T><<<(unsigned)s->rows, THREADS, 0, stream>>>(
                               o, weighted, s->rows, s->cols, s->first, true_columns(s), s->parts,
                               s->backward != 0, (float)s->softcap, wide)));
    }
    add_loss<<<1, 1024, 0, stream>>>(weighted, s->rows, o.logged, s->pair, o.state);
}
