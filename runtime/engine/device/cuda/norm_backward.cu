/* SPDX-License-Identifier: Apache-2.0 */
/* The gradient of a step of the residual stream. A row stays in registers, and so do the column
 * sums over all rows of a thread: every tensor is read once and written once. */
#include "norm.cuh"

namespace
{

/* As in the forward direction, with fewer elements per lane: their column sums need registers. A
 * multiprocessor has one block, with as many warps as registers allow: more without the sums of a
 * bias, dropout and the mean. In fp32, which was not tuned, it has half as many. */
constexpr int VECTORS = 2, WARP_COLS = VECTORS * WARP * VECTOR;
constexpr int MAX_WARPS = 16, SLIM_WARPS = 20, FP32_WARPS = 8;

/* Which column sums a call computes, and where its blocks write their partial sums: (blocks, 3,
 * cols). */
struct sums {
    float *partial;
    bool weight, norm_bias, bias;
};

struct writes {
    bool residual, x;
};

/* Up to this many slots are read sequentially, more of them by the lanes in parallel. */
constexpr int FEW_WARPS = 4;

/* Rows in flight and being processed; shared memory holds this many. */
template <typename T> constexpr int STAGES = sizeof(T) == 4 ? 2 : 3;

/* shared: (groups, cols) of one sum at a time, added up in a fixed order. */
__device__ inline void share_sums(float *shared, const float (*own)[VECTOR], int which, int group,
                                  int column, int cols, int groups, float *partial)
{
    __syncthreads();
#pragma unroll
    for (int k = 0; k < VECTORS; k++)
        if (column + k * WARP * VECTOR < cols) {
#pragma unroll
            for (int i = 0; i < VECTOR; i++)
                shared[group * cols + column + k * WARP * VECTOR + i] = own[k][i];
        }
    __syncthreads();
    for (int c = threadIdx.x; c < cols; c += blockDim.x) {
        float total = 0;

        for (int g = 0; g < groups; g++)
            total += shared[g * cols + c];
        partial[((int64_t)blockIdx.x * 3 + which) * cols + c] = total;
    }
}

/* Wait for a loaded value now. Otherwise the loop would wait at the first use of the value, in
 * every iteration, and because several loads share a scoreboard, also for the rstd of the next row,
 * which has just been requested. LayerNorm needs no such wait: it multiplies mean and rstd before
 * it requests those of the next row. */
template <typename V> __device__ inline void wait_for(V &value)
{
    constexpr int WORDS = sizeof(V) / sizeof(uint32_t);
    uint32_t words[WORDS];

    memcpy(words, &value, sizeof(words));
#pragma unroll
    for (int i = 0; i < WORDS; i++) /* blockDim.y is 1, which the compiler does not know */
        asm volatile("xor.b32 %0, %0, %1;" : "+r"(words[i]) : "r"(blockDim.y - 1));
    memcpy(&value, words, sizeof(words));
}

/* g += more, rounded to T. */
template <typename T> __device__ inline void add_rounded(const packed<T> &more, float (&g)[VECTOR])
{
    float addend[VECTOR];

    unpack(more, addend);
#pragma unroll
    for (int i = 0; i < VECTOR; i++)
        g[i] += addend[i];
    unpack(pack<T>(g), g);
}

/* FULL: every warp has WARP_COLS columns. SLIM: RMSNorm in 16 bits without the sums of a bias and
 * without dropout. */
template <typename T, bool DROP, enum norm NORM, bool FULL, bool SLIM>
__global__ void __launch_bounds__((SLIM ? SLIM_WARPS : MAX_WARPS) * WARP, 1)
    residual_norm_backward(residual_norm_backward_operands o, int64_t rows, int cols,
                           row_split split, float one, writes write, dropout drop, sums out)
{
    constexpr int SIZE = VECTOR * sizeof(T), LAST = STAGES<T> - 1;
    __shared__ float2 slots[2][SLIM_WARPS];
    extern __shared__ __align__(16) char memory[];
    const int warp = threadIdx.x / WARP, lane = threadIdx.x % WARP;
    const int group = warp / split.warps, part = warp % split.warps;
    const int column = part * WARP_COLS + lane * VECTOR;
    const int beside = blockDim.x * SIZE, tensor = VECTORS * beside, stage = 3 * tensor;
    const int64_t stride = (int64_t)gridDim.x * split.groups, step = stride * cols;
    const float share = 1.0f / (float)cols;
    const numbers n = DROP ? numbers_of(drop) : numbers{};
    char *const own = memory + threadIdx.x * SIZE;
    float sum_weight[VECTORS][VECTOR] = {{0}}, sum_norm_bias[VECTORS][VECTOR] = {{0}},
          sum_bias[VECTORS][VECTOR] = {{0}};
    packed<T> weight[VECTORS];
    int64_t row = (int64_t)blockIdx.x * split.groups + group;
    int64_t at = row * cols + column, number = 0; /* number: of the row in the global batch */
    float rstd = 0, mean = 0;
    int parity = 0, filled = LAST * stage, used = 0;

    auto inside = [&](int k) { return FULL || column + k * WARP * VECTOR < cols; };
    /* Start loading a row into the stage at byte 'to'. */
    auto fetch = [&](int64_t next, int64_t from, int to) {
        if (next < rows) {
            const T *dy = (const T *)o.dy + from, *sum = (const T *)o.sum + from;
            const T *third = (const T *)(o.dsum ? o.dsum : o.dy_more);

#pragma unroll
            for (int k = 0; k < VECTORS; k++) {
                char *place = own + to + k * beside;

                if (!inside(k))
                    continue;
                copy_async<SIZE>(place, dy + k * WARP * VECTOR);
                copy_async<SIZE>(place + tensor, sum + k * WARP * VECTOR);
                if (third)
                    copy_async<SIZE>(place + 2 * tensor, third + from + k * WARP * VECTOR);
            }
        }
        copy_commit();
    };

#pragma unroll
    for (int k = 0; k < VECTORS; k++) {
        weight[k] = {};
        if (inside(k))
            weight[k] = load_whole<VECTOR>((const T *)o.weight + column + k * WARP * VECTOR);
    }
    if (row < rows) {
        rstd = o.rstd[row];
        mean = NORM == NORM_LAYER ? o.mean[row] : 0.0f;
        number = DROP ? o.row_index[row] : 0;
    }
#pragma unroll
    for (int i = 0; i < LAST; i++)
        fetch(row + i * stride, at + i * step, i * stage);
    if (NORM == NORM_RMS) {
#pragma unroll
        for (int k = 0; k < VECTORS; k++)
            wait_for(weight[k]);
        wait_for(rstd);
    }
    for (; row < rows; row += stride, at += step) {
        float xhat[VECTORS][VECTOR], scaled[VECTORS][VECTOR]; /* scaled: dy * factor */
        float c1 = 0, c2 = 0, next_rstd = 0, next_mean = 0;
        const float shift = NORM == NORM_LAYER ? -mean * rstd : 0.0f;
        int64_t next_number = 0;
        uint32_t dropped[VECTORS];

        if (row + stride < rows) {
            next_rstd = o.rstd[row + stride];
            next_mean = NORM == NORM_LAYER ? o.mean[row + stride] : 0.0f;
            next_number = DROP ? o.row_index[row + stride] : 0;
        }
        /* The next row goes into the slot of the last one, which this thread has already read. */
        fetch(row + LAST * stride, at + LAST * step, filled);
        filled = filled == LAST * stage ? 0 : filled + stage;
#pragma unroll
        for (int k = 0; k < VECTORS && DROP; k++)
            dropped[k] = dropped_meanwhile<true>(n, number * cols + column + k * WARP * VECTOR);
        copy_wait<LAST>();
#pragma unroll
        for (int k = 0; k < VECTORS; k++) {
            packed<T> dy = {}, x = {};
            float g[VECTOR];

            if (inside(k)) {
                dy = *(const packed<T> *)(own + used + k * beside);
                x = *(const packed<T> *)(own + used + tensor + k * beside);
            }
            unpack(dy, g);
            if (o.dy_more && inside(k))
                add_rounded(*(const packed<T> *)(own + used + 2 * tensor + k * beside), g);
            unpack(x, xhat[k]);
            unpack(weight[k], scaled[k]);
#pragma unroll
            for (int i = 0; i < VECTOR; i++) {
                xhat[k][i] = xhat[k][i] * rstd + shift;
                scaled[k][i] = (scaled[k][i] + one) * g[i];
                sum_weight[k][i] += g[i] * xhat[k][i];
                if (NORM == NORM_LAYER) {
                    sum_norm_bias[k][i] += g[i];
                    c1 += scaled[k][i];
                }
                c2 += scaled[k][i] * xhat[k][i];
            }
        }
        c2 = warp_sum(c2);
        if (NORM == NORM_LAYER)
            c1 = warp_sum(c1);
        if (split.warps > 1) {
            if (lane == 0)
                slots[parity][warp] = make_float2(c1, c2);
            group_sync(1 + group, split.warps * WARP);
            if (split.warps <= FEW_WARPS) {
                c1 = c2 = 0;
#pragma unroll 1
                for (int i = 0; i < split.warps; i++) {
                    const float2 slot = slots[parity][group * split.warps + i];

                    c1 += slot.x;
                    c2 += slot.y;
                }
            } else {
                float2 slot = make_float2(0, 0);

                if (lane < split.warps)
                    slot = slots[parity][group * split.warps + lane];
                c2 = warp_sum(slot.y);
                if (NORM == NORM_LAYER)
                    c1 = warp_sum(slot.x);
            }
            parity ^= 1; /* the next row writes the other half: one barrier per row is enough */
        }
        c1 *= -share * rstd;
        c2 *= -share * rstd;
#pragma unroll
        for (int k = 0; k < VECTORS; k++) {
            packed<T> dsum = {};
            float d[VECTOR];

            if (!inside(k))
                continue;
            if (o.dsum)
                dsum = *(const packed<T> *)(own + used + 2 * tensor + k * beside);
            unpack(dsum, d);
#pragma unroll
            for (int i = 0; i < VECTOR; i++) {
                if (NORM == NORM_LAYER)
                    d[i] += c1;
                d[i] = scaled[k][i] * rstd + (xhat[k][i] * c2 + d[i]);
            }
            if (!DROP || write.residual)
                store_whole<VECTOR>((T *)o.dresidual + at + k * WARP * VECTOR, d);
            if (DROP) {
                apply_dropout(drop, dropped[k], d);
                store_whole<VECTOR>((T *)o.dx + at + k * WARP * VECTOR, d);
            }
            if (!SLIM && out.bias) {
#pragma unroll
                for (int i = 0; i < VECTOR; i++)
                    sum_bias[k][i] += d[i];
            }
        }
        used = used == LAST * stage ? 0 : used + stage;
        rstd = next_rstd;
        mean = next_mean;
        number = next_number;
    }
    copy_wait<0>();
    /* Groups with one row less than the first one synchronize as often as it does: otherwise
     * compute-sanitizer loses track and reports races between the sums below. */
    if (split.warps > 1 && row - group < rows)
        group_sync(1 + group, split.warps * WARP);
    share_sums((float *)memory, sum_weight, 0, group, column, cols, split.groups, out.partial);
    if (NORM == NORM_LAYER)
        share_sums((float *)memory, sum_norm_bias, 1, group, column, cols, split.groups,
                   out.partial);
    if (!SLIM && out.bias)
        share_sums((float *)memory, sum_bias, 2, group, column, cols, split.groups, out.partial);
}

/* All other rows, wide or unaligned ones: a block iterates over rows and adds to its column sums in
 * the workspace, in the cache: each column belongs to one thread. */
constexpr int ANY_BLOCK = 1024;

template <bool WIDE> __device__ inline void add_sums(float *to, const float *v, int count)
{
    float old[VECTOR];

    unpack(load_part<WIDE>(to, count), old);
#pragma unroll
    for (int i = 0; i < VECTOR; i++)
        old[i] += v[i];
    store_part<WIDE>(to, pack<float>(old), count);
}

/* The gradient of y at an offset. */
template <typename T, bool WIDE>
__device__ inline void load_gradient(const residual_norm_backward_operands &o, int64_t at,
                                     int count, float (&g)[VECTOR])
{
    unpack(load_part<WIDE>((const T *)o.dy + at, count), g);
    if (o.dy_more)
        add_rounded(load_part<WIDE>((const T *)o.dy_more + at, count), g);
}

template <typename T, bool WIDE>
__global__ void __launch_bounds__(ANY_BLOCK)
    residual_norm_backward_any(residual_norm_backward_operands o, int64_t rows, int cols,
                               enum norm norm, float one, writes write, dropout drop, sums out)
{
    __shared__ float2 slots[ANY_BLOCK / WARP];
    const int start = threadIdx.x * VECTOR, walk = blockDim.x * VECTOR;
    float *const weights = out.partial + (int64_t)blockIdx.x * 3 * cols;
    float *const norm_biases = weights + cols, *const biases = norm_biases + cols;

    for (int c = threadIdx.x; c < 3 * cols; c += blockDim.x)
        weights[c] = 0;
    __syncthreads();
    for (int64_t row = blockIdx.x; row < rows; row += gridDim.x) {
        const int64_t base = row * cols;
        const float rstd = o.rstd[row], mean = norm == NORM_LAYER ? o.mean[row] : 0.0f;
        float c1 = 0, c2 = 0;

        for (int c = start; c < cols; c += walk) {
            float g[VECTOR], x[VECTOR], weight[VECTOR];

            load_gradient<T, WIDE>(o, base + c, cols - c, g);
            unpack(load_part<WIDE>((const T *)o.sum + base + c, cols - c), x);
            unpack(load_part<WIDE>((const T *)o.weight + c, cols - c), weight);
            if (out.norm_bias)
                add_sums<WIDE>(norm_biases + c, g, cols - c);
#pragma unroll
            for (int i = 0; i < VECTOR; i++) {
                const float scaled = g[i] * (weight[i] + one), xhat = (x[i] - mean) * rstd;

                g[i] *= xhat; /* past the end g is 0 */
                c1 += scaled;
                c2 += scaled * xhat;
            }
            add_sums<WIDE>(weights + c, g, cols - c);
        }
        c1 = warp_sum(c1);
        c2 = warp_sum(c2);
        __syncthreads();
        if (threadIdx.x % WARP == 0)
            slots[threadIdx.x / WARP] = make_float2(c1, c2);
        __syncthreads();
        c1 = c2 = 0;
        for (int i = 0; i < (int)blockDim.x / WARP; i++) {
            c1 += slots[i].x;
            c2 += slots[i].y;
        }
        c1 = norm == NORM_LAYER ? c1 / (float)cols : 0.0f;
        c2 /= (float)cols;
        for (int c = start; c < cols; c += walk) {
            float d[VECTOR], g[VECTOR], x[VECTOR], weight[VECTOR];
            packed<T> dsum = {};

            if (o.dsum)
                dsum = load_part<WIDE>((const T *)o.dsum + base + c, cols - c);
            load_gradient<T, WIDE>(o, base + c, cols - c, g);
            unpack(load_part<WIDE>((const T *)o.sum + base + c, cols - c), x);
            unpack(load_part<WIDE>((const T *)o.weight + c, cols - c), weight);
            unpack(dsum, d);
#pragma unroll
            for (int i = 0; i < VECTOR; i++)
                d[i] += rstd * (g[i] * (weight[i] + one) - c1 - (x[i] - mean) * rstd * c2);
            if (write.residual)
                store_part<WIDE>((T *)o.dresidual + base + c, pack<T>(d), cols - c);
            if (write.x) {
                apply_dropout(drop,
                              dropped_from<WIDE>(numbers_of(drop), o.row_index[row] * cols + c), d);
                store_part<WIDE>((T *)o.dx + base + c, pack<T>(d), cols - c);
            }
            if (out.bias)
                add_sums<WIDE>(biases + c, d, cols - c);
        }
    }
}

/* Without a norm, rows are independent: a warp owns 256 columns (eight per lane), the block's warps
 * alternate over rows, and gridDim.y blocks share the rows. */
constexpr int PLAIN_WARPS = 8, PLAIN_COLUMNS = WARP * VECTOR;

template <typename T, bool WIDE>
__global__ void __launch_bounds__(PLAIN_WARPS *WARP)
    residual_backward(residual_norm_backward_operands o, int64_t rows, int64_t cols, writes write,
                      dropout drop, sums out)
{
    constexpr int TOGETHER = 4;
    __shared__ float shared[PLAIN_WARPS][PLAIN_COLUMNS];
    const int lane = threadIdx.x % WARP, warp = threadIdx.x / WARP;
    const int64_t c = (int64_t)blockIdx.x * PLAIN_COLUMNS + lane * VECTOR, count = cols - c;
    const int64_t step = (int64_t)gridDim.y * PLAIN_WARPS;
    float sum[VECTOR] = {0};

    for (int64_t first = (int64_t)blockIdx.y * PLAIN_WARPS + warp; first < rows && count > 0;
         first += TOGETHER * step) {
        packed<T> v[TOGETHER];

#pragma unroll
        for (int r = 0; r < TOGETHER; r++) {
            const int64_t row = first + r * step;

            v[r] = {};
            if (row < rows && o.dsum)
                v[r] = load_part<WIDE>((const T *)o.dsum + row * cols + c, count);
        }
#pragma unroll
        for (int r = 0; r < TOGETHER; r++) {
            const int64_t row = first + r * step;
            float d[VECTOR];

            if (row >= rows)
                break;
            if (write.residual)
                store_part<WIDE>((T *)o.dresidual + row * cols + c, v[r], count);
            unpack(v[r], d);
            if (write.x) {
                apply_dropout(drop,
                              dropped_from<WIDE>(numbers_of(drop), o.row_index[row] * cols + c), d);
                store_part<WIDE>((T *)o.dx + row * cols + c, pack<T>(d), count);
            }
#pragma unroll
            for (int i = 0; i < VECTOR; i++)
                sum[i] += d[i];
        }
    }
    if (!out.bias)
        return;
#pragma unroll
    for (int i = 0; i < VECTOR; i++)
        shared[warp][lane * VECTOR + i] = sum[i];
    __syncthreads();
    const int64_t column = (int64_t)blockIdx.x * PLAIN_COLUMNS + threadIdx.x;
    if (column < cols) {
        float total = 0;

#pragma unroll
        for (int w = 0; w < PLAIN_WARPS; w++)
            total += shared[w][threadIdx.x];
        out.partial[((int64_t)blockIdx.y * 3 + 2) * cols + column] = total;
    }
}

struct call {
    const residual_norm_shape *shape;
    residual_norm_backward_operands o;
    dropout drop;
    writes write;
    sums out;
    row_split split; /* of rows in vectors */
    float one;       /* is added to weights */
    int blocks;      /* set by the launch */
};

/* Are there registers for SLIM_WARPS warps? */
bool is_slim(const call *c)
{
    return c->shape->type != TYPE_FP32 && c->shape->norm == NORM_RMS && !c->write.x && !c->out.bias;
}

size_t shared_bytes(const residual_norm_shape *shape, row_split split)
{
    const size_t threads = (size_t)(split.warps * split.groups * WARP);
    const size_t size = type_size(shape->type);
    const size_t stages =
        (size_t)(size == 4 ? STAGES<float> : STAGES<bf16>)*3 * VECTORS * VECTOR * threads * size;
    const size_t sums = (size_t)split.groups * (size_t)shape->cols * sizeof(float);

    return sums > stages ? sums : stages;
}

/* Fewer rows at once if there are not enough for all multiprocessors, or too little memory. */
row_split split_block(const call *c)
{
    const int warps = (int)divide_up(c->shape->cols, WARP_COLS);
    const int most = c->shape->type == TYPE_FP32 ? FP32_WARPS : is_slim(c) ? SLIM_WARPS : MAX_WARPS;
    row_split split = {warps,
                       (int)smaller(most / warps, divide_up(c->shape->rows, processor_count()))};

    while (split.groups > 1 && !shared_fits(shared_bytes(c->shape, split)))
        split.groups--;
    return {warps, split.groups > 1 ? split.groups : 1};
}

template <typename T, bool DROP, enum norm NORM, bool FULL, bool SLIM>
void launch(cudaStream_t stream, call *c)
{
    const auto kernel = residual_norm_backward<T, DROP, NORM, FULL, SLIM>;
    const row_split split = c->split;
    const int threads = split.warps * split.groups * WARP;
    const size_t shared = shared_bytes(c->shape, split);

    c->blocks = (int)smaller(divide_up(c->shape->rows, split.groups), processor_count());
    cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, (int)shared);
    kernel<<<c->blocks, threads, shared, stream>>>(c->o, c->shape->rows, (int)c->shape->cols, split,
                                                   c->one, c->write, c->drop, c->out);
}

template <typename T, enum norm NORM, bool FULL> void launch_full(cudaStream_t stream, call *c)
{
    constexpr bool MAY_BE_SLIM = NORM == NORM_RMS && sizeof(T) == 2;

    if (c->write.x)
        launch<T, true, NORM, FULL, false>(stream, c);
    else if (is_slim(c))
        launch<T, false, NORM, FULL, MAY_BE_SLIM>(stream, c);
    else
        launch<T, false, NORM, FULL, false>(stream, c);
}

template <typename T, enum norm NORM> void launch_norm(cudaStream_t stream, call *c)
{
    if (c->shape->cols % WARP_COLS == 0)
        launch_full<T, NORM, true>(stream, c);
    else
        launch_full<T, NORM, false>(stream, c);
}

/* Are all rows aligned, and do they consist of whole vectors? */
bool in_vectors(const call *c)
{
    const residual_norm_backward_operands *o = &c->o;
    const bool gradients = c->shape->cols % VECTOR == 0 && is_wide(o->dsum) &&
                           (!c->write.residual || is_wide(o->dresidual)) &&
                           (!c->write.x || is_wide(o->dx));

    return gradients && (c->shape->norm == NORM_NONE || (is_wide(o->dy) && is_wide(o->dy_more) &&
                                                         is_wide(o->sum) && is_wide(o->weight)));
}

template <typename T> void launch_any(cudaStream_t stream, call *c)
{
    const int threads = round_threads(divide_up(c->shape->cols, VECTOR), ANY_BLOCK);
    const auto kernel =
        in_vectors(c) ? residual_norm_backward_any<T, true> : residual_norm_backward_any<T, false>;

    c->blocks = (int)smaller(c->shape->rows, processor_count() * 2);
    kernel<<<c->blocks, threads, 0, stream>>>(c->o, c->shape->rows, (int)c->shape->cols,
                                              c->shape->norm, c->one, c->write, c->drop, c->out);
}

template <typename T> void launch_plain(cudaStream_t stream, call *c)
{
    const int64_t tiles = divide_up(c->shape->cols, PLAIN_COLUMNS);
    const int64_t wanted = divide_up((int64_t)processor_count() * 8, tiles);
    const auto kernel = in_vectors(c) ? residual_backward<T, true> : residual_backward<T, false>;

    c->blocks = (int)smaller(smaller(wanted, processor_count() * 2),
                             divide_up(c->shape->rows, PLAIN_WARPS));
    kernel<<<dim3((unsigned)tiles, (unsigned)c->blocks), PLAIN_WARPS * WARP, 0, stream>>>(
        c->o, c->shape->rows, c->shape->cols, c->write, c->drop, c->out);
}

} // namespace

extern "C" size_t kernel_residual_norm_backward_workspace(const residual_norm_shape *shape)
{
    return (size_t)processor_count() * 2 * 3 * (size_t)shape->cols * sizeof(float);
}

extern "C" void kernel_residual_norm_backward(cudaStream_t stream, const residual_norm_shape *shape,
                                              const residual_norm_backward_operands *operands,
                                              void *workspace)
{
    const bool norm = shape->norm != NORM_NONE, bias = shape->input && shape->bias;
    call c = {shape,
              *operands,
              make_dropout(shape, operands->state, operands->purpose),
              {false, shape->input && shape->dropout > 0},
              {(float *)workspace, norm, shape->norm == NORM_LAYER, bias},
              {},
              shape->add_one ? 1.0f : 0.0f,
              0};

    c.write.residual = shape->residual || !c.write.x;
    if (!c.write.x)
        c.drop.threshold = 0;
    c.split = split_block(&c);
    if (shape->rows == 0)
        c.blocks = 0; /* the sums are 0 */
    else if (!norm)
        WITH_TYPE(shape->type, (launch_plain<T>(stream, &c)));
    else if (!in_vectors(&c) || shape->cols > MAX_WARPS * WARP_COLS ||
             !shared_fits(shared_bytes(shape, c.split)))
        WITH_TYPE(shape->type, (launch_any<T>(stream, &c)));
    else if (shape->norm == NORM_LAYER)
        WITH_TYPE(shape->type, (launch_norm<T, NORM_LAYER>(stream, &c)));
    else
        WITH_TYPE(shape->type, (launch_norm<T, NORM_RMS>(stream, &c)));
    if (norm || bias) {
        const totals t = {{norm ? c.o.dweight : NULL,
                           shape->norm == NORM_LAYER ? c.o.dnorm_bias : NULL,
                           bias ? c.o.dbias : NULL}};

        kernel_add_shares(stream, c.out.partial, t, 3, c.blocks, shape->cols, c.o.accumulate);
    }
}
