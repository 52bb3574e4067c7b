/* Embedding and its gradient. The gradient adds rows of one index in a fixed order: rows are sorted
 * by index (stable), equal ones are added one after the other, long runs in pieces. */
#include "common.cuh"

namespace
{

constexpr int THREADS = 256;

/* A block does ROWS rows: their indices, then their rows of the tables are on the way together. */
template <typename T, int ROWS>
__global__ void __launch_bounds__(THREADS)
    embedding(embedding_operands o, embedding_shape s, bool wide)
{
    const int64_t first = (int64_t)blockIdx.x * ROWS;
    int64_t index[ROWS], second[ROWS];

#pragma unroll
    for (int r = 0; r < ROWS; r++) {
        const bool valid = first + r < s.rows;

        index[r] = valid ? o.index[first + r] - s.first : -1;
        second[r] = valid && s.second ? o.second_index[first + r] : 0;
    }
    for (int64_t c = (int64_t)threadIdx.x * VECTOR; c < s.cols; c += (int64_t)blockDim.x * VECTOR) {
        const int64_t count = s.cols - c;
        packed<T> v[ROWS], w[ROWS];

#pragma unroll
        for (int r = 0; r < ROWS; r++) {
            const bool known = index[r] >= 0 && index[r] < s.table_rows;

            v[r] = load_packed((const T *)o.table + index[r] * s.cols + c, known ? count : 0, wide);
            if (s.second)
                w[r] = load_packed((const T *)o.second_table + second[r] * s.cols + c, count, wide);
        }
#pragma unroll
        for (int r = 0; r < ROWS; r++) {
            T *const out = (T *)o.out + (first + r) * s.cols + c;
            float sum[VECTOR], other[VECTOR];

            if (first + r >= s.rows)
                break;
            unpack(v[r], sum);
            if (s.second) {
                unpack(w[r], other);
#pragma unroll
                for (int k = 0; k < VECTOR; k++)
                    sum[k] += other[k];
            }
            if (s.accumulate) {
                load_vector(out, other, count, wide);
#pragma unroll
                for (int k = 0; k < VECTOR; k++)
                    sum[k] += other[k];
            }
            store_vector(out, sum, count, wide);
        }
    }
}

/* Stable radix sort of (index, row), eight bits at a time. A block does a tile of keys, a warp a
 * consecutive part of the tile. */
constexpr int DIGITS = 256;
constexpr int SORT_WARPS = 8;
constexpr int WARP_KEYS = 256;
constexpr int TILE = SORT_WARPS * WARP_KEYS;

struct sort_buffers {
    uint32_t *key[2];
    int32_t *row[2];
    uint32_t *count; /* (DIGITS, tiles) */
};

__global__ void make_keys(const int32_t *index, int64_t rows, int64_t first, int64_t table_rows,
                          uint32_t *key, int32_t *row)
{
    const int64_t i = (int64_t)blockIdx.x * THREADS + threadIdx.x;

    if (i >= rows)
        return;
    const int64_t at = index[i] - first;
    key[i] = (uint32_t)(at >= 0 && at < table_rows ? at : table_rows); /* others go to the end */
    row[i] = (int32_t)i;
}

__global__ void count_digits(const uint32_t *key, int64_t rows, int shift, uint32_t *count)
{
    __shared__ uint32_t shared[DIGITS];
    const int64_t base = (int64_t)blockIdx.x * TILE;

    shared[threadIdx.x] = 0;
    __syncthreads();
    for (int i = threadIdx.x; i < TILE && base + i < rows; i += DIGITS)
        atomicAdd(&shared[key[base + i] >> shift & (DIGITS - 1)], 1u);
    __syncthreads();
    count[threadIdx.x * gridDim.x + blockIdx.x] = shared[threadIdx.x];
}

/* Exclusive prefix sum in place, one block. */
__global__ void scan(uint32_t *count, int64_t length)
{
    __shared__ uint32_t warps[WARP];
    __shared__ uint32_t carried;
    const int lane = threadIdx.x % WARP, warp = threadIdx.x / WARP;

    if (threadIdx.x == 0)
        carried = 0;
    for (int64_t base = 0; base < length; base += blockDim.x) {
        const int64_t i = base + threadIdx.x;
        const uint32_t value = i < length ? count[i] : 0;
        uint32_t sum = value;

        for (int offset = 1; offset < WARP; offset *= 2) {
            const uint32_t below = __shfl_up_sync(0xffffffffu, sum, offset);

            if (lane >= offset)
                sum += below;
        }
        __syncthreads();
        if (lane == WARP - 1)
            warps[warp] = sum;
        __syncthreads();
        uint32_t before = carried;
        for (int w = 0; w < warp; w++)
            before += warps[w];
        if (i < length)
            count[i] = before + sum - value;
        __syncthreads();
        if (threadIdx.x == blockDim.x - 1)
            carried = before + sum;
    }
}

__global__ void scatter(sort_buffers b, int from, int64_t rows, int shift)
{
    __shared__ uint32_t place[SORT_WARPS][DIGITS];
    const int lane = threadIdx.x % WARP, warp = threadIdx.x / WARP;
    const int64_t base = (int64_t)blockIdx.x * TILE + warp * WARP_KEYS;

    for (int w = 0; w < SORT_WARPS; w++)
        place[w][threadIdx.x] = 0;
    __syncthreads();
    for (int i = lane; i < WARP_KEYS; i += WARP)
        if (base + i < rows)
            atomicAdd(&place[warp][b.key[from][base + i] >> shift & (DIGITS - 1)], 1u);
    __syncthreads();
    uint32_t next = b.count[threadIdx.x * gridDim.x + blockIdx.x];
    for (int w = 0; w < SORT_WARPS; w++) {
        const uint32_t here = place[w][threadIdx.x];

        place[w][threadIdx.x] = next;
        next += here;
    }
    __syncthreads();
    for (int i = lane; i < WARP_KEYS; i += WARP) {
        const bool valid = base + i < rows;
        const uint32_t key = valid ? b.key[from][base + i] : 0;
        const uint32_t digit = valid ? key >> shift & (DIGITS - 1) : DIGITS;
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
            b.key[from ^ 1][at] = key;
            b.row[from ^ 1][at] = b.row[from][base + i];
        }
    }
}

constexpr int PIECE = 64; /* rows added by one block */

/* Where the run of key[at] starts, by the whole of the first warp: 32 places are tried at once. */
__device__ inline int64_t run_start(const uint32_t *key, int64_t at)
{
    const uint32_t wanted = key[at];
    const int lane = threadIdx.x % WARP;
    int64_t low = 0, high = at; /* it lies from low to high */

    if (at == 0 || key[at - 1] != wanted)
        return at;
    while (low < high) {
        const int64_t part = (high - low + WARP - 1) / WARP;
        const int64_t place = low + lane * part;
        const bool before = place < high && key[place] < wanted;
        const int count = __popc(__ballot_sync(0xffffffffu, before));

        /* Keys are sorted: the first 'count' places lie before the run. */
        if (low + count * part < high)
            high = low + count * part;
        if (count)
            low += (count - 1) * part + 1;
    }
    return low;
}

/* Where the piece that starts at sorted row 'at' leaves its sum: the first piece of a run and a
 * later piece of another run can lie in one stretch of PIECE rows, two of one sort cannot. */
__device__ inline int64_t piece_slot(int64_t at, bool first)
{
    return at / PIECE * 2 + first;
}

/* The sum of 'own' over the block. */
__device__ inline int piece_length(int own)
{
    __shared__ int total;

    if (threadIdx.x == 0)
        total = 0;
    __syncthreads();
    if (own)
        atomicAdd(&total, own);
    __syncthreads();
    return total;
}

template <typename T>
__global__ void add_pieces(const uint32_t *key, const int32_t *row, const T *dout, float *dtable,
                           float *pieces, int64_t rows, int64_t cols, int64_t table_rows, bool wide,
                           bool wide_table)
{
    constexpr int TOGETHER = 4;
    __shared__ int64_t shared_start;
    __shared__ int32_t rows_of_piece[PIECE];
    const int64_t at = blockIdx.x;
    const uint32_t index = key[at];

    if (index >= table_rows)
        return;
    if (threadIdx.x < WARP) {
        const int64_t start = run_start(key, at);

        if (threadIdx.x == 0)
            shared_start = start;
    }
    __syncthreads();
    const int64_t offset = at - shared_start;
    if (offset % PIECE != 0)
        return;
    int own = 0; /* how many of the rows this thread looks at belong to the piece */
    for (int i = threadIdx.x; i < PIECE; i += blockDim.x)
        if (at + i < rows && key[at + i] == index) {
            rows_of_piece[i] = row[at + i];
            own++;
        }
    __syncthreads();
    const int length = piece_length(own);
    const bool single = offset == 0 && (at + PIECE >= rows || key[at + PIECE] != index);
    float *out =
        single ? dtable + (int64_t)index * cols : pieces + piece_slot(at, offset == 0) * cols;
    for (int64_t c = (int64_t)threadIdx.x * VECTOR; c < cols; c += (int64_t)blockDim.x * VECTOR) {
        const int64_t count = cols - c;
        float sum[VECTOR] = {0};

        for (int i = 0; i < length; i += TOGETHER) {
            packed<T> v[TOGETHER];

#pragma unroll
            for (int j = 0; j < TOGETHER; j++)
                v[j] = load_packed(dout + (int64_t)rows_of_piece[min(i + j, length - 1)] * cols + c,
                                   i + j < length ? count : 0, wide);
#pragma unroll
            for (int j = 0; j < TOGETHER; j++) {
                float w[VECTOR];

                unpack(v[j], w);
#pragma unroll
                for (int k = 0; k < VECTOR; k++)
                    sum[k] += w[k];
            }
        }
        if (single) {
            float old[VECTOR];

            load_vector(out + c, old, count, wide_table);
#pragma unroll
            for (int k = 0; k < VECTOR; k++)
                sum[k] += old[k];
        }
        store_vector(out + c, sum, count, wide_table);
    }
}

__global__ void add_runs(const uint32_t *key, const float *pieces, float *dtable, int64_t rows,
                         int64_t cols, int64_t table_rows)
{
    const int64_t at = blockIdx.x;
    const uint32_t index = key[at];

    if (index >= table_rows || (at > 0 && key[at - 1] == index) || at + PIECE >= rows ||
        key[at + PIECE] != index)
        return;
    for (int64_t c = threadIdx.x; c < cols; c += blockDim.x) {
        float sum = dtable[(int64_t)index * cols + c];

        for (int64_t i = at; i < rows && key[i] == index; i += PIECE)
            sum += pieces[piece_slot(i, i == at) * cols + c];
        dtable[(int64_t)index * cols + c] = sum;
    }
}

struct layout {
    size_t keys, counts, pieces, total;
    int64_t tiles;
};

layout plan(const embedding_shape *s)
{
    layout l;

    l.tiles = divide_up(s->rows, TILE);
    l.keys = (size_t)divide_up(s->rows, 64) * 64 * sizeof(uint32_t);
    l.counts = (size_t)divide_up(DIGITS * l.tiles, 64) * 64 * sizeof(uint32_t);
    l.pieces = (size_t)(s->rows / PIECE + 1) * 2 * (size_t)s->cols * sizeof(float);
    l.total = 4 * l.keys + l.counts + l.pieces;
    return l;
}

} // namespace

extern "C" void kernel_embedding(cudaStream_t stream, const embedding_shape *s,
                                 const embedding_operands *o)
{
    constexpr int ROWS = 4;
    const unsigned threads =
        (unsigned)smaller(divide_up(divide_up(s->cols, VECTOR), WARP) * WARP, THREADS);
    const bool wide = s->cols % VECTOR == 0 && is_wide(o->table) && is_wide(o->out) &&
                      (!s->second || is_wide(o->second_table));

    WITH_TYPE(s->type,
              (embedding<T, ROWS>
               <<<(unsigned)divide_up(s->rows, ROWS), threads, 0, stream>>>(*o, *s, wide)));
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
    sort_buffers b;
    int now = 0;

    for (int i = 0; i < 2; i++, at += 2 * l.keys) {
        b.key[i] = (uint32_t *)at;
        b.row[i] = (int32_t *)(at + l.keys);
    }
    b.count = (uint32_t *)at;
    float *pieces = (float *)(at + l.counts);
    make_keys<<<(unsigned)divide_up(s->rows, THREADS), THREADS, 0, stream>>>(
        o->index, s->rows, s->first, s->table_rows, b.key[0], b.row[0]);
    for (int shift = 0; shift < 32 && (s->table_rows >> shift) > 0; shift += 8, now ^= 1) {
        count_digits<<<(unsigned)l.tiles, DIGITS, 0, stream>>>(b.key[now], s->rows, shift, b.count);
        scan<<<1, 1024, 0, stream>>>(b.count, DIGITS * l.tiles);
        scatter<<<(unsigned)l.tiles, DIGITS, 0, stream>>>(b, now, s->rows, shift);
    }
    if (!o->accumulate)
        cudaMemsetAsync(o->dtable, 0, (size_t)(s->table_rows * s->cols) * sizeof(float), stream);
    const int threads = (int)smaller(divide_up(divide_up(s->cols, VECTOR), WARP) * WARP, 256);
    const bool wide = s->cols % VECTOR == 0 && is_wide(o->dout);
    const bool wide_table = s->cols % VECTOR == 0 && is_wide(o->dtable) && is_wide(pieces);
    WITH_TYPE(s->type, (add_pieces<<<(unsigned)s->rows, threads, 0, stream>>>(
                           b.key[now], b.row[now], (const T *)o->dout, o->dtable, pieces, s->rows,
                           s->cols, s->table_rows, wide, wide_table)));
    add_runs<<<(unsigned)s->rows, THREADS, 0, stream>>>(b.key[now], pieces, o->dtable, s->rows,
                                                        s->cols, s->table_rows);
}
