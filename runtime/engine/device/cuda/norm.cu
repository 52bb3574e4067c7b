/* SPDX-License-Identifier: Apache-2.0 */
/* One step of the residual stream: sum = residual + dropout(x + bias), y = norm(sum). A row stays
 * in registers: every tensor is read once and written once. */
#include "fp8.cuh"
#include "norm.cuh"

namespace
{

/* Rows of whole vectors: a lane holds VECTORS of them, a warp WARP_COLS adjacent columns. A block
 * has at most BLOCK threads and processes its rows once: on a GPU full of such blocks, loads, sums
 * and stores of different rows overlap, and no block waits for another one's memory. */
constexpr int VECTORS = 4, WARP_COLS = VECTORS * WARP * VECTOR;
constexpr int ROW_BLOCK = 8, BLOCK = ROW_BLOCK * WARP; /* warps and threads */

/* Mean and sum of squared deviations of the columns of one warp. */
struct moments {
    float mean, squares;
};

/* Combine those of its warps to those of a row. */
__device__ inline moments merge(const moments *slots, int warps, int cols)
{
    moments all = {0, 0};

#pragma unroll 1
    for (int i = 0; i < warps; i++)
        all.mean += slots[i].mean * (float)min(WARP_COLS, cols - i * WARP_COLS);
    all.mean /= (float)cols;
#pragma unroll 1
    for (int i = 0; i < warps; i++) {
        const float apart = slots[i].mean - all.mean;

        all.squares +=
            slots[i].squares + apart * apart * (float)min(WARP_COLS, cols - i * WARP_COLS);
    }
    return all;
}

/* Values of y as fp8. They are rounded to T first: a cast of y would read them so. Returns the bits
 * of the largest magnitude. */
template <typename T> __device__ inline uint32_t store_fp8(uint8_t *y, float *v, float scale)
{
    uint32_t largest = 0;

    unpack(pack<T>(v), v);
#pragma unroll
    for (int i = 0; i < VECTOR; i++)
        largest = max(largest, magnitude(v[i]));
    *reinterpret_cast<uint2 *>(y) = to_fp8<__NV_E4M3>(v, scale);
    return largest;
}

/* Called at the end by all threads of a warp that wrote fp8; 'first': one thread of the grid. */
__device__ inline void end_fp8(const operand_scale &y, uint32_t largest, bool first)
{
    largest = __reduce_max_sync(0xffffffffu, largest);
    if (y.amax && threadIdx.x % WARP == 0)
        raise_amax(y.amax, largest);
    if (first)
        *y.inverse = 1.0f / *y.scale;
}

/* FULL: every warp has WARP_COLS columns. 'one' is added to weights. FP8: y is e4m3. Without y
 * (NORM_RMS) only the sum is computed. */
template <typename T, bool DROP, enum norm NORM, bool FULL, bool FP8>
__global__ void __launch_bounds__(BLOCK, sizeof(T) == 4 ? 2 : 3)
    residual_norm(residual_norm_operands o, int64_t rows, int cols, row_split split, float epsilon,
                  float one, dropout drop)
{
    __shared__ moments slots[ROW_BLOCK];
    const int warp = threadIdx.x / WARP, lane = threadIdx.x % WARP;
    const int group = warp / split.warps, part = warp % split.warps;
    const int column = part * WARP_COLS + lane * VECTOR;
    const int width = FULL ? WARP_COLS : min(WARP_COLS, cols - part * WARP_COLS);
    const int64_t row = (int64_t)blockIdx.x * split.groups + group, at = row * cols + column;
    packed<T> x[VECTORS], residual[VECTORS];
    uint32_t dropped[VECTORS];
    float v[VECTORS][VECTOR], sum = 0;
    moments m = {0, 0};

    if (row >= rows || (FP8 && !HAS_FP8))
        return; /* with all of its group */
    auto inside = [&](int k) { return FULL || (k * WARP + lane) * VECTOR < width; };
    /* This lane's k-th vector of a row, or of the operands that all rows share. */
    auto load = [&](const void *from, int64_t first, int k) {
        packed<T> out = {};

        if (inside(k))
            out = load_whole<VECTOR>((const T *)from + first + k * WARP * VECTOR);
        return out;
    };

#pragma unroll
    for (int k = 0; k < VECTORS && o.x; k++)
        x[k] = load(o.x, at, k);
#pragma unroll
    for (int k = 0; k < VECTORS && o.residual; k++)
        residual[k] = load(o.residual, at, k);
    if (DROP) {
        const numbers n = numbers_of(drop);
        const int64_t first = o.row_index[row] * cols + column;

#pragma unroll
        for (int k = 0; k < VECTORS; k++)
            dropped[k] = dropped_meanwhile<true>(n, first + k * WARP * VECTOR);
    }
#pragma unroll
    for (int k = 0; k < VECTORS; k++) {
        float other[VECTOR];

        if (!o.x) {
            unpack(residual[k], v[k]);
        } else {
            unpack(x[k], v[k]);
            if (o.bias) {
                unpack(load(o.bias, column, k), other);
#pragma unroll
                for (int i = 0; i < VECTOR; i++)
                    v[k][i] += other[i];
            }
            if (DROP)
                apply_dropout(drop, dropped[k], v[k]);
            if (o.residual) {
                unpack(residual[k], other);
#pragma unroll
                for (int i = 0; i < VECTOR; i++)
                    v[k][i] += other[i];
            }
            /* Rounded, so that the norm uses the values that the gradient will read. */
            const packed<T> rounded = pack<T>(v[k]);

            if (inside(k))
                *(packed<T> *)((T *)o.sum + at + k * WARP * VECTOR) = rounded;
            unpack(rounded, v[k]);
        }
#pragma unroll
        for (int i = 0; i < VECTOR && NORM == NORM_LAYER; i++)
            sum += v[k][i]; /* past the end: 0 */
    }
    if (NORM == NORM_RMS && !o.y)
        return;
    if (NORM == NORM_LAYER)
        m.mean = warp_sum(sum) / (float)width;
#pragma unroll
    for (int k = 0; k < VECTORS; k++)
        if (inside(k)) {
#pragma unroll
            for (int i = 0; i < VECTOR; i++) {
                const float apart = NORM == NORM_LAYER ? v[k][i] - m.mean : v[k][i];

                m.squares += apart * apart;
            }
        }
    m.squares = warp_sum(m.squares);
    if (split.warps > 1) {
        if (lane == 0)
            slots[warp] = m;
        group_sync(1 + group, split.warps * WARP);
        m = merge(slots + group * split.warps, split.warps, cols);
    }
    const float rstd = rsqrtf(m.squares / (float)cols + epsilon);
    const float scale = FP8 ? *o.y_scale.scale : 0;
    uint32_t largest = 0;
#pragma unroll
    for (int k = 0; k < VECTORS; k++) {
        float weight[VECTOR], bias[VECTOR] = {0};

        if (!inside(k))
            continue;
        unpack(load(o.weight, column, k), weight);
        if (NORM == NORM_LAYER)
            unpack(load(o.norm_bias, column, k), bias);
#pragma unroll
        for (int i = 0; i < VECTOR; i++)
            v[k][i] = (NORM == NORM_LAYER ? v[k][i] - m.mean : v[k][i]) * rstd * (weight[i] + one) +
                      bias[i];
        if (FP8)
            largest =
                max(largest, store_fp8<T>((uint8_t *)o.y + at + k * WARP * VECTOR, v[k], scale));
        else
            store_whole<VECTOR>((T *)o.y + at + k * WARP * VECTOR, v[k]);
    }
    if (FP8)
        end_fp8(o.y_scale, largest, row == 0 && lane == 0 && part == 0);
    if (lane == 0 && part == 0) {
        o.rstd[row] = rstd;
        if (NORM == NORM_LAYER)
            o.mean[row] = m.mean;
    }
}

/* All other rows, wide or unaligned ones: one block per row. The sum is read back from where it was
 * written, in the cache. */
constexpr int ANY_BLOCK = 1024;

__device__ inline float block_sum(float x, float *slots)
{
    x = warp_sum(x);
    __syncthreads();
    if (threadIdx.x % WARP == 0)
        slots[threadIdx.x / WARP] = x;
    __syncthreads();
    x = 0;
    for (int i = 0; i < (int)blockDim.x / WARP; i++)
        x += slots[i];
    return x;
}

template <typename T, bool WIDE, bool FP8>
__global__ void __launch_bounds__(ANY_BLOCK)
    residual_norm_any(residual_norm_operands o, int cols, enum norm norm, float epsilon, float one,
                      dropout drop)
{
    __shared__ float slots[ANY_BLOCK / WARP];
    const int64_t row = blockIdx.x, base = row * cols;
    const int start = threadIdx.x * VECTOR, walk = blockDim.x * VECTOR;
    const T *kept = (const T *)(o.x ? o.sum : o.residual) + base;
    float sum = 0, mean = 0, squares = 0;

    if (cols == 0 || (FP8 && !HAS_FP8))
        return;
    for (int c = start; c < cols && (o.x || norm == NORM_LAYER); c += walk) {
        float v[VECTOR], other[VECTOR];

        if (!o.x) {
            unpack(load_part<WIDE>(kept + c, cols - c), v);
        } else {
            packed<T> more = {};

            if (o.residual)
                more = load_part<WIDE>((const T *)o.residual + base + c, cols - c);
            unpack(load_part<WIDE>((const T *)o.x + base + c, cols - c), v);
            if (o.bias) {
                unpack(load_part<WIDE>((const T *)o.bias + c, cols - c), other);
#pragma unroll
                for (int i = 0; i < VECTOR; i++)
                    v[i] += other[i];
            }
            if (drop.threshold)
                apply_dropout(drop,
                              dropped_from<WIDE>(numbers_of(drop), o.row_index[row] * cols + c), v);
            unpack(more, other);
#pragma unroll
            for (int i = 0; i < VECTOR; i++)
                v[i] += other[i];
            const packed<T> rounded = pack<T>(v);

            store_part<WIDE>((T *)o.sum + base + c, rounded, cols - c);
            unpack(rounded, v);
        }
#pragma unroll
        for (int i = 0; i < VECTOR; i++)
            sum += v[i]; /* past the end: 0 */
    }
    if (norm == NORM_NONE)
        return;
    if (norm == NORM_LAYER)
        mean = block_sum(sum, slots) / (float)cols;
    for (int c = start; c < cols; c += walk) {
        float v[VECTOR];

        unpack(load_part<WIDE>(kept + c, cols - c), v);
#pragma unroll
        for (int i = 0; i < VECTOR; i++) {
            const float apart = v[i] - mean;

            if (WIDE || c + i < cols)
                squares += apart * apart;
        }
    }
    const float rstd = rsqrtf(block_sum(squares, slots) / (float)cols + epsilon);
    const float scale = FP8 ? *o.y_scale.scale : 0;
    uint32_t largest = 0;
    for (int c = start; c < cols; c += walk) {
        float v[VECTOR], weight[VECTOR], bias[VECTOR] = {0};

        unpack(load_part<WIDE>(kept + c, cols - c), v);
        unpack(load_part<WIDE>((const T *)o.weight + c, cols - c), weight);
        if (norm == NORM_LAYER)
            unpack(load_part<WIDE>((const T *)o.norm_bias + c, cols - c), bias);
#pragma unroll
        for (int i = 0; i < VECTOR; i++)
            v[i] = (v[i] - mean) * rstd * (weight[i] + one) + bias[i];
        if (FP8)
            largest = max(largest, store_fp8<T>((uint8_t *)o.y + base + c, v, scale));
        else
            store_part<WIDE>((T *)o.y + base + c, pack<T>(v), cols - c);
    }
    if (FP8)
        end_fp8(o.y_scale, largest, row == 0 && threadIdx.x == 0);
    if (threadIdx.x == 0) {
        o.rstd[row] = rstd;
        if (norm == NORM_LAYER)
            o.mean[row] = mean;
    }
}

row_split split_rows(int64_t cols)
{
    const int warps = (int)divide_up(cols, WARP_COLS);

    return {warps, warps < ROW_BLOCK ? ROW_BLOCK / warps : 1};
}

template <typename T, bool DROP, enum norm NORM, bool FULL>
void launch(cudaStream_t stream, const residual_norm_shape *shape, const residual_norm_operands *o,
            dropout drop)
{
    const row_split split = split_rows(shape->cols);
    const int64_t blocks = divide_up(shape->rows, split.groups);
    const auto kernel = sizeof(T) == 2 && shape->y_type == TYPE_E4M3
                            ? residual_norm<T, DROP, NORM, FULL, sizeof(T) == 2>
                            : residual_norm<T, DROP, NORM, FULL, false>;

    kernel<<<(unsigned)blocks, split.warps * split.groups * WARP, 0, stream>>>(
        *o, shape->rows, (int)shape->cols, split, (float)shape->epsilon,
        shape->add_one ? 1.0f : 0.0f, drop);
}

template <typename T, enum norm NORM>
void launch_norm(cudaStream_t stream, const residual_norm_shape *shape,
                 const residual_norm_operands *o, dropout drop)
{
    const bool full = shape->cols % WARP_COLS == 0;

    if (drop.threshold && full)
        launch<T, true, NORM, true>(stream, shape, o, drop);
    else if (drop.threshold)
        launch<T, true, NORM, false>(stream, shape, o, drop);
    else if (full)
        launch<T, false, NORM, true>(stream, shape, o, drop);
    else
        launch<T, false, NORM, false>(stream, shape, o, drop);
}

/* Are all rows aligned, and do they consist of whole vectors? */
bool in_vectors(const residual_norm_shape *shape, const residual_norm_operands *o)
{
    const bool sum = shape->cols % VECTOR == 0 && is_wide(o->x) && is_wide(o->bias) &&
                     is_wide(o->residual) && (!o->x || is_wide(o->sum));

    return sum && is_wide(o->y) && (!o->y || is_wide(o->weight)) &&
           (shape->norm != NORM_LAYER || is_wide(o->norm_bias));
}

template <typename T>
void launch_any(cudaStream_t stream, const residual_norm_shape *shape,
                const residual_norm_operands *o, dropout drop)
{
    const int threads = round_threads(divide_up(shape->cols, VECTOR), ANY_BLOCK);
    const bool wide = in_vectors(shape, o);
    const auto kernel =
        sizeof(T) == 2 && shape->y_type == TYPE_E4M3
            ? (wide ? residual_norm_any<T, true, sizeof(T) == 2>
                    : residual_norm_any<T, false, sizeof(T) == 2>)
            : (wide ? residual_norm_any<T, true, false> : residual_norm_any<T, false, false>);

    kernel<<<(unsigned)shape->rows, threads, 0, stream>>>(*o, (int)shape->cols, shape->norm,
                                                          (float)shape->epsilon,
                                                          shape->add_one ? 1.0f : 0.0f, drop);
}

} // namespace

extern "C" void kernel_residual_norm(cudaStream_t stream, const residual_norm_shape *shape,
                                     const residual_norm_operands *operands)
{
    residual_norm_operands o = *operands;
    dropout drop = make_dropout(shape, o.state, o.purpose);

    if (!shape->input) {
        o.x = NULL;
        drop.threshold = 0;
    }
    if (!shape->bias)
        o.bias = NULL;
    if (shape->input && !shape->residual)
        o.residual = NULL;
    if (shape->norm == NORM_NONE)
        o.y = NULL, o.weight = NULL;
    if (shape->norm != NORM_LAYER)
        o.norm_bias = NULL;
    if (shape->rows == 0)
        return;
    if (!in_vectors(shape, &o) || shape->cols > ROW_BLOCK * WARP_COLS)
        WITH_TYPE(shape->type, (launch_any<T>(stream, shape, &o, drop)));
    else if (shape->norm == NORM_LAYER)
        WITH_TYPE(shape->type, (launch_norm<T, NORM_LAYER>(stream, shape, &o, drop)));
    else
        WITH_TYPE(shape->type, (launch_norm<T, NORM_RMS>(stream, shape, &o, drop)));
}
