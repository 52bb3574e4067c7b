/* SPDX-License-Identifier: Apache-2.0 */
/* The first kernel of the attention gradient: dQ. A block holds a tile of queries and iterates over
 * the keys that it sees. It also computes the facts of its rows for the second kernel. */
#ifndef MEGATRON_HOPPER_ATTENTION_QUERIES_CUH
#define MEGATRON_HOPPER_ATTENTION_QUERIES_CUH

#include "hopper_attention.cuh"

namespace
{

template <int WIDTH> struct queries_shared {
    /* Is the output loaded in tiles, too? Otherwise its rows are read from global memory, so that
     * there is room for another stage. */
    static constexpr bool HOLDS_OUTPUT = WIDTH == 64;
    static constexpr int STAGES = WIDTH > 80 ? 2 : 3; /* as many as fit */
    static constexpr int TILE_BYTES = tile_shape<WIDTH, TILE>::BYTES;
    static constexpr int ROWS = passing_keys(WIDTH), PASSING_BYTES = tile_shape<WIDTH, ROWS>::BYTES;
    uint8_t q[PLACES][TILE_BYTES], d_o[PLACES][TILE_BYTES];
    uint8_t o[PLACES][HOLDS_OUTPUT ? TILE_BYTES : 512]; /* 512: the others stay aligned */
    uint8_t k[STAGES][PASSING_BYTES], v[STAGES][PASSING_BYTES];
    uint8_t dq[WORKERS][tile_shape<WIDTH, SLICE>::BYTES];
    struct piece piece[PLACES];
    struct barriers<STAGES> barriers;

    __device__ inline void load_held(const struct attention_arguments &a, const struct piece &piece,
                                     int place)
    {
        const uint32_t full = shared_address(&barriers.held_full[place]);

        barrier_arrive_expect(full, (HOLDS_OUTPUT ? 3 : 2) * TILE_BYTES);
        load_tile<WIDTH, TILE>(q[place], &a.q, piece.tile * TILE, piece.head, piece.sample, full);
        load_tile<WIDTH, TILE>(d_o[place], &a.d_o, piece.tile * TILE, piece.head, piece.sample,
                               full);
        if constexpr (HOLDS_OUTPUT)
            load_tile<WIDTH, TILE>(o[place], &a.o, piece.tile * TILE, piece.head, piece.sample,
                                   full);
    }

    __device__ inline void load(const struct attention_arguments &a)
    {
        load_along_keys<WIDTH, ROWS>(a, this);
    }
};

/* The sum of a * b over eight elements, added to 'sum'. */
template <typename T> __device__ inline float add_products(const void *a, const void *b, float sum)
{
    const packed<T> p = *reinterpret_cast<const packed<T> *>(a);
    const packed<T> q = *reinterpret_cast<const packed<T> *>(b);

#pragma unroll
    for (int i = 0; i < VECTOR; i++)
        sum = fmaf(to_float(p.get(i)), to_float(q.get(i)), sum);
    return sum;
}

/* The sum of dO * O over a row; the four threads of a row compute it together. 'o' is a tile, too,
 * or, if IN_TILE is false, the row itself; NULL: there is none. */
template <typename T, int WIDTH, bool IN_TILE>
__device__ inline float row_product(const uint8_t *d_o, const uint8_t *o, int row)
{
    constexpr int CHUNKS = WIDTH / VECTOR;
    float sum = 0;

#pragma unroll
    for (int i = 0; i < (CHUNKS + 3) / 4; i++) {
        const int chunk = lane() % 4 + 4 * i;
        const int offset = tile_shape<WIDTH, TILE>::chunk_offset(row, chunk);

        if ((CHUNKS % 4 == 0 || chunk < CHUNKS) && (IN_TILE || o))
            sum = add_products<T>(d_o + offset, o + (IN_TILE ? offset : chunk * 16), sum);
    }
    return row_sum(sum);
}

/* What a thread needs to know about its two rows of queries. */
struct rows {
    struct sight sight[2];
    float minus_lse[2], minus_delta[2];
};

/* Load the facts of two rows of a work item, 'in_tile' and 8 further down. */
__device__ inline void load_rows(const struct attention_arguments &a, const struct piece &piece,
                                 int in_tile, struct rows *rows)
{
    const int64_t head = (int64_t)piece.sample * a.heads + piece.head;

    load_sight(a, piece, in_tile, rows->sight);
#pragma unroll
    for (int i = 0; i < 2; i++) {
        const int query = piece.tile * TILE + in_tile + 8 * i;

        rows->minus_lse[i] = query < a.queries ? -a.lse[head * a.queries + query] : -INFINITY;
    }
}

/* A row of the output in global memory; NULL after the last query. */
template <typename T>
__device__ inline const uint8_t *output_row(const struct attention_arguments &a,
                                            const struct piece &piece, int row)
{
    const int query = piece.tile * TILE + row;

    return query < a.queries
               ? (const uint8_t *)((const T *)a.out.rows + piece.sample * a.out.batch +
                                   piece.head * a.out.head + query * a.out.position)
               : NULL;
}

/* Compute the rest of the facts, and store them for the second kernel. */
template <typename T, int WIDTH>
__device__ inline void finish_rows(const struct attention_arguments &a, const struct piece &piece,
                                   const struct queries_shared<WIDTH> *shared, int place,
                                   int in_tile, struct rows *rows)
{
    constexpr bool IN_TILE = queries_shared<WIDTH>::HOLDS_OUTPUT;
    constexpr int ROWS = passing_queries(WIDTH), PARTS = TILE / ROWS;
    const int64_t head = (int64_t)piece.sample * a.heads + piece.head;
    const int part = PARTS == 1 ? 0 : in_tile / ROWS;
    struct row_facts<ROWS> *facts =
        &((struct row_facts<ROWS> *)a.facts)[(head * a.query_tiles + piece.tile) * PARTS + part];

#pragma unroll
    for (int i = 0; i < 2; i++) {
        const int row = in_tile + 8 * i, at = row - part * ROWS;
        const uint8_t *o = IN_TILE ? shared->o[place] : output_row<T>(a, piece, row);

        rows->minus_lse[i] *= LOG2_E;
        rows->minus_delta[i] = -row_product<T, WIDTH, IN_TILE>(shared->d_o[place], o, row);
        if (lane() % 4 == 0)
            facts->minus_lse[at] = rows->minus_lse[i];
        else if (lane() % 4 == 1)
            facts->minus_delta[at] = rows->minus_delta[i];
        else if (lane() % 4 == 2)
            facts->start[at] = rows->sight[i].first;
        else /* rows after the last query need no mask */
            facts->end[at] =
                piece.tile * TILE + row < a.queries ? rows->sight[i].last + 1 : INT32_MAX;
    }
}

/* One warp group that multiplies. */
template <typename T, int WIDTH>
struct query_worker : worker_place<struct queries_shared<WIDTH>, WIDTH> {
    typedef struct queries_shared<WIDTH> shared_memory;
    typedef worker_place<shared_memory, WIDTH> place;
    static constexpr int ROWS = shared_memory::ROWS, SCORES = registers_of(ROWS);
    /* With two stages a tile is released while the products of the next one run: its successor is
     * loaded then. */
    static constexpr int EARLY = shared_memory::STAGES == 2;
    typedef tile_shape<WIDTH, ROWS> tile;
    using place::a, place::shared, place::worker, place::slice, place::held, place::passing;
    using place::piece, place::at;

    uint64_t q, d_o;     /* held tiles */
    struct rows rows;    /* facts of this thread's rows */
    struct rows next;    /* facts of the next work item, being loaded */
    struct sight common; /* range of all rows of the warp */
    float p[SCORES], dp[SCORES], dq[registers_of(WIDTH)];

    using place::place;

    __device__ inline void get_piece(void)
    {
        this->wait_for_piece();
        q = this->rows_of(shared->q);
        d_o = this->rows_of(shared->d_o);
        if (piece.count > 0)
            load_rows(a, piece, slice + first_row(), &next);
    }

    __device__ inline void begin_piece(void)
    {
#pragma unroll
        for (int i = 0; i < registers_of(WIDTH); i++)
            dq[i] = 0;
        rows = next;
        finish_rows<T, WIDTH>(a, piece, shared, held.at, slice + first_row(), &rows);
        common = common_sight(rows.sight);
        at = 0;
    }

    /* Compute the scores of the passing tile, and dP. */
    __device__ inline void multiply(void)
    {
        this->wait_for_tile();
        product_begin();
        multiply_rows<T, WIDTH, ROWS>(p, q,
                                      tile::descriptor(shared_address(shared->k[passing.at])));
        multiply_rows<T, WIDTH, ROWS>(dp, d_o,
                                      tile::descriptor(shared_address(shared->v[passing.at])));
        product_commit();
    }

    /* Compute the gradient of the scores. */
    __device__ inline void soften(uint32_t (&ds)[ROWS / DEPTH][4])
    {
        const float scale = a.scale * LOG2_E;

        hide_keys(p, rows.sight, common, (piece.first + at) * ROWS);
#pragma unroll
        for (int i = 0; i < SCORES; i++)
            p[i] = power_of_two(fmaf(p[i], scale, rows.minus_lse[i / 2 % 2]));
#pragma unroll
        for (int i = 0; i < SCORES; i++)
            p[i] *= dp[i] + rows.minus_delta[i / 2 % 2];
        to_operand<T, ROWS>(p, ds);
    }

    __device__ inline void store(const struct piece &done)
    {
        store_slice<T, WIDTH>(dq, a.scale, shared->dq[worker], &a.dq, done, worker);
    }

    /* Process all tiles of all work items; the next item's first product is started before the
     * current one is stored. */
    __device__ inline void work(void)
    {
        if (!begin_work(this))
            return;
#pragma unroll 1
        for (;;) {
            const int stage = passing.at, held_place = held.at;
            const struct piece done = piece;
            uint32_t ds[ROWS / DEPTH][4];

            product_wait<0>();
            settle(p);
            settle(dp);
            soften(ds);
            passing.step();
            if (++at == done.count) {
                held.step();
                get_piece();
            }
            turn_wait(worker);
            product_begin();
            add_rows<T, WIDTH, ROWS>(dq, ds, tile::descriptor(shared_address(shared->k[stage])));
            product_commit();
            multiply();
            turn_pass(worker);
            product_wait<EARLY>();
            release(&shared->barriers.passing_empty[stage]);
            if (at < done.count)
                continue;
            if (EARLY)
                product_wait<0>();
            settle(dq);
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
