/* Embedding and its gradient. The gradient adds the rows of one index in a fixed order: rows are
 * sorted by index (stable), then each row of the table is summed and written once; what many rows
 * add to is summed in segments first. */
#include "common.cuh"

namespace
{

constexpr int THREADS = 256;
constexpr int WARPS = THREADS / WARP;
constexpr int BLOCKS = 4; /* on a multiprocessor at a time */

/* Rows cut into strips, a warp for each strip; a block does several rows side by side where they
 * have few strips. */
struct strips {
    int warps; /* of a row, in a block */
    int rows;  /* side by side in a block */
    int parts; /* blocks side by side on a row: gridDim.y */
};

strips split_columns(int64_t cols, int strip)
{
    const int64_t all = divide_up(cols, strip);
    const int warps = (int)smaller(all, WARPS);

    return {warps, WARPS / warps, (int)divide_up(all, warps)};
}

/* A lane does LANE_VECTORS vectors of each strip. */
template <typename T> constexpr int LANE_VECTORS = sizeof(T) == 4 ? 2 : 4;
template <typename T> constexpr int STRIP = LANE_VECTORS<T> *WARP *VECTOR;

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
            w[k] = load_part<WIDE>(other + k * WARP * VECTOR, count);
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
        store_part<WIDE>(out + k * WARP * VECTOR, pack<T>(sum), count);
    }
}

/* Stable radix sort of (index, row), eight bits at a time. A block does a tile of keys, a warp a
 * consecutive part of the tile. The first pass takes its keys from the indices themselves. */
constexpr int DIGITS = 256;
constexpr int SORT_WARPS = 8;
constexpr int WARP_KEYS = 256;
constexpr int TILE = SORT_WARPS * WARP_KEYS;

struct sort_buffers {
    uint32_t *key[2];
    int32_t *row[2];
    uint32_t *count; /* (DIGITS, tiles) */
    uint32_t *total; /* (DIGITS) */
};

struct sort_source {
    const int32_t *index; /* of the first pass, NULL afterwards */
    const uint32_t *key;
    int64_t first;
    uint32_t table_rows;
};

/* Rows that are not of this table go to the end. */
__device__ inline uint32_t key_at(const sort_source &from, int64_t i)
{
    if (!from.index)
        return from.key[i];
    const int64_t at = from.index[i] - from.first;

    return at >= 0 && at < from.table_rows ? (uint32_t)at : from.table_rows;
}

__global__ void count_digits(sort_source from, int64_t rows, int shift, uint32_t *count)
{
    __shared__ uint32_t shared[DIGITS];
    const int64_t base = (int64_t)blockIdx.x * TILE;

    shared[threadIdx.x] = 0;
    __syncthreads();
#pragma unroll
    for (int i = 0; i < TILE / DIGITS; i++) {
        const int64_t at = base + i * DIGITS + threadIdx.x;

        if (at < rows)
            atomicAdd(&shared[key_at(from, at) >> shift & (DIGITS - 1)], 1u);
    }
    __syncthreads();
    count[threadIdx.x * gridDim.x + blockIdx.x] = shared[threadIdx.x];
}

/* The sum of 'x' of this lane and those below it. */
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

/* Exclusive prefix sum over the tiles of one digit, in place, and its total: a warp a digit. */
__global__ void scan_digits(uint32_t *count, uint32_t *total, int tiles)
{
    const int lane = threadIdx.x % WARP;
    const int digit = (int)(blockIdx.x * blockDim.x + threadIdx.x) / WARP;
    uint32_t *const of = count + (int64_t)digit * tiles;
    uint32_t before = 0;

    for (int base = 0; base < tiles; base += WARP) {
        const uint32_t value = base + lane < tiles ? of[base + lane] : 0;
        const uint32_t sum = warp_scan(value);

        if (base + lane < tiles)
            of[base + lane] = before + sum - value;
        before += __shfl_sync(0xffffffffu, sum, WARP - 1);
    }
    if (lane == 0)
        total[digit] = before;
}

/* Exclusive prefix sum of one number of each of a block's DIGITS threads. */
__device__ inline uint32_t block_scan(uint32_t value)
{
    __shared__ uint32_t warps[DIGITS / WARP];
    const int lane = threadIdx.x % WARP, warp = threadIdx.x / WARP;
    const uint32_t sum = warp_scan(value);
    uint32_t before = 0;

    if (lane == WARP - 1)
        warps[warp] = sum;
    __syncthreads();
    for (int w = 0; w < warp; w++)
        before += warps[w];
    return before + sum - value;
}

__global__ void __launch_bounds__(DIGITS)
    scatter(sort_source from, const int32_t *from_row, uint32_t *to_key, int32_t *to_row,
            const uint32_t *count, const uint32_t *total, int64_t rows, int shift)
{
    __shared__ uint32_t place[SORT_WARPS][DIGITS];
    const int lane = threadIdx.x % WARP, warp = threadIdx.x / WARP;
    const int64_t base = (int64_t)blockIdx.x * TILE + warp * WARP_KEYS;
    uint32_t key[WARP_KEYS / WARP];

#pragma unroll
    for (int w = 0; w < SORT_WARPS; w++)
        place[w][threadIdx.x] = 0;
#pragma unroll
    for (int i = 0; i < WARP_KEYS / WARP; i++)
        key[i] = base + i * WARP + lane < rows ? key_at(from, base + i * WARP + lane) : 0;
    uint32_t next = count[threadIdx.x * gridDim.x + blockIdx.x];
    next += block_scan(total[threadIdx.x]); /* a barrier: 'place' is all 0 */
#pragma unroll
    for (int i = 0; i < WARP_KEYS / WARP; i++)
        if (base + i * WARP + lane < rows)
            atomicAdd(&place[warp][key[i] >> shift & (DIGITS - 1)], 1u);
    __syncthreads();
#pragma unroll
    for (int w = 0; w < SORT_WARPS; w++) {
        const uint32_t here = place[w][threadIdx.x];

        place[w][threadIdx.x] = next;
        next += here;
    }
    __syncthreads();
#pragma unroll
    for (int i = 0; i < WARP_KEYS / WARP; i++) {
        const int64_t row = base + i * WARP + lane;
        const bool valid = row < rows;
        const uint32_t digit = valid ? key[i] >> shift & (DIGITS - 1) : DIGITS;
        const uint32_t peers = __match_any_sync(0xffffffffu, digit);
        const uint32_t below = __popc(peers & ((1u << lane) - 1));
        uint32_t at = 0;

        if (valid)
            at = place[warp][digit] + below;
        __syncwarp();
        if (valid && below == 0)
            place[warp][digit] += __popc(peers);
        __syncwarp();
        if (valid) {
            to_key[at] = key[i];
            to_row[at] = from_row ? from_row[row] : (int32_t)row;
        }
    }
}

/* Which sorted rows belong to a row of the table: from x on, before y. All 0 before. */
__global__ void mark_runs(const uint32_t *key, int64_t rows, uint32_t table_rows, int2 *runs)
{
    const int64_t i = (int64_t)blockIdx.x * THREADS + threadIdx.x;

    if (i >= rows || key[i] >= table_rows)
        return;
    if (i == 0 || key[i - 1] != key[i])
        runs[key[i]].x = (int)i;
    if (i == rows - 1 || key[i + 1] != key[i])
        runs[key[i]].y = (int)i + 1;
}

/* Sums of rows. WIDE: all rows are aligned, and made of pairs of vectors. */

/* Runs of more than LONG rows are summed in pieces: what of them lies in each SEGMENT sorted rows.
 * A segment has at most two, the end of one run and the start of another. */
constexpr int SEGMENT = 128, LONG = 256;
constexpr int SUM_STRIP = WARP * VECTOR;

/* Blocks of sums for each that a multiprocessor has at a time: runs differ in length. */
constexpr int ROUNDS = 8;

struct backward {
    const int32_t *row; /* sorted */
    const uint32_t *key;
    const int2 *runs;
    const void *dout;
    float *pieces, *dtable; /* pieces: (segments, 2, cols) */
    int64_t rows, cols, table_rows;
    int accumulate;
};

/* Add sorted rows from .. to - 1 in their order; 'id' is this lane's of the first 32. */
template <typename T, bool WIDE>
__device__ inline void add_rows(const backward &b, int from, int to, int id, int64_t c, float *sum)
{
    constexpr int TOGETHER = 4;
    const int lane = threadIdx.x % WARP;
    const T *const dout = (const T *)b.dout + c;

    for (int base = from; base < to; base += WARP) {
        const int length = min(to - base, WARP), ahead = base + WARP + lane;
        const int next = ahead < to ? b.row[ahead] : 0;

        for (int i = 0; i < length; i += TOGETHER) {
            packed<T> v[TOGETHER];

            /* Most runs are short: what is not there costs nothing. */
#pragma unroll
            for (int j = 0; j < TOGETHER; j++)
                if (i + j < length)
                    v[j] = load_part<WIDE>(dout + __shfl_sync(0xffffffffu, id, i + j) * b.cols,
                                           b.cols - c);
#pragma unroll
            for (int j = 0; j < TOGETHER; j++)
                if (i + j < length) {
                    float w[VECTOR];

                    unpack(v[j], w);
#pragma unroll
                    for (int k = 0; k < VECTOR; k++)
                        sum[k] += w[k];
                }
        }
        id = next;
    }
}

template <typename T, bool WIDE>
__global__ void __launch_bounds__(THREADS, BLOCKS) add_segments(backward b, strips split)
{
    const int warp = threadIdx.x / WARP, lane = threadIdx.x % WARP;
    const int64_t segment = (int64_t)blockIdx.x * split.rows + warp / split.warps;
    const int64_t c =
        ((int64_t)blockIdx.y * split.warps + warp % split.warps) * SUM_STRIP + lane * VECTOR;
    const int64_t first = segment * SEGMENT, end = min(first + SEGMENT, b.rows);

    if (first >= b.rows)
        return;
    const uint32_t keys[2] = {b.key[first], b.key[end - 1]};
    for (int which = 0; which < 2; which++) {
        if (keys[which] >= b.table_rows || (which && keys[1] == keys[0]))
            continue;
        const int2 run = b.runs[keys[which]];
        const int from = max(run.x, (int)first), to = min(run.y, (int)end);
        float sum[VECTOR] = {0};

        if (run.y - run.x <= LONG)
            continue;
        add_rows<T, WIDE>(b, from, to, from + lane < to ? b.row[from + lane] : 0, c, sum);
        store_part<WIDE>(b.pieces + (segment * 2 + which) * b.cols + c, pack<float>(sum),
                         b.cols - c);
    }
}

/* Add up the pieces of a long run. */
template <bool WIDE>
__device__ inline void add_pieces(const backward &b, int2 run, int64_t c, float *sum)
{
    const int64_t last = (run.y - 1) / SEGMENT;

#pragma unroll 4
    for (int64_t segment = run.x / SEGMENT; segment <= last; segment++) {
        /* The second piece is the one of a run that starts within the segment. */
        const int which = run.x > segment * SEGMENT;
        float w[VECTOR];

        unpack(load_part<WIDE>(b.pieces + (segment * 2 + which) * b.cols + c, b.cols - c), w);
#pragma unroll
        for (int k = 0; k < VECTOR; k++)
            sum[k] += w[k];
    }
}

/* Eight floats of each lane to consecutive places, in accesses of whole sectors: lanes in pairs
 * exchange halves. 'out': of this lane's floats. */
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
    /* The pair has floats 0 to 15: low is 0 and 4, high 8 and 12. */
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

/* Each row of the table: a warp for 256 of its columns. While one is summed, the row numbers of the
 * next and the run of the one after that are on their way. */
template <typename T, bool WIDE>
__global__ void __launch_bounds__(THREADS, BLOCKS) add_runs(backward b, strips split)
{
    const int warp = threadIdx.x / WARP, lane = threadIdx.x % WARP;
    const int64_t step = (int64_t)gridDim.x * split.rows;
    const int64_t c =
        ((int64_t)blockIdx.y * split.warps + warp % split.warps) * SUM_STRIP + lane * VECTOR;
    int64_t at = (int64_t)blockIdx.x * split.rows + warp / split.warps;
    const int2 none = make_int2(0, 0);
    int2 run = at < b.table_rows ? b.runs[at] : none;
    int2 next = at + step < b.table_rows ? b.runs[at + step] : none;
    int id = run.x + lane < run.y ? b.row[run.x + lane] : 0;

    for (; at < b.table_rows; at += step) {
        const int2 after = at + 2 * step < b.table_rows ? b.runs[at + 2 * step] : none;
        const int next_id = next.x + lane < next.y ? b.row[next.x + lane] : 0;
        float *const out = b.dtable + at * b.cols + c;
        float sum[VECTOR] = {0};

        if (run.y - run.x > LONG)
            add_pieces<WIDE>(b, run, c, sum);
        else
            add_rows<T, WIDE>(b, run.x, run.y, id, c, sum);
        if (run.y > run.x || !b.accumulate) {
            if (WIDE) {
                store_pairs(out, sum, c < b.cols, b.accumulate);
            } else {
                float old[VECTOR];

                load_vector(out, old, b.accumulate ? b.cols - c : 0, false);
#pragma unroll
                for (int k = 0; k < VECTOR; k++)
                    sum[k] += old[k];
                store_vector(out, sum, b.cols - c, false);
            }
        }
        run = next;
        next = after;
        id = next_id;
    }
}

struct layout {
    size_t keys, counts, totals, runs, pieces, total;
    int64_t tiles, segments;
};

size_t round_up(int64_t count, size_t size)
{
    return ((size_t)count * size + 255) / 256 * 256;
}

layout plan(const embedding_shape *s)
{
    layout l;

    l.tiles = divide_up(s->rows, TILE);
    l.segments = s->rows > LONG ? divide_up(s->rows, SEGMENT) : 0;
    l.keys = round_up(s->rows, sizeof(uint32_t));
    l.counts = round_up(DIGITS * l.tiles, sizeof(uint32_t));
    l.totals = round_up(DIGITS, sizeof(uint32_t));
    l.runs = round_up(s->table_rows, sizeof(int2));
    l.pieces = round_up(l.segments * 2 * s->cols, sizeof(float));
    l.total = 4 * l.keys + l.counts + l.totals + l.runs + l.pieces;
    return l;
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

/* Sort rows by index. Returns which of the buffers has them. */
int sort_rows(cudaStream_t stream, const embedding_shape *s, const int32_t *index,
              const sort_buffers &b, int64_t tiles)
{
    sort_source from = {index, NULL, s->first, (uint32_t)s->table_rows};
    const int32_t *from_row = NULL;
    int to = 0;

    for (int shift = 0; shift < 32 && (s->table_rows >> shift) > 0; shift += 8, to ^= 1) {
        count_digits<<<(unsigned)tiles, DIGITS, 0, stream>>>(from, s->rows, shift, b.count);
        scan_digits<<<DIGITS * WARP / THREADS, THREADS, 0, stream>>>(b.count, b.total, (int)tiles);
        scatter<<<(unsigned)tiles, DIGITS, 0, stream>>>(from, from_row, b.key[to], b.row[to],
                                                        b.count, b.total, s->rows, shift);
        from.index = NULL;
        from.key = b.key[to];
        from_row = b.row[to];
    }
    return to ^ 1;
}

template <typename T, bool WIDE>
void launch_sums(cudaStream_t stream, const backward &b, int64_t segments)
{
    const strips split = split_columns(b.cols, SUM_STRIP);
    const int threads = split.warps * split.rows * WARP;

    if (segments) {
        const dim3 grid((unsigned)divide_up(segments, split.rows), (unsigned)split.parts);

        add_segments<T, WIDE><<<grid, threads, 0, stream>>>(b, split);
    }
    const int64_t most = divide_up((int64_t)processor_count() * BLOCKS * ROUNDS, split.parts);
    const int64_t blocks = smaller(divide_up(b.table_rows, split.rows), most);

    add_runs<T, WIDE>
        <<<dim3((unsigned)blocks, (unsigned)split.parts), threads, 0, stream>>>(b, split);
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

extern "C" size_t kernel_embedding_backward_workspace(const embedding_shape *shape)
{
    return plan(shape).total;
}

extern "C" void kernel_embedding_backward(cudaStream_t stream, const embedding_shape *s,
                                          const embedding_backward_operands *o, void *workspace)
{
    const layout l = plan(s);
    char *at = (char *)workspace;
    sort_buffers sorted;

    for (int i = 0; i < 2; i++, at += 2 * l.keys) {
        sorted.key[i] = (uint32_t *)at;
        sorted.row[i] = (int32_t *)(at + l.keys);
    }
    sorted.count = (uint32_t *)at;
    sorted.total = (uint32_t *)(at + l.counts);
    int2 *runs = (int2 *)(at + l.counts + l.totals);
    float *pieces = (float *)((char *)runs + l.runs);
    backward b = {NULL,      NULL,    runs,    o->dout,       pieces,
                  o->dtable, s->rows, s->cols, s->table_rows, o->accumulate};

    cudaMemsetAsync(runs, 0, (size_t)s->table_rows * sizeof(int2), stream);
    if (s->rows > 0) {
        const int now = sort_rows(stream, s, o->index, sorted, l.tiles);

        b.key = sorted.key[now];
        b.row = sorted.row[now];
        mark_runs<<<(unsigned)divide_up(s->rows, THREADS), THREADS, 0, stream>>>(
            b.key, s->rows, (uint32_t)s->table_rows, runs);
    }
    if (s->cols % (2 * VECTOR) == 0 && is_wide(o->dout) && is_wide(o->dtable))
        WITH_TYPE(s->type, (launch_sums<T, true>(stream, b, l.segments)));
    else
        WITH_TYPE(s->type, (launch_sums<T, false>(stream, b, l.segments)));
}
