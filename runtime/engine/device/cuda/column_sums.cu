/* SPDX-License-Identifier: Apache-2.0 */
/* Column sums: gradients of biases and of norm weights. An activation's gradient can be computed in
 * the same pass. */
#include "gelu.cuh"
#include "pointwise.cuh"

namespace
{

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
    /* The last rows first: the product before has just written them, and the product after starts
     * with the first ones; both are then in the cache. */
    const unsigned share = gridDim.y - 1 - blockIdx.y;
    const int64_t first = share * rows_per_block;
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
                        gelu_erf_gradient<VECTOR, sizeof(T) == 4>(before, now);
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
        partial[share * cols + column] = total;
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

int sum_blocks(int64_t rows, int64_t cols)
{
    const int64_t tiles = divide_up(cols, SUM_COLUMNS);
    const int64_t wanted = divide_up((int64_t)processor_count() * 8, tiles);

    return (int)smaller(wanted, divide_up(rows, SUM_WARPS));
}

template <typename T>
__global__ void add_to_fp32(const T *x, float *out, int64_t count, int accumulate)
{
    const int64_t i = (int64_t)blockIdx.x * THREADS + threadIdx.x;

    if (i < count)
        out[i] = accumulate ? out[i] + to_float(x[i]) : to_float(x[i]);
}

} // namespace

extern "C" size_t kernel_column_sums_workspace(int64_t rows, int64_t cols)
{
    return (size_t)sum_blocks(rows, cols) * (size_t)cols * sizeof(float);
}

extern "C" void kernel_column_sums(cudaStream_t stream, enum activation activation,
                                   enum device_type type, int64_t rows, int64_t cols, const void *x,
                                   const void *pre, void *y, float *out, int accumulate,
                                   float *workspace)
{
    const int blocks = sum_blocks(rows, cols);
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
