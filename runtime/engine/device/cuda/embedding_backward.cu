/* SPDX-License-Identifier: Apache-2.0 */
/* The gradient of an embedding adds the rows of one index in a fixed order: rows are sorted by
 * index, then each row of the table is summed and written once. Long runs are first summed in
 * pieces. */
#include "embedding.cuh"
#include "runs.cuh"

namespace
{

/* Sums of rows. WIDE: all rows are aligned and consist of pairs of vectors. */
constexpr int SUM_STRIP = WARP * VECTOR;

/* A warp processes table rows with about GROUP_ROWS rows in total, but at most MOST_GROUP table
 * rows. */
constexpr int GROUP_ROWS = 32, MOST_GROUP = 4;

struct backward {
    run_table runs;
    const void *dout;
    float *pieces; /* by number, (.., cols) */
    void *dtable;
    int64_t cols, table_rows;
    int64_t groups; /* of rows of the table */
    int accumulate;
};

/* Iterates over the sorted rows of up to 32 runs, one vector per lane, with several loads in
 * flight. */
template <typename T> constexpr int SLOTS = sizeof(T) == 4 ? 4 : 8;

template <typename T, bool WIDE> struct reader {
    const entry *sorted;
    const T *dout; /* of this lane's columns */
    int64_t cols, left;
    packed<T> *slots; /* (SLOTS, THREADS), of this thread */
    int start;        /* of this lane's run among all these rows */
    int place;        /* row i of them is sorted[place + i], for i in this lane's run */
    int length, asked, taken;
    int row, ahead; /* this lane's index of the current 32, and of the next 32 */

    __device__ inline reader(const backward &b, int64_t c)
        : sorted(b.runs.sorted), dout((const T *)b.dout + c), cols(b.cols), left(b.cols - c)
    {
        if constexpr (WIDE) {
            __shared__ packed<T> shared[SLOTS<T>][THREADS];

            slots = &shared[0][threadIdx.x];
        }
    }

    /* Start; this lane's run is 'count' sorted rows starting at 'from'. */
    __device__ inline void begin(int from, int count)
    {
        const int end = (int)warp_scan((uint32_t)count);

        start = end - count;
        place = from - start;
        length = __shfl_sync(0xffffffffu, end, WARP - 1);
        asked = taken = 0;
        ahead = row_number(threadIdx.x % WARP);
        if constexpr (WIDE)
            for (int i = 0; i < SLOTS<T>; i++)
                ask();
    }

    __device__ inline int row_number(int i)
    {
        int run = 0;

#pragma unroll
        for (int step = WARP / 2; step > 0; step /= 2)
            run += __shfl_sync(0xffffffffu, start, run + step) <= i ? step : 0;
        const int at = __shfl_sync(0xffffffffu, place, run) + i;
        return i < length ? sorted[at].row : 0;
    }

    __device__ inline const T *next(void)
    {
        const int i = asked % WARP;

        if (i == 0) {
            row = ahead;
            if (asked + WARP < length)
                ahead = row_number(asked + WARP + threadIdx.x % WARP);
        }
        return dout + __shfl_sync(0xffffffffu, row, i) * cols;
    }

    __device__ inline void ask(void)
    {
        if (asked < length) {
            const T *const from = next();

            if (left > 0)
                copy_async<sizeof(packed<T>)>(slots + asked % SLOTS<T> * THREADS, from);
        }
        copy_commit();
        asked++;
    }

    __device__ inline packed<T> take(void)
    {
        if constexpr (WIDE) {
            copy_wait<SLOTS<T> - 1>();
            const packed<T> v = slots[taken++ % SLOTS<T> * THREADS];

            ask();
            return v;
        } else {
            const T *const from = next();

            asked++;
            return load_packed(from, left, false);
        }
    }

    __device__ inline void add(int count, float *sum)
    {
#pragma unroll 4
        for (int i = 0; i < count; i++) {
            float w[VECTOR];

            unpack(take(), w);
#pragma unroll
            for (int k = 0; k < VECTOR; k++)
                sum[k] += w[k];
        }
    }
};

/* Blocks iterate over the parts of rows; each processes split.rows items at once. */
__device__ inline int64_t item_of(const strips &split)
{
    return (int64_t)(blockIdx.x / split.parts) * split.rows + threadIdx.x / WARP / split.warps;
}

__device__ inline int64_t column_of(const strips &split)
{
    const int warp = threadIdx.x / WARP, lane = threadIdx.x % WARP;
    const int64_t strip = (int64_t)(blockIdx.x % split.parts) * split.warps + warp % split.warps;

    return strip * SUM_STRIP + lane * VECTOR;
}

template <typename T, bool WIDE>
__global__ void __launch_bounds__(THREADS, BLOCKS) sum_pieces(backward b, strips split)
{
    const int64_t c = column_of(split), step = gridDim.x / split.parts * split.rows;
    reader<T, WIDE> rows(b, c);

    let_next_start();
    wait_for_previous();
    const int pieces = *b.runs.pieces;
    for (int64_t i = item_of(split); i < pieces; i += step) {
        const piece p = b.runs.list[i];
        const int count = p.to - p.from;
        float sum[VECTOR] = {0};

        rows.begin(p.from, threadIdx.x % WARP == 0 ? count : 0);
        rows.add(count, sum);
        store_part<WIDE>(b.pieces + p.number * b.cols + c, pack<float>(sum), b.cols - c);
    }
}

/* Add up the pieces of a long run. */
template <bool WIDE>
__device__ inline void add_pieces(const backward &b, int from, int length, int64_t c, float *sum)
{
    const int count = (length - 1) / b.runs.segment + 1;
    const float *const pieces = b.pieces + first_piece(from, b.runs.segment) * b.cols + c;

#pragma unroll 4
    for (int i = 0; i < count; i++) {
        float w[VECTOR];

        unpack(load_part<WIDE>(pieces + i * b.cols, b.cols - c), w);
#pragma unroll
        for (int k = 0; k < VECTOR; k++)
            sum[k] += w[k];
    }
}

/* Store eight floats of each lane to consecutive addresses, in accesses of whole sectors: pairs of
 * lanes exchange halves. 'out': the address of this lane's floats. */
__device__ inline void store_pairs(float *out, const float *v, bool valid, bool accumulate)
{
    const bool odd = threadIdx.x % 2;
    float got[VECTOR / 2];
    float4 low, high;

#pragma unroll
    for (int k = 0; k < VECTOR / 2; k++)
        got[k] = __shfl_xor_sync(0xffffffffu, odd ? v[k] : v[k + VECTOR / 2], 1);
    if (odd) {
        low = make_float4(got[0], got[1], got[2], got[3]);
        high = make_float4(v[4], v[5], v[6], v[7]);
    } else {
        low = make_float4(v[0], v[1], v[2], v[3]);
        high = make_float4(got[0], got[1], got[2], got[3]);
    }
    /* The pair has floats 0 to 15: low has 0 and 4, high has 8 and 12. */
    float4 *const to = (float4 *)(out - (odd ? VECTOR - VECTOR / 2 : 0));
    if (!valid)
        return;
    if (accumulate) {
        const float4 a = to[0], b = to[2];

        low = make_float4(low.x + a.x, low.y + a.y, low.z + a.z, low.w + a.w);
        high = make_float4(high.x + b.x, high.y + b.y, high.z + b.z, high.w + b.w);
    }
    to[0] = low;
    to[2] = high;
}

/* G: the type of the table's gradient. */
template <typename G, bool WIDE>
__device__ inline void store_sum(const backward &b, int64_t at, int64_t c, float *sum)
{
    G *const out = (G *)b.dtable + at * b.cols + c;

    if constexpr (WIDE && sizeof(G) == sizeof(float)) {
        store_pairs(out, sum, c < b.cols, b.accumulate);
    } else {
        float old[VECTOR];

        unpack(load_part<WIDE>(out, b.accumulate ? b.cols - c : 0), old);
#pragma unroll
        for (int k = 0; k < VECTOR; k++)
            sum[k] += old[k];
        store_part<WIDE>(out, pack<G>(sum), b.cols - c);
    }
}

/* One warp per 256 columns of several table rows, which are far apart because frequent ones are
 * often neighbors. */
template <typename T, typename G, bool WIDE>
__global__ void __launch_bounds__(THREADS, BLOCKS) add_runs(backward b, strips split)
{
    const int64_t group = item_of(split), c = column_of(split);
    const int64_t mine = group + threadIdx.x % WARP * b.groups; /* this lane's of the table */
    reader<T, WIDE> rows(b, c);
    int from = 0, length = 0;

    wait_for_previous();
    if (group >= b.groups)
        return;
    if (mine < b.table_rows) {
        const uint32_t key = key_of(mine, b.runs.bits);

        from = (int)b.runs.first[key];
        length = (int)b.runs.first[key + 1] - from;
    }
    rows.begin(from, length > b.runs.longest ? 0 : length);
    int64_t at = group;
    for (int i = 0; at < b.table_rows; i++, at += b.groups) {
        const int count = __shfl_sync(0xffffffffu, length, i);
        float sum[VECTOR] = {0};

        if (count > b.runs.longest)
            add_pieces<WIDE>(b, __shfl_sync(0xffffffffu, from, i), count, c, sum);
        else
            rows.add(count, sum);
        if (count > 0 || !b.accumulate)
            store_sum<G, WIDE>(b, at, c, sum);
    }
}

template <typename T, typename G, bool WIDE>
void launch_sums(cudaStream_t stream, const backward &b, int64_t pieces)
{
    const strips split = split_columns(b.cols, SUM_STRIP);
    const int threads = split.warps * split.rows * WARP;
    const int64_t most = divide_up((int64_t)processor_count() * BLOCKS, split.parts);

    if (pieces)
        launch_early(stream, smaller(divide_up(pieces, split.rows), most) * split.parts, threads,
                     sum_pieces<T, WIDE>, b, split);
    launch_early(stream, divide_up(b.groups, split.rows) * split.parts, threads,
                 add_runs<T, G, WIDE>, b, split);
}

template <typename T, bool WIDE>
void launch_sums(cudaStream_t stream, const backward &b, int64_t pieces, device_type gradient)
{
    if (gradient == TYPE_BF16)
        launch_sums<T, bf16, WIDE>(stream, b, pieces);
    else
        launch_sums<T, float, WIDE>(stream, b, pieces);
}

} // namespace

extern "C" size_t kernel_embedding_backward_workspace(const embedding_shape *s)
{
    const run_layout l = plan_runs(s->rows, s->table_rows);

    return l.total + (size_t)(l.pieces * s->cols) * sizeof(float);
}

extern "C" void kernel_embedding_backward(cudaStream_t stream, const embedding_shape *s,
                                          const embedding_backward_operands *o, void *workspace)
{
    const run_layout l = plan_runs(s->rows, s->table_rows);
    const int64_t group = smaller(1 + GROUP_ROWS * s->table_rows / (s->rows + 1), MOST_GROUP);
    backward b = {};

    if (s->rows == 0 && !o->accumulate)
        cudaMemsetAsync(o->dtable, 0, (size_t)(s->table_rows * s->cols) * type_size(s->gradient),
                        stream);
    if (s->table_rows == 0 || s->rows == 0)
        return;
    b.runs = find_runs(stream, s, o->index, workspace);
    b.dout = o->dout;
    b.pieces = (float *)((char *)workspace + l.total);
    b.dtable = o->dtable;
    b.cols = s->cols;
    b.table_rows = s->table_rows;
    b.groups = divide_up(s->table_rows, group);
    b.accumulate = o->accumulate;
    if (s->cols % (2 * VECTOR) == 0 && is_wide(o->dout) && is_wide(o->dtable))
        WITH_TYPE(s->type, (launch_sums<T, true>(stream, b, l.pieces, s->gradient)));
    else
        WITH_TYPE(s->type, (launch_sums<T, false>(stream, b, l.pieces, s->gradient)));
}
