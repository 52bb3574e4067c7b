/* SPDX-License-Identifier: Apache-2.0 */
/* Attention forward. A block holds a tile of queries and iterates over the keys that it sees; each
 * row keeps its running maximum and sum of exponentials (online softmax). */
#ifndef MEGATRON_HOPPER_ATTENTION_FORWARD_CUH
#define MEGATRON_HOPPER_ATTENTION_FORWARD_CUH

#include "hopper_attention.cuh"

namespace
{

template <int WIDTH> struct forward_shared {
    static constexpr int ROWS = passing_keys(WIDTH), STAGES = ROWS < TILE ? 4 : 3;
    static constexpr int TILE_BYTES = tile_shape<WIDTH, TILE>::BYTES;
    static constexpr int PASSING_BYTES = tile_shape<WIDTH, ROWS>::BYTES;
    uint8_t q[PLACES][TILE_BYTES];
    uint8_t k[STAGES][PASSING_BYTES], v[STAGES][PASSING_BYTES];
    uint8_t o[WORKERS][tile_shape<WIDTH, SLICE>::BYTES];
    struct piece piece[PLACES];
    struct barriers<STAGES> barriers;

    __device__ inline void load_held(const struct attention_arguments &a, const struct piece &piece,
                                     int place)
    {
        const uint32_t full = shared_address(&barriers.held_full[place]);

        barrier_arrive_expect(full, TILE_BYTES);
        load_tile<WIDTH, TILE>(q[place], &a.q, piece.tile * TILE, piece.head, piece.sample, full);
    }

    __device__ inline void load(const struct attention_arguments &a)
    {
        load_along_keys<WIDTH, ROWS>(a, this);
    }
};

/* The maximum over the four threads of a row. */
__device__ inline float row_most(float x)
{
    x = fmaxf(x, __shfl_xor_sync(~0u, x, 1));
    return fmaxf(x, __shfl_xor_sync(~0u, x, 2));
}

/* One warp group that multiplies. */
template <typename T, int WIDTH>
struct forward_worker : worker_place<struct forward_shared<WIDTH>, WIDTH> {
    typedef struct forward_shared<WIDTH> shared_memory;
    typedef worker_place<shared_memory, WIDTH> place;
    static constexpr int ROWS = shared_memory::ROWS, SCORES = registers_of(ROWS);
    typedef tile_shape<WIDTH, ROWS> tile;
    using place::a, place::shared, place::worker, place::slice, place::held, place::passing;
    using place::piece, place::at;

    uint64_t q;                 /* held tile */
    struct sight sight[2];      /* range of this thread's rows */
    struct sight next_sight[2]; /* range of the rows of the next work item, being loaded */
    struct sight common;        /* range of all rows of the warp */
    float most[2], sum[2];      /* running maximum of the scores; this thread's part of the sum
                                   of exponentials */
    float p[SCORES], o[registers_of(WIDTH)];

    using place::place;

    __device__ inline void get_piece(void)
    {
        this->wait_for_piece();
        q = this->rows_of(shared->q);
        if (piece.count > 0)
            load_sight(a, piece, slice + first_row(), next_sight);
    }

    __device__ inline void begin_piece(void)
    {
#pragma unroll
        for (int i = 0; i < registers_of(WIDTH); i++)
            o[i] = 0;
#pragma unroll
        for (int i = 0; i < 2; i++) {
            sight[i] = next_sight[i];
            most[i] = -INFINITY;
            sum[i] = 0;
        }
        common = common_sight(sight);
        at = 0;
    }

    /* Compute the scores of the passing tile. */
    __device__ inline void multiply(void)
    {
        this->wait_for_tile();
        product_begin();
        multiply_rows<T, WIDTH, ROWS>(p, q,
                                      tile::descriptor(shared_address(shared->k[passing.at])));
        product_commit();
    }

    /* Compute exponentials relative to the running maximum. Earlier sums are rescaled if it has
     * grown. */
    __device__ inline void soften(float (&shrink)[2])
    {
        const float scale = a.scale * LOG2_E;
        float base[2];

        hide_keys(p, sight, common, (piece.first + at) * ROWS);
#pragma unroll
        for (int r = 0; r < 2; r++) {
            float m = p[2 * r], from;

#pragma unroll
            for (int i = 0; i < SCORES; i += 4)
                m = fmaxf(m, fmaxf(p[i + 2 * r], p[i + 2 * r + 1]));
            m = fmaxf(most[r], row_most(m));
            from = m == -INFINITY ? 0 : m; /* a row that has not seen any key yet */
            base[r] = -from * scale;
            shrink[r] = power_of_two((most[r] - from) * scale); /* exactly 1 if the maximum did
                                                                   not grow */
            most[r] = m;
            sum[r] *= shrink[r];
        }
#pragma unroll
        for (int i = 0; i < SCORES; i++)
            p[i] = power_of_two(fmaf(p[i], scale, base[i / 2 % 2]));
#pragma unroll
        for (int i = 0; i < SCORES; i += 4) {
            sum[0] += p[i] + p[i + 1];
            sum[1] += p[i + 2] + p[i + 3];
        }
    }

    __device__ inline void shrink_sums(const float (&shrink)[2])
    {
#pragma unroll
        for (int i = 0; i < registers_of(WIDTH); i++)
            o[i] *= shrink[i / 2 % 2];
    }

    __device__ inline void store(const struct piece &done)
    {
        const int64_t head = (int64_t)done.sample * a.heads + done.head;

#pragma unroll
        for (int r = 0; r < 2; r++) {
            const int query = done.tile * TILE + slice + first_row() + 8 * r;
            const float all = row_sum(sum[r]), part = __fdividef(1, all);

            if (lane() % 4 == 0 && query < a.queries)
                a.lse_out[head * a.queries + query] = fmaf(most[r], a.scale, __logf(all));
#pragma unroll
            for (int i = 0; i < registers_of(WIDTH); i += 4) {
                o[i + 2 * r] *= part;
                o[i + 2 * r + 1] *= part;
            }
        }
        store_slice<T, WIDTH>(o, 1, shared->o[worker], &a.o, done, worker);
    }

    /* Process all tiles of all work items. */
    __device__ inline void work(void)
    {
        const uint64_t *pending = NULL; /* tile whose values are still being added */

        if (!begin_work(this))
            return;
        product_wait<0>();
        settle(p);
#pragma unroll 1
        for (;;) {
            const int stage = passing.at, held_place = held.at;
            const struct piece done = piece;
            uint32_t weights[ROWS / DEPTH][4];
            float shrink[2];

            soften(shrink);
            passing.step();
            if (++at == done.count) {
                held.step();
                get_piece();
            }
            product_wait<0>();
            settle(o);
            if (pending)
                release(pending);
            pending = &shared->barriers.passing_empty[stage];
            shrink_sums(shrink);
            to_operand<T, ROWS>(p, weights);
            turn_wait(worker);
            multiply();
            product_begin();
            add_rows<T, WIDTH, ROWS>(o, weights,
                                     tile::descriptor(shared_address(shared->v[stage])));
            product_commit();
            turn_pass(worker);
            product_wait<1>();
            settle(p);
            if (at < done.count)
                continue;
            product_wait<0>();
            settle(o);
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
