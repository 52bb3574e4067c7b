/* SPDX-License-Identifier: Apache-2.0 */
/* Sorts rows by their indices.
 *
 * CUB's radix sort is not used: it needs the number of rows on the host, makes several passes over
 * all of them, and finding where each index starts takes another kernel. Here three overlapping
 * kernels (launch_early) do all of it. On an H200 this takes 10 to 36 microseconds for 4,096 to
 * 262,144 rows and CUB's sort 13 to 71: 1.08 to 4.6 times as long, 2.7 in the median. t/gpu/sort
 * checks that both agree, and times them. */
#ifndef MEGATRON_RUNS_CUH
#define MEGATRON_RUNS_CUH

#include "common.cuh"

namespace
{

/* Stable sort of rows by index: they are distributed to buckets by the lowest eight bits, in which
 * adjacent frequent indices differ, then a block sorts each bucket by the other bits, eight at a
 * time. Rows that are not in this table are skipped. */
constexpr int DIGIT_BITS = 8, DIGITS = 1 << DIGIT_BITS;
constexpr int SORT_THREADS = 1024, SORT_WARPS = SORT_THREADS / WARP;
constexpr int BATCH = 4; /* keys of a lane loaded together */
constexpr uint32_t FOREIGN = 0xffffffffu;

/* The sort key of a row: the bucket, then the other 'bits' bits of the index. */
__device__ inline uint32_t key_of(int64_t at, int bits)
{
    return (uint32_t)(at & (DIGITS - 1)) << bits | (uint32_t)(at >> DIGIT_BITS);
}

struct __align__(8) entry
{
    uint32_t key;
    int32_t row;
};

struct indices {
    const int32_t *index;
    int64_t first, table_rows;
    int bits;

    __device__ inline entry get(int i) const
    {
        const int64_t at = index[i] - first;

        return {at >= 0 && at < table_rows ? key_of(at, bits) : FOREIGN, i};
    }
};

struct entries {
    const entry *list;

    __device__ inline entry get(int i) const
    {
        return list[i];
    }
};

/* This lane's part of the next BATCH * WARP entries. */
template <typename S>
__device__ inline void get_batch(const S &source, int base, int to, entry (&e)[BATCH])
{
    const int lane = threadIdx.x % WARP;

#pragma unroll
    for (int j = 0; j < BATCH; j++) {
        const int i = base + j * WARP + lane;

        e[j] = i < to ? source.get(i) : entry{FOREIGN, 0};
    }
}

template <typename S>
__device__ inline void count_digits(const S &source, int from, int to, int shift, uint32_t *count)
{
    for (int base = from; base < to; base += BATCH * WARP) {
        entry e[BATCH];

        get_batch(source, base, to, e);
#pragma unroll
        for (int j = 0; j < BATCH; j++)
            if (e[j].key != FOREIGN)
                atomicAdd(&count[e[j].key >> shift & (DIGITS - 1)], 1u);
    }
}

/* Scatter a warp's entries to 'next', the next position of each digit. */
template <typename S>
__device__ inline void place_entries(const S &source, int from, int to, int shift, uint32_t *next,
                                     entry *out)
{
    const int lane = threadIdx.x % WARP;

    for (int base = from; base < to; base += BATCH * WARP) {
        entry e[BATCH];

        get_batch(source, base, to, e);
#pragma unroll
        for (int j = 0; j < BATCH; j++) {
            if (base + j * WARP >= to)
                continue;
            const bool valid = e[j].key != FOREIGN;
            const uint32_t digit = valid ? e[j].key >> shift & (DIGITS - 1) : DIGITS;
            const uint32_t peers = __match_any_sync(0xffffffffu, digit);
            const uint32_t below = __popc(peers & ((1u << lane) - 1));
            const uint32_t at = valid ? next[digit] + below : 0;

            __syncwarp();
            if (valid && below == 0)
                next[digit] += __popc(peers);
            __syncwarp();
            if (valid)
                out[at] = e[j];
        }
    }
}

/* Inclusive prefix sum over the lanes. */
__device__ inline uint32_t warp_scan(uint32_t x)
{
    const int lane = threadIdx.x % WARP;

#pragma unroll
    for (int offset = 1; offset < WARP; offset *= 2) {
        const uint32_t below = __shfl_up_sync(0xffffffffu, x, offset);

        if (lane >= offset)
            x += below;
    }
    return x;
}

/* Exclusive prefix sum of one number per thread over a block of SORT_THREADS threads. Contains a
 * barrier. */
__device__ inline uint32_t block_scan(uint32_t value)
{
    __shared__ uint32_t warps[SORT_WARPS];
    const int lane = threadIdx.x % WARP, warp = threadIdx.x / WARP;
    const uint32_t sum = warp_scan(value);

    if (lane == WARP - 1)
        warps[warp] = sum;
    __syncthreads();
    return __reduce_add_sync(0xffffffffu, lane < warp ? warps[lane] : 0) + sum - value;
}

__device__ inline void clear(uint32_t (&next)[SORT_WARPS][DIGITS])
{
#pragma unroll
    for (int i = 0; i < SORT_WARPS * DIGITS / SORT_THREADS; i++)
        (&next[0][0])[i * SORT_THREADS + threadIdx.x] = 0;
}

/* Turn the warps' counts of a digit into positions, starting at 'at'. */
__device__ inline void counts_to_places(uint32_t (&next)[SORT_WARPS][DIGITS], int digit,
                                        uint32_t at)
{
#pragma unroll
    for (int w = 0; w < SORT_WARPS; w++) {
        const uint32_t here = next[w][digit];

        next[w][digit] = at;
        at += here;
    }
}

/* The tile of a block, divided among its warps. */
struct tile_part {
    int from, to;
};

__device__ inline tile_part part_of_warp(int64_t rows, int part)
{
    const int64_t from = ((int64_t)blockIdx.x * SORT_WARPS + threadIdx.x / WARP) * part;

    return {(int)min(from, rows), (int)min(from + part, rows)};
}

/* Also clears 'pieces'. */
__global__ void __launch_bounds__(SORT_THREADS)
    count_buckets(indices source, int64_t rows, int part, uint32_t *count, int *pieces)
{
    __shared__ uint32_t shared[DIGITS];
    const tile_part mine = part_of_warp(rows, part);

    let_next_start();
    if (threadIdx.x < DIGITS)
        shared[threadIdx.x] = 0;
    __syncthreads();
    count_digits(source, mine.from, mine.to, source.bits, shared);
    __syncthreads();
    if (threadIdx.x < DIGITS)
        count[blockIdx.x * DIGITS + threadIdx.x] = shared[threadIdx.x];
    if (blockIdx.x == 0 && threadIdx.x == 0)
        *pieces = 0;
}

/* 'count': (tiles, DIGITS). 'starts': (DIGITS + 1), the start of each bucket. */
__global__ void __launch_bounds__(SORT_THREADS)
    fill_buckets(indices source, int64_t rows, int part, const uint32_t *count, uint32_t *starts,
                 entry *out)
{
    __shared__ uint32_t next[SORT_WARPS][DIGITS], sums[2][SORT_THREADS];
    const int warp = threadIdx.x / WARP, digit = threadIdx.x % DIGITS;
    const tile_part mine = part_of_warp(rows, part);
    uint32_t before = 0, all = 0;

    clear(next);
    let_next_start();
    wait_for_previous();
#pragma unroll 8
    for (int tile = threadIdx.x / DIGITS; tile < gridDim.x; tile += SORT_THREADS / DIGITS) {
        const uint32_t here = count[tile * DIGITS + digit];

        all += here;
        before += tile < blockIdx.x ? here : 0;
    }
    sums[0][threadIdx.x] = before;
    sums[1][threadIdx.x] = all;
    __syncthreads();
    count_digits(source, mine.from, mine.to, source.bits, next[warp]);
    before = all = 0;
    if (threadIdx.x < DIGITS)
        for (int i = digit; i < SORT_THREADS; i += DIGITS) {
            before += sums[0][i];
            all += sums[1][i];
        }
    const uint32_t start = block_scan(all);
    if (threadIdx.x < DIGITS) {
        counts_to_places(next, digit, start + before);
        if (blockIdx.x == 0)
            starts[digit] = start;
        if (blockIdx.x == 0 && digit == DIGITS - 1)
            starts[DIGITS] = start + all;
    }
    __syncthreads();
    place_entries(source, mine.from, mine.to, source.bits, next[warp], out);
}

/* Sort a block's entries from .. to - 1 by one digit. */
__device__ inline void sort_digit(const entry *in, entry *out, int from, int to, int shift)
{
    __shared__ uint32_t next[SORT_WARPS][DIGITS];
    const int warp = threadIdx.x / WARP, digit = threadIdx.x;
    const int part = (to - from + SORT_THREADS - 1) / SORT_THREADS * WARP;
    const int begin = min(from + warp * part, to), end = min(begin + part, to);
    uint32_t all = 0;

    clear(next);
    __syncthreads();
    count_digits(entries{in}, begin, end, shift, next[warp]);
    __syncthreads();
    if (digit < DIGITS)
#pragma unroll
        for (int w = 0; w < SORT_WARPS; w++)
            all += next[w][digit];
    const uint32_t start = from + block_scan(all);
    if (digit < DIGITS)
        counts_to_places(next, digit, start);
    __syncthreads();
    place_entries(entries{in}, begin, end, shift, next[warp], out);
    __syncthreads();
}

/* The rows of one index are a run. A run longer than 'longest' is also divided into pieces of
 * 'segment' rows, a SHARE of all rows if there are many, so that no run finishes much later than
 * the others. */
constexpr int LEAST_SEGMENT = 64, MOST_SEGMENT = 512, SHARE = 2048;

struct piece {
    int from, to; /* of the sorted */
    int64_t number;
};

struct run_table {
    const entry *sorted;
    uint32_t *first; /* start of each run, by key; one more for the end */
    int bits;        /* for key_of */
    int segment, longest;
    piece *list; /* unordered */
    int *pieces; /* how many */
};

/* Numbers of pieces are unique because a run with pieces is longer than a segment. */
__device__ inline int64_t first_piece(int from, int segment)
{
    return 2 * (int64_t)(from / segment);
}

__device__ inline void list_pieces(const run_table &runs, int from, int to)
{
    const int count = (to - from - 1) / runs.segment + 1;
    piece *const list = runs.list + atomicAdd(runs.pieces, count);

    for (int i = 0; i < count; i++) {
        const int at = from + i * runs.segment;

        list[i] = {at, min(at + runs.segment, to), first_piece(from, runs.segment) + i};
    }
}

/* Sort a bucket by the other bits, and find its runs. */
__global__ void __launch_bounds__(SORT_THREADS)
    sort_buckets(entry *in, entry *out, const uint32_t *starts, run_table runs)
{
    let_next_start();
    wait_for_previous();
    const int from = (int)starts[blockIdx.x], to = (int)starts[blockIdx.x + 1];
    const int64_t low = (int64_t)blockIdx.x << runs.bits, high = low + ((int64_t)1 << runs.bits);

    for (int shift = 0; shift < runs.bits; shift += DIGIT_BITS) {
        sort_digit(in, out, from, to, shift);
        entry *const sorted = out;
        out = in;
        in = sorted;
    }
    for (int i = from + (int)threadIdx.x; i <= to; i += SORT_THREADS) {
        const int64_t begin = i == from ? low : (int64_t)in[i - 1].key + 1;
        const int64_t end = i == to ? high : (int64_t)in[i].key + 1;

        for (int64_t key = begin; key < end; key++)
            runs.first[key] = (uint32_t)i;
    }
    if (blockIdx.x == gridDim.x - 1 && threadIdx.x == 0)
        runs.first[high] = (uint32_t)to;
    __syncthreads();
    for (int64_t key = low + threadIdx.x; key < high; key += SORT_THREADS) {
        const int begin = (int)runs.first[key];
        const int end = key + 1 < high ? (int)runs.first[key + 1] : to;

        if (end - begin > runs.longest)
            list_pieces(runs, begin, end);
    }
}

struct run_layout {
    int bits, segment;
    int64_t buckets, pieces; /* pieces: the maximum, also of their numbers */
    size_t entry_bytes, count_bytes, start_bytes, first_bytes, list_bytes, total;
};

inline size_t round_up(int64_t count, size_t size)
{
    return ((size_t)count * size + 255) / 256 * 256;
}

inline run_layout plan_runs(int64_t rows, int64_t table_rows)
{
    run_layout l = {};

    while ((table_rows - 1) >> l.bits >= DIGITS)
        l.bits++;
    l.buckets = smaller(table_rows, DIGITS);
    l.segment = (int)smaller(rows / SHARE, MOST_SEGMENT);
    l.segment = l.segment < LEAST_SEGMENT ? LEAST_SEGMENT : l.segment;
    l.pieces = rows > 2 * l.segment ? 2 * divide_up(rows, l.segment) : 0;
    l.entry_bytes = round_up(rows, sizeof(entry));
    l.count_bytes = round_up((int64_t)processor_count() * DIGITS, sizeof(uint32_t));
    l.start_bytes = round_up(DIGITS + 1, sizeof(uint32_t));
    l.first_bytes = round_up((l.buckets << l.bits) + 1, sizeof(uint32_t));
    l.list_bytes = round_up(l.pieces, sizeof(piece));
    l.total = 2 * l.entry_bytes + l.count_bytes + l.start_bytes + l.first_bytes + l.list_bytes +
              round_up(1, sizeof(int));
    return l;
}

/* Sort rows (at least one) by index and find the runs, in a workspace of plan_runs(..).total bytes.
 * The first kernel is launched normally: the work before it does not let it start early. */
inline run_table find_runs(cudaStream_t stream, const embedding_shape *s, const int32_t *index,
                           void *workspace)
{
    const run_layout l = plan_runs(s->rows, s->table_rows);
    const indices source = {index, s->first, s->table_rows, l.bits};
    entry *const list[2] = {(entry *)workspace, (entry *)((char *)workspace + l.entry_bytes)};
    uint32_t *const count = (uint32_t *)((char *)list[1] + l.entry_bytes);
    uint32_t *const starts = (uint32_t *)((char *)count + l.count_bytes);
    run_table runs = {};

    runs.sorted = list[divide_up(l.bits, DIGIT_BITS) % 2];
    runs.first = (uint32_t *)((char *)starts + l.start_bytes);
    runs.bits = l.bits;
    runs.segment = l.segment;
    runs.longest = 2 * l.segment;
    runs.list = (piece *)((char *)runs.first + l.first_bytes);
    runs.pieces = (int *)((char *)runs.list + l.list_bytes);
    const int64_t tiles = smaller(divide_up(s->rows, SORT_THREADS), processor_count());
    const int part = (int)divide_up(s->rows, tiles * SORT_THREADS) * WARP;
    count_buckets<<<(unsigned)tiles, SORT_THREADS, 0, stream>>>(source, s->rows, part, count,
                                                                runs.pieces);
    launch_early(stream, tiles, SORT_THREADS, fill_buckets, source, s->rows, part, count, starts,
                 list[0]);
    launch_early(stream, l.buckets, SORT_THREADS, sort_buckets, list[0], list[1], starts, runs);
    return runs;
}

} // namespace

#endif
