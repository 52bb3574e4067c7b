/* Attention with its scores in memory: the masked softmax between two matrix products, and its
 * gradient. For types, head sizes and dropout that the library's kernel does not have. */
#include "dropout.cuh"

namespace
{

constexpr int THREADS = 256;
constexpr int WARPS = THREADS / WARP, WALK = THREADS * VECTOR;

struct mask {
    int64_t from, to; /* keys this query sees: from <= key < to */

    __device__ inline bool sees(int64_t key) const
    {
        return key >= from && key < to;
    }

    /* Of the eight from 'key' on? */
    __device__ inline bool sees_some(int64_t key) const
    {
        return key + VECTOR > from && key < to;
    }
};

__device__ inline mask visible(const attention_shape &s, const int32_t *document_start,
                               const int32_t *positions, int64_t sample, int64_t query)
{
    mask m = {0, s.kv_rows};

    if (s.cached)
        m.to = positions[sample * s.q_rows + query] + 1;
    else if (s.causal)
        m.to = query + s.kv_rows - s.q_rows + 1;
    if (s.documents)
        m.from = document_start[sample * s.q_rows + query];
    return m;
}

/* The keys of a row, eight at a time: a thread's first of those from 'first' on. */
__device__ inline int64_t first_keys(int64_t first)
{
    return first / VECTOR * VECTOR + threadIdx.x * VECTOR;
}

/* What is dropped of a row's probabilities. */
struct row_dropout {
    numbers n;
    int64_t first; /* number of the row's first element */
    float scale;   /* of what is kept */

    /* Of eight keys from 'key' on: those whose bit is set are dropped. */
    __device__ inline uint32_t dropped(int64_t key) const
    {
        return n.threshold ? dropped_from<false>(n, first + key) : 0;
    }
};

/* O: the operands of either direction. */
template <typename O>
__device__ inline row_dropout dropout_of(const attention_shape &s, const O &o, int64_t sample,
                                         int64_t head, int64_t query)
{
    row_dropout d = {{}, 0, 1.0f};

    if (s.dropout > 0) {
        const int64_t row = o.row_index[sample * s.q_rows + query];

        d.scale = dropout_scale(s.dropout);
        d.n = numbers_of({dropout_threshold(s.dropout), d.scale, o.purpose, o.state});
        d.first = ((row / s.sequence * s.all_heads + s.first_head + head) * s.sequence +
                   row % s.sequence) *
                  s.sequence;
    }
    return d;
}

__device__ inline float block_reduce(float x, bool maximum)
{
    __shared__ float shared[WARPS];

    x = maximum ? warp_max(x) : warp_sum(x);
    __syncthreads();
    if (threadIdx.x % WARP == 0)
        shared[threadIdx.x / WARP] = x;
    __syncthreads();
    x = shared[0];
    for (int w = 1; w < WARPS; w++)
        x = maximum ? fmaxf(x, shared[w]) : x + shared[w];
    return x;
}

/* Call 'each' with this thread's share of the scores of a row that the query sees. WIDE: rows are
 * whole vectors. */
template <bool WIDE, typename F>
__device__ inline void walk_seen(const float *scores, int64_t keys, const mask &m, F each)
{
    for (int64_t key = first_keys(m.from); key < m.to; key += WALK) {
        float v[VECTOR];

        unpack(load_part<WIDE>(scores + key, keys - key), v);
#pragma unroll
        for (int i = 0; i < VECTOR; i++)
            if (m.sees(key + i))
                each(v[i]);
    }
}

/* One block per (query, head). */
template <typename T, bool WIDE>
__global__ void __launch_bounds__(THREADS)
    softmax(attention_operands o, attention_shape s, int64_t sample, const float *scores,
            T *probabilities)
{
    const int64_t query = blockIdx.x, head = blockIdx.y;
    const int64_t base = (head * s.q_rows + query) * s.kv_rows;
    const mask m = visible(s, o.document_start, o.positions, sample, query);
    const row_dropout drop = dropout_of(s, o, sample, head, query);
    const float scale = (float)s.scale;
    float maximum = -INFINITY, sum = 0;

    walk_seen<WIDE>(scores + base, s.kv_rows, m,
                    [&](float score) { maximum = fmaxf(maximum, score * scale); });
    maximum = block_reduce(maximum, true);
    walk_seen<WIDE>(scores + base, s.kv_rows, m,
                    [&](float score) { sum += expf(score * scale - maximum); });
    sum = block_reduce(sum, false);
    for (int64_t key = first_keys(0); key < s.kv_rows; key += WALK) {
        float v[VECTOR] = {0};

        if (m.sees_some(key)) {
            const uint32_t dropped = drop.dropped(key);

            unpack(load_part<WIDE>(scores + base + key, s.kv_rows - key), v);
#pragma unroll
            for (int i = 0; i < VECTOR; i++)
                v[i] = m.sees(key + i) && !(dropped >> i & 1)
                           ? expf(v[i] * scale - maximum) / sum * drop.scale
                           : 0.0f;
        }
        store_part<WIDE>(probabilities + base + key, pack<T>(v), s.kv_rows - key);
    }
    if (threadIdx.x == 0)
        o.lse[(sample * s.heads + head) * s.q_rows + query] = maximum + logf(sum);
}

/* One warp per (sample, query, head). */
template <typename T>
__global__ void __launch_bounds__(THREADS)
    attention_delta(attention_shape s, const T *out, const T *dout, float *delta)
{
    const int64_t i = (int64_t)blockIdx.x * WARPS + threadIdx.x / WARP;
    const int64_t query = i % s.q_rows, head = i / s.q_rows % s.heads;
    const int64_t sample = i / s.q_rows / s.heads;
    float sum = 0;

    if (sample >= s.batch)
        return;
    const int64_t base = sample * s.out.batch + query * s.out.row + head * s.out.head;
    for (int64_t c = threadIdx.x % WARP; c < s.head_size; c += WARP)
        sum += to_float(out[base + c]) * to_float(dout[base + c]);
    sum = warp_sum(sum);
    if (threadIdx.x % WARP == 0)
        delta[i] = sum;
}

template <typename T, bool WIDE>
__global__ void __launch_bounds__(THREADS)
    softmax_backward(attention_backward_operands o, attention_shape s, int64_t sample,
                     const float *scores, const float *dp, const float *delta, T *probabilities,
                     T *dscores)
{
    const int64_t query = blockIdx.x, head = blockIdx.y;
    const int64_t row = (sample * s.heads + head) * s.q_rows + query;
    const int64_t base = (head * s.q_rows + query) * s.kv_rows;
    const mask m = visible(s, o.document_start, nullptr, sample, query);
    const row_dropout drop = dropout_of(s, o, sample, head, query);
    const float scale = (float)s.scale, lse = o.lse[row], share = delta[row];

    for (int64_t key = first_keys(0); key < s.kv_rows; key += WALK) {
        float v[VECTOR] = {0}, d[VECTOR] = {0};

        if (m.sees_some(key)) {
            const uint32_t dropped = drop.dropped(key);

            unpack(load_part<WIDE>(scores + base + key, s.kv_rows - key), v);
            unpack(load_part<WIDE>(dp + base + key, s.kv_rows - key), d);
#pragma unroll
            for (int i = 0; i < VECTOR; i++) {
                const bool seen = m.sees(key + i);
                const float p = seen ? expf(v[i] * scale - lse) : 0.0f;
                const float kept = dropped >> i & 1 ? 0.0f : drop.scale;

                v[i] = p * kept;
                d[i] = seen ? p * (d[i] * kept - share) * scale : 0.0f;
            }
        }
        store_part<WIDE>(probabilities + base + key, pack<T>(v), s.kv_rows - key);
        store_part<WIDE>(dscores + base + key, pack<T>(d), s.kv_rows - key);
    }
}

__global__ void draw_seed(const step_state *state, uint32_t purpose, const int64_t *row_index,
                          int64_t heads, int64_t first_head, int64_t *out)
{
    const uint64_t number = (uint64_t)((row_index ? *row_index : 0) * heads + first_head);
    const uint64_t bits = rng_bits(state->seed, purpose, (uint32_t)state->iteration, number);

    out[0] = (int64_t)(bits >> 1);
    /* Each of cuDNN's numbers serves four probabilities of a head. From an offset that is a
     * multiple of four these are of the same key, and four rows drop the same; from 2 on it is two
     * rows, the least there is. */
    out[1] = 2;
}

/* Scores and probabilities are parts of a workspace, aligned by themselves. */
bool in_vectors(const attention_shape *s)
{
    return s->kv_rows % VECTOR == 0;
}

template <typename T>
void launch(cudaStream_t stream, const attention_shape *s, int64_t sample, const float *scores,
            T *probabilities, const attention_operands *o)
{
    const dim3 grid((unsigned)s->q_rows, (unsigned)s->heads);
    const auto kernel = in_vectors(s) ? softmax<T, true> : softmax<T, false>;

    kernel<<<grid, THREADS, 0, stream>>>(*o, *s, sample, scores, probabilities);
}

template <typename T>
void launch_backward(cudaStream_t stream, const attention_shape *s, int64_t sample,
                     const float *scores, const float *dp, const float *delta, T *probabilities,
                     T *dscores, const attention_backward_operands *o)
{
    const dim3 grid((unsigned)s->q_rows, (unsigned)s->heads);
    const auto kernel = in_vectors(s) ? softmax_backward<T, true> : softmax_backward<T, false>;

    kernel<<<grid, THREADS, 0, stream>>>(*o, *s, sample, scores, dp, delta, probabilities, dscores);
}

} // namespace

extern "C" void kernel_draw_seed(cudaStream_t stream, const attention_shape *s,
                                 const step_state *state, uint32_t purpose,
                                 const int64_t *row_index, int64_t *out)
{
    draw_seed<<<1, 1, 0, stream>>>(state, purpose, row_index, s->all_heads, s->first_head, out);
}

extern "C" void kernel_softmax(cudaStream_t stream, const attention_shape *s, int64_t sample,
                               const float *scores, void *probabilities,
                               const attention_operands *o)
{
    WITH_TYPE(s->type, (launch(stream, s, sample, scores, (T *)probabilities, o)));
}

extern "C" void kernel_attention_delta(cudaStream_t stream, const attention_shape *s,
                                       const void *out, const void *dout, float *delta)
{
    const unsigned blocks = (unsigned)divide_up(s->batch * s->heads * s->q_rows, WARPS);

    WITH_TYPE(s->type, (attention_delta<<<blocks, THREADS, 0, stream>>>(*s, (const T *)out,
                                                                        (const T *)dout, delta)));
}

extern "C" void kernel_softmax_backward(cudaStream_t stream, const attention_shape *s,
                                        int64_t sample, const float *scores, const float *dp,
                                        const float *delta, void *probabilities, void *dscores,
                                        const attention_backward_operands *o)
{
    WITH_TYPE(s->type, (launch_backward(stream, s, sample, scores, dp, delta, (T *)probabilities,
                                        (T *)dscores, o)));
}
