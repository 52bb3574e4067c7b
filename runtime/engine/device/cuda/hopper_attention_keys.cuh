/* SPDX-License-Identifier: Apache-2.0 */
/* The second kernel of the attention gradient: dK and dV. A block holds a tile of keys and values
 * and iterates over the queries that see it, of all heads that share it. */
#ifndef MEGATRON_HOPPER_ATTENTION_KEYS_CUH
#define MEGATRON_HOPPER_ATTENTION_KEYS_CUH

#include "hopper_attention.cuh"

namespace
{

template <int WIDTH> struct keys_shared {
    static constexpr int STAGES = WIDTH > 96 ? 2 : 3, ROWS = passing_queries(WIDTH);
    static constexpr int RESULTS = WIDTH > 96 ? 1 : 2; /* that fit into shared memory */
    static constexpr int TILE_BYTES = tile_shape<WIDTH, TILE>::BYTES;
    static constexpr int PASSING_BYTES = tile_shape<WIDTH, ROWS>::BYTES;
    static constexpr int SLICE_BYTES = tile_shape<WIDTH, SLICE>::BYTES;
    uint8_t k[PLACES][TILE_BYTES], v[PLACES][TILE_BYTES];
    uint8_t q[STAGES][PASSING_BYTES], d_o[STAGES][PASSING_BYTES];
    uint8_t results[RESULTS][WORKERS][SLICE_BYTES]; /* dK and dV, or one of them at a time */
    struct row_facts<ROWS> facts[STAGES];
    struct piece piece[PLACES];
    struct barriers<STAGES> barriers;

    __device__ inline void load(const struct attention_arguments &a);
};

/* The tiles of ROWS queries that see a tile of keys. */
template <int ROWS>
__device__ inline void find_queries(const struct attention_arguments &a, struct piece *piece)
{
    const int first = piece->tile * TILE, last = first + TILE - 1;
    const int64_t sample = (int64_t)piece->sample * a.queries;
    int seeing = a.queries - 1, earliest = a.queries;

    piece->first = max(first - a.ahead, 0) / ROWS;
    if (a.start || a.end) {
        seeing = -1;
#pragma unroll 4
        for (int i = piece->first * ROWS + lane(); i < a.queries; i += WARP)
            if ((!a.start || a.start[sample + i] <= last) &&
                (!a.end || a.end[sample + i] > first)) {
                seeing = i;
                earliest = min(earliest, i);
            }
        seeing = __reduce_max_sync(~0u, seeing);
        earliest = __reduce_min_sync(~0u, earliest);
        if (seeing >= 0)
            piece->first = earliest / ROWS;
    }
    piece->count = max(seeing / ROWS - piece->first + 1, 1); /* at least one, to write zeros */
}

/* Load the tiles of keys and values, and the queries that see them. Called by one warp. */
template <int WIDTH>
__device__ inline void keys_shared<WIDTH>::load(const struct attention_arguments &a)
{
    using facts_of_tile = struct row_facts<ROWS>;
    const int facts_bytes = (int)(a.end     ? sizeof(facts_of_tile)
                                  : a.start ? offsetof(facts_of_tile, end)
                                            : offsetof(facts_of_tile, start));
    const facts_of_tile *all_facts = (const facts_of_tile *)a.facts;
    const int sharing = a.heads / a.groups;
    ring<PLACES> held;
    ring<STAGES> passing;

    for (;; held.step()) {
        struct piece next;
        const uint32_t full = shared_address(&barriers.held_full[held.at]);

        if (!take(a, &a.next[1], a.key_tiles, a.groups, &next)) {
            if (lane() == 0)
                say_end(&barriers, &piece[held.at], held, passing);
            return;
        }
        find_queries<ROWS>(a, &next);
        if (lane() != 0)
            continue;
        barrier_wait(shared_address(&barriers.held_empty[held.at]), held.parity ^ 1);
        piece[held.at] = next;
        barrier_arrive_expect(full, 2 * TILE_BYTES);
        load_tile<WIDTH, TILE>(k[held.at], &a.k, next.tile * TILE, next.head, next.sample, full);
        load_tile<WIDTH, TILE>(v[held.at], &a.v, next.tile * TILE, next.head, next.sample, full);
        for (int i = 0; i < next.count * sharing; i++, passing.step()) {
            const uint32_t loaded = shared_address(&barriers.passing_full[passing.at]);
            const int tile = next.first + i % next.count;
            const int head = next.head * sharing + i / next.count;
            const int64_t at =
                ((int64_t)next.sample * a.heads + head) * a.query_tiles * (TILE / ROWS) + tile;

            barrier_wait(shared_address(&barriers.passing_empty[passing.at]), passing.parity ^ 1);
            barrier_arrive_expect(loaded, 2 * PASSING_BYTES + facts_bytes);
            load_tile<WIDTH, ROWS>(q[passing.at], &a.q, tile * ROWS, head, next.sample, loaded);
            load_tile<WIDTH, ROWS>(d_o[passing.at], &a.d_o, tile * ROWS, head, next.sample, loaded);
            bytes_load(shared_address(&facts[passing.at]), &all_facts[at], facts_bytes, loaded);
        }
    }
}

/* Mask the queries, in a tile starting at 'query', that do not see this thread's keys, 'key' and 8
 * further on. */
template <int COUNT>
__device__ inline void hide_queries(float (&scores)[COUNT], int key, int query, int ahead)
{
    const int from = key - ahead - query - first_column();

#pragma unroll
    for (int i = 0; i < COUNT; i++) {
        const bool seen = i / 4 * 8 + i % 2 >= from + i / 2 % 2 * 8;

        scores[i] = seen ? scores[i] : -INFINITY;
    }
}

/* The same for queries whose document starts after the key. */
template <int COUNT>
__device__ inline void hide_documents(float (&scores)[COUNT], int key, const int32_t *start)
{
#pragma unroll
    for (int i = 0; i < COUNT / 4; i++) {
        const int2 at = *reinterpret_cast<const int2 *>(&start[8 * i + first_column()]);

        scores[4 * i] = at.x <= key ? scores[4 * i] : -INFINITY;
        scores[4 * i + 1] = at.y <= key ? scores[4 * i + 1] : -INFINITY;
        scores[4 * i + 2] = at.x <= key + 8 ? scores[4 * i + 2] : -INFINITY;
        scores[4 * i + 3] = at.y <= key + 8 ? scores[4 * i + 3] : -INFINITY;
    }
}

/* The same for queries whose keys end at or before the key. */
template <int COUNT>
__device__ inline void hide_ended(float (&scores)[COUNT], int key, const int32_t *end)
{
#pragma unroll
    for (int i = 0; i < COUNT / 4; i++) {
        const int2 at = *reinterpret_cast<const int2 *>(&end[8 * i + first_column()]);

        scores[4 * i] = at.x > key ? scores[4 * i] : -INFINITY;
        scores[4 * i + 1] = at.y > key ? scores[4 * i + 1] : -INFINITY;
        scores[4 * i + 2] = at.x > key + 8 ? scores[4 * i + 2] : -INFINITY;
        scores[4 * i + 3] = at.y > key + 8 ? scores[4 * i + 3] : -INFINITY;
    }
}

/* The least of the ends of a tile of queries. Called by all threads of a warp. */
template <int ROWS> __device__ inline int least_end(const int32_t (&end)[ROWS])
{
    int least;

    if constexpr (ROWS == 4 * WARP) {
        const int4 four = reinterpret_cast<const int4 *>(end)[lane()];

        least = min(min(four.x, four.y), min(four.z, four.w));
    } else {
        static_assert(ROWS == 2 * WARP, "two for each thread");
        const int2 two = reinterpret_cast<const int2 *>(end)[lane()];

        least = min(two.x, two.y);
    }
    return __reduce_min_sync(~0u, least);
}

/* Two of the facts, of adjacent columns. */
__device__ inline float2 two_of(const float *facts, int block)
{
    return *reinterpret_cast<const float2 *>(&facts[8 * block + first_column()]);
}

/* One warp group that multiplies. */
template <typename T, int WIDTH>
struct key_worker : worker_place<struct keys_shared<WIDTH>, WIDTH> {
    typedef struct keys_shared<WIDTH> shared_memory;
    typedef worker_place<shared_memory, WIDTH> place;
    static constexpr int ROWS = shared_memory::ROWS, SCORES = registers_of(ROWS);
    typedef tile_shape<WIDTH, ROWS> tile;
    using place::a, place::shared, place::worker, place::slice, place::held, place::passing;
    using place::piece, place::at;

    int left;      /* number of tiles over all heads */
    uint64_t k, v; /* held tiles */
    float p[SCORES], dp[SCORES], dk[registers_of(WIDTH)], dv[registers_of(WIDTH)];

    using place::place;

    __device__ inline void get_piece(void)
    {
        this->wait_for_piece();
        k = this->rows_of(shared->k);
        v = this->rows_of(shared->v);
    }

    __device__ inline void begin_piece(void)
    {
#pragma unroll
        for (int i = 0; i < registers_of(WIDTH); i++)
            dk[i] = dv[i] = 0;
        at = 0;
        left = piece.count * (a.heads / a.groups);
    }

    /* Compute the scores of the passing tile. */
    __device__ inline void multiply(void)
    {
        this->wait_for_tile();
        product_begin();
        multiply_rows<T, WIDTH, ROWS>(p, k,
                                      tile::descriptor(shared_address(shared->q[passing.at])));
        product_commit();
    }

    /* Turn scores into probabilities. */
    __device__ inline void soften(void)
    {
        const struct row_facts<ROWS> *facts = &shared->facts[passing.at];
        const float scale = a.scale * LOG2_E;
        const int key = piece.tile * TILE + slice, query = (piece.first + at) * ROWS;

        if (key + SLICE - 1 > query + a.ahead)
            hide_queries(p, key + first_row(), query, a.ahead);
        if (a.start)
            hide_documents(p, key + first_row(), facts->start);
        if (a.end && key + SLICE > least_end(facts->end))
            hide_ended(p, key + first_row(), facts->end);
#pragma unroll
        for (int i = 0; i < SCORES; i += 4) {
            const float2 lse = two_of(facts->minus_lse, i / 4);

            p[i] = power_of_two(fmaf(p[i], scale, lse.x));
            p[i + 1] = power_of_two(fmaf(p[i + 1], scale, lse.y));
            p[i + 2] = power_of_two(fmaf(p[i + 2], scale, lse.x));
            p[i + 3] = power_of_two(fmaf(p[i + 3], scale, lse.y));
        }
    }

    /* Compute the gradient of the scores. */
    __device__ inline void differentiate(void)
    {
        const struct row_facts<ROWS> *facts = &shared->facts[passing.at];

#pragma unroll
        for (int i = 0; i < SCORES; i += 4) {
            const float2 delta = two_of(facts->minus_delta, i / 4);

            p[i] *= dp[i] + delta.x;
            p[i + 1] *= dp[i + 1] + delta.y;
            p[i + 2] *= dp[i + 2] + delta.x;
            p[i + 3] *= dp[i + 3] + delta.y;
        }
    }

    /* dV of the passing tile, and the operand for dK. dP is computed concurrently with the
     * probabilities. */
    __device__ inline void work_on_tile(uint32_t (&ds)[ROWS / DEPTH][4])
    {
        const uint64_t d_o = tile::descriptor(shared_address(shared->d_o[passing.at]));
        uint32_t weights[ROWS / DEPTH][4];

        product_begin();
        multiply_rows<T, WIDTH, ROWS>(dp, v, d_o);
        product_commit();
        soften();
        to_operand<T, ROWS>(p, weights);
        product_begin();
        add_rows<T, WIDTH, ROWS>(dv, weights, d_o);
        product_commit();
        product_wait<1>();
        settle(dp);
        differentiate();
        to_operand<T, ROWS>(p, ds);
    }

    __device__ inline void store(const struct piece &done)
    {
        auto &results = shared->results;

        if constexpr (shared_memory::RESULTS == 1) {
            store_slice<T, WIDTH>(dk, a.scale, results[0][worker], &a.dk, done, worker);
            store_slice<T, WIDTH>(dv, 1, results[0][worker], &a.dv, done, worker);
        } else {
            const int key = done.tile * TILE + slice;

            wait_for_slice(worker);
            put_slice<T, WIDTH>(dk, a.scale, results[0][worker]);
            put_slice<T, WIDTH>(dv, 1, results[1][worker]);
            if (slice_is_written(worker)) {
                copy_slice<WIDTH>(&a.dk, key, done.head, done.sample, results[0][worker]);
                copy_slice<WIDTH>(&a.dv, key, done.head, done.sample, results[1][worker]);
                tile_store_commit();
            }
        }
    }

    /* Process all tiles of all work items; the next item's scores are computed before the current
     * one is stored. */
    __device__ inline void work(void)
    {
        const uint64_t *pending = NULL; /* tile whose products may still be in flight */

        if (!begin_work(this))
            return;
#pragma unroll 1
        for (;;) {
            const int stage = passing.at, held_place = held.at;
            const struct piece done = piece;
            uint32_t ds[ROWS / DEPTH][4];

            product_wait<0>();
            settle(p);
            if (pending)
                release(pending);
            pending = &shared->barriers.passing_empty[stage];
            work_on_tile(ds);
            passing.step();
            at = at + 1 == done.count ? 0 : at + 1;
            if (--left == 0) {
                held.step();
                get_piece();
            }
            product_wait<0>();
            turn_wait(worker);
            product_begin();
            add_rows<T, WIDTH, ROWS>(dk, ds, tile::descriptor(shared_address(shared->q[stage])));
            product_commit();
            multiply();
            turn_pass(worker);
            if (left > 0)
                continue;
            product_wait<0>();
            settle(dk);
            settle(dv);
            release(pending);
            pending = NULL;
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

} // namespace

#endif
