/* SPDX-License-Identifier: Apache-2.0 */
/* OPERATION_QUANTIZE: fp8 operands of matrix products, cast where their values are computed: a
 * given matrix, GELU or SwiGLU, or their gradients, each written row-major, transposed, or both.
 * Tensor cores take 8-bit operands only with the summed dimension contiguous, so the backward pass
 * needs both layouts.
 *
 * A block walks down TILES tiles of ROWS x COLS elements. */
#include "quantize.cuh"

namespace
{

constexpr int THREADS = 256, COLS = 64, TILES = 4, QUANTIZE_PARTS = 256;

struct outputs {
    uint8_t *rows, *columns;
    const float *scale;
    float *amax;
    float *sums; /* (blocks, cols) partial column sums, or NULL */
    int64_t row_count, col_count;
    const uint32_t *largest; /* QUANTIZE_PARTS, for a scale of 0; or NULL */
    int margin;
    float *inverse;
};

/* The largest of the block goes to 'amax'. */
__device__ inline void reduce_amax(float largest, float *amax)
{
    __shared__ uint32_t of_warp[THREADS / WARP];
    uint32_t bits = __reduce_max_sync(0xffffffffu, __float_as_uint(largest));

    if (threadIdx.x % WARP == 0)
        of_warp[threadIdx.x / WARP] = bits;
    __syncthreads();
    if (threadIdx.x == 0) {
#pragma unroll
        for (int w = 1; w < THREADS / WARP; w++)
            bits = max(bits, of_warp[w]);
        raise_amax(amax, bits);
    }
}

template <int PARTS>
__device__ void reduce_sums(float sum[PARTS][VECTOR], const outputs &o, int64_t col, int64_t cols)
{
    __shared__ float of_warp[THREADS / WARP][COLS];
    const int lane = threadIdx.x % WARP, warp = threadIdx.x / WARP, eight = threadIdx.x % 8;
    const int64_t line = blockIdx.y * PARTS * cols;

#pragma unroll
    for (int p = 0; p < PARTS; p++) {
#pragma unroll
        for (int k = 0; k < VECTOR; k++) {
            float s = sum[p][k];

            s += __shfl_xor_sync(0xffffffffu, s, 8);
            s += __shfl_xor_sync(0xffffffffu, s, 16);
            if (lane < 8)
                of_warp[warp][eight * VECTOR + k] = s;
        }
        __syncthreads();
        if (threadIdx.x < COLS && col + threadIdx.x < cols) {
            float total = 0;

#pragma unroll
            for (int w = 0; w < THREADS / WARP; w++)
                total += of_warp[w][threadIdx.x];
            o.sums[line + p * cols + col + threadIdx.x] = total;
        }
        __syncthreads();
    }
}

/* The largest of 'bits' over the block, for all its threads. */
__device__ inline uint32_t block_max(uint32_t bits)
{
    __shared__ uint32_t of_warp[THREADS / WARP];

    bits = __reduce_max_sync(0xffffffffu, bits);
    if (threadIdx.x % WARP == 0)
        of_warp[threadIdx.x / WARP] = bits;
    __syncthreads();
#pragma unroll
    for (int w = 0; w < THREADS / WARP; w++)
        bits = max(bits, of_warp[w]);
    return bits;
}

/* The scale that was given, or that of the matrix itself. One thread of the grid writes its
 * inverse. */
template <__nv_fp8_interpretation_t KIND> __device__ inline float scale_of(const outputs &o)
{
    float scale = *o.scale;

    static_assert(QUANTIZE_PARTS == THREADS, "one part for each thread");
    if (scale == 0 && o.largest) {
        const uint32_t bits = block_max(o.largest[threadIdx.x]);

        scale =
            scaling_factor(__uint_as_float(bits),
                           KIND == __NV_E4M3 ? SCALING_E4M3_MAX : SCALING_E5M2_MAX, o.margin, 1.0f);
    }
    if (o.inverse && blockIdx.x == 0 && blockIdx.y == 0 && threadIdx.x == 0)
        *o.inverse = 1.0f / scale;
    return scale;
}

template <typename SOURCE, __nv_fp8_interpretation_t KIND, bool SUMS>
__global__ void __launch_bounds__(THREADS) quantize(const SOURCE source, const outputs o)
{
    constexpr int PARTS = SOURCE::PARTS;
    __shared__ tile<COLS> tiles[PARTS];
    const int eight = threadIdx.x % 8, group = threadIdx.x / 8;
    const int64_t first_col = (int64_t)blockIdx.x * COLS, col = first_col + eight * VECTOR;
    const int64_t cols = o.col_count / PARTS;
    const float scale = HAS_FP8 ? scale_of<KIND>(o) : 0;
    float sum[PARTS][VECTOR] = {};
    uint32_t largest = 0;

    for (int i = 0; i < TILES && HAS_FP8; i++) {
        const int64_t first_row = ((int64_t)blockIdx.y * TILES + i) * ROWS;
        const int64_t row = first_row + group * THREAD_ROWS;
        const bool inside = row < o.row_count && col < cols;
        typename SOURCE::raw raw[THREAD_ROWS];
        uint2 bytes[PARTS][THREAD_ROWS];

        if (first_row >= o.row_count)
            break;
        if (inside)
#pragma unroll
            for (int r = 0; r < THREAD_ROWS; r++)
                source.load(raw[r], row + r, col);
        if (inside)
#pragma unroll
            for (int r = 0; r < THREAD_ROWS; r++) {
                float v[PARTS][VECTOR];

                source.compute(raw[r], v);
#pragma unroll
                for (int p = 0; p < PARTS; p++) {
#pragma unroll
                    for (int k = 0; k < VECTOR; k++) {
                        largest = max(largest, magnitude(v[p][k]));
                        if (SUMS)
                            sum[p][k] += v[p][k];
                    }
                    bytes[p][r] = to_fp8<KIND>(v[p], scale);
                    if (o.rows)
                        *reinterpret_cast<uint2 *>(o.rows + (row + r) * o.col_count + p * cols +
                                                   col) = bytes[p][r];
                }
            }
        if (!o.columns)
            continue;
        if (inside)
#pragma unroll
            for (int p = 0; p < PARTS; p++)
                tiles[p].put(eight, group, bytes[p]);
        __syncthreads();
#pragma unroll
        for (int p = 0; p < PARTS; p++)
            store_columns<COLS, THREADS>(o.columns, tiles[p], first_row, o.row_count, first_col,
                                         cols, p * cols + first_col);
        __syncthreads();
    }
    if (SUMS)
        reduce_sums<PARTS>(sum, o, first_col, cols);
    if (o.amax)
        reduce_amax(__uint_as_float(largest), o.amax);
}

/* Bytes alone: the same tile without arithmetic. */
__global__ void __launch_bounds__(THREADS) transpose(const uint8_t *x, const outputs o)
{
    __shared__ tile<COLS> t;
    const int eight = threadIdx.x % 8, group = threadIdx.x / 8;
    const int64_t first_col = (int64_t)blockIdx.x * COLS, col = first_col + eight * VECTOR;

    for (int i = 0; i < TILES; i++) {
        const int64_t first_row = ((int64_t)blockIdx.y * TILES + i) * ROWS;
        const int64_t row = first_row + group * THREAD_ROWS;
        uint2 bytes[THREAD_ROWS];

        if (first_row >= o.row_count)
            break;
        if (row < o.row_count && col < o.col_count) {
#pragma unroll
            for (int r = 0; r < THREAD_ROWS; r++)
                bytes[r] = *reinterpret_cast<const uint2 *>(x + (row + r) * o.col_count + col);
            t.put(eight, group, bytes);
        }
        __syncthreads();
        store_columns<COLS, THREADS>(o.columns, t, first_row, o.row_count, first_col, o.col_count,
                                     first_col);
        __syncthreads();
    }
}

/* Each block leaves the largest magnitude of its share, if there is no scale yet. */
template <typename SOURCE>
__global__ void __launch_bounds__(THREADS)
    find_largest(const SOURCE source, int64_t rows, int64_t cols, const float *scale,
                 uint32_t *largest)
{
    const int64_t across = cols / VECTOR, count = rows * across;
    uint32_t most = 0;

    if (*scale != 0)
        return;
    for (int64_t i = (int64_t)blockIdx.x * THREADS + threadIdx.x; i < count;
         i += (int64_t)gridDim.x * THREADS) {
        typename SOURCE::raw raw;
        float v[SOURCE::PARTS][VECTOR];

        source.load(raw, i / across, i % across * VECTOR);
        source.compute(raw, v);
#pragma unroll
        for (int p = 0; p < SOURCE::PARTS; p++)
#pragma unroll
            for (int k = 0; k < VECTOR; k++)
                most = max(most, magnitude(v[p][k]));
    }
    most = block_max(most);
    if (threadIdx.x == 0)
        largest[blockIdx.x] = most;
}

__global__ void end_step(const scaling_rules rules, const scaling_operands o)
{
    const int32_t position = *o.position;
    int overflow = 0;

    for (int64_t i = threadIdx.x; i < rules.count; i += blockDim.x)
        overflow |= scaling_end(&rules, i, position, o.scale, o.amax, o.history);
    overflow = __syncthreads_or(overflow);
    if (threadIdx.x > 0)
        return;
    *o.position = (int32_t)((position + 1) % rules.length);
    if (overflow) {
        o.state->norm_squared = INFINITY;
        o.state->overflows++;
    }
}

__global__ void find_weight_scales(const weight_scales_shape s, const weight_scales_operands o)
{
    const int64_t i =
        ((int64_t)blockIdx.x * THREADS + threadIdx.x) * SCALED_TENSORS + SCALED_WEIGHT;

    if (i >= s.count)
        return;
    o.used[i] = scaling_weight(o.scale[i], o.amax[i], s.margin);
    o.inverse[i * s.stride] = 1.0f / o.used[i];
}

dim3 grid_of(int64_t rows, int64_t cols)
{
    return dim3((unsigned)divide_up(cols, COLS), (unsigned)divide_up(rows, ROWS * TILES));
}

template <typename SOURCE>
void launch(cudaStream_t stream, const quantize_shape *s, const outputs &o, const SOURCE &source)
{
    const dim3 grid = grid_of(s->rows, s->cols / SOURCE::PARTS);

    if (o.largest)
        find_largest<<<QUANTIZE_PARTS, THREADS, 0, stream>>>(
            source, s->rows, s->cols / SOURCE::PARTS, o.scale, (uint32_t *)o.largest);
    if (s->to == TYPE_E5M2 && s->bias)
        quantize<SOURCE, __NV_E5M2, true><<<grid, THREADS, 0, stream>>>(source, o);
    else if (s->to == TYPE_E5M2)
        quantize<SOURCE, __NV_E5M2, false><<<grid, THREADS, 0, stream>>>(source, o);
    else if (s->bias)
        quantize<SOURCE, __NV_E4M3, true><<<grid, THREADS, 0, stream>>>(source, o);
    else
        quantize<SOURCE, __NV_E4M3, false><<<grid, THREADS, 0, stream>>>(source, o);
}

/* Master weights: fewer kernels. */
void launch_master(cudaStream_t stream, const quantize_shape *s, const outputs &o,
                   const cast<float> &source)
{
    if (o.largest)
        find_largest<<<QUANTIZE_PARTS, THREADS, 0, stream>>>(source, s->rows, s->cols, o.scale,
                                                             (uint32_t *)o.largest);
    quantize<cast<float>, __NV_E4M3, false>
        <<<grid_of(s->rows, s->cols), THREADS, 0, stream>>>(source, o);
}

} // namespace

extern "C" void kernel_scaling(cudaStream_t stream, const scaling_shape *shape,
                               const scaling_operands *operands)
{
    end_step<<<1, 1024, 0, stream>>>(shape->rules, *operands);
}

extern "C" void kernel_weight_scales(cudaStream_t stream, const weight_scales_shape *shape,
                                     const weight_scales_operands *operands)
{
    const int64_t weights = divide_up(shape->count, SCALED_TENSORS);

    find_weight_scales<<<(unsigned)divide_up(weights, THREADS), THREADS, 0, stream>>>(*shape,
                                                                                      *operands);
}

/* The largest magnitudes, then partial column sums. */
extern "C" size_t kernel_quantize_workspace(const quantize_shape *s)
{
    if (s->part != SCALED_WHOLE)
        return quantize_blocks_workspace(s);
    return QUANTIZE_PARTS * sizeof(uint32_t) +
           (size_t)(divide_up(s->rows, ROWS * TILES) * s->cols) * sizeof(float);
}

extern "C" void kernel_quantize(cudaStream_t stream, const quantize_shape *s,
                                const quantize_operands *operands, void *workspace)
{
    uint32_t *largest = operands->scaled ? NULL : (uint32_t *)workspace;
    float *sums = s->bias ? (float *)((uint32_t *)workspace + QUANTIZE_PARTS) : NULL;
    const outputs o = {(uint8_t *)operands->rows,
                       (uint8_t *)operands->columns,
                       operands->scale,
                       operands->amax,
                       sums,
                       s->rows,
                       s->cols,
                       largest,
                       s->margin,
                       operands->inverse};
    const void *x = operands->x, *dy = operands->dy;

#define FROM(SOURCE, ...) WITH_16_BITS(s->from, launch(stream, s, o, SOURCE<T>{__VA_ARGS__}))
    if (s->part != SCALED_WHOLE)
        return quantize_blocks(stream, s, operands, workspace);
    switch (s->source) {
    case QUANTIZE_ACTIVATION:
        FROM(gelu_of, (const T *)x, s->cols);
        break;
    case QUANTIZE_ACTIVATION_GRADIENT:
        FROM(gelu_gradient_of, (const T *)dy, (const T *)x, s->cols);
        break;
    case QUANTIZE_GATE:
        FROM(swiglu_of, (const T *)x, s->cols);
        break;
    case QUANTIZE_GATE_GRADIENT:
        FROM(swiglu_gradient_of, (const T *)dy, (const T *)x, s->cols / 2);
        break;
    default:
        if (s->from == s->to)
            transpose<<<grid_of(s->rows, s->cols), THREADS, 0, stream>>>((const uint8_t *)x, o);
        else if (s->from == TYPE_FP32)
            launch_master(stream, s, o, cast<float>{(const float *)x, s->cols});
        else
            FROM(cast, (const T *)x, s->cols);
        break;
    }
#undef FROM
    if (s->bias) {
        const totals t = {{operands->dbias, NULL, NULL}};

        kernel_add_shares(stream, sums, t, 1, (int)divide_up(s->rows, ROWS * TILES), s->cols,
                          operands->accumulate);
    }
}
