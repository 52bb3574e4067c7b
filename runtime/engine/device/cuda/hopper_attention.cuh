/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by the kernels of attention and its gradient, for heads of WIDTH channels.
 *
 * A block has three warp groups of 128 threads. One warp of the first group is the producer: it
 * prefetches tiles, also for the next work item. The other groups are the consumers ("workers"):
 * each multiplies 64 rows of the tile that the block holds. They only share the loaded tiles:
 * scores stay in registers and become an operand of the next product there. Blocks take work items
 * ("pieces") from a counter, the long ones of a head first; the result does not depend on which
 * block processes an item. */
#ifndef MEGATRON_HOPPER_ATTENTION_CUH
#define MEGATRON_HOPPER_ATTENTION_CUH

#include "hopper.cuh"

/* For other architectures the kernels are empty, and their functions are unused. */
#pragma nv_diag_suppress 177

constexpr int TILE = 128, GROUP = 128, WORKERS = 2, GROUPS = 1 + WORKERS;
constexpr int SLICE = TILE / WORKERS; /* rows of a tile that one warp group holds */
constexpr int PLACES = 2;
constexpr int DEPTH = 16; /* K of one wgmma instruction */

/* Registers of a thread for a slice of so many columns. */
__host__ __device__ constexpr int registers_of(int columns)
{
    return SLICE * columns / GROUP;
}

/* Rows of a tile of queries in the gradient's second kernel: two products and their sums must fit
 * into registers. */
__host__ __device__ constexpr int passing_queries(int width)
{
    return width > 64 ? 64 : TILE;
}

/* Rows of a tile of keys forward and in the gradient's first kernel: several must fit into shared
 * memory. */
__host__ __device__ constexpr int passing_keys(int width)
{
    return width > 96 ? 64 : TILE;
}

/* What the gradient's second kernel needs to know about a tile of queries; the first one writes it.
 * Rows after the last query have an infinite log-sum-exp, so they contribute nothing. */
template <int ROWS> struct row_facts {
    float minus_lse[ROWS]; /* times log2(e) */
    float minus_delta[ROWS];
    int32_t start[ROWS]; /* with documents or ends */
    int32_t end[ROWS];   /* with ends */
};

/* A tensor in memory: (batch, heads, positions, WIDTH). Strides in elements. */
struct rows_in_memory {
    const void *rows;
    int64_t batch, head, position;
};

struct attention_arguments {
    CUtensorMap q, k, v, d_o; /* loaded in tiles */
    CUtensorMap o;            /* stored in slices forward, loaded in tiles by the gradient */
    CUtensorMap dq, dk, dv;   /* stored in slices */
    float *lse_out;           /* forward */
    const float *lse;         /* for the gradient */
    const int32_t *start;     /* or NULL: a query sees no keys before it */
    const int32_t *end;       /* or NULL: a query sees no keys from here on */
    void *facts;              /* row_facts of (batch, heads, query_tiles) */
    int32_t *next;            /* work counters, one for each kernel of a run */
    float scale;
    int batch, heads, groups, queries, keys, query_tiles, key_tiles;
    int ahead;                 /* query i sees keys 0 .. i + ahead */
    struct rows_in_memory out; /* the output, for the gradient */
};

namespace
{

/* A work item: 'tile' of 'head' (a key head in the gradient's second kernel) of 'sample' against
 * 'count' tiles starting at 'first'. */
struct piece {
    int sample, head, tile, first, count;
};

/* Held: the tiles that stay for a work item. Passing: the tiles that it iterates over. */
template <int STAGES> struct barriers {
    uint64_t held_full[PLACES], held_empty[PLACES];
    uint64_t passing_full[STAGES], passing_empty[STAGES];
};

/* A ring of slots that are filled and emptied in order. */
template <int COUNT> struct ring {
    int at = 0;
    uint32_t parity = 0;

    __device__ inline void step(void)
    {
        if (++at == COUNT) {
            at = 0;
            parity ^= 1;
        }
    }
};

__device__ inline int lane(void)
{
    return (int)threadIdx.x % WARP;
}

/* The row within its slice of this thread's first scores; the others are 8 rows further down. */
__device__ inline int first_row(void)
{
    return (int)threadIdx.x % GROUP / WARP * 16 + lane() / 4;
}

/* And the column; the next one is adjacent, then 8 further on, and so on. */
__device__ inline int first_column(void)
{
    return lane() % 4 * 2;
}

/* The warp groups that multiply alternate, so that one uses the tensor cores while the other does
 * everything else. Wait for this worker's turn, and pass it on. */
__device__ inline void turn_wait(int worker)
{
    group_sync(1 + WORKERS + worker, WORKERS * GROUP);
}
__device__ inline void turn_pass(int worker)
{
    group_arrive(1 + WORKERS + (worker + 1) % WORKERS, WORKERS * GROUP);
}

/* The first worker starts. */
__device__ inline void turn_begin(int worker)
{
    if (worker == WORKERS - 1)
        turn_pass(worker);
}

/* This thread no longer needs what the barrier protects. One thread could arrive for its warp, but
 * that is not faster, and racecheck cannot follow it. */
__device__ inline void release(const uint64_t *barrier)
{
    barrier_arrive(shared_address(barrier));
}

/* Called by all threads of the block. */
template <int STAGES> __device__ inline void init_barriers(struct barriers<STAGES> *b)
{
    if (threadIdx.x == 0) {
        for (int i = 0; i < PLACES; i++) {
            barrier_init(shared_address(&b->held_full[i]), 1);
            barrier_init(shared_address(&b->held_empty[i]), WORKERS * GROUP);
        }
        for (int i = 0; i < STAGES; i++) {
            barrier_init(shared_address(&b->passing_full[i]), 1);
            barrier_init(shared_address(&b->passing_empty[i]), WORKERS * GROUP);
        }
        barrier_init_done();
    }
    __syncthreads();
}

/* Reduce over the four threads of a row. */
__device__ inline float row_sum(float x)
{
    x += __shfl_xor_sync(~0u, x, 1);
    return x + __shfl_xor_sync(~0u, x, 2);
}

/* Registers of the warp groups: the block's initial allocation is redistributed. */
constexpr int LOADER_REGISTERS = 24, WORKER_REGISTERS = 240;
static_assert((LOADER_REGISTERS + WORKERS * WORKER_REGISTERS) * GROUP <= 65536, "registers");

/* Get the next work item; false if there is none. Called by all threads of a warp. */
__device__ inline bool take(const struct attention_arguments &a, int32_t *next, int tiles,
                            int heads, struct piece *piece)
{
    int number = 0;

    if (lane() == 0)
        number = atomicAdd(next, 1);
    number = __shfl_sync(~0u, number, 0);
    piece->tile = number % tiles;
    piece->head = number / tiles % heads;
    piece->sample = number / tiles / heads;
    return piece->sample < a.batch;
}

/* Start to copy a tile of rows to shared memory. */
template <int WIDTH, int ROWS>
__device__ inline void load_tile(const uint8_t *to, const CUtensorMap *map, int row, int head,
                                 int sample, uint32_t barrier)
{
    typedef tile_shape<WIDTH, ROWS> shape;

#pragma unroll
    for (int i = 0; i < shape::BLOCKS; i++)
        tile_load_at(shared_address(to) + i * shape::BLOCK_BYTES, map, i * shape::COLUMNS, row,
                     head, sample, barrier);
}

/* scores = A B^T, a slice of rows against a tile of ROWS rows. */
template <typename T, int WIDTH, int ROWS>
__device__ inline void multiply_rows(float (&scores)[registers_of(ROWS)], uint64_t a, uint64_t b)
{
    product_wide<T, false>(scores, a, b);
#pragma unroll
    for (int i = DEPTH; i < WIDTH; i += DEPTH)
        product_wide<T, true>(scores, tile_shape<WIDTH, TILE>::at_column(a, i),
                              tile_shape<WIDTH, ROWS>::at_column(b, i));
}

/* Convert scores to the operand of a product. */
template <typename T, int ROWS>
__device__ inline void to_operand(const float (&scores)[registers_of(ROWS)],
                                  uint32_t (&operand)[ROWS / DEPTH][4])
{
#pragma unroll
    for (int i = 0; i < ROWS / DEPTH; i++)
#pragma unroll
        for (int j = 0; j < 4; j++)
            operand[i][j] = pack_two<T>(scores[8 * i + 2 * j], scores[8 * i + 2 * j + 1]);
}

/* sums += A B, scores times the rows of a tile. */
template <typename T, int WIDTH, int ROWS>
__device__ inline void add_rows(float (&sums)[registers_of(WIDTH)],
                                const uint32_t (&a)[ROWS / DEPTH][4], uint64_t b)
{
#pragma unroll
    for (int i = 0; i < ROWS / DEPTH; i++)
        product_held<T>(sums, a[i], tile_further(b, i * DEPTH * tile_shape<WIDTH, ROWS>::LINE));
}

/* Write a slice of sums, times 'scale', to shared memory in the layout that it is stored from. */
template <typename T, int WIDTH>
__device__ inline void put_slice(const float (&sums)[registers_of(WIDTH)], float scale,
                                 uint8_t *slice)
{
    typedef tile_shape<WIDTH, SLICE> shape;
    const int row = (int)threadIdx.x % GROUP / WARP * 16 + lane() % 16;

#pragma unroll
    for (int i = 0; i < WIDTH / 16; i++) {
        const int chunk = 2 * i + lane() / 16;
        uint32_t block[4];

#pragma unroll
        for (int j = 0; j < 4; j++)
            block[j] = pack_two<T>(sums[8 * i + 2 * j] * scale, sums[8 * i + 2 * j + 1] * scale);
        store_blocks(shared_address(slice) + (uint32_t)shape::chunk_offset(row, chunk), block);
    }
}

/* Start to copy a slice from shared memory. */
template <int WIDTH>
__device__ inline void copy_slice(const CUtensorMap *map, int row, int head, int sample,
                                  const uint8_t *slice)
{
    typedef tile_shape<WIDTH, SLICE> shape;

#pragma unroll
    for (int i = 0; i < shape::BLOCKS; i++)
        tile_store_at(map, i * shape::COLUMNS, row, head, sample,
                      shared_address(slice) + i * shape::BLOCK_BYTES);
}

/* Signal the end of the work: a work item without tiles. After their last item the workers multiply
 * an old tile once more and discard the result, so they are signaled for that one, too: a product
 * that is skipped for some tiles would make the compiler serialize the asynchronous products.
 * Called by one thread. */
template <int STAGES>
__device__ inline void say_end(struct barriers<STAGES> *b, struct piece *piece,
                               const ring<PLACES> &held, const ring<STAGES> &passing)
{
    barrier_wait(shared_address(&b->held_empty[held.at]), held.parity ^ 1);
    piece->count = 0;
    barrier_arrive(shared_address(&b->held_full[held.at]));
    barrier_wait(shared_address(&b->passing_empty[passing.at]), passing.parity ^ 1);
    barrier_arrive(shared_address(&b->passing_full[passing.at]));
}

/* Wait until the slice in shared memory has been stored and may be overwritten. */
__device__ inline void wait_for_slice(int worker)
{
    if (threadIdx.x % GROUP == 0)
        tile_store_wait();
    group_sync(1 + worker, GROUP);
}

/* All threads of the group have written the slice: true for the thread that stores it. */
__device__ inline bool slice_is_written(int worker)
{
    shared_written();
    group_sync(1 + worker, GROUP);
    return threadIdx.x % GROUP == 0;
}

/* Store this worker's rows of a finished work item, times 'scale', through shared memory. */
template <typename T, int WIDTH>
__device__ inline void store_slice(const float (&sums)[registers_of(WIDTH)], float scale,
                                   uint8_t *slice, const CUtensorMap *map, const struct piece &done,
                                   int worker)
{
    wait_for_slice(worker);
    put_slice<T, WIDTH>(sums, scale, slice);
    if (slice_is_written(worker)) {
        copy_slice<WIDTH>(map, done.tile * TILE + worker * SLICE, done.head, done.sample, slice);
        tile_store_commit();
    }
}

/* One warp group that multiplies: its position in the work. */
template <typename SHARED, int WIDTH> struct worker_place {
    typedef tile_shape<WIDTH, TILE> held_shape;

    const struct attention_arguments &a;
    SHARED *const shared;
    const int worker, slice;
    ring<PLACES> held;
    ring<SHARED::STAGES> passing;
    struct piece piece;
    int at; /* index of the tile within the work item */

    __device__ inline worker_place(const struct attention_arguments &arguments, SHARED *memory,
                                   int number)
        : a(arguments), shared(memory), worker(number), slice(number * SLICE)
    {
    }

    /* Wait for the next work item, and for its next tile. */
    __device__ inline void wait_for_piece(void)
    {
        barrier_wait(shared_address(&shared->barriers.held_full[held.at]), held.parity);
        piece = shared->piece[held.at];
    }
    __device__ inline void wait_for_tile(void)
    {
        barrier_wait(shared_address(&shared->barriers.passing_full[passing.at]), passing.parity);
    }

    /* The worker's rows of a held tile. */
    __device__ inline uint64_t rows_of(const uint8_t (&tiles)[PLACES][held_shape::BYTES]) const
    {
        return held_shape::descriptor(shared_address(tiles[held.at]) + slice * held_shape::LINE);
    }
};

/* Run up to the first product of a worker. Returns false if there is no work. */
template <typename WORKER> __device__ inline bool begin_work(WORKER *w)
{
    w->get_piece();
    if (w->piece.count == 0)
        return false;
    w->begin_piece();
    turn_begin(w->worker);
    turn_wait(w->worker);
    w->multiply();
    turn_pass(w->worker);
    return true;
}

/* The main function of a block, with 'memory' of its own: the first warp group loads, the others
 * compute. */
template <typename WORKER>
__device__ inline void run_groups(const struct attention_arguments &a, uint8_t *memory)
{
    typename WORKER::shared_memory *shared =
        reinterpret_cast<typename WORKER::shared_memory *>(memory);
    const int group = threadIdx.x / GROUP;

    init_barriers(&shared->barriers);
    if (group == 0) {
        registers_fewer<LOADER_REGISTERS>();
        if (threadIdx.x < WARP)
            shared->load(a);
    } else {
        registers_more<WORKER_REGISTERS>();
        WORKER(a, shared, group - 1).work();
    }
}

/* A tile of queries against keys --------------------------------------------------------------- */

/* The tiles of ROWS keys that a tile of queries sees. */
template <int ROWS>
__device__ inline void find_keys(const struct attention_arguments &a, struct piece *piece)
{
    const int first = piece->tile * TILE, last = min(first + TILE, a.queries) - 1;
    const int64_t sample = (int64_t)piece->sample * a.queries;
    int start = a.start ? INT32_MAX : 0, end = a.end ? 0 : a.keys;

    if (a.start) {
        for (int i = first + lane(); i <= last; i += WARP)
            start = min(start, a.start[sample + i]);
        start = __reduce_min_sync(~0u, start);
    }
    if (a.end) {
        for (int i = first + lane(); i <= last; i += WARP)
            end = max(end, a.end[sample + i]);
        end = min(__reduce_max_sync(~0u, end), a.keys);
    }
    piece->first = start / ROWS;
    /* At least one: none would mean the end of work. */
    piece->count = max(min(last + a.ahead, end - 1) / ROWS - piece->first + 1, 1);
}

/* Load the tiles of queries that SHARED holds, and the keys and values they see, ROWS at a time.
 * Called by one warp. */
template <int WIDTH, int ROWS, typename SHARED>
__device__ inline void load_along_keys(const struct attention_arguments &a, SHARED *shared)
{
    ring<PLACES> held;
    ring<SHARED::STAGES> passing;

    for (;; held.step()) {
        struct piece piece;

        if (!take(a, &a.next[0], a.query_tiles, a.heads, &piece)) {
            if (lane() == 0)
                say_end(&shared->barriers, &shared->piece[held.at], held, passing);
            return;
        }
        piece.tile = a.query_tiles - 1 - piece.tile;
        find_keys<ROWS>(a, &piece);
        if (lane() != 0)
            continue;
        barrier_wait(shared_address(&shared->barriers.held_empty[held.at]), held.parity ^ 1);
        shared->piece[held.at] = piece;
        shared->load_held(a, piece, held.at);
        for (int i = 0; i < piece.count; i++, passing.step()) {
            const uint32_t loaded = shared_address(&shared->barriers.passing_full[passing.at]);
            const int key = (piece.first + i) * ROWS, head = piece.head / (a.heads / a.groups);

            barrier_wait(shared_address(&shared->barriers.passing_empty[passing.at]),
                         passing.parity ^ 1);
            barrier_arrive_expect(loaded, 2 * tile_shape<WIDTH, ROWS>::BYTES);
            load_tile<WIDTH, ROWS>(shared->k[passing.at], &a.k, key, head, piece.sample, loaded);
            load_tile<WIDTH, ROWS>(shared->v[passing.at], &a.v, key, head, piece.sample, loaded);
        }
    }
}

/* The range of keys that a row of queries sees. */
struct sight {
    int first, last;
};

/* The ranges of two rows of a work item, 'in_tile' and 8 further down. */
__device__ inline void load_sight(const struct attention_arguments &a, const struct piece &piece,
                                  int in_tile, struct sight (&sight)[2])
{
#pragma unroll
    for (int i = 0; i < 2; i++) {
        const int query = piece.tile * TILE + in_tile + 8 * i;
        const bool there = query < a.queries;
        const int64_t row = (int64_t)piece.sample * a.queries + query;
        const int end = there && a.end ? min(a.end[row], a.keys) : a.keys;

        sight[i].first = there && a.start ? a.start[row] : 0;
        sight[i].last = there ? min(query + a.ahead, end - 1) : -1;
    }
}

/* The range that all rows of the warp see. */
__device__ inline struct sight common_sight(const struct sight (&sight)[2])
{
    return {__reduce_max_sync(~0u, max(sight[0].first, sight[1].first)),
            __reduce_min_sync(~0u, min(sight[0].last, sight[1].last))};
}

/* Mask the keys that a row does not see in the tile of keys starting at 'key'. */
template <int COUNT>
__device__ inline void hide_keys(float (&scores)[COUNT], const struct sight (&sight)[2],
                                 const struct sight &common, int key)
{
    const int column = key + first_column();

    if (key + COUNT * GROUP / SLICE - 1 > common.last) {
        const int to[2] = {sight[0].last - column, sight[1].last - column};

#pragma unroll
        for (int i = 0; i < COUNT; i++)
            scores[i] = i / 4 * 8 + i % 2 <= to[i / 2 % 2] ? scores[i] : -INFINITY;
    }
    if (key < common.first) {
        const int from[2] = {sight[0].first - column, sight[1].first - column};

#pragma unroll
        for (int i = 0; i < COUNT; i++)
            scores[i] = i / 4 * 8 + i % 2 >= from[i / 2 % 2] ? scores[i] : -INFINITY;
    }
}

} // namespace

#endif
