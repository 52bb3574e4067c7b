/* SPDX-License-Identifier: Apache-2.0 */
/* The first kernel of the attention gradient: dQ. A block holds a tile of queries and iterates over
 * the keys that it sees. It also computes the facts of its rows for the second kernel. */
#include "hopper_attention.cuh"

namespace
{

struct queries_shared {
    uint8_t q[PLACES][TILE_BYTES], d_o[PLACES][TILE_BYTES], o[PLACES][TILE_BYTES];
    uint8_t k[STAGES][TILE_BYTES], v[STAGES][TILE_BYTES];
    uint8_t dq[WORKERS][SLICE_BYTES];
    struct piece piece[PLACES];
    struct barriers barriers;

    __device__ inline void load_held(const struct attention_arguments &a, const struct piece &piece,
                                     int place)
    {
        const uint32_t full = shared_address(&barriers.held_full[place]);

        barrier_arrive_expect(full, 3 * TILE_BYTES);
        tile_load(shared_address(q[place]), &a.q, piece.tile * TILE, piece.head, piece.sample,
                  full);
        tile_load(shared_address(d_o[place]), &a.d_o, piece.tile * TILE, piece.head, piece.sample,
                  full);
        tile_load(shared_address(o[place]), &a.o, piece.tile * TILE, piece.head, piece.sample,
                  full);
    }
};

/* The sum of dO * O over a row of two tiles; the four threads of a row compute it together. */
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

/* Compute the rest of the facts, and store them for the second kernel. */
template <typename T>
__device__ inline void finish_rows(const struct attention_arguments &a, const struct piece &piece,
                                   const uint8_t *d_o, const uint8_t *o, int in_tile,
                                   struct rows *rows)
{
    const int64_t head = (int64_t)piece.sample * a.heads + piece.head;
    struct row_facts *facts = &a.facts[head * a.query_tiles + piece.tile];

#pragma unroll
    for (int i = 0; i < 2; i++) {
        const int at = in_tile + 8 * i;

        rows->minus_lse[i] *= LOG2_E;
        rows->minus_delta[i] = -row_product<T>(d_o, o, at);
        if (lane() % 4 == 0)
            facts->minus_lse[at] = rows->minus_lse[i];
        else if (lane() % 4 == 1)
            facts->minus_delta[at] = rows->minus_delta[i];
        else if (lane() % 4 == 2)
            facts->start[at] = rows->sight[i].first;
        else /* rows after the last query need no mask */
            facts->end[at] =
                piece.tile * TILE + at < a.queries ? rows->sight[i].last + 1 : INT32_MAX;
    }
}

/* One warp group that multiplies. */
template <typename T> struct query_worker : worker_place<struct queries_shared> {
    uint64_t q, d_o;     /* held tiles */
    struct rows rows;    /* facts of this thread's rows */
    struct rows next;    /* facts of the next work item, being loaded */
    struct sight common; /* range of all rows of the warp */
    float p[SCORES], dp[SCORES], dq[SUMS];

    using worker_place<struct queries_shared>::worker_place;

    __device__ inline void get_piece(void)
    {
        wait_for_piece();
        q = rows_of(shared->q);
        d_o = rows_of(shared->d_o);
        if (piece.count > 0)
            load_rows(a, piece, slice + first_row(), &next);
    }

    __device__ inline void begin_piece(void)
    {
#pragma unroll
        for (int i = 0; i < SUMS; i++)
            dq[i] = 0;
        rows = next;
        finish_rows<T>(a, piece, shared->d_o[held.at], shared->o[held.at], slice + first_row(),
                       &rows);
        common = common_sight(rows.sight);
        at = 0;
    }

    /* Compute the scores of the passing tile, and dP. */
    __device__ inline void multiply(void)
    {
        wait_for_tile();
        product_begin();
        multiply_rows<T>(p, q, tile_descriptor(shared_address(shared->k[passing.at])));
        multiply_rows<T>(dp, d_o, tile_descriptor(shared_address(shared->v[passing.at])));
        product_commit();
    }

    /* Compute the gradient of the scores. */
    __device__ inline void soften(uint32_t (&ds)[TILE / DEPTH][4])
    {
        const float scale = a.scale * LOG2_E;

        hide_keys(p, rows.sight, common, (piece.first + at) * TILE);
#pragma unroll
        for (int i = 0; i < SCORES; i++)
            p[i] = power_of_two(fmaf(p[i], scale, rows.minus_lse[i / 2 % 2]));
#pragma unroll
        for (int i = 0; i < SCORES; i++)
            p[i] *= dp[i] + rows.minus_delta[i / 2 % 2];
        to_operand<T>(p, ds);
    }

    __device__ inline void store(const struct piece &done)
    {
        store_slice<T>(dq, a.scale, shared->dq[worker], &a.dq, done, worker);
    }

    /* Process all tiles of all work items; the next item's first product is started before the
     * current one is stored. */
    __device__ inline void work(void)
    {
        if (!begin_work(this))
            return;
#pragma unroll 1
        for (;;) {
            const int place = passing.at, held_place = held.at;
            const struct piece done = piece;
            uint32_t ds[TILE / DEPTH][4];

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
            add_rows<T>(dq, ds, tile_descriptor(shared_address(shared->k[place])));
            product_commit();
            multiply();
            turn_pass(worker);
            product_wait<0>();
            release(&shared->barriers.passing_empty[place]);
            if (at < done.count)
                continue;
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

template <typename T>
__global__ void __launch_bounds__(GROUPS *GROUP, 1)
    queries_kernel(const __grid_constant__ struct attention_arguments a)
{
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
    run_groups<query_worker<T>>(a, load_along_keys<struct queries_shared>);
#endif
}

} // namespace

int launch_query_gradient(cudaStream_t stream, cudnnDataType_t type,
                          const struct attention_arguments &a)
{
    return launch<struct queries_shared>(
        stream, type == CUDNN_DATA_BFLOAT16 ? queries_kernel<bf16> : queries_kernel<fp16>, a);
}

bool has_query_gradient(void)
{
    return has_code(queries_kernel<bf16>) && has_code(queries_kernel<fp16>);
}
