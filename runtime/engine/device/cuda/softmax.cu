/* SPDX-License-Identifier: Apache-2.0 */
/* Attention with its scores in memory: the masked softmax between two matrix products, and its
 * gradient. For types and head sizes that the library's kernel does not support, and for dropout
 * that is the same on every layout of ranks. */
#include "dropout.cuh"

namespace
{

constexpr int THREADS = 256, WARPS = THREADS / WARP;
constexpr int MOST_THREADS = 512; /* threads of a block that processes one row */

/* Vectors of a row that a thread keeps in registers. */
constexpr int HELD = 2;

constexpr float LN_2 = 0.6931471805599453f;
constexpr float LOWEST = -3.4028235e38f; /* unlike with -INFINITY, the difference of two is a
                                            number */

/* From products of queries and keys to powers of two: their factor, and the soft cap if there is
 * one. */
struct score_scale {
    float by, cap;

    __device__ inline score_scale(const attention_shape &s)
        : by((float)s.scale * LOG2_E), cap((float)s.softcap * LOG2_E)
    {
    }

    /* v becomes the scores. */
    __device__ inline void apply(float *v) const
    {
#pragma unroll
        for (int i = 0; i < VECTOR; i++)
            v[i] *= by;
        if (cap > 0)
#pragma unroll
            for (int i = 0; i < VECTOR; i++)
                v[i] = cap * tanhf(v[i] / cap);
    }

    /* The score of one product, less 'lse'. */
    __device__ inline float less(float product, float lse) const
    {
        return cap > 0 ? cap * tanhf(product * by / cap) - lse : product * by - lse;
    }

    /* The derivative of the cap at a product. */
    __device__ inline float slope(float product) const
    {
        const float t = tanhf(product * by / cap);

        return 1.0f - t * t;
    }
};

/* The keys that a query sees. */
struct mask {
    int first, count;

    __device__ inline bool sees(int key) const
    {
        return (unsigned)(key - first) < (unsigned)count;
    }

    /* Does the query see each of the eight keys starting at 'key'? */
    __device__ inline bool sees_some(int key) const
    {
        return key + VECTOR > first && key < first + count;
    }

    __device__ inline bool sees_eight(int key) const
    {
        return key >= first && key + VECTOR <= first + count;
    }
};

__device__ inline mask visible(const attention_shape &s, const int32_t *document_start,
                               const int32_t *document_end, const int32_t *positions,
                               int64_t sample, int64_t query)
{
    int first = 0, end = (int)s.kv_rows;

    if (s.cached)
        end = min(positions[sample * s.q_rows + query] + 1, end);
    else if (s.causal)
        end = (int)(query + s.kv_rows - s.q_rows + 1);
    if (s.ends)
        end = min(document_end[sample * s.q_rows + query], end);
    if (s.documents)
        first = document_start[sample * s.q_rows + query];
    return {first, max(end - first, 0)};
}

/* The dropout mask of a row's probabilities. ALIGNED: the number of the row's first element is a
 * multiple of eight. */
template <bool ALIGNED> struct row_dropout {
    numbers n;
    int64_t first; /* number of the row's first element */
    float scale;   /* scale of the elements that are kept */

    /* The mask of eight keys starting at 'key': a set bit means dropped. */
    __device__ inline uint32_t dropped(int key) const
    {
        return n.threshold ? dropped_meanwhile<ALIGNED>(n, first + key) : 0;
    }
};

/* O: the operands of either direction. */
template <bool ALIGNED, typename O>
__device__ inline row_dropout<ALIGNED> dropout_of(const attention_shape &s, const O &o,
                                                  int64_t sample, int64_t head, int64_t query)
{
    row_dropout<ALIGNED> d = {{}, 0, 1.0f};

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

/* A part of a row that the threads of a block hold at once, HELD vectors each. */
struct part {
    float v[HELD][VECTOR];
    uint32_t dropped[HELD];

    /* The first key of one of this thread's vectors if the part starts at 'first'. */
    static __device__ inline int key(int first, int which)
    {
        return first + (int)(which * blockDim.x + threadIdx.x) * VECTOR;
    }

    static __device__ inline int width()
    {
        return HELD * (int)blockDim.x * VECTOR;
    }

    /* Load scores, scaled; -INFINITY if a key is not seen. Returns the maximum. */
    template <bool ALIGNED>
    __device__ inline float load(const float *scores, int first, const mask &m,
                                 const score_scale &scale, const row_dropout<ALIGNED> &drop)
    {
        float most = LOWEST;
        packed<float> in[HELD];

#pragma unroll
        for (int k = 0; k < HELD; k++)
            in[k] = load_part<true>(scores + key(first, k), m.sees_some(key(first, k)));
#pragma unroll
        for (int k = 0; k < HELD; k++)
            dropped[k] = m.sees_some(key(first, k)) ? drop.dropped(key(first, k)) : 0;
#pragma unroll
        for (int k = 0; k < HELD; k++) {
            unpack(in[k], v[k]);
            scale.apply(v[k]);
            if (!m.sees_eight(key(first, k)))
#pragma unroll
                for (int i = 0; i < VECTOR; i++)
                    v[k][i] = m.sees(key(first, k) + i) ? v[k][i] : -INFINITY;
#pragma unroll
            for (int i = 0; i < VECTOR; i++)
                most = fmaxf(most, v[k][i]);
        }
        return most;
    }

    /* Compute powers of two relative to that of 'most'. Returns their sum. */
    __device__ inline float raise(float most)
    {
        float sum = 0;

#pragma unroll
        for (int k = 0; k < HELD; k++)
#pragma unroll
            for (int i = 0; i < VECTOR; i++)
                sum += v[k][i] = power_of_two(v[k][i] - most);
        return sum;
    }

    template <typename T>
    __device__ inline void store(T *probabilities, int first, int keys, float factor) const
    {
#pragma unroll
        for (int k = 0; k < HELD; k++) {
            float p[VECTOR];

#pragma unroll
            for (int i = 0; i < VECTOR; i++)
                p[i] = dropped[k] >> i & 1 ? 0.0f : v[k][i] * factor;
            store_part<true>(probabilities + key(first, k), pack<T>(p), keys - key(first, k));
        }
    }
};

/* A sum of powers of two, relative to the largest of them. */
struct power_sum {
    float most, sum;
};

__device__ inline power_sum warp_total(power_sum t)
{
    const float most = warp_max(t.most);

    return {most, warp_sum(t.sum * power_of_two(t.most - most))};
}

/* Reduce over all threads of the block; call once per kernel. */
__device__ inline power_sum block_total(power_sum t)
{
    __shared__ power_sum shared[MOST_THREADS / WARP];
    const int lane = threadIdx.x % WARP, warps = blockDim.x / WARP;

    t = warp_total(t);
    if (warps == 1)
        return t;
    if (lane == 0)
        shared[threadIdx.x / WARP] = t;
    __syncthreads();
    return warp_total(lane < warps ? shared[lane] : power_sum{LOWEST, 0});
}

/* One block per (query, head). WHOLE: it holds a whole row, which is read twice otherwise. */
template <typename T, bool WHOLE, bool ALIGNED>
__global__ void __launch_bounds__(MOST_THREADS)
    softmax(attention_operands o, attention_shape s, int64_t sample, int pitch, const float *scores,
            T *probabilities)
{
    const int64_t query = blockIdx.x, head = blockIdx.y;
    const int64_t base = (head * s.q_rows + query) * pitch;
    const mask m = visible(s, o.document_start, o.document_end, o.positions, sample, query);
    const auto drop = dropout_of<ALIGNED>(s, o, sample, head, query);
    const score_scale scale(s);
    const int end = WHOLE ? 1 : pitch;                        /* of where parts begin */
    const auto drawn = WHOLE ? drop : row_dropout<ALIGNED>{}; /* once */
    power_sum mine = {LOWEST, 0};
    part p;

    for (int first = 0; first < end; first += part::width()) {
        const float most = fmaxf(mine.most, p.load(scores + base, first, m, scale, drawn));

        mine.sum = mine.sum * power_of_two(mine.most - most) + p.raise(most);
        mine.most = most;
    }
    const power_sum all = block_total(mine);
    const float factor =
        m.count > 0 ? power_of_two(mine.most - all.most) / all.sum * drop.scale : 0.0f;

    for (int first = 0; first < end; first += part::width()) {
        if (!WHOLE) {
            p.load(scores + base, first, m, scale, drop);
            p.raise(mine.most);
        }
        p.store(probabilities + base, first, pitch, factor);
    }
    if (threadIdx.x == 0)
        o.lse[(sample * s.heads + head) * s.q_rows + query] = (all.most + log2f(all.sum)) * LN_2;
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

template <typename T, bool ALIGNED>
__global__ void __launch_bounds__(THREADS)
    softmax_backward(attention_backward_operands o, attention_shape s, int64_t sample, int pitch,
                     const float *scores, const float *dp, const float *delta, T *probabilities,
                     T *dscores)
{
    const int64_t query = blockIdx.x, head = blockIdx.y;
    const int64_t row = (sample * s.heads + head) * s.q_rows + query;
    const int64_t base = (head * s.q_rows + query) * pitch;
    const mask m = visible(s, o.document_start, o.document_end, nullptr, sample, query);
    const auto drop = dropout_of<ALIGNED>(s, o, sample, head, query);
    const score_scale to_score(s);
    const float scale = (float)s.scale, lse = o.lse[row] * LOG2_E, share = delta[row];

    for (int key = (int)threadIdx.x * VECTOR; key < pitch; key += (int)blockDim.x * VECTOR) {
        float v[VECTOR] = {0}, d[VECTOR] = {0};

        if (m.sees_some(key)) {
            const packed<float> score = load_whole<VECTOR>(scores + base + key);
            const packed<float> gradient = load_whole<VECTOR>(dp + base + key);
            const uint32_t dropped = drop.dropped(key);

            unpack(score, v);
            unpack(gradient, d);
#pragma unroll
            for (int i = 0; i < VECTOR; i++) {
                const bool seen = m.sees(key + i);
                const float p = seen ? power_of_two(to_score.less(v[i], lse)) : 0.0f;
                const float kept = dropped >> i & 1 ? 0.0f : drop.scale;
                const float slope = to_score.cap > 0 ? scale * to_score.slope(v[i]) : scale;

                v[i] = p * kept;
                d[i] = seen ? p * (d[i] * kept - share) * slope : 0.0f;
            }
        }
        store_part<true>(probabilities + base + key, pack<T>(v), VECTOR);
        store_part<true>(dscores + base + key, pack<T>(d), VECTOR);
    }
}

__global__ void draw_seed(const step_state *state, uint32_t purpose, const int64_t *row_index,
                          int64_t heads, int64_t first_head, int64_t *out)
{
    const uint64_t number = (uint64_t)((row_index ? *row_index : 0) * heads + first_head);
    const uint64_t bits = rng_bits(state->seed, purpose, (uint32_t)state->iteration, number);

    out[0] = (int64_t)(bits >> 1);
    /* cuDNN uses each random number for four probabilities of a head. With an offset that is a
     * multiple of four they belong to the same key, so four rows have the same mask; with offset 2
     * only two rows do, which is the minimum. */
    out[1] = 2;
}

/* Do rows start at multiples of eight? */
bool is_aligned(const attention_shape *s)
{
    return s->dropout == 0 || s->sequence % VECTOR == 0;
}

/* As many threads as a row of scores keeps busy, at this many vectors per thread. */
unsigned threads_for(const attention_shape *s, int vectors, int64_t most)
{
    const int64_t warps = divide_up(s->kv_rows, (int64_t)WARP * VECTOR * vectors);

    return (unsigned)min(warps * WARP, most);
}

template <typename T, bool ALIGNED> auto softmax_kernel(bool whole)
{
    return whole ? softmax<T, true, ALIGNED> : softmax<T, false, ALIGNED>;
}

template <typename T>
void launch(cudaStream_t stream, const attention_shape *s, int64_t sample, int pitch,
            const float *scores, T *probabilities, const attention_operands *o)
{
    const dim3 grid((unsigned)s->q_rows, (unsigned)s->heads);
    const unsigned threads = threads_for(s, HELD, MOST_THREADS);
    const bool whole = pitch <= HELD * (int)threads * VECTOR;
    const auto kernel =
        is_aligned(s) ? softmax_kernel<T, true>(whole) : softmax_kernel<T, false>(whole);

    kernel<<<grid, threads, 0, stream>>>(*o, *s, sample, pitch, scores, probabilities);
}

template <typename T>
void launch_backward(cudaStream_t stream, const attention_shape *s, int64_t sample, int pitch,
                     const float *scores, const float *dp, const float *delta, T *probabilities,
                     T *dscores, const attention_backward_operands *o)
{
    const dim3 grid((unsigned)s->q_rows, (unsigned)s->heads);
    const auto kernel = is_aligned(s) ? softmax_backward<T, true> : softmax_backward<T, false>;

    kernel<<<grid, threads_for(s, 1, THREADS), 0, stream>>>(*o, *s, sample, pitch, scores, dp,
                                                            delta, probabilities, dscores);
}

} // namespace

extern "C" void kernel_draw_seed(cudaStream_t stream, const attention_shape *s,
                                 const step_state *state, uint32_t purpose,
                                 const int64_t *row_index, int64_t *out)
{
    draw_seed<<<1, 1, 0, stream>>>(state, purpose, row_index, s->all_heads, s->first_head, out);
}

extern "C" void kernel_softmax(cudaStream_t stream, const attention_shape *s, int64_t sample,
                               int pitch, const float *scores, void *probabilities,
                               const attention_operands *o)
{
    WITH_TYPE(s->type, (launch(stream, s, sample, pitch, scores, (T *)probabilities, o)));
}

extern "C" void kernel_attention_delta(cudaStream_t stream, const attention_shape *s,
                                       const void *out, const void *dout, float *delta)
{
    const unsigned blocks = (unsigned)divide_up(s->batch * s->heads * s->q_rows, WARPS);

    WITH_TYPE(s->type, (attention_delta<<<blocks, THREADS, 0, stream>>>(*s, (const T *)out,
                                                                        (const T *)dout, delta)));
}

extern "C" void kernel_softmax_backward(cudaStream_t stream, const attention_shape *s,
                                        int64_t sample, int pitch, const float *scores,
                                        const float *dp, const float *delta, void *probabilities,
                                        void *dscores, const attention_backward_operands *o)
{
    WITH_TYPE(s->type, (launch_backward(stream, s, sample, pitch, scores, dp, delta,
                                        (T *)probabilities, (T *)dscores, o)));
}
