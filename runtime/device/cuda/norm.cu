/* One step of the residual stream: sum = residual + dropout(x + bias), y = norm(sum). A row stays
 * in registers: every tensor is read once and written once. */
#include "norm.cuh"

namespace
{

/* Rows of whole vectors: a lane holds VECTORS of them, and a warp WARP_COLS columns side by side.
 * At most BLOCK threads. The kernel is bound by instructions as soon as it is careless: offsets are
 * constants, and what is the same for all rows is not decided in the loop. */
constexpr int VECTORS = 4, WARP_COLS = VECTORS * WARP * VECTOR, BLOCK = ROW_BLOCK * WARP;

/* What all rows share lies in shared memory: read from the cache for each row it would be as much
 * as the rows themselves. */
enum { SAME_BIAS, SAME_WEIGHT, SAME_NORM_BIAS, SAME };

/* Mean and sum of squared deviations of the columns of one warp. */
struct moments {
    float mean, squares;
};

/* Of a row, from those of its warps. */
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

/* FULL: every warp has WARP_COLS columns. Without y (NORM_RMS) only the sum is made. The loads of a
 * row run while the one before it is worked on: each thread has its own elements of two rows in
 * shared memory. */
template <typename T, bool DROP, enum norm NORM, bool FULL>
__global__ void __launch_bounds__(BLOCK, 2)
    residual_norm(residual_norm_operands o, int64_t rows, int cols, row_split split, float epsilon,
                  dropout drop)
{
    constexpr int SIZE = VECTOR * sizeof(T), TENSOR = VECTORS * BLOCK * SIZE, STAGE = 2 * TENSOR;
    __shared__ moments slots[2][ROW_BLOCK];
    extern __shared__ __align__(16) char memory[];
    const int warp = threadIdx.x / WARP, lane = threadIdx.x % WARP;
    const int group = warp / split.warps, part = warp % split.warps;
    const int column = part * WARP_COLS + lane * VECTOR;
    const int width = FULL ? WARP_COLS : min(WARP_COLS, cols - part * WARP_COLS);
    const float share = 1.0f / (float)width;
    const int64_t stride = (int64_t)gridDim.x * split.groups, step = stride * cols;
    char *const own = memory + threadIdx.x * SIZE;
    T *const same = (T *)(memory + 2 * STAGE);
    int64_t row = (int64_t)blockIdx.x * split.groups + group;
    int64_t at = row * cols + column;
    int stage = 0, parity = 0;

    auto inside = [&](int k) { return FULL || (k * WARP + lane) * VECTOR < width; };
    auto fetch = [&](int64_t next, int64_t from, int to) {
        if (next < rows) {
            const T *x = (const T *)o.x + from, *residual = (const T *)o.residual + from;
            char *place = own + to;

#pragma unroll
            for (int k = 0; k < VECTORS && o.x; k++)
                if (inside(k))
                    copy_async<SIZE>(place + k * BLOCK * SIZE, x + k * WARP * VECTOR);
#pragma unroll
            for (int k = 0; k < VECTORS && o.residual; k++)
                if (inside(k))
                    copy_async<SIZE>(place + TENSOR + k * BLOCK * SIZE,
                                     residual + k * WARP * VECTOR);
        }
        copy_commit();
    };
    /* A vector that is the same for all rows. */
    auto load_shared = [&](int which, int k, float *to) {
        unpack(load_whole<VECTOR>(same + which * cols + column + k * WARP * VECTOR), to);
    };

    for (int c = (int)threadIdx.x * VECTOR; c < cols; c += (int)blockDim.x * VECTOR) {
        const void *const from[SAME] = {o.bias, o.weight, o.norm_bias};

#pragma unroll
        for (int i = 0; i < SAME; i++)
            if (from[i])
                *(packed<T> *)(same + i * cols + c) = load_whole<VECTOR>((const T *)from[i] + c);
    }
    __syncthreads();

    fetch(row, at, 0);
    for (; row < rows; row += stride, at += step) {
        T *const kept = (T *)o.sum + at, *const y = (T *)o.y + at;
        float v[VECTORS][VECTOR], sum = 0;
        moments m = {0, 0};

        fetch(row + stride, at + step, stage ^ STAGE);
        copy_wait<1>();
#pragma unroll
        for (int k = 0; k < VECTORS; k++) {
            const char *place = own + stage + k * BLOCK * SIZE;
            float other[VECTOR];

            if (!inside(k)) {
#pragma unroll
                for (int i = 0; i < VECTOR; i++)
                    v[k][i] = 0;
                continue;
            }
            if (!o.x) {
                unpack(*(const packed<T> *)(place + TENSOR), v[k]);
            } else {
                unpack(*(const packed<T> *)place, v[k]);
                if (o.bias) {
                    load_shared(SAME_BIAS, k, other);
#pragma unroll
                    for (int i = 0; i < VECTOR; i++)
                        v[k][i] += other[i];
                }
                if (DROP)
                    apply_dropout<VECTOR>(drop, drop.state->seed, (uint32_t)drop.state->iteration,
                                          o.row_index[row] * cols + column + k * WARP * VECTOR,
                                          v[k]);
                if (o.residual) {
                    unpack(*(const packed<T> *)(place + TENSOR), other);
#pragma unroll
                    for (int i = 0; i < VECTOR; i++)
                        v[k][i] += other[i];
                }
                /* Rounded: the norm sees what the gradient will read back. */
                const packed<T> rounded = pack<T>(v[k]);

                *(packed<T> *)(kept + k * WARP * VECTOR) = rounded;
                unpack(rounded, v[k]);
            }
#pragma unroll
            for (int i = 0; i < VECTOR && NORM == NORM_LAYER; i++)
                sum += v[k][i];
        }
        stage ^= STAGE;
        if (NORM == NORM_RMS && !o.y)
            continue;
        if (NORM == NORM_LAYER)
            m.mean = warp_sum(sum) * share;
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
                slots[parity][warp] = m;
            group_sync(1 + group, split.warps * WARP);
            m = merge(slots[parity] + group * split.warps, split.warps, cols);
            parity ^= 1; /* the next row writes the other half: one barrier a row is enough */
        }
        const float rstd = rsqrtf(m.squares / (float)cols + epsilon);
#pragma unroll
        for (int k = 0; k < VECTORS; k++) {
            float weight[VECTOR], bias[VECTOR] = {0};

            if (!inside(k))
                continue;
            load_shared(SAME_WEIGHT, k, weight);
            if (NORM == NORM_LAYER)
                load_shared(SAME_NORM_BIAS, k, bias);
#pragma unroll
            for (int i = 0; i < VECTOR; i++)
                v[k][i] =
                    (NORM == NORM_LAYER ? v[k][i] - m.mean : v[k][i]) * rstd * weight[i] + bias[i];
            store_whole<VECTOR>(y + k * WARP * VECTOR, v[k]);
        }
        if (lane == 0 && part == 0) {
            o.rstd[row] = rstd;
            if (NORM == NORM_LAYER)
                o.mean[row] = m.mean;
        }
    }
}

/* Any other row, wider ones and odd ones: a block for each. The sum is read back where it was
 * written, from the cache. */
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

template <typename T, bool WIDE>
__global__ void __launch_bounds__(ANY_BLOCK)
    residual_norm_any(residual_norm_operands o, int cols, enum norm norm, float epsilon,
                      dropout drop)
{
    __shared__ float slots[ANY_BLOCK / WARP];
    const int64_t row = blockIdx.x, base = row * cols;
    const int start = threadIdx.x * VECTOR, walk = blockDim.x * VECTOR;
    const T *kept = (const T *)(o.x ? o.sum : o.residual) + base;
    float sum = 0, mean = 0, squares = 0;

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
                apply_dropout_across(drop, drop.state->seed, (uint32_t)drop.state->iteration,
                                     o.row_index[row] * cols + c, v);
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
            sum += v[i]; /* behind the end: 0 */
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
    for (int c = start; c < cols; c += walk) {
        float v[VECTOR], weight[VECTOR], bias[VECTOR] = {0};

        unpack(load_part<WIDE>(kept + c, cols - c), v);
        unpack(load_part<WIDE>((const T *)o.weight + c, cols - c), weight);
        if (norm == NORM_LAYER)
            unpack(load_part<WIDE>((const T *)o.norm_bias + c, cols - c), bias);
#pragma unroll
        for (int i = 0; i < VECTOR; i++)
            v[i] = (v[i] - mean) * rstd * weight[i] + bias[i];
        store_part<WIDE>((T *)o.y + base + c, pack<T>(v), cols - c);
    }
    if (threadIdx.x == 0) {
        o.rstd[row] = rstd;
        if (norm == NORM_LAYER)
            o.mean[row] = mean;
    }
}

/* Two rows on their way, and what all rows share. */
size_t shared_bytes(const residual_norm_shape *shape)
{
    return (2 * 2 * VECTORS * VECTOR * BLOCK + SAME * (size_t)shape->cols) * type_size(shape->type);
}

template <typename T, bool DROP, enum norm NORM, bool FULL>
void launch(cudaStream_t stream, const residual_norm_shape *shape, const residual_norm_operands *o,
            dropout drop, int processors)
{
    const auto kernel = residual_norm<T, DROP, NORM, FULL>;
    const row_split split = split_rows(shape->cols, WARP_COLS);
    const size_t shared = shared_bytes(shape);
    const int64_t blocks =
        smaller(divide_up(shape->rows, split.groups), processors * (sizeof(T) == 4 ? 1 : 2));

    allow_shared(kernel, shared);
    kernel<<<(unsigned)blocks, split.warps * split.groups * WARP, shared, stream>>>(
        *o, shape->rows, (int)shape->cols, split, (float)shape->epsilon, drop);
}

template <typename T, enum norm NORM>
void launch_norm(cudaStream_t stream, const residual_norm_shape *shape,
                 const residual_norm_operands *o, dropout drop, int processors)
{
    if (drop.threshold)
        launch<T, true, NORM, false>(stream, shape, o, drop, processors);
    else if (shape->cols % WARP_COLS)
        launch<T, false, NORM, false>(stream, shape, o, drop, processors);
    else
        launch<T, false, NORM, true>(stream, shape, o, drop, processors);
}

/* Are all rows aligned, and made of whole vectors? */
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
    const auto kernel =
        in_vectors(shape, o) ? residual_norm_any<T, true> : residual_norm_any<T, false>;

    kernel<<<(unsigned)shape->rows, threads, 0, stream>>>(*o, (int)shape->cols, shape->norm,
                                                          (float)shape->epsilon, drop);
}

} // namespace

extern "C" void kernel_residual_norm(cudaStream_t stream, const residual_norm_shape *shape,
                                     const residual_norm_operands *operands, int processors)
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
    if (!in_vectors(shape, &o) || shape->cols > ROW_BLOCK * WARP_COLS ||
        !shared_fits(shared_bytes(shape)))
        WITH_TYPE(shape->type, (launch_any<T>(stream, shape, &o, drop)));
    else if (shape->norm == NORM_LAYER)
        WITH_TYPE(shape->type, (launch_norm<T, NORM_LAYER>(stream, shape, &o, drop, processors)));
    else
        WITH_TYPE(shape->type, (launch_norm<T, NORM_RMS>(stream, shape, &o, drop, processors)));
}
