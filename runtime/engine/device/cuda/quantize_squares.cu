/* SPDX-License-Identifier: Apache-2.0 */
/* Parts of weights with blockwise scales, from fp32 master weights: OPERATION_QUANTIZE_SQUARES. A
 * warp has the 128 elements of a row that are in the same square, four each thread. */
#include "fp8.cuh"

namespace
{

constexpr int THREADS = 256, WARPS = THREADS / WARP, FLOATS = SCALING_BLOCK / WARP;

/* The first element of the warp in its part; the thread's own follow from its lane. */
__device__ inline int64_t first_of_warp()
{
    return ((int64_t)blockIdx.x * WARPS + threadIdx.x / WARP) * SCALING_BLOCK;
}

__global__ void __launch_bounds__(THREADS)
    find_squares(const quantize_squares_shape s, const quantize_squares_operands o)
{
    const int64_t first = first_of_warp();

    if (first >= s.count)
        return;
    const float4 x = *(const float4 *)(o.x + first + threadIdx.x % WARP * FLOATS);
    const uint32_t own =
        max(max(magnitude(x.x), magnitude(x.y)), max(magnitude(x.z), magnitude(x.w)));
    const uint32_t largest = __reduce_max_sync(0xffffffffu, own);

    if (threadIdx.x % WARP == 0) {
        raise_amax(o.squares + scaling_square(s.cols, s.first + first), largest);
        raise_amax(o.amax, largest);
    }
}

__global__ void __launch_bounds__(THREADS)
    cast_squares(const quantize_squares_shape s, const quantize_squares_operands o)
{
    const int64_t first = first_of_warp(), at = first + threadIdx.x % WARP * FLOATS;

    if (first >= s.count || !HAS_FP8)
        return;
    const float scale =
        scaling_block_factor(o.squares[scaling_square(s.cols, s.first + first)], SCALING_E4M3_MAX);
    const float4 x = *(const float4 *)(o.x + at);
    const uint32_t low =
        __nv_cvt_float2_to_fp8x2(make_float2(x.x * scale, x.y * scale), __NV_SATFINITE, __NV_E4M3);
    const uint32_t high =
        __nv_cvt_float2_to_fp8x2(make_float2(x.z * scale, x.w * scale), __NV_SATFINITE, __NV_E4M3);

    *(uint32_t *)(o.out + at) = low | high << 16;
}

__global__ void __launch_bounds__(THREADS)
    invert_squares(const quantize_squares_shape s, const quantize_squares_operands o)
{
    const int64_t i = (int64_t)blockIdx.x * THREADS + threadIdx.x, across = s.cols / SCALING_BLOCK;
    const int64_t row = i / across * SCALING_BLOCK, col = i % across * SCALING_BLOCK;

    if (row >= s.rows)
        return;
    const float scale = scaling_block_factor(o.squares[i], SCALING_E4M3_MAX);

    scaling_put_square(o.inverse, s.rows, s.cols, row, col, scale);
    scaling_put_square(o.columns_inverse, s.cols, s.rows, col, row, scale);
}

} // namespace

extern "C" void kernel_quantize_squares(cudaStream_t stream, const quantize_squares_shape *s,
                                        const quantize_squares_operands *o)
{
    const unsigned blocks = (unsigned)divide_up(s->count, WARPS * SCALING_BLOCK);
    const int64_t squares = s->rows / SCALING_BLOCK * (s->cols / SCALING_BLOCK);

    if (o->part == SQUARES_AMAX)
        find_squares<<<blocks, THREADS, 0, stream>>>(*s, *o);
    else if (o->part == SQUARES_CAST)
        cast_squares<<<blocks, THREADS, 0, stream>>>(*s, *o);
    else
        invert_squares<<<(unsigned)divide_up(squares, THREADS), THREADS, 0, stream>>>(*s, *o);
}
