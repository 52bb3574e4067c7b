/* One step of the residual stream: sum = residual + dropout(x + bias), y = norm(sum), and its
 * gradient. Both keep a row in registers: every tensor is read once and written once. */
#include "common.cuh"
#include "rng.h"

namespace
{

constexpr int FORWARD_THREADS = 256;

struct dropout {
    uint32_t threshold;
    float scale;
    uint32_t purpose;
    const step_state *state;
};

/* Drop some of V elements, number 'index' on (a multiple of V). */
template <int V>
__device__ inline void apply_dropout(const dropout &drop, uint64_t seed, uint32_t step,
                                     int64_t index, float *v)
{
    const rng_block block = rng_philox(seed, (uint64_t)index / 8, drop.purpose, step);

#pragma unroll
    for (int i = 0; i < V; i++)
        v[i] = rng_dropout_lane(block, (uint64_t)index + i) < drop.threshold ? 0.0f
                                                                             : v[i] * drop.scale;
}

/* How often, around which mean, and with which sum of squared deviations values were seen. */
struct moments {
    float count, mean, squares;
};

__device__ inline moments merge(moments a, moments b)
{
    const float count = a.count + b.count;
    const float share = count > 0 ? __fdividef(b.count, count) : 0.0f;
    const float apart = b.mean - a.mean;

    a.mean += apart * share;
    a.squares += b.squares + apart * apart * a.count * share;
    a.count = count;
    return a;
}

/* Over the 'warps' warps that share a row. 'slots' has one entry per warp of the block. */
__device__ inline moments merge_row(moments m, moments *slots, int warp, int warps, int group)
{
#pragma unroll
    for (int offset = WARP / 2; offset > 0; offset /= 2) {
        const moments other = {__shfl_xor_sync(0xffffffffu, m.count, offset),
                               __shfl_xor_sync(0xffffffffu, m.mean, offset),
                               __shfl_xor_sync(0xffffffffu, m.squares, offset)};
        m = merge(m, other);
    }
    if (warps == 1)
        return m;
    if (threadIdx.x % WARP == 0)
        slots[warp] = m;
    group_sync(1 + group, warps * WARP);
    m = slots[group * warps];
    for (int i = 1; i < warps; i++)
        m = merge(m, slots[group * warps + i]);
    return m;
}

/* Rows on their way: each thread has its own elements of some rows in shared memory, so that loads
 * are in flight while a row is worked on, without registers for them. */
constexpr int FORWARD_STAGES = 3;

/* group: the threads of one row. A block of several groups does several rows at once, and its
 * groups walk over rows. A thread holds ELEMENTS of a row, V in one access; loops over single
 * elements are not unrolled and nothing is staged for them. */
template <typename T, int V, bool DROP, int ELEMENTS, int THREADS>
__global__ void __launch_bounds__(THREADS, V > 1 && THREADS == FORWARD_THREADS ? 4 : 1)
    residual_norm(residual_norm_operands o, int64_t rows, int cols, int group_threads,
                  enum norm norm, float epsilon, dropout drop)
{
    constexpr int VECTORS = ELEMENTS / V, UNROLL = V > 1 ? VECTORS : 1, SIZE = V * sizeof(T);
    constexpr bool STAGED = V > 1;
    __shared__ moments slots[2][32];
    extern __shared__ __align__(16) char memory[];
    const int group = threadIdx.x / group_threads, lane = threadIdx.x % group_threads;
    const int groups = THREADS / group_threads;
    const int warps = group_threads / WARP, warp = threadIdx.x / WARP;
    const int64_t stride = (int64_t)gridDim.x * groups;
    const int64_t first = (int64_t)blockIdx.x * groups + group;
    int stage = 0, parity = 0;

    auto place = [&](int at, int which, int k) {
        return memory + ((((size_t)at * 2 + which) * VECTORS + k) * THREADS + threadIdx.x) * SIZE;
    };
    auto fetch = [&](int64_t row, int at) {
        if (row < rows) {
#pragma unroll
            for (int k = 0; k < VECTORS; k++) {
                const int c = (k * group_threads + lane) * V;

                if (c < cols && o.x)
                    copy_async<SIZE>(place(at, 0, k), (const T *)o.x + row * cols + c);
                if (c < cols && o.residual)
                    copy_async<SIZE>(place(at, 1, k), (const T *)o.residual + row * cols + c);
            }
        }
        copy_commit();
    };

    if (STAGED) {
        for (int i = 0; i < FORWARD_STAGES - 1; i++)
            fetch(first + i * stride, i);
    }
    for (int64_t row = first; row < rows; row += stride) {
        const int64_t base = row * cols;
        packed<T, V> v[VECTORS];
        float sum = 0, count = 0;

        if (STAGED) {
            /* The next row goes where the last one was: this thread has read it already. */
            fetch(row + (FORWARD_STAGES - 1) * stride,
                  (stage + FORWARD_STAGES - 1) % FORWARD_STAGES);
            copy_wait<FORWARD_STAGES - 1>();
        }
#pragma unroll UNROLL
        for (int k = 0; k < VECTORS; k++) {
            const int c = (k * group_threads + lane) * V;
            packed<T, V> residual;

            if (c >= cols)
                continue;
            if (o.residual)
                residual = STAGED ? *(const packed<T, V> *)place(stage, 1, k)
                                  : load_whole<V>((const T *)o.residual + base + c);
            if (o.x) {
                float x[V];

                v[k] = STAGED ? *(const packed<T, V> *)place(stage, 0, k)
                              : load_whole<V>((const T *)o.x + base + c);
#pragma unroll
                for (int i = 0; i < V; i++)
                    x[i] = to_float(v[k].element[i]);
                if (o.bias) {
                    const packed<T, V> bias = load_whole<V>((const T *)o.bias + c);

#pragma unroll
                    for (int i = 0; i < V; i++)
                        x[i] += to_float(bias.element[i]);
                }
                if (DROP && drop.threshold)
                    apply_dropout<V>(drop, drop.state->seed, (uint32_t)drop.state->iteration,
                                     o.row_index[row] * cols + c, x);
                if (o.residual) {
#pragma unroll
                    for (int i = 0; i < V; i++)
                        x[i] += to_float(residual.element[i]);
                }
                /* Rounded: the norm sees what the gradient will read back. */
#pragma unroll
                for (int i = 0; i < V; i++)
                    v[k].element[i] = from_float<T>(x[i]);
                *reinterpret_cast<packed<T, V> *>((T *)o.sum + base + c) = v[k];
            } else {
                v[k] = residual;
            }
#pragma unroll
            for (int i = 0; i < V; i++)
                sum += to_float(v[k].element[i]);
            count += V;
        }
        stage = (stage + 1) % FORWARD_STAGES;
        if (norm == NORM_NONE)
            continue;
        moments m = {count, norm == NORM_LAYER && count > 0 ? __fdividef(sum, count) : 0.0f, 0};
#pragma unroll UNROLL
        for (int k = 0; k < VECTORS; k++)
            if ((k * group_threads + lane) * V < cols) {
#pragma unroll
                for (int i = 0; i < V; i++) {
                    const float apart = to_float(v[k].element[i]) - m.mean;

                    m.squares += apart * apart;
                }
            }
        m = merge_row(m, slots[parity], warp, warps, group);
        parity ^= 1; /* the next row writes the other half: one barrier a row is enough */
        const float mean = m.mean, rstd = rsqrtf(m.squares / (float)cols + epsilon);
#pragma unroll UNROLL
        for (int k = 0; k < VECTORS; k++) {
            const int c = (k * group_threads + lane) * V;
            float y[V];

            if (c >= cols)
                continue;
            const packed<T, V> weight = load_whole<V>((const T *)o.weight + c);
#pragma unroll
            for (int i = 0; i < V; i++)
                y[i] = (to_float(v[k].element[i]) - mean) * rstd * to_float(weight.element[i]);
            if (norm == NORM_LAYER) {
                const packed<T, V> bias = load_whole<V>((const T *)o.norm_bias + c);

#pragma unroll
                for (int i = 0; i < V; i++)
                    y[i] += to_float(bias.element[i]);
            }
            store_whole<V>((T *)o.y + base + c, y);
        }
        if (lane == 0) {
            o.rstd[row] = rstd;
            if (norm == NORM_LAYER)
                o.mean[row] = mean;
        }
    }
}

/* Which column sums a call makes, and where its blocks leave their shares: (blocks, 3, cols). */
struct sums {
    float *partial;
    bool weight, norm_bias, bias;
};

/* Of the three tensors a row of the gradient needs. */
__host__ __device__ constexpr int stages_for(int elements)
{
    return elements == 16 ? 3 : 4;
}

/* A thread holds ELEMENTS of a row, V in one access. Each group walks over rows and keeps its
 * column sums in registers; the groups of a block add theirs at the end, in a fixed order. The
 * kernel is bound by instructions as much as by memory: values stay in fp32 once converted. */
template <typename T, int V, bool DROP, int ELEMENTS, int THREADS>
__global__ void __launch_bounds__(THREADS, ELEMENTS == 8 && V > 1 ? 3 : 1)
    residual_norm_backward(residual_norm_backward_operands o, int64_t rows, int cols,
                           int group_threads, enum norm norm, bool write_residual, bool write_x,
                           dropout drop, sums out)
{
    constexpr int VECTORS = ELEMENTS / V, UNROLL = V > 1 ? VECTORS : 1;
    constexpr bool STAGED = V > 1;
    constexpr int STAGES = stages_for(ELEMENTS), SIZE = V * sizeof(T);
    constexpr int TENSOR = VECTORS * THREADS * SIZE, STAGE = 3 * TENSOR;
    __shared__ float2 slots[2][32];
    extern __shared__ __align__(16) char memory[];
    const int group = threadIdx.x / group_threads, lane = threadIdx.x % group_threads;
    const int groups = blockDim.x / group_threads;
    const int warps = group_threads / WARP, warp = threadIdx.x / WARP;
    const int64_t stride = (int64_t)gridDim.x * groups;
    const int64_t first = (int64_t)blockIdx.x * groups + group;
    const float share = 1.0f / (float)cols;
    char *const own = memory + threadIdx.x * SIZE;
    float sum_weight[VECTORS][V] = {{0}}, sum_norm_bias[VECTORS][V] = {{0}},
          sum_bias[VECTORS][V] = {{0}}, weight[VECTORS][V] = {{0}};
    int parity = 0, filled = (STAGES - 1) * STAGE, used = 0;

    /* Start the loads of a row into the stage at byte 'at'. */
    auto fetch = [&](int64_t row, int at) {
        if (row < rows) {
            const int64_t from = row * cols + lane * V;

#pragma unroll
            for (int k = 0; k < VECTORS; k++) {
                const int c = k * group_threads * V;

                if (c + lane * V >= cols)
                    continue;
                if (norm != NORM_NONE) {
                    copy_async<SIZE>(own + at + k * THREADS * SIZE, (const T *)o.dy + from + c);
                    copy_async<SIZE>(own + at + TENSOR + k * THREADS * SIZE,
                                     (const T *)o.sum + from + c);
                }
                if (o.dsum)
                    copy_async<SIZE>(own + at + 2 * TENSOR + k * THREADS * SIZE,
                                     (const T *)o.dsum + from + c);
            }
        }
        copy_commit();
    };

    if (norm != NORM_NONE) {
#pragma unroll UNROLL
        for (int k = 0; k < VECTORS; k++) {
            const int c = (k * group_threads + lane) * V;

            if (c >= cols)
                continue;
            const packed<T, V> w = load_whole<V>((const T *)o.weight + c);
#pragma unroll
            for (int i = 0; i < V; i++)
                weight[k][i] = to_float(w.element[i]);
        }
    }
    if (STAGED) {
        for (int i = 0; i < STAGES - 1; i++)
            fetch(first + i * stride, i * STAGE);
    }
    for (int64_t row = first; row < rows; row += stride) {
        const int64_t base = row * cols;
        float xhat[VECTORS][V], scaled[VECTORS][V]; /* scaled: dy * weight */
        float rstd = 0, c1 = 0, c2 = 0;

        if (norm != NORM_NONE)
            rstd = o.rstd[row];
        const float shift = norm == NORM_LAYER ? -o.mean[row] * rstd : 0.0f;
        if (STAGED) {
            /* The next row goes where the last one was: this thread has read it already. */
            fetch(row + (STAGES - 1) * stride, filled);
            filled = filled == (STAGES - 1) * STAGE ? 0 : filled + STAGE;
            copy_wait<STAGES - 1>();
        }
        if (norm != NORM_NONE) {
#pragma unroll UNROLL
            for (int k = 0; k < VECTORS; k++) {
                const int c = (k * group_threads + lane) * V;
                packed<T, V> dy = {}, x = {};

                if (c < cols) {
                    if (STAGED) {
                        dy = *(const packed<T, V> *)(own + used + k * THREADS * SIZE);
                        x = *(const packed<T, V> *)(own + used + TENSOR + k * THREADS * SIZE);
                    } else {
                        dy = load_whole<V>((const T *)o.dy + base + c);
                        x = load_whole<V>((const T *)o.sum + base + c);
                    }
                }
#pragma unroll
                for (int i = 0; i < V; i++) {
                    const float g = to_float(dy.element[i]);

                    xhat[k][i] = to_float(x.element[i]) * rstd + shift;
                    scaled[k][i] = g * weight[k][i];
                    sum_weight[k][i] += g * xhat[k][i];
                    sum_norm_bias[k][i] += g;
                    c1 += scaled[k][i];
                    c2 += scaled[k][i] * xhat[k][i];
                }
            }
            c1 = warp_sum(c1);
            c2 = warp_sum(c2);
            if (warps > 1) {
                if (threadIdx.x % WARP == 0)
                    slots[parity][warp] = make_float2(c1, c2);
                group_sync(1 + group, group_threads);
                c1 = c2 = 0;
                for (int i = 0; i < warps; i++) {
                    const float2 slot = slots[parity][group * warps + i];

                    c1 += slot.x;
                    c2 += slot.y;
                }
                parity ^= 1; /* the next row writes the other half: one barrier a row is enough */
            }
            c1 = norm == NORM_LAYER ? -c1 * share * rstd : 0.0f;
            c2 *= -share * rstd;
        }
#pragma unroll UNROLL
        for (int k = 0; k < VECTORS; k++) {
            const int c = (k * group_threads + lane) * V;
            packed<T, V> dsum = {};
            float d[V];

            if (c >= cols)
                continue;
            if (o.dsum)
                dsum = STAGED
                           ? *(const packed<T, V> *)(own + used + 2 * TENSOR + k * THREADS * SIZE)
                           : load_whole<V>((const T *)o.dsum + base + c);
#pragma unroll
            for (int i = 0; i < V; i++)
                d[i] = to_float(dsum.element[i]);
            if (norm != NORM_NONE) {
#pragma unroll
                for (int i = 0; i < V; i++)
                    d[i] = scaled[k][i] * rstd + (xhat[k][i] * c2 + (d[i] + c1));
            }
            if (write_residual)
                store_whole<V>((T *)o.dresidual + base + c, d);
            if (DROP) {
                if (drop.threshold)
                    apply_dropout<V>(drop, drop.state->seed, (uint32_t)drop.state->iteration,
                                     o.row_index[row] * cols + c, d);
                if (write_x)
                    store_whole<V>((T *)o.dx + base + c, d);
            }
            if (out.bias) {
#pragma unroll
                for (int i = 0; i < V; i++)
                    sum_bias[k][i] += d[i];
            }
        }
        used = used == (STAGES - 1) * STAGE ? 0 : used + STAGE;
    }

    /* shared: (groups, cols) of one sum at a time. */
    float *shared = (float *)memory;
    if (STAGED)
        copy_wait<0>();
#pragma unroll
    for (int which = 0; which < 3; which++) {
        const bool wanted = which == 0 ? out.weight : which == 1 ? out.norm_bias : out.bias;

        if (!wanted)
            continue;
        __syncthreads();
#pragma unroll UNROLL
        for (int k = 0; k < VECTORS; k++) {
            const int c = (k * group_threads + lane) * V;

            if (c >= cols)
                continue;
#pragma unroll
            for (int i = 0; i < V; i++)
                shared[group * cols + c + i] = which == 0   ? sum_weight[k][i]
                                               : which == 1 ? sum_norm_bias[k][i]
                                                            : sum_bias[k][i];
        }
        __syncthreads();
        for (int c = threadIdx.x; c < cols; c += blockDim.x) {
            float total = 0;

            for (int g = 0; g < groups; g++)
                total += shared[g * cols + c];
            out.partial[((int64_t)blockIdx.x * 3 + which) * cols + c] = total;
        }
    }
}

/* Add up the shares of 'blocks' blocks: out[c] (+)= sum over b of partial[b * stride + c]. A block
 * does 32 columns with SHARE_WARPS warps that take shares in turn. */
struct share_sums {
    const float *partial[3];
    float *out[3];
};

constexpr int SHARE_WARPS = 32;

__global__ void add_shares(share_sums s, int64_t stride, int blocks, int64_t cols, int accumulate)
{
    __shared__ float shared[SHARE_WARPS][WARP + 1];
    const int64_t c = (int64_t)blockIdx.x * WARP + threadIdx.x;
    const int which = blockIdx.y;
    const float *partial = which == 0 ? s.partial[0] : which == 1 ? s.partial[1] : s.partial[2];
    float *out = which == 0 ? s.out[0] : which == 1 ? s.out[1] : s.out[2];
    float total = 0;

    if (!out)
        return;
    if (c < cols)
        for (int b = threadIdx.y; b < blocks; b += SHARE_WARPS)
            total += partial[b * stride + c];
    shared[threadIdx.y][threadIdx.x] = total;
    __syncthreads();
    if (threadIdx.y == 0 && c < cols) {
        total = 0;
        for (int i = 0; i < SHARE_WARPS; i++)
            total += shared[i][threadIdx.x];
        out[c] = accumulate ? out[c] + total : total;
    }
}

int round_threads(int64_t wanted, int limit)
{
    int threads = WARP;

    while (threads < wanted && threads < limit)
        threads *= 2;
    return threads;
}

dropout make_dropout(const residual_norm_shape *shape, const step_state *state, uint32_t purpose)
{
    dropout drop = {shape->dropout > 0 ? dropout_threshold(shape->dropout) : 0,
                    dropout_scale(shape->dropout), purpose, state};

    return drop;
}

struct backward_launch {
    int elements, group_threads, groups, blocks;
};

backward_launch plan_backward(const residual_norm_shape *shape, int processors)
{
    backward_launch launch;

    launch.elements = shape->cols <= 8 * 256 ? 8 : shape->cols <= 16 * 512 ? 16 : 32;
    launch.group_threads = round_threads(divide_up(shape->cols, launch.elements), 1024);
    launch.groups = launch.elements == 8    ? 256 / launch.group_threads
                    : launch.elements == 16 ? 512 / launch.group_threads
                                            : 1;
    launch.blocks = (int)smaller(divide_up(shape->rows, launch.groups),
                                 processors * (launch.elements == 8 ? 3 : 1));
    return launch;
}

} // namespace

extern "C" int kernel_residual_norm_fits(int64_t cols)
{
    return cols <= (int64_t)1024 * 32;
}

/* Shared memory beyond the usual limit, and all of it rather than cache: blocks side by side. */
template <typename Kernel> static void allow_shared(Kernel *kernel, size_t bytes)
{
    cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, (int)bytes);
    cudaFuncSetAttribute(kernel, cudaFuncAttributePreferredSharedMemoryCarveout,
                         cudaSharedmemCarveoutMaxShared);
}

template <typename T, int V, bool DROP, int ELEMENTS, int THREADS>
static void launch_forward(cudaStream_t stream, const residual_norm_shape *shape,
                           const residual_norm_operands *o, dropout drop, int processors)
{
    auto kernel = residual_norm<T, V, DROP, ELEMENTS, THREADS>;
    const int group = round_threads(divide_up(shape->cols, ELEMENTS), 1024);
    const size_t shared = V > 1 ? (size_t)FORWARD_STAGES * 2 * ELEMENTS * THREADS * sizeof(T) : 0;
    const int resident = THREADS == FORWARD_THREADS ? 4 : 1;
    const int64_t blocks = smaller(divide_up(shape->rows, THREADS / group), processors * resident);

    if (shared)
        allow_shared(kernel, shared);
    kernel<<<(unsigned)blocks, THREADS, shared, stream>>>(*o, shape->rows, (int)shape->cols, group,
                                                          shape->norm, (float)shape->epsilon, drop);
}

extern "C" void kernel_residual_norm(cudaStream_t stream, const residual_norm_shape *shape,
                                     const residual_norm_operands *operands, int processors)
{
    residual_norm_operands o = *operands;
    dropout drop = make_dropout(shape, o.state, o.purpose);
    bool wide = shape->cols % VECTOR == 0;

    if (!shape->input) {
        o.x = NULL;
        drop.threshold = 0;
    }
    if (!shape->bias)
        o.bias = NULL;
    if (shape->input && !shape->residual)
        o.residual = NULL;
    wide =
        wide && is_wide(o.x) && is_wide(o.bias) && is_wide(o.residual) && (!o.x || is_wide(o.sum));
    if (shape->norm != NORM_NONE)
        wide = wide && is_wide(o.weight) && is_wide(o.y) &&
               (shape->norm == NORM_RMS || is_wide(o.norm_bias));
#define LAUNCH(V, DROP, ELEMENTS, THREADS)                                                         \
    WITH_TYPE(shape->type, (launch_forward<T, V, DROP, ELEMENTS, THREADS>(stream, shape, &o, drop, \
                                                                          processors)))
    /* Shared memory holds the stages of 512 threads of 16-bit elements, or of 256 of any. */
    if (shape->cols > 1024 * 16)
        LAUNCH(1, true, 32, 1024);
    else if (shape->cols > FORWARD_THREADS * 16 && shape->cols <= 512 * 16 && wide &&
             shape->type != TYPE_FP32 && drop.threshold == 0)
        LAUNCH(8, false, 16, 512);
    else if (shape->cols > FORWARD_THREADS * 16)
        LAUNCH(1, true, 16, 1024);
    else if (wide && drop.threshold == 0)
        LAUNCH(8, false, 16, FORWARD_THREADS);
    else if (wide)
        LAUNCH(8, true, 16, FORWARD_THREADS);
    else
        LAUNCH(1, true, 16, FORWARD_THREADS);
#undef LAUNCH
}

extern "C" size_t kernel_residual_norm_backward_workspace(const residual_norm_shape *shape,
                                                          int processors)
{
    return (size_t)plan_backward(shape, processors).blocks * 3 * (size_t)shape->cols *
           sizeof(float);
}

extern "C" void kernel_residual_norm_backward(cudaStream_t stream, const residual_norm_shape *shape,
                                              const residual_norm_backward_operands *operands,
                                              float *workspace, int processors)
{
    const backward_launch launch = plan_backward(shape, processors);
    const int threads = launch.group_threads * launch.groups;
    const size_t sum_bytes = (size_t)launch.groups * (size_t)shape->cols * sizeof(float);
    const size_t stage_bytes = (size_t)stages_for(launch.elements) * 3 * (size_t)launch.elements *
                               (size_t)threads * type_size(shape->type);
    size_t shared = sum_bytes;
    residual_norm_backward_operands o = *operands;
    const dropout drop = make_dropout(shape, o.state, o.purpose);
    const bool norm = shape->norm != NORM_NONE;
    const sums out = {workspace, norm, shape->norm == NORM_LAYER, shape->input && shape->bias};
    const bool write_x = shape->input && shape->dropout > 0;
    const bool write_residual = shape->residual || !write_x;
    bool wide = shape->cols % VECTOR == 0 && is_wide(o.dsum) &&
                (!write_residual || is_wide(o.dresidual)) && (!write_x || is_wide(o.dx));

    if (norm)
        wide = wide && is_wide(o.dy) && is_wide(o.sum) && is_wide(o.weight);
    /* Wide rows of fp32, or with dropout: the simple kernel; they do not fit, or are rare. */
    wide = wide && (launch.elements == 8 ||
                    (launch.elements == 16 && shape->type != TYPE_FP32 && !write_x));
    if (wide && stage_bytes > shared)
        shared = stage_bytes;
#define KERNEL(V, DROP, ELEMENTS, THREADS) residual_norm_backward<T, V, DROP, ELEMENTS, THREADS>
#define LAUNCH(...)                                                                        \
    WITH_TYPE(shape->type, ({                                                              \
                  allow_shared(KERNEL(__VA_ARGS__), shared);                               \
                  KERNEL(__VA_ARGS__)<<<launch.blocks, threads, shared, stream>>>(         \
                      o, shape->rows, (int)shape->cols, launch.group_threads, shape->norm, \
                      write_residual, write_x, drop, out);                                 \
              }))
    if (launch.elements == 32)
        LAUNCH(1, true, 32, 1024);
    else if (launch.elements == 16 && wide)
        LAUNCH(8, false, 16, 512);
    else if (launch.elements == 16)
        LAUNCH(1, true, 16, 512);
    else if (wide && !write_x)
        LAUNCH(8, false, 8, 256);
    else if (wide)
        LAUNCH(8, true, 8, 256);
    else
        LAUNCH(1, true, 8, 256);
#undef LAUNCH
#undef KERNEL
    if (out.weight || out.bias) {
        const share_sums shares = {
            {workspace, workspace + shape->cols, workspace + 2 * shape->cols},
            {out.weight ? o.dweight : NULL, out.norm_bias ? o.dnorm_bias : NULL,
             out.bias ? o.dbias : NULL}};

        add_shares<<<dim3((unsigned)divide_up(shape->cols, WARP), 3), dim3(WARP, SHARE_WARPS), 0,
                     stream>>>(shares, 3 * shape->cols, launch.blocks, shape->cols, o.accumulate);
    }
}
