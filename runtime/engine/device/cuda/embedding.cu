/* SPDX-License-Identifier: Apache-2.0 */
/* Embedding. */
#include "embedding.cuh"

namespace
{

/* Each lane processes LANE_VECTORS vectors of each strip. */
template <typename T> constexpr int LANE_VECTORS = sizeof(T) == 4 ? 2 : 4;
template <typename T> constexpr int STRIP = LANE_VECTORS<T> *WARP *VECTOR;

/* Only the second table is read more than once, by every sample: keep it in the cache, and let
 * everything that is written bypass it. */
template <bool WIDE, typename T> __device__ inline packed<T> load_kept(const T *p, int64_t count)
{
    if constexpr (!WIDE) {
        return load_part<WIDE>(p, count);
    } else {
        packed<T> out = {};
        int4 *const to = reinterpret_cast<int4 *>(&out);
        uint64_t policy;

        if (count <= 0)
            return out;
        asm("createpolicy.fractional.L2::evict_last.b64 %0, 1.0;" : "=l"(policy));
#pragma unroll
        for (int i = 0; i < (int)(sizeof(out) / sizeof(int4)); i++)
            asm("ld.global.nc.L2::cache_hint.v4.s32 {%0, %1, %2, %3}, [%4], %5;"
                : "=r"(to[i].x), "=r"(to[i].y), "=r"(to[i].z), "=r"(to[i].w)
                : "l"(reinterpret_cast<const int4 *>(p) + i), "l"(policy));
        return out;
    }
}

template <bool WIDE, typename T>
__device__ inline void store_passing(T *p, const packed<T> &in, int64_t count)
{
    if constexpr (!WIDE) {
        store_part<WIDE>(p, in, count);
    } else if (count > 0) {
        const int4 *const from = reinterpret_cast<const int4 *>(&in);

#pragma unroll
        for (int i = 0; i < (int)(sizeof(in) / sizeof(int4)); i++)
            __stcs(reinterpret_cast<int4 *>(p) + i, from[i]);
    }
}

template <typename T, bool SECOND, bool WIDE>
__global__ void __launch_bounds__(THREADS, BLOCKS)
    embedding(embedding_operands o, embedding_shape s, strips split)
{
    constexpr int COUNT = LANE_VECTORS<T>;
    const int warp = threadIdx.x / WARP, lane = threadIdx.x % WARP;
    const int64_t strip = (int64_t)blockIdx.y * split.warps + warp % split.warps;
    const int64_t c = strip * STRIP<T> + lane * VECTOR;
    const int64_t row = (int64_t)blockIdx.x * split.rows + warp / split.warps;

    if (row >= s.rows)
        return;
    const int64_t at = o.index[row] - s.first;
    const bool known = at >= 0 && at < s.table_rows;
    const T *const from = (const T *)o.table + (known ? at : 0) * s.cols + c;
    const T *const other =
        SECOND ? (const T *)o.second_table + (int64_t)o.second_index[row] * s.cols + c : NULL;
    T *const out = (T *)o.out + row * s.cols + c;
    const int left = (int)(s.cols - c);
    packed<T> v[COUNT], w[COUNT];

#pragma unroll
    for (int k = 0; k < COUNT; k++) {
        const int count = left - k * WARP * VECTOR;

        v[k] = load_part<WIDE>(from + k * WARP * VECTOR, known ? count : 0);
        if (SECOND)
            w[k] = load_kept<WIDE>(other + k * WARP * VECTOR, count);
    }
#pragma unroll
    for (int k = 0; k < COUNT; k++) {
        const int count = left - k * WARP * VECTOR;
        float sum[VECTOR], more[VECTOR];

        if (!SECOND && !s.accumulate) {
            store_part<WIDE>(out + k * WARP * VECTOR, v[k], count);
            continue;
        }
        unpack(v[k], sum);
        if (SECOND) {
            unpack(w[k], more);
#pragma unroll
            for (int i = 0; i < VECTOR; i++)
                sum[i] += more[i];
        }
        if (s.accumulate) {
            unpack(load_part<WIDE>(out + k * WARP * VECTOR, count), more);
#pragma unroll
            for (int i = 0; i < VECTOR; i++)
                sum[i] += more[i];
        }
        if (SECOND)
            store_passing<WIDE>(out + k * WARP * VECTOR, pack<T>(sum), count);
        else
            store_part<WIDE>(out + k * WARP * VECTOR, pack<T>(sum), count);
    }
}

template <typename T, bool SECOND>
void launch(cudaStream_t stream, const embedding_shape *s, const embedding_operands *o)
{
    const strips split = split_columns(s->cols, STRIP<T>);
    const dim3 grid((unsigned)divide_up(s->rows, split.rows), (unsigned)split.parts);
    const int threads = split.warps * split.rows * WARP;
    const bool wide = s->cols % VECTOR == 0 && is_wide(o->table) && is_wide(o->out) &&
                      (!SECOND || is_wide(o->second_table));

    if (wide)
        embedding<T, SECOND, true><<<grid, threads, 0, stream>>>(*o, *s, split);
    else
        embedding<T, SECOND, false><<<grid, threads, 0, stream>>>(*o, *s, split);
}

} // namespace

extern "C" void kernel_embedding(cudaStream_t stream, const embedding_shape *s,
                                 const embedding_operands *o)
{
    if (s->rows == 0)
        return;
    if (s->second)
        WITH_TYPE(s->type, (launch<T, true>(stream, s, o)));
    else
        WITH_TYPE(s->type, (launch<T, false>(stream, s, o)));
}
