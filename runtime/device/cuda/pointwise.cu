/* SPDX-License-Identifier: Apache-2.0 */
/* Kernels that process each element once: activations, rotations, column sums, conversions. */
#include "common.cuh"
#include "gelu.cuh"
#include "rng.h"

namespace
{

constexpr int THREADS = 256;

unsigned blocks_for(int64_t vectors)
{
    return (unsigned)divide_up(vectors, THREADS);
}

template <typename T, activation ACTIVATION>
__global__ void activation_kernel(const T *x, T *y, int64_t count, bool wide)
{
    const int64_t i = ((int64_t)blockIdx.x * THREADS + threadIdx.x) * VECTOR;
    float v[VECTOR];

    if (i >= count)
        return;
    load_vector(x + i, v, count - i, wide);
    if (ACTIVATION == ACTIVATION_GELU_TANH)
        gelu_tanh<VECTOR>(v);
    else if (ACTIVATION == ACTIVATION_GELU_ERF)
        gelu_erf<VECTOR>(v);
    else if (ACTIVATION == ACTIVATION_SQUARED_RELU)
        squared_relu<VECTOR>(v);
    else
        tanh_forward<VECTOR>(v);
    store_vector(y + i, v, count - i, wide);
}

template <typename T, activation ACTIVATION>
__global__ void activation_backward_kernel(const T *x, const T *dy, T *y, int64_t count, bool wide)
{
    const int64_t i = ((int64_t)blockIdx.x * THREADS + threadIdx.x) * VECTOR;
    float before[VECTOR], v[VECTOR];

    if (i >= count)
        return;
    load_vector(x + i, before, count - i, wide);
    load_vector(dy + i, v, count - i, wide);
    if (ACTIVATION == ACTIVATION_GELU_TANH)
        gelu_tanh_gradient<VECTOR>(before, v);
    else if (ACTIVATION == ACTIVATION_GELU_ERF)
        gelu_erf_gradient<VECTOR>(before, v);
    else if (ACTIVATION == ACTIVATION_SQUARED_RELU)
        squared_relu_gradient<VECTOR>(before, v);
    else
        tanh_gradient<VECTOR>(before, v);
    store_vector(y + i, v, count - i, wide);
}

/* A warp owns 256 columns (eight per lane), the block's warps alternate over rows, and gridDim.y
 * blocks share the rows. */
constexpr int SUM_WARPS = 8;
constexpr int SUM_COLUMNS = WARP * VECTOR;

template <typename T, activation ACTIVATION>
__global__ void __launch_bounds__(SUM_WARPS *WARP)
    column_sums(const T *x, const T *pre, T *y, float *partial, int64_t rows, int64_t cols,
                int64_t rows_per_block, bool wide)
{
    constexpr bool DIFFERENTIATES = ACTIVATION != ACTIVATION_NONE;
    constexpr int SUM_ROWS = DIFFERENTIATES ? 2 : 4;
    __shared__ float shared[SUM_WARPS][SUM_COLUMNS];
    const int lane = threadIdx.x % WARP, warp = threadIdx.x / WARP;
    const int64_t c = (int64_t)blockIdx.x * SUM_COLUMNS + lane * VECTOR, count = cols - c;
    const int64_t first = blockIdx.y * rows_per_block;
    const int64_t last = first + rows_per_block < rows ? first + rows_per_block : rows;
    float sum[VECTOR] = {0};

    if (count > 0) {
        /* Several rows at a time, with all loads before the first store. */
        for (int64_t row = first + warp; row < last; row += SUM_WARPS * SUM_ROWS) {
            packed<T> v[SUM_ROWS], p[SUM_ROWS];

#pragma unroll
            for (int r = 0; r < SUM_ROWS; r++) {
                const int64_t at = (row + r * SUM_WARPS) * cols + c;
                const bool valid = row + r * SUM_WARPS < last;

                v[r] = load_packed(x + at, valid ? count : 0, wide);
                if (DIFFERENTIATES)
                    p[r] = load_packed(pre + at, valid ? count : 0, wide);
            }
#pragma unroll
            for (int r = 0; r < SUM_ROWS; r++) {
                float now[VECTOR];

                if (DIFFERENTIATES) {
                    const int64_t at = (row + r * SUM_WARPS) * cols + c;
                    const bool valid = row + r * SUM_WARPS < last;
                    float before[VECTOR];

                    unpack(v[r], now);
                    unpack(p[r], before);
                    if (ACTIVATION == ACTIVATION_GELU_TANH)
                        gelu_tanh_gradient<VECTOR>(before, now);
                    else if (ACTIVATION == ACTIVATION_GELU_ERF)
                        gelu_erf_gradient<VECTOR>(before, now);
                    else
                        squared_relu_gradient<VECTOR>(before, now);
                    v[r] = pack<T>(now);
                    store_packed(y + at, v[r], valid ? count : 0, wide);
                }
                unpack(v[r], now); /* rounded: the sums are over the stored values */
#pragma unroll
                for (int k = 0; k < VECTOR; k++)
                    sum[k] += now[k];
            }
        }
    }
#pragma unroll
    for (int k = 0; k < VECTOR; k++)
        shared[warp][lane * VECTOR + k] = sum[k];
    __syncthreads();
    const int64_t column = (int64_t)blockIdx.x * SUM_COLUMNS + threadIdx.x;
    if (column < cols && partial) {
        float total = 0;

#pragma unroll
        for (int w = 0; w < SUM_WARPS; w++)
            total += shared[w][threadIdx.x];
        partial[blockIdx.y * cols + column] = total;
    }
}

/* A block processes 32 columns with SHARE_WARPS warps that alternate over the partial sums;
 * blockIdx.y: which sum. */
constexpr int SHARE_WARPS = 32;

__global__ void add_shares(const float *partial, totals t, int blocks, int64_t cols, int accumulate)
{
    __shared__ float shared[SHARE_WARPS][WARP + 1];
    const int64_t c = (int64_t)blockIdx.x * WARP + threadIdx.x;
    float *out = blockIdx.y == 0 ? t.out[0] : blockIdx.y == 1 ? t.out[1] : t.out[2];
    float total = 0;

    if (!out)
        return;
    if (c < cols) {
#pragma unroll 4
        for (int b = threadIdx.y; b < blocks; b += SHARE_WARPS)
            total += partial[((int64_t)b * gridDim.y + blockIdx.y) * cols + c];
    }
    shared[threadIdx.y][threadIdx.x] = total;
    __syncthreads();
    if (threadIdx.y == 0 && c < cols) {
        total = 0;
        for (int i = 0; i < SHARE_WARPS; i++)
            total += shared[i][threadIdx.x];
        out[c] = accumulate ? out[c] + total : total;
    }
}

int sum_blocks(int64_t rows, int64_t cols, int processors)
{
    const int64_t tiles = divide_up(cols, SUM_COLUMNS);
    const int64_t wanted = divide_up((int64_t)processors * 8, tiles);

    return (int)smaller(wanted, divide_up(rows, SUM_WARPS));
}

template <typename T>
__global__ void add_to_fp32(const T *x, float *out, int64_t count, int accumulate)
{
    const int64_t i = (int64_t)blockIdx.x * THREADS + threadIdx.x;

    if (i < count)
        out[i] = accumulate ? out[i] + to_float(x[i]) : to_float(x[i]);
}

/* Row kernels: one block per row. Threads iterate over its columns, two vectors at a time if there
 * are enough, with all loads before the first store. */
constexpr int ROW_THREADS = 256;

/* A thread rotates eight pairs, channels c.. and c + half.., of every 'step'th head of one row:
 * sine and cosine are loaded once. They are loaded last, because they depend on the position: by
 * then the loads of the first heads are in flight. */
template <typename T, bool WIDE>
__global__ void __launch_bounds__(ROW_THREADS, WIDE && sizeof(T) == 2 ? 4 : 2)
    rope(rope_operands o, int heads, int step, int head_size, int half, int64_t row_stride,
         float sign)
{
    constexpr int TOGETHER = 2;
    const int lanes = (int)blockDim.x / step, c0 = (int)blockIdx.y * lanes;
    const int c = (c0 + (int)threadIdx.x % lanes) * VECTOR, count = half - c;
    const int64_t row = blockIdx.x;
    T *const x = (T *)o.x + row * row_stride + c;
    float cosine[VECTOR], sine[VECTOR];
    packed<T> a[TOGETHER], b[TOGETHER];
    int head = (int)threadIdx.x / lanes;

    auto fetch = [&]() {
#pragma unroll
        for (int i = 0; i < TOGETHER; i++) {
            const T *p = x + (head + i * step) * head_size;
            const int left = head + i * step < heads ? count : 0;

            a[i] = load_part<WIDE>(p, left);
            b[i] = load_part<WIDE>(p + half, left);
        }
    };

    if (count <= 0)
        return;
    const int64_t at = (int64_t)o.positions[row] * half + c;
    fetch();
    unpack(load_part<WIDE>(o.cosine + at, count), cosine);
    unpack(load_part<WIDE>(o.sine + at, count), sine);
#pragma unroll
    for (int k = 0; k < VECTOR; k++)
        sine[k] *= sign;
    for (;;) {
#pragma unroll
        for (int i = 0; i < TOGETHER; i++) {
            T *p = x + (head + i * step) * head_size;
            const int left = head + i * step < heads ? count : 0;
            float u[VECTOR], v[VECTOR];

            unpack(a[i], u);
            unpack(b[i], v);
#pragma unroll
            for (int k = 0; k < VECTOR; k++) {
                const float turned = u[k] * cosine[k] - v[k] * sine[k];

                v[k] = v[k] * cosine[k] + u[k] * sine[k];
                u[k] = turned;
            }
            store_part<WIDE>(p, pack<T>(u), left);
            store_part<WIDE>(p + half, pack<T>(v), left);
        }
        head += TOGETHER * step;
        if (head >= heads)
            break;
        fetch();
    }
}

__device__ inline float sigmoid(float x)
{
    return __fdividef(1.0f, 1.0f + __expf(-x));
}

/* f of a gate, see operation.h, and its derivative; both for VECTOR numbers. */
template <gate GATE> struct gate_function {
    /* up *= f(x) */
    static __device__ inline void apply(const float *x, float *up)
    {
        float f[VECTOR];

#pragma unroll
        for (int k = 0; k < VECTOR; k++)
            f[k] = x[k];
        if (GATE == GATE_GELU_TANH)
            gelu_tanh<VECTOR>(f);
        else
#pragma unroll
            for (int k = 0; k < VECTOR; k++)
                f[k] *= sigmoid(GATE == GATE_SILU ? x[k] : 1.702f * x[k]);
#pragma unroll
        for (int k = 0; k < VECTOR; k++)
            up[k] *= f[k];
    }

    /* x and up become their gradients. */
    static __device__ inline void differentiate(float *x, float *up, const float *d)
    {
        float slope[VECTOR], dup[VECTOR];

#pragma unroll
        for (int k = 0; k < VECTOR; k++) {
            slope[k] = d[k] * up[k];
            dup[k] = d[k];
        }
        if (GATE == GATE_GELU_TANH) {
            gelu_tanh_gradient<VECTOR>(x, slope);
        } else {
            constexpr float BY = GATE == GATE_SILU ? 1.0f : 1.702f;

#pragma unroll
            for (int k = 0; k < VECTOR; k++) {
                const float open = sigmoid(BY * x[k]);

                slope[k] *= open + BY * x[k] * open * (1.0f - open);
            }
        }
        apply(x, dup);
#pragma unroll
        for (int k = 0; k < VECTOR; k++) {
            x[k] = slope[k];
            up[k] = dup[k];
        }
    }
};

template <typename T, gate GATE>
__global__ void __launch_bounds__(ROW_THREADS) swiglu(const T *x, T *y, int64_t cols, bool wide)
{
    constexpr int TOGETHER = 2;
    const int64_t walk = (int64_t)blockDim.x * VECTOR;

    x += 2 * cols * blockIdx.x;
    y += cols * blockIdx.x;
    for (int64_t c = (int64_t)threadIdx.x * VECTOR; c < cols; c += TOGETHER * walk) {
        packed<T> gates[TOGETHER], ups[TOGETHER];

#pragma unroll
        for (int i = 0; i < TOGETHER; i++) {
            gates[i] = load_packed(x + c + i * walk, cols - c - i * walk, wide);
            ups[i] = load_packed(x + cols + c + i * walk, cols - c - i * walk, wide);
        }
#pragma unroll
        for (int i = 0; i < TOGETHER; i++) {
            float gate[VECTOR], up[VECTOR];

            unpack(gates[i], gate);
            unpack(ups[i], up);
            gate_function<GATE>::apply(gate, up);
            store_vector(y + c + i * walk, up, cols - c - i * walk, wide);
        }
    }
}

template <typename T, gate GATE>
__global__ void __launch_bounds__(ROW_THREADS)
    swiglu_backward(const T *dy, const T *x, T *dx, int64_t cols, bool wide)
{
    dy += cols * blockIdx.x;
    x += 2 * cols * blockIdx.x;
    dx += 2 * cols * blockIdx.x;
    for (int64_t c = (int64_t)threadIdx.x * VECTOR; c < cols; c += (int64_t)blockDim.x * VECTOR) {
        const int64_t count = cols - c;
        float gate[VECTOR], up[VECTOR], d[VECTOR];

        load_vector(x + c, gate, count, wide);
        load_vector(x + cols + c, up, count, wide);
        load_vector(dy + c, d, count, wide);
        gate_function<GATE>::differentiate(gate, up, d);
        store_vector(dx + c, gate, count, wide);
        store_vector(dx + cols + c, up, count, wide);
    }
}

template <typename From, typename To>
__global__ void convert(const From *from, To *to, int64_t count)
{
    const int64_t i = (int64_t)blockIdx.x * THREADS + threadIdx.x;

    if (i < count)
        to[i] = from_float<To>(to_float(from[i]));
}

/* 'to' is the memory of 'from' and not wider: a single block moves upwards, reading ahead of its
 * writes. */
template <typename From, typename To>
__global__ void convert_in_place(const From *from, To *to, int64_t count)
{
    for (int64_t base = 0; base < count; base += blockDim.x) {
        const int64_t i = base + threadIdx.x;
        const float v = i < count ? to_float(from[i]) : 0.0f;

        __syncthreads();
        if (i < count)
            to[i] = from_float<To>(v);
        __syncthreads();
    }
}

template <typename From, typename To>
__global__ void convert_wide(const From *from, To *to, int64_t count)
{
    const int64_t i = ((int64_t)blockIdx.x * THREADS + threadIdx.x) * VECTOR;
    float v[VECTOR];

    if (i < count) {
        load_vector(from + i, v, count - i, true);
        store_vector(to + i, v, count - i, true);
    }
}

template <typename T> __global__ void add(const T *x, T *y, int64_t count, bool wide)
{
    const int64_t i = ((int64_t)blockIdx.x * THREADS + threadIdx.x) * VECTOR;
    float a[VECTOR], b[VECTOR];

    if (i >= count)
        return;
    load_vector(x + i, a, count - i, wide);
    load_vector(y + i, b, count - i, wide);
#pragma unroll
    for (int k = 0; k < VECTOR; k++)
        b[k] += a[k];
    store_vector(y + i, b, count - i, wide);
}

template <typename T> __global__ void scale(T *x, int64_t count, float factor, bool wide)
{
    const int64_t i = ((int64_t)blockIdx.x * THREADS + threadIdx.x) * VECTOR;
    float v[VECTOR];

    if (i >= count)
        return;
    load_vector(x + i, v, count - i, wide);
#pragma unroll
    for (int k = 0; k < VECTOR; k++)
        v[k] *= factor;
    store_vector(x + i, v, count - i, wide);
}

template <typename T> __global__ void softcap(T *x, int64_t count, float cap, bool wide)
{
    const int64_t i = ((int64_t)blockIdx.x * THREADS + threadIdx.x) * VECTOR;
    float v[VECTOR];

    if (i >= count)
        return;
    load_vector(x + i, v, count - i, wide);
#pragma unroll
    for (int k = 0; k < VECTOR; k++)
        v[k] = cap * tanhf(v[k] / cap);
    store_vector(x + i, v, count - i, wide);
}

template <typename T>
__global__ void gather_rows(const T *x, const int32_t *index, T *out, int64_t cols,
                            int64_t x_stride, int64_t out_stride, bool scatter, bool wide)
{
    const int64_t row = blockIdx.x, other = index[row];
    const int64_t from = scatter ? row : other, to = scatter ? other : row;

    if (to < 0)
        return;
    x += (from < 0 ? 0 : from) * x_stride;
    out += to * out_stride;
    for (int64_t c = (int64_t)threadIdx.x * VECTOR; c < cols; c += (int64_t)blockDim.x * VECTOR)
        store_packed(out + c, load_packed(x + c, from < 0 ? 0 : cols - c, wide), cols - c, wide);
}

__global__ void normal(float *out, normal_shape s, uint64_t seed, uint32_t purpose)
{
    const int64_t i = (int64_t)blockIdx.x * THREADS + threadIdx.x;
    double pair[2];

    if (i >= s.rows * s.cols)
        return;
    const uint64_t element =
        (uint64_t)((s.first_row + i / s.cols) * s.all_cols + s.first_col + i % s.cols);
    rng_normal(seed, purpose, 0, element / 2, pair);
    out[i] = (float)(s.deviation * pair[element % 2]);
}

template <typename T> __global__ void fill(T *out, T value, int64_t count)
{
    const int64_t i = (int64_t)blockIdx.x * THREADS + threadIdx.x;

    if (i < count)
        out[i] = value;
}

template <typename T> __global__ void noise(T *out, int64_t count)
{
    const int64_t i = ((int64_t)blockIdx.x * THREADS + threadIdx.x) * VECTOR;

    if (i >= count)
        return;
    const rng_block block = rng_philox(1, (uint64_t)i / 8, RNG_TEST, 0);
    for (int k = 0; k < VECTOR && i + k < count; k++)
        out[i + k] = from_float<T>(
            (float)((int)rng_dropout_lane(block, (uint64_t)(i + k)) - 32768) * (1.0f / 32768));
}

} // namespace

extern "C" void kernel_activation(cudaStream_t stream, enum activation activation,
                                  enum device_type type, int64_t count, const void *x, void *y)
{
    const unsigned blocks = blocks_for(divide_up(count, VECTOR));
    const bool wide = is_wide(x) && is_wide(y);

#define ACTIVATE(kind)                          \
    WITH_TYPE(type, (activation_kernel<T, kind> \
                     <<<blocks, THREADS, 0, stream>>>((const T *)x, (T *)y, count, wide)))
    if (activation == ACTIVATION_GELU_TANH)
        ACTIVATE(ACTIVATION_GELU_TANH);
    else if (activation == ACTIVATION_GELU_ERF)
        ACTIVATE(ACTIVATION_GELU_ERF);
    else if (activation == ACTIVATION_SQUARED_RELU)
        ACTIVATE(ACTIVATION_SQUARED_RELU);
    else
        ACTIVATE(ACTIVATION_TANH);
#undef ACTIVATE
}

extern "C" void kernel_activation_backward(cudaStream_t stream, enum activation activation,
                                           enum device_type type, int64_t count, const void *x,
                                           const void *dy, void *y)
{
    const unsigned blocks = blocks_for(divide_up(count, VECTOR));
    const bool wide = is_wide(x) && is_wide(dy) && is_wide(y);

#define DIFFERENTIATE(kind)                                                               \
    WITH_TYPE(type, (activation_backward_kernel<T, kind><<<blocks, THREADS, 0, stream>>>( \
                        (const T *)x, (const T *)dy, (T *)y, count, wide)))
    if (activation == ACTIVATION_GELU_TANH)
        DIFFERENTIATE(ACTIVATION_GELU_TANH);
    else if (activation == ACTIVATION_GELU_ERF)
        DIFFERENTIATE(ACTIVATION_GELU_ERF);
    else if (activation == ACTIVATION_SQUARED_RELU)
        DIFFERENTIATE(ACTIVATION_SQUARED_RELU);
    else
        DIFFERENTIATE(ACTIVATION_TANH);
#undef DIFFERENTIATE
}

extern "C" size_t kernel_column_sums_workspace(int64_t rows, int64_t cols, int processors)
{
    return (size_t)sum_blocks(rows, cols, processors) * (size_t)cols * sizeof(float);
}

extern "C" void kernel_column_sums(cudaStream_t stream, enum activation activation,
                                   enum device_type type, int64_t rows, int64_t cols, const void *x,
                                   const void *pre, void *y, float *out, int accumulate,
                                   float *workspace, int processors)
{
    const int blocks = sum_blocks(rows, cols, processors);
    const dim3 grid((unsigned)divide_up(cols, SUM_COLUMNS), (unsigned)blocks);
    const int64_t rows_per_block = divide_up(rows, blocks);
    const bool wide = cols % VECTOR == 0 && is_wide(x) && is_wide(pre) && is_wide(y);
    float *partial = out ? workspace : NULL;

#define SUMS(kind)                                                                                 \
    WITH_TYPE(type, (column_sums<T, kind><<<grid, SUM_WARPS * WARP, 0, stream>>>(                  \
                        (const T *)x, (const T *)pre, (T *)y, partial, rows, cols, rows_per_block, \
                        wide)))
    if (activation == ACTIVATION_GELU_TANH)
        SUMS(ACTIVATION_GELU_TANH);
    else if (activation == ACTIVATION_GELU_ERF)
        SUMS(ACTIVATION_GELU_ERF);
    else if (activation == ACTIVATION_SQUARED_RELU)
        SUMS(ACTIVATION_SQUARED_RELU);
    else
        SUMS(ACTIVATION_NONE);
#undef SUMS
    if (out)
        kernel_add_shares(stream, workspace, {{out, NULL, NULL}}, 1, blocks, cols, accumulate);
}

extern "C" void kernel_add_shares(cudaStream_t stream, const float *partial, totals t, int sums,
                                  int blocks, int64_t cols, int accumulate)
{
    add_shares<<<dim3((unsigned)divide_up(cols, WARP), (unsigned)sums), dim3(WARP, SHARE_WARPS), 0,
                 stream>>>(partial, t, blocks, cols, accumulate);
}

extern "C" void kernel_add_to_fp32(cudaStream_t stream, enum device_type type, int64_t count,
                                   const void *x, float *out, int accumulate)
{
    WITH_TYPE(type, (add_to_fp32<<<blocks_for(count), THREADS, 0, stream>>>((const T *)x, out,
                                                                            count, accumulate)));
}

/* The number of threads for a row of 'cols' elements. */
static unsigned row_threads(int64_t cols)
{
    return (unsigned)smaller(divide_up(divide_up(cols, VECTOR), WARP) * WARP, ROW_THREADS);
}

extern "C" void kernel_rope(cudaStream_t stream, const rope_shape *s, const rope_operands *o)
{
    const int64_t half = s->rotary / 2, vectors = divide_up(half, VECTOR);
    const int64_t lanes = smaller(vectors, ROW_THREADS);
    /* As many heads at a time as fit into the iterations that are needed anyway. */
    const int64_t rounds = divide_up(s->heads * lanes, ROW_THREADS);
    const int step = rounds ? (int)smaller(divide_up(s->heads, rounds), ROW_THREADS / lanes) : 0;
    const dim3 grid((unsigned)s->rows, (unsigned)(lanes ? divide_up(vectors, lanes) : 0));
    const bool wide = is_wide(o->x) && is_wide(o->cosine) && is_wide(o->sine) &&
                      half % VECTOR == 0 && s->head_size % VECTOR == 0 &&
                      s->row_stride % VECTOR == 0;
    const unsigned threads = (unsigned)(step * lanes);
    const float sign = s->backward ? -1.0f : 1.0f;

    if (step == 0)
        return; /* nothing to rotate */
    if (wide)
        WITH_TYPE(s->type,
                  (rope<T, true><<<grid, threads, 0, stream>>>(
                      *o, (int)s->heads, step, (int)s->head_size, (int)half, s->row_stride, sign)));
    else
        WITH_TYPE(s->type,
                  (rope<T, false><<<grid, threads, 0, stream>>>(
                      *o, (int)s->heads, step, (int)s->head_size, (int)half, s->row_stride, sign)));
}

extern "C" void kernel_swiglu(cudaStream_t stream, const swiglu_shape *s, const swiglu_operands *o)
{
    const bool wide = s->cols % VECTOR == 0 && is_wide(o->x) && is_wide(o->y);

#define GATED(kind)                                                                              \
    WITH_TYPE(s->type, (swiglu<T, kind><<<(unsigned)s->rows, row_threads(s->cols), 0, stream>>>( \
                           (const T *)o->x, (T *)o->y, s->cols, wide)))
    if (s->gate == GATE_SILU)
        GATED(GATE_SILU);
    else if (s->gate == GATE_GELU_TANH)
        GATED(GATE_GELU_TANH);
    else
        GATED(GATE_QUICK_GELU);
#undef GATED
}

extern "C" void kernel_swiglu_backward(cudaStream_t stream, const swiglu_shape *s,
                                       const swiglu_backward_operands *o)
{
    const bool wide = s->cols % VECTOR == 0 && is_wide(o->x) && is_wide(o->dx) && is_wide(o->dy);

#define GATED(kind)                                                                              \
    WITH_TYPE(s->type,                                                                           \
              (swiglu_backward<T, kind><<<(unsigned)s->rows, row_threads(s->cols), 0, stream>>>( \
                  (const T *)o->dy, (const T *)o->x, (T *)o->dx, s->cols, wide)))
    if (s->gate == GATE_SILU)
        GATED(GATE_SILU);
    else if (s->gate == GATE_GELU_TANH)
        GATED(GATE_GELU_TANH);
    else
        GATED(GATE_QUICK_GELU);
#undef GATED
}

extern "C" void kernel_scale(cudaStream_t stream, const scale_shape *s, const scale_operands *o)
{
    const unsigned blocks = blocks_for(divide_up(s->count, VECTOR));

    WITH_TYPE(s->type, (scale<<<blocks, THREADS, 0, stream>>>((T *)o->x, s->count, (float)s->factor,
                                                              is_wide(o->x))));
}

extern "C" void kernel_softcap(cudaStream_t stream, const softcap_shape *s,
                               const softcap_operands *o)
{
    const unsigned blocks = blocks_for(divide_up(s->count, VECTOR));

    WITH_TYPE(s->type, (softcap<<<blocks, THREADS, 0, stream>>>((T *)o->x, s->count, (float)s->cap,
                                                                is_wide(o->x))));
}

template <typename From>
static void convert_from(cudaStream_t stream, const convert_shape *s, const convert_operands *o)
{
    const bool wide = is_wide(o->from) && is_wide(o->to);
    const unsigned blocks = blocks_for(wide ? divide_up(s->count, VECTOR) : s->count);

    if (o->from == o->to)
        WITH_TYPE(s->to, (convert_in_place<<<1, 1024, 0, stream>>>((const From *)o->from,
                                                                   (T *)o->to, s->count)));
    else if (wide)
        WITH_TYPE(s->to, (convert_wide<<<blocks, THREADS, 0, stream>>>((const From *)o->from,
                                                                       (T *)o->to, s->count)));
    else
        WITH_TYPE(s->to, (convert<<<blocks, THREADS, 0, stream>>>((const From *)o->from, (T *)o->to,
                                                                  s->count)));
}

extern "C" void kernel_convert(cudaStream_t stream, const convert_shape *s,
                               const convert_operands *o)
{
    WITH_TYPE(s->from, (convert_from<T>(stream, s, o)));
}

extern "C" void kernel_add(cudaStream_t stream, const add_shape *s, const add_operands *o)
{
    const unsigned blocks = blocks_for(divide_up(s->count, VECTOR));

    WITH_TYPE(s->type, (add<<<blocks, THREADS, 0, stream>>>((const T *)o->x, (T *)o->y, s->count,
                                                            is_wide(o->x) && is_wide(o->y))));
}

extern "C" void kernel_gather_rows(cudaStream_t stream, const gather_rows_shape *s,
                                   const gather_rows_operands *o)
{
    const int64_t x_stride = s->x_stride ? s->x_stride : s->cols;
    const int64_t out_stride = s->out_stride ? s->out_stride : s->cols;
    const bool wide = s->cols % VECTOR == 0 && x_stride % VECTOR == 0 && out_stride % VECTOR == 0 &&
                      is_wide(o->x) && is_wide(o->out);

    WITH_TYPE(s->type, (gather_rows<<<(unsigned)s->rows, row_threads(s->cols), 0, stream>>>(
                           (const T *)o->x, o->index, (T *)o->out, s->cols, x_stride, out_stride,
                           s->scatter != 0, wide)));
}

extern "C" void kernel_normal(cudaStream_t stream, const normal_shape *s, const normal_operands *o)
{
    normal<<<blocks_for(s->rows * s->cols), THREADS, 0, stream>>>(o->out, *s, o->seed, o->purpose);
}

extern "C" void kernel_fill(cudaStream_t stream, const fill_shape *s, const fill_operands *o)
{
    const unsigned blocks = blocks_for(s->count);

    switch (s->type) {
    case TYPE_BF16:
        fill<<<blocks, THREADS, 0, stream>>>((bf16 *)o->out, __float2bfloat16((float)s->value),
                                             s->count);
        break;
    case TYPE_FP16:
        fill<<<blocks, THREADS, 0, stream>>>((fp16 *)o->out, __float2half((float)s->value),
                                             s->count);
        break;
    case TYPE_FP32:
        fill<<<blocks, THREADS, 0, stream>>>((float *)o->out, (float)s->value, s->count);
        break;
    case TYPE_E4M3:
    case TYPE_E5M2: /* plans do not have other values */
        cudaMemsetAsync(o->out, 0, (size_t)s->count, stream);
        break;
    case TYPE_FP64:
        fill<<<blocks, THREADS, 0, stream>>>((double *)o->out, s->value, s->count);
        break;
    case TYPE_INT32:
        fill<<<blocks, THREADS, 0, stream>>>((int32_t *)o->out, (int32_t)s->value, s->count);
        break;
    case TYPE_INT64:
        fill<<<blocks, THREADS, 0, stream>>>((int64_t *)o->out, (int64_t)s->value, s->count);
        break;
    }
}

extern "C" cudaError_t kernel_check(void)
{
    cudaFuncAttributes attributes;

    return cudaFuncGetAttributes(&attributes, fill<float>);
}

extern "C" void kernel_noise(cudaStream_t stream, enum device_type type, int64_t count, void *out)
{
    const unsigned blocks = blocks_for(divide_up(count, VECTOR));

    WITH_TYPE(type, (noise<<<blocks, THREADS, 0, stream>>>((T *)out, count)));
}
