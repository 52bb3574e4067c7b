/* SPDX-License-Identifier: Apache-2.0 */
/* Casts to fp8 with blockwise scales: powers of two, one for every 128 elements of a row of an
 * input or gradient and of a row of its transpose, or for every 128 x 128 elements of a weight. The
 * matrix is read once.
 *
 * A block walks down TILES tiles of 128 x 128 elements. Sixteen threads have a row of the tile, so
 * that its largest magnitude takes four shuffles; those of columns are found in shared memory. */
#include "quantize.cuh"

namespace
{

constexpr int THREADS = 512, COLS = SCALING_BLOCK, TILES = 4;
constexpr int WARPS = THREADS / WARP, EIGHTS = COLS / VECTOR;
static_assert(ROWS == SCALING_BLOCK, "a tile is a block");
static_assert(THREADS == EIGHTS * (ROWS / THREAD_ROWS), "a thread has four rows of eight columns");

struct outputs {
    uint8_t *rows, *columns; /* or NULL */
    float *inverse, *columns_inverse;
    float *amax; /* or NULL */
    float *sums; /* (blocks, cols) partial column sums, or NULL */
    int64_t row_count, col_count;
};

/* Blocks of the grid from top to bottom. */
int64_t rows_of_blocks(const quantize_shape &shape)
{
    return divide_up(shape.rows, ROWS * TILES);
}

struct shared {
    tile<COLS> turned;
    uint32_t of_column[COLS];
    uint32_t of_warp[WARPS];
    float sums[WARPS][COLS];
};

/* Where a thread's elements are: in the tile, and the first of them in the matrix. */
struct place {
    int eight, group;
    int64_t row, col;
};

template <__nv_fp8_interpretation_t KIND> __device__ inline float factor(uint32_t largest)
{
    return scaling_block_factor(__uint_as_float(largest),
                                KIND == __NV_E4M3 ? SCALING_E4M3_MAX : SCALING_E5M2_MAX);
}

/* The largest magnitude of each row of the tile. Threads of a row are neighbors in a warp. */
__device__ inline void find_rows(const float v[THREAD_ROWS][VECTOR], uint32_t of_row[THREAD_ROWS])
{
#pragma unroll
    for (int r = 0; r < THREAD_ROWS; r++) {
        of_row[r] = 0;
#pragma unroll
        for (int k = 0; k < VECTOR; k++)
            of_row[r] = max(of_row[r], magnitude(v[r][k]));
#pragma unroll
        for (int apart = EIGHTS / 2; apart > 0; apart /= 2)
            of_row[r] = max(of_row[r], __shfl_xor_sync(0xffffffffu, of_row[r], apart));
    }
}

/* The largest magnitude of each column of the tile, in shared memory. */
__device__ inline void find_columns(const float v[THREAD_ROWS][VECTOR], const place &at, shared &s)
{
    if (threadIdx.x < COLS)
        s.of_column[threadIdx.x] = 0;
    __syncthreads();
#pragma unroll
    for (int k = 0; k < VECTOR; k++) {
        uint32_t largest = 0;

#pragma unroll
        for (int r = 0; r < THREAD_ROWS; r++)
            largest = max(largest, magnitude(v[r][k]));
        largest = max(largest, __shfl_xor_sync(0xffffffffu, largest, EIGHTS));
        if (threadIdx.x % WARP < EIGHTS)
            atomicMax(&s.of_column[at.eight * VECTOR + k], largest);
    }
    __syncthreads();
}

/* The bytes of a thread go to the transposed matrix, with all others of the tile. */
__device__ inline void store_turned(const outputs &o, const place &at, const uint2 *bytes,
                                    shared &s)
{
    s.turned.put(at.eight, at.group, bytes);
    __syncthreads();
    store_columns<COLS, THREADS>(o.columns, s.turned, at.row - at.group * THREAD_ROWS, o.row_count,
                                 0, COLS, at.col - at.eight * VECTOR);
    __syncthreads();
}

__device__ inline void store_row(const outputs &o, const place &at, int r, uint2 bytes)
{
    *reinterpret_cast<uint2 *>(o.rows + (at.row + r) * o.col_count + at.col) = bytes;
}

/* Cast a tile with a scale for each of its rows, and one for each of its columns. Returns the
 * largest magnitude of the thread's rows. */
template <__nv_fp8_interpretation_t KIND>
__device__ uint32_t cast_vectors(const float v[THREAD_ROWS][VECTOR], const outputs &o,
                                 const place &at, shared &s)
{
    const int64_t first_row = at.row - at.group * THREAD_ROWS;
    const int64_t first_col = at.col - at.eight * VECTOR;
    uint32_t of_row[THREAD_ROWS];
    float scale[VECTOR];
    uint2 bytes[THREAD_ROWS];

    find_rows(v, of_row);
#pragma unroll
    for (int r = 0; r < THREAD_ROWS && o.rows; r++) {
        const float of = factor<KIND>(of_row[r]);

        store_row(o, at, r, to_fp8<KIND>(v[r], of));
        if (at.eight == 0)
            o.inverse[scaling_place(SCALED_VECTORS, o.row_count, o.col_count, at.row + r,
                                    first_col)] = 1.0f / of;
    }
    if (o.columns) {
        find_columns(v, at, s);
        if (threadIdx.x < COLS)
            o.columns_inverse[scaling_place(SCALED_VECTORS, o.col_count, o.row_count,
                                            first_col + threadIdx.x, first_row)] =
                1.0f / factor<KIND>(s.of_column[threadIdx.x]);
#pragma unroll
        for (int k = 0; k < VECTOR; k++)
            scale[k] = factor<KIND>(s.of_column[at.eight * VECTOR + k]);
#pragma unroll
        for (int r = 0; r < THREAD_ROWS; r++) {
            float scaled[VECTOR];

#pragma unroll
            for (int k = 0; k < VECTOR; k++)
                scaled[k] = v[r][k] * scale[k];
            bytes[r] = to_fp8<KIND>(scaled, 1.0f);
        }
        store_turned(o, at, bytes, s);
    }
    return max(max(of_row[0], of_row[1]), max(of_row[2], of_row[3]));
}

/* Cast a tile with one scale. */
template <__nv_fp8_interpretation_t KIND>
__device__ uint32_t cast_square(const float v[THREAD_ROWS][VECTOR], const outputs &o,
                                const place &at, shared &s)
{
    uint32_t largest = 0;
    uint2 bytes[THREAD_ROWS];
    float scale;

#pragma unroll
    for (int r = 0; r < THREAD_ROWS; r++)
#pragma unroll
        for (int k = 0; k < VECTOR; k++)
            largest = max(largest, magnitude(v[r][k]));
    largest = __reduce_max_sync(0xffffffffu, largest);
    if (threadIdx.x % WARP == 0)
        s.of_warp[threadIdx.x / WARP] = largest;
    __syncthreads();
#pragma unroll
    for (int w = 0; w < WARPS; w++)
        largest = max(largest, s.of_warp[w]);
    __syncthreads(); /* the next tile writes there */
    scale = factor<KIND>(largest);
    if (threadIdx.x == 0 && o.rows)
        scaling_put_square(o.inverse, o.row_count, o.col_count, at.row, at.col, scale);
    if (threadIdx.x == 0 && o.columns)
        scaling_put_square(o.columns_inverse, o.col_count, o.row_count, at.col, at.row, scale);
#pragma unroll
    for (int r = 0; r < THREAD_ROWS; r++) {
        bytes[r] = to_fp8<KIND>(v[r], scale);
        if (o.rows)
            store_row(o, at, r, bytes[r]);
    }
    if (o.columns)
        store_turned(o, at, bytes, s);
    return largest;
}

/* The block's share of the sums of the columns from 'col' on. */
__device__ inline void store_sums(const float sum[VECTOR], float *sums, int eight, shared &s)
{
#pragma unroll
    for (int k = 0; k < VECTOR; k++) {
        const float both = sum[k] + __shfl_xor_sync(0xffffffffu, sum[k], EIGHTS);

        if (threadIdx.x % WARP < EIGHTS)
            s.sums[threadIdx.x / WARP][eight * VECTOR + k] = both;
    }
    __syncthreads();
    if (threadIdx.x < COLS) {
        float total = 0;

#pragma unroll
        for (int w = 0; w < WARPS; w++)
            total += s.sums[w][threadIdx.x];
        sums[threadIdx.x] = total;
    }
    __syncthreads();
}

/* All tiles of a block. */
template <typename SOURCE, __nv_fp8_interpretation_t KIND, bool SQUARES, bool SUMS>
__device__ inline void walk(const SOURCE &source, const outputs &o, shared &s)
{
    constexpr int PARTS = SOURCE::PARTS;
    const int eight = threadIdx.x % EIGHTS, group = threadIdx.x / EIGHTS;
    const int64_t cols = o.col_count / PARTS, first_col = (int64_t)blockIdx.x * COLS;
    float sum[PARTS][VECTOR] = {};
    uint32_t largest = 0;

    for (int i = 0; i < TILES; i++) {
        const int64_t row = ((int64_t)blockIdx.y * TILES + i) * ROWS + group * THREAD_ROWS;
        typename SOURCE::raw raw[THREAD_ROWS];
        float v[PARTS][THREAD_ROWS][VECTOR];

        if (row - group * THREAD_ROWS >= o.row_count)
            break;
#pragma unroll
        for (int r = 0; r < THREAD_ROWS; r++)
            source.load(raw[r], row + r, first_col + eight * VECTOR);
#pragma unroll
        for (int r = 0; r < THREAD_ROWS; r++) {
            float all[PARTS][VECTOR];

            source.compute(raw[r], all);
#pragma unroll
            for (int p = 0; p < PARTS; p++)
#pragma unroll
                for (int k = 0; k < VECTOR; k++) {
                    v[p][r][k] = all[p][k];
                    if (SUMS)
                        sum[p][k] += all[p][k];
                }
        }
#pragma unroll
        for (int p = 0; p < PARTS; p++) {
            const place at = {eight, group, row, p * cols + first_col + eight * VECTOR};

            largest = max(largest, SQUARES ? cast_square<KIND>(v[p], o, at, s)
                                           : cast_vectors<KIND>(v[p], o, at, s));
        }
    }
#pragma unroll
    for (int p = 0; p < PARTS && SUMS; p++)
        store_sums(sum[p], o.sums + (blockIdx.y * PARTS + p) * cols + first_col, eight, s);
    largest = __reduce_max_sync(0xffffffffu, largest);
    if (o.amax && threadIdx.x % WARP == 0)
        raise_amax(o.amax, largest);
}

/* Two blocks of a multiprocessor hide each other's waits; a source of two parts needs too many
 * registers for that. */
template <typename SOURCE, __nv_fp8_interpretation_t KIND, bool SQUARES, bool SUMS>
__global__ void __launch_bounds__(THREADS, SOURCE::PARTS == 1 ? 2 : 1)
    quantize_blocks(const SOURCE source, const outputs o)
{
    if constexpr (HAS_FP8) {
        __shared__ shared s;

        walk<SOURCE, KIND, SQUARES, SUMS>(source, o, s);
    }
}

template <typename SOURCE, bool SUMS>
void launch(cudaStream_t stream, const SOURCE &source, const quantize_shape &shape,
            const outputs &o)
{
    const dim3 grid((unsigned)(shape.cols / SOURCE::PARTS / COLS), (unsigned)rows_of_blocks(shape));

    if (shape.to == TYPE_E5M2)
        quantize_blocks<SOURCE, __NV_E5M2, false, SUMS><<<grid, THREADS, 0, stream>>>(source, o);
    else
        quantize_blocks<SOURCE, __NV_E4M3, false, SUMS><<<grid, THREADS, 0, stream>>>(source, o);
}

/* Of a gradient, whose column sums may be a bias gradient. */
template <typename SOURCE>
void launch_gradient(cudaStream_t stream, const SOURCE &source, const quantize_shape &shape,
                     const outputs &o)
{
    if (o.sums)
        launch<SOURCE, true>(stream, source, shape, o);
    else
        launch<SOURCE, false>(stream, source, shape, o);
}

template <typename T>
void launch_squares(cudaStream_t stream, const T *x, const quantize_shape &shape, const outputs &o)
{
    const dim3 grid((unsigned)(shape.cols / COLS), (unsigned)rows_of_blocks(shape));

    quantize_blocks<cast<T>, __NV_E4M3, true, false>
        <<<grid, THREADS, 0, stream>>>(cast<T>{x, shape.cols}, o);
}

template <typename T>
void launch_source(cudaStream_t stream, const T *x, const T *dy, const quantize_shape &shape,
                   const outputs &o)
{
    const int64_t cols = shape.cols;

    switch (shape.source) {
    case QUANTIZE_ACTIVATION:
        launch<gelu_of<T>, false>(stream, gelu_of<T>{x, cols}, shape, o);
        break;
    case QUANTIZE_ACTIVATION_GRADIENT:
        launch_gradient(stream, gelu_gradient_of<T>{dy, x, cols}, shape, o);
        break;
    case QUANTIZE_GATE:
        launch<swiglu_of<T>, false>(stream, swiglu_of<T>{x, cols}, shape, o);
        break;
    case QUANTIZE_GATE_GRADIENT:
        launch_gradient(stream, swiglu_gradient_of<T>{dy, x, cols / 2}, shape, o);
        break;
    default:
        if (shape.part == SCALED_SQUARES)
            launch_squares(stream, x, shape, o);
        else
            launch_gradient(stream, cast<T>{x, cols}, shape, o);
        break;
    }
}

} // namespace

size_t quantize_blocks_workspace(const quantize_shape *shape)
{
    return shape->bias ? (size_t)(rows_of_blocks(*shape) * shape->cols) * sizeof(float) : 0;
}

void quantize_blocks(cudaStream_t stream, const quantize_shape *shape,
                     const quantize_operands *operands, void *workspace)
{
    const outputs o = {(uint8_t *)operands->rows,
                       (uint8_t *)operands->columns,
                       operands->inverse,
                       operands->columns_inverse,
                       operands->amax,
                       shape->bias ? (float *)workspace : NULL,
                       shape->rows,
                       shape->cols};

    WITH_16_BITS(shape->from, launch_source<T>(stream, (const T *)operands->x,
                                               (const T *)operands->dy, *shape, o));
    if (shape->bias) {
        const totals t = {{operands->dbias, NULL, NULL}};

        kernel_add_shares(stream, o.sums, t, 1, (int)rows_of_blocks(*shape), shape->cols,
                          operands->accumulate);
    }
}
