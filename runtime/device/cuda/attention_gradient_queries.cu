/* The first kernel of the gradient of attention: dQ. A block holds a tile of queries and goes along
 * the keys that it sees. It also finds the facts of its rows, for the second kernel. */
#include "attention_gradient.cuh"

namespace
{

struct queries_shared {
    uint8_t q[PLACES][TILE_BYTES], d_o[PLACES][TILE_BYTES], o[PLACES][TILE_BYTES];
    uint8_t k[STAGES][TILE_BYTES], v[STAGES][TILE_BYTES];
    uint8_t dq[WORKERS][SLICE_BYTES];
    struct piece piece[PLACES];
    struct barriers barriers;
};

/* The tiles of keys that a tile of queries sees. */
__device__ inline void find_keys(const struct gradient_arguments &a, struct piece *piece)
{
    const int first = piece->tile * TILE, last = min(first + TILE, a.queries) - 1;
    int start = INT32_MAX;

    if (a.start) {
        for (int i = first + lane(); i <= last; i += WARP)
            start = min(start, a.start[(int64_t)piece->sample * a.queries + i]);
        start = __reduce_min_sync(~0u, start);
    } else {
        start = 0;
    }
    piece->first = start / TILE;
    piece->count = max(min(last + a.ahead, a.keys - 1) / TILE - piece->first + 1, 1);
}

__device__ inline void load_queries(const struct gradient_arguments &a,
                                    struct queries_shared *shared)
{
    ring<PLACES> held;
    ring<STAGES> passing;

    for (;; held.step()) {
        struct piece piece;
        const uint32_t full = shared_address(&shared->barriers.held_full[held.at]);
        const bool more = take(a, &a.next[0], a.query_tiles, a.heads, &piece);

        barrier_wait(shared_address(&shared->barriers.held_empty[held.at]), held.parity ^ 1);
        if (!more) {
            if (lane() == 0)
                say_end(&shared->barriers, &shared->piece[held.at], held, passing);
            return;
        }
        piece.tile = a.query_tiles - 1 - piece.tile;
        find_keys(a, &piece);
        if (lane() != 0)
            continue;
        shared->piece[held.at] = piece;
        barrier_arrive_expect(full, 3 * TILE_BYTES);
        tile_load(shared_address(shared->q[held.at]), &a.q, piece.tile * TILE, piece.head,
                  piece.sample, full);
        tile_load(shared_address(shared->d_o[held.at]), &a.d_o, piece.tile * TILE, piece.head,
                  piece.sample, full);
        tile_load(shared_address(shared->o[held.at]), &a.o, piece.tile * TILE, piece.head,
                  piece.sample, full);
        for (int i = 0; i < piece.count; i++, passing.step()) {
            const uint32_t loaded = shared_address(&shared->barriers.passing_full[passing.at]);
            const int key = (piece.first + i) * TILE, head = piece.head / (a.heads / a.groups);

            barrier_wait(shared_address(&shared->barriers.passing_empty[passing.at]),
                         passing.parity ^ 1);
            barrier_arrive_expect(loaded, 2 * TILE_BYTES);
            tile_load(shared_address(shared->k[passing.at]), &a.k, key, head, piece.sample, loaded);
            tile_load(shared_address(shared->v[passing.at]), &a.v, key, head, piece.sample, loaded);
        }
    }
}

/* The sum of dO * O over a row of two tiles; the four threads of a row do it together. */
template <typename T>
__device__ inline float row_product(const uint8_t *d_o, const uint8_t *o, int row)
{
    float sum = 0;

#pragma unroll
    for (int i = 0; i < 2; i++) {
        const int chunk = lane() % 4 + 4 * i;
        const int offset = row * LINE + (chunk ^ row % 8) * 16;
        const packed<T> p = *reinterpret_cast<const packed<T> *>(d_o + offset);
        const packed<T> q = *reinterpret_cast<const packed<T> *>(o + offset);

#pragma unroll
        for (int j = 0; j < VECTOR; j++)
            sum = fmaf(to_float(p.get(j)), to_float(q.get(j)), sum);
    }
    sum += __shfl_xor_sync(~0u, sum, 1);
    return sum + __shfl_xor_sync(~0u, sum, 2);
}

/* What a thread has to know of one of its rows of queries. */
struct row {
    float minus_lse, minus_delta;
    int first, last; /* keys it sees */
};

/* What is in memory of two rows of a piece of work, 'in_tile' and 8 below. */
__device__ inline void load_rows(const struct gradient_arguments &a, const struct piece &piece,
                                 int in_tile, struct row (&row)[2])
{
    const int64_t head = (int64_t)piece.sample * a.heads + piece.head;

#pragma unroll
    for (int i = 0; i < 2; i++) {
        const int query = piece.tile * TILE + in_tile + 8 * i;
        const bool there = query < a.queries;

        row[i].minus_lse = there ? -a.lse[head * a.queries + query] : -INFINITY;
        row[i].first = there && a.start ? a.start[(int64_t)piece.sample * a.queries + query] : 0;
        row[i].last = there ? min(query + a.ahead, a.keys - 1) : -1;
    }
}

/* The rest of it, and note it for the second kernel. */
template <typename T>
__device__ inline void finish_rows(const struct gradient_arguments &a, const struct piece &piece,
                                   const uint8_t *d_o, const uint8_t *o, int in_tile,
                                   struct row (&row)[2])
{
    const int64_t head = (int64_t)piece.sample * a.heads + piece.head;
    struct row_facts *facts = &a.facts[head * a.query_tiles + piece.tile];

#pragma unroll
    for (int i = 0; i < 2; i++) {
        const int at = in_tile + 8 * i;

        row[i].minus_lse *= LOG2_E;
        row[i].minus_delta = -row_product<T>(d_o, o, at);
        if (lane() % 4 == 0)
            facts->minus_lse[at] = row[i].minus_lse;
        else if (lane() % 4 == 1)
            facts->minus_delta[at] = row[i].minus_delta;
        else if (lane() % 4 == 2)
            facts->start[at] = row[i].first;
    }
}

/* Hide what a row does not see of the tile of keys that begins at 'key'. */
__device__ inline void hide_keys(float (&scores)[SCORES], const struct row (&row)[2], int key)
{
    const int from[2] = {row[0].first - key - first_column(), row[1].first - key - first_column()};
    const int to[2] = {row[0].last - key - first_column(), row[1].last - key - first_column()};

#pragma unroll
    for (int i = 0; i < SCORES; i++) {
        const int at = i / 4 * 8 + i % 2, which = i / 2 % 2;
        const bool seen = (at >= from[which]) & (at <= to[which]);

        scores[i] = seen ? scores[i] : -INFINITY;
    }
}

/* One group of threads that multiplies. Behind the last piece of work it multiplies an old tile
 * once more, for nothing: a product that not every tile has would keep the compiler from letting
 * products run on by themselves. */
template <typename T> struct query_worker {
    const struct gradient_arguments &a;
    struct queries_shared *const shared;
    const int worker, slice;
    ring<PLACES> held;
    ring<STAGES> passing;
    struct piece piece;
    int at;                    /* which tile of the piece */
    uint64_t q, d_o;           /* what is held */
    struct row row[2];         /* of this thread */
    struct row next[2];        /* of the next piece, on their way from memory */
    int seen_first, seen_last; /* keys that all rows of the warp see */
    float p[SCORES], dp[SCORES], dq[SUMS];

    __device__ inline query_worker(const struct gradient_arguments &arguments,
                                   struct queries_shared *memory, int number)
        : a(arguments), shared(memory), worker(number), slice(number * SLICE)
    {
    }

    __device__ inline void get_piece(void)
    {
        barrier_wait(shared_address(&shared->barriers.held_full[held.at]), held.parity);
        piece = shared->piece[held.at];
        q = tile_descriptor(shared_address(shared->q[held.at]) + slice * LINE);
        d_o = tile_descriptor(shared_address(shared->d_o[held.at]) + slice * LINE);
        if (piece.count > 0)
            load_rows(a, piece, slice + first_row(), next);
    }

    __device__ inline void begin_piece(void)
    {
#pragma unroll
        for (int i = 0; i < SUMS; i++)
            dq[i] = 0;
        row[0] = next[0];
        row[1] = next[1];
        finish_rows<T>(a, piece, shared->d_o[held.at], shared->o[held.at], slice + first_row(),
                       row);
        seen_first = __reduce_max_sync(~0u, max(row[0].first, row[1].first));
        seen_last = __reduce_min_sync(~0u, min(row[0].last, row[1].last));
        at = 0;
    }

    /* The scores of the passing tile, and dP. */
    __device__ inline void multiply(void)
    {
        barrier_wait(shared_address(&shared->barriers.passing_full[passing.at]), passing.parity);
        product_begin();
        multiply_rows<T>(p, q, tile_descriptor(shared_address(shared->k[passing.at])));
        multiply_rows<T>(dp, d_o, tile_descriptor(shared_address(shared->v[passing.at])));
        product_commit();
    }

    /* From them the gradient of the scores. */
    __device__ inline void soften(uint32_t (&ds)[TILE / DEPTH][4])
    {
        const float scale = a.scale * LOG2_E;
        const int key = (piece.first + at) * TILE;

        if (key < seen_first || key + TILE - 1 > seen_last)
            hide_keys(p, row, key);
#pragma unroll
        for (int i = 0; i < SCORES; i++)
            p[i] = power_of_two(fmaf(p[i], scale, row[i / 2 % 2].minus_lse));
#pragma unroll
        for (int i = 0; i < SCORES; i++)
            p[i] *= dp[i] + row[i / 2 % 2].minus_delta;
        to_operand<T>(p, ds);
    }

    __device__ inline void store(const struct piece &done)
    {
        wait_for_slice(worker);
        put_slice<T>(dq, a.scale, shared->dq[worker]);
        if (slice_is_written(worker)) {
            tile_store(&a.dq, done.tile * TILE + slice, done.head, done.sample,
                       shared_address(shared->dq[worker]));
            tile_store_commit();
        }
    }

    /* All tiles of all pieces; those of the next one are multiplied before one is stored. */
    __device__ inline void work(void)
    {
        get_piece();
        if (piece.count == 0)
            return;
        begin_piece();
        turn_begin(worker);
        turn_wait(worker);
        multiply();
        turn_pass(worker);
#pragma unroll 1
        for (;;) {
            const int place = passing.at, held_place = held.at;
            const struct piece done = piece;
            uint32_t ds[TILE / DEPTH][4];

            product_wait<0>();
            soften(ds);
            passing.step();
            if (++at == done.count) {
                held.step();
                get_piece();
            }
            turn_wait(worker);
            product_begin();
            add_rows<T>(dq, ds, tile_descriptor(shared_address(shared->k[place])));
            product_commit();
            multiply();
            turn_pass(worker);
            product_wait<0>();
            release(&shared->barriers.passing_empty[place]);
            if (at < done.count)
                continue;
            release(&shared->barriers.held_empty[held_place]);
            store(done);
            if (piece.count == 0)
                break;
            begin_piece();
        }
        if (threadIdx.x % GROUP == 0)
            tile_store_wait();
    }
};

template <typename T>
__global__ void __launch_bounds__(GROUPS *GROUP, 1)
    queries_kernel(const __grid_constant__ struct gradient_arguments a)
{
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
    run_groups<query_worker<T>>(a, load_queries);
#endif
}

} // namespace

int launch_query_gradient(cudaStream_t stream, cudnnDataType_t type,
                          const struct gradient_arguments &a)
{
    return launch<struct queries_shared>(
        stream, type == CUDNN_DATA_BFLOAT16 ? queries_kernel<bf16> : queries_kernel<fp16>, a);
}

bool has_gradient_code(void)
{
    cudaFuncAttributes attributes;

    if (cudaFuncGetAttributes(&attributes, queries_kernel<bf16>)) {
        cudaGetLastError();
        return false;
    }
    /* Only code for this very architecture has these instructions. An empty kernel would do
     * nothing, and one with fewer registers than its groups share out would wait for ever. */
    return attributes.binaryVersion == 90 &&
           attributes.numRegs * GROUPS >= LOADER_REGISTERS + WORKERS * WORKER_REGISTERS;
}
