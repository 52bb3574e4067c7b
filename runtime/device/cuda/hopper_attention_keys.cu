/* SPDX-License-Identifier: Apache-2.0 */
/* The second kernel of the attention gradient: dK and dV. A block holds a tile of keys and values
 * and iterates over the queries that see it, of all heads that share it. */
#include "hopper_attention.cuh"

namespace
{

struct keys_shared {
    uint8_t k[PLACES][TILE_BYTES], v[PLACES][TILE_BYTES];
    uint8_t q[STAGES][TILE_BYTES], d_o[STAGES][TILE_BYTES];
    uint8_t dk[WORKERS][SLICE_BYTES], dv[WORKERS][SLICE_BYTES];
    struct row_facts facts[STAGES];
    struct piece piece[PLACES];
    struct barriers barriers;
};

/* The tiles of queries that see a tile of keys. */
__device__ inline void find_queries(const struct attention_arguments &a, struct piece *piece)
{
    const int first = piece->tile * TILE, last = first + TILE - 1;
    const int64_t sample = (int64_t)piece->sample * a.queries;
    int seeing = a.queries - 1, earliest = a.queries;

    piece->first = max(first - a.ahead, 0) / TILE;
    if (a.start || a.end) {
        seeing = -1;
#pragma unroll 4
        for (int i = piece->first * TILE + lane(); i < a.queries; i += WARP)
            if ((!a.start || a.start[sample + i] <= last) &&
                (!a.end || a.end[sample + i] > first)) {
                seeing = i;
                earliest = min(earliest, i);
            }
        seeing = __reduce_max_sync(~0u, seeing);
        earliest = __reduce_min_sync(~0u, earliest);
        if (seeing >= 0)
            piece->first = earliest / TILE;
    }
    piece->count = max(seeing / TILE - piece->first + 1, 1); /* at least one, to write zeros */
}

__device__ inline void load_keys(const struct attention_arguments &a, struct keys_shared *shared)
{
    const int facts_bytes = (int)(a.end     ? sizeof(struct row_facts)
                                  : a.start ? offsetof(struct row_facts, end)
                                            : offsetof(struct row_facts, start));
    const int sharing = a.heads / a.groups;
    ring<PLACES> held;
    ring<STAGES> passing;

    for (;; held.step()) {
        struct piece piece;
        const uint32_t full = shared_address(&shared->barriers.held_full[held.at]);

        if (!take(a, &a.next[1], a.key_tiles, a.groups, &piece)) {
            if (lane() == 0)
                say_end(&shared->barriers, &shared->piece[held.at], held, passing);
            return;
        }
        find_queries(a, &piece);
        if (lane() != 0)
            continue;
        barrier_wait(shared_address(&shared->barriers.held_empty[held.at]), held.parity ^ 1);
        shared->piece[held.at] = piece;
        barrier_arrive_expect(full, 2 * TILE_BYTES);
        tile_load(shared_address(shared->k[held.at]), &a.k, piece.tile * TILE, piece.head,
                  piece.sample, full);
        tile_load(shared_address(shared->v[held.at]), &a.v, piece.tile * TILE, piece.head,
                  piece.sample, full);
        for (int i = 0; i < piece.count * sharing; i++, passing.step()) {
            const uint32_t loaded = shared_address(&shared->barriers.passing_full[passing.at]);
            const int tile = piece.first + i % piece.count;
            const int head = piece.head * sharing + i / piece.count;
            const int64_t facts = ((int64_t)piece.sample * a.heads + head) * a.query_tiles + tile;

            barrier_wait(shared_address(&shared->barriers.passing_empty[passing.at]),
                         passing.parity ^ 1);
            barrier_arrive_expect(loaded, 2 * TILE_BYTES + facts_bytes);
            tile_load(shared_address(shared->q[passing.at]), &a.q, tile * TILE, head, piece.sample,
                      loaded);
            tile_load(shared_address(shared->d_o[passing.at]), &a.d_o, tile * TILE, head,
                      piece.sample, loaded);
            bytes_load(shared_address(&shared->facts[passing.at]), &a.facts[facts], facts_bytes,
                       loaded);
        }
    }
}

/* Mask the queries, in a tile starting at 'query', that do not see this thread's keys, 'key' and 8
 * further on. */
__device__ inline void hide_queries(float (&scores)[SCORES], int key, int query, int ahead)
{
    const int from = key - ahead - query - first_column();

#pragma unroll
    for (int i = 0; i < SCORES; i++) {
        const bool seen = i / 4 * 8 + i % 2 >= from + i / 2 % 2 * 8;

        scores[i] = seen ? scores[i] : -INFINITY;
    }
}

/* The same for queries whose document starts after the key. */
__device__ inline void hide_documents(float (&scores)[SCORES], int key, const int32_t *start)
{
#pragma unroll
    for (int i = 0; i < SCORES / 4; i++) {
        const int2 at = *reinterpret_cast<const int2 *>(&start[8 * i + first_column()]);

        scores[4 * i] = at.x <= key ? scores[4 * i] : -INFINITY;
        scores[4 * i + 1] = at.y <= key ? scores[4 * i + 1] : -INFINITY;
        scores[4 * i + 2] = at.x <= key + 8 ? scores[4 * i + 2] : -INFINITY;
        scores[4 * i + 3] = at.y <= key + 8 ? scores[4 * i + 3] : -INFINITY;
    }
}

/* The same for queries whose keys end at or before the key. */
__device__ inline void hide_ended(float (&scores)[SCORES], int key, const int32_t *end)
{
#pragma unroll
    for (int i = 0; i < SCORES / 4; i++) {
        const int2 at = *reinterpret_cast<const int2 *>(&end[8 * i + first_column()]);

        scores[4 * i] = at.x > key ? scores[4 * i] : -INFINITY;
        scores[4 * i + 1] = at.y > key ? scores[4 * i + 1] : -INFINITY;
        scores[4 * i + 2] = at.x > key + 8 ? scores[4 * i + 2] : -INFINITY;
        scores[4 * i + 3] = at.y > key + 8 ? scores[4 * i + 3] : -INFINITY;
    }
}

/* The least end of a tile of queries. Called by all threads of a warp. */
__device__ inline int least_end(const int32_t *end)
{
    const int4 four = reinterpret_cast<const int4 *>(end)[lane()];

    return __reduce_min_sync(~0u, min(min(four.x, four.y), min(four.z, four.w)));
}

/* Two of the facts, of adjacent columns. */
__device__ inline float2 two_of(const float *facts, int block)
{
    return *reinterpret_cast<const float2 *>(&facts[8 * block + first_column()]);
}

/* One warp group that multiplies. */
template <typename T> struct key_worker : worker_place<struct keys_shared> {
    int left;      /* number of tiles over all heads */
    uint64_t k, v; /* held tiles */
    float p[SCORES], dp[SCORES], dk[SUMS], dv[SUMS];

    using worker_place<struct keys_shared>::worker_place;

    __device__ inline void get_piece(void)
    {
        wait_for_piece();
        k = rows_of(shared->k);
        v = rows_of(shared->v);
    }

    __device__ inline void begin_piece(void)
    {
#pragma unroll
        for (int i = 0; i < SUMS; i++)
            dk[i] = dv[i] = 0;
        at = 0;
        left = piece.count * (a.heads / a.groups);
    }

    /* Compute the scores of the passing tile. */
    __device__ inline void multiply(void)
    {
        wait_for_tile();
        product_begin();
        multiply_rows<T>(p, k, tile_descriptor(shared_address(shared->q[passing.at])));
        product_commit();
    }

    /* Turn scores into probabilities. */
    __device__ inline void soften(void)
    {
        const struct row_facts *facts = &shared->facts[passing.at];
        const float scale = a.scale * LOG2_E;
        const int key = piece.tile * TILE + slice, query = (piece.first + at) * TILE;

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
        const struct row_facts *facts = &shared->facts[passing.at];

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
    __device__ inline void work_on_tile(uint32_t (&ds)[TILE / DEPTH][4])
    {
        const uint64_t d_o = tile_descriptor(shared_address(shared->d_o[passing.at]));
        uint32_t weights[TILE / DEPTH][4];

        product_begin();
        multiply_rows<T>(dp, v, d_o);
        product_commit();
        soften();
        to_operand<T>(p, weights);
        product_begin();
        add_rows<T>(dv, weights, d_o);
        product_commit();
        product_wait<1>();
        settle(dp);
        differentiate();
        to_operand<T>(p, ds);
    }

    __device__ inline void store(const struct piece &done)
    {
        const int key = done.tile * TILE + slice;

        wait_for_slice(worker);
        put_slice<T>(dk, a.scale, shared->dk[worker]);
        put_slice<T>(dv, 1, shared->dv[worker]);
        if (slice_is_written(worker)) {
            tile_store(&a.dk, key, done.head, done.sample, shared_address(shared->dk[worker]));
            tile_store(&a.dv, key, done.head, done.sample, shared_address(shared->dv[worker]));
            tile_store_commit();
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
            const int place = passing.at, held_place = held.at;
            const struct piece done = piece;
            uint32_t ds[TILE / DEPTH][4];

            product_wait<0>();
            settle(p);
            if (pending)
                release(pending);
            pending = &shared->barriers.passing_empty[place];
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
            add_rows<T>(dk, ds, tile_descriptor(shared_address(shared->q[place])));
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

template <typename T>
__global__ void __launch_bounds__(GROUPS *GROUP, 1)
    keys_kernel(const __grid_constant__ struct attention_arguments a)
{
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
    run_groups<key_worker<T>>(a, load_keys);
#endif
}

} // namespace

int launch_key_gradient(cudaStream_t stream, cudnnDataType_t type,
                        const struct attention_arguments &a)
{
    return launch<struct keys_shared>(
        stream, type == CUDNN_DATA_BFLOAT16 ? keys_kernel<bf16> : keys_kernel<fp16>, a);
}

bool has_key_gradient(void)
{
    return has_code(keys_kernel<bf16>) && has_code(keys_kernel<fp16>);
}
