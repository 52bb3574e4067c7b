/* SPDX-License-Identifier: Apache-2.0 */
/* Plain kernels over elements and rows: conversion, sum, scale, softcap, clip, gather, initial
 * values. */
#include "pointwise.cuh"
#include "base/core/rng.h"

namespace
{

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
__global__ void clip(const T *x, T *y, int64_t count, float limit, bool backward, bool wide)
{
    const int64_t i = ((int64_t)blockIdx.x * THREADS + threadIdx.x) * VECTOR;
    float v[VECTOR], d[VECTOR];

    if (i >= count)
        return;
    load_vector(x + i, v, count - i, wide);
    if (backward)
        load_vector(y + i, d, count - i, wide);
#pragma unroll
    for (int k = 0; k < VECTOR; k++) {
        const bool beyond = v[k] > limit || v[k] < -limit;

        if (backward)
            v[k] = beyond ? 0.0f : d[k];
        else if (beyond)
            v[k] = v[k] > 0.0f ? limit : -limit;
    }
    store_vector(y + i, v, count - i, wide);
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

/* Numbers come in pairs. A thread computes a pair, of which one may be outside of its row. */
__global__ void normal(float *out, normal_shape s, int64_t pairs, uint64_t seed, uint32_t purpose)
{
    const int64_t i = (int64_t)blockIdx.x * THREADS + threadIdx.x, row = i / pairs;
    double pair[2];

    if (row >= s.rows)
        return;
    const int64_t first = (s.first_row + row) * s.all_cols + s.first_col;
    const int64_t element = (first / 2 + i % pairs) * 2;
    rng_normal(seed, purpose, 0, (uint64_t)element / 2, pair);
    for (int n = 0; n < 2; n++)
        if (element + n >= first && element + n < first + s.cols)
            out[row * s.cols + element + n - first] = (float)(s.deviation * pair[n]);
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

extern "C" void kernel_clip(cudaStream_t stream, const clip_shape *s, const clip_operands *o)
{
    const unsigned blocks = blocks_for(divide_up(s->count, VECTOR));

    WITH_TYPE(s->type, (clip<<<blocks, THREADS, 0, stream>>>((const T *)o->x, (T *)o->y, s->count,
                                                             (float)s->limit, s->backward != 0,
                                                             is_wide(o->x) && is_wide(o->y))));
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
    if (s->count == 0)
        return;
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
    const int64_t pairs = s->cols / 2 + 1; /* the most that a row needs */

    normal<<<blocks_for(s->rows * pairs), THREADS, 0, stream>>>(o->out, *s, pairs, o->seed,
                                                                o->purpose);
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
    case TYPE_E5M2: /* plans fill fp8 with 0 only */
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
