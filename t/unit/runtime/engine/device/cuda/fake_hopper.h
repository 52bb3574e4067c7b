/* SPDX-License-Identifier: Apache-2.0 */
/* A cluster of two Hopper thread blocks without a GPU, for kernels written with hopper.cuh: the
 * same functions, for bf16. The threads are fibers of one process that give way when they wait.
 *
 * Asynchronous work is done as late as the hardware may do it: products when they are waited for,
 * stores when they must have read shared memory, loads at random. So a buffer that is reused too
 * early has wrong contents, and barriers that do not match end in a deadlock, which is reported. */
#ifndef FAKE_HOPPER_H
#define FAKE_HOPPER_H

#include <algorithm>
#include <deque>
#include <map>
#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <ucontext.h>
#include <vector>

/* Instead of these headers. */
#define MEGATRON_HOPPER_CUH
#define MEGATRON_GELU_CUH
#define __device__
#define __host__

#include "engine/device/cuda/hopper_tile.cuh"

using std::max;
using std::min;

constexpr int WARP = 32, BLOCK_THREADS = 384, CLUSTER_THREADS = 2 * BLOCK_THREADS;
constexpr int SHARED_BYTES = 227 * 1024, STACK_BYTES = 64 * 1024;

struct bf16 {
    uint16_t bits;
};

struct float2 {
    float x, y;
};

struct int2 {
    int32_t x, y;
};

struct int4 {
    int32_t x, y, z, w;
};

static inline float to_float(bf16 x)
{
    const uint32_t bits = (uint32_t)x.bits << 16;
    float number;

    memcpy(&number, &bits, sizeof(number));
    return number;
}

static inline bf16 to_bf16(float x)
{
    uint32_t bits;

    memcpy(&bits, &x, sizeof(bits));
    return {(uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16)};
}

template <typename T> float2 unpack_two(uint32_t two)
{
    return {to_float({(uint16_t)two}), to_float({(uint16_t)(two >> 16)})};
}

template <typename T> uint32_t pack_two(float a, float b)
{
    return to_bf16(a).bits | (uint32_t)to_bf16(b).bits << 16;
}

/* From common.cuh. */
constexpr int VECTOR = 8;
constexpr float LOG2_E = 1.4426950408889634f;

template <typename T> struct packed {
    T element[VECTOR];

    T get(int i) const
    {
        return element[i];
    }
};

static inline float power_of_two(float x)
{
    return exp2f(x);
}

/* The functions of gelu.cuh, in another form. */
template <int N> void gelu_tanh(float *x)
{
    for (int i = 0; i < N; i++)
        x[i] *= 0.5f + 0.5f * tanhf(0.79788456f * (x[i] + 0.044715f * x[i] * x[i] * x[i]));
}

template <int N> void gelu_tanh_gradient(const float *x, float *y)
{
    for (int i = 0; i < N; i++) {
        const float t = tanhf(0.79788456f * (x[i] + 0.044715f * x[i] * x[i] * x[i]));

        y[i] *= 0.5f * (1 + t) +
                0.5f * x[i] * (1 - t * t) * 0.79788456f * (1 + 0.134145f * x[i] * x[i]);
    }
}

template <int N, bool FINE> void gelu_erf(float *x)
{
    for (int i = 0; i < N; i++)
        x[i] *= 0.5f * erfcf(-0.70710678f * x[i]);
}

template <int N, bool FINE> void gelu_erf_gradient(const float *x, float *y)
{
    for (int i = 0; i < N; i++)
        y[i] *= 0.5f * erfcf(-0.70710678f * x[i]) + x[i] * 0.39894228f * expf(-0.5f * x[i] * x[i]);
}

static inline float fake_divide(float a, float b)
{
    return a / b;
}
#define __fdividef fake_divide
#define __expf     expf
#define __logf     logf

/* The machine -------------------------------------------------------------------------------- */

/* A tensor of 16-bit elements in boxes; sizes innermost first, pitches in bytes. Lines of a box
 * have 'swizzle' bytes. */
struct CUtensorMap {
    void *base;
    int rank;
    int64_t dims[4], pitch[3];
    int box[4], swizzle;
};

/* A tile, or 'bytes' without a map. */
struct fake_load {
    const CUtensorMap *map;
    int at[4];
    uint32_t to, barrier;
    int blocks;
    const void *from;
    int bytes;
};

struct fake_store {
    const CUtensorMap *map;
    int at[4];
    uint32_t from;
};

/* A product of 64 rows, so many columns and a depth of 16. A is in shared memory, or this thread's
 * two rows of it are 'rows'. Across: rows of A, or columns of B, are contiguous. */
struct fake_product {
    float *d;
    int columns;
    uint64_t a, b;
    bool add, held, a_across, b_across;
    float rows[2][16];
};

struct fake_index {
    int x;
};

struct fiber {
    ucontext_t context;
    char *stack;
    fake_index index; /* in its block */
    int block;
    bool done, fenced;
    std::vector<fake_store> stores;
    std::deque<std::vector<fake_store>> store_groups;
    std::vector<fake_product> products;
    std::deque<std::vector<fake_product>> product_groups;
};

struct fake_barrier {
    int count, missing;
    int64_t bytes;
    uint32_t phase;
};

struct meeting {
    int present;
    uint32_t number;
};

/* What the lanes of a warp tell each other. */
struct fake_warp {
    meeting meet;
    uint32_t address[WARP], words[WARP][4];
    float number[WARP];
    int whole[WARP];
};

struct fake_block {
    uint8_t *shared;
    std::map<uint32_t, fake_barrier> barriers;
    std::map<int, meeting> groups;
    fake_warp warps[BLOCK_THREADS / WARP];
};

struct fake_cluster {
    fake_block blocks[2];
    meeting meet;
    std::vector<fake_load> loads;
    int number, count; /* of clusters */
    int64_t progress;  /* anything that a waiting thread may wait for */
    const char *error; /* what the kernel did wrong, or NULL */
};

extern fake_cluster cluster;
extern fiber *current;

/* Run a kernel on 'clusters' clusters, one after the other. NULL, or what it did wrong. */
const char *fake_run(void (*kernel)(void), int clusters);

/* Let other threads run. */
void fake_yield(void);

/* A random number. */
uint32_t fake_random(void);

/* Copy between a box and the shared memory of a block. */
void fake_copy(const CUtensorMap *map, const int *at, uint8_t *shared, uint32_t address,
               bool store);

#define threadIdx (current->index)
#define blockIdx  (fake_index{2 * cluster.number + current->block})
#define gridDim   (fake_index{2 * cluster.count})

static inline fake_block &fake_own(void)
{
    return cluster.blocks[current->block];
}

static inline fake_warp &fake_own_warp(void)
{
    return fake_own().warps[threadIdx.x / WARP];
}

static inline void fake_wrong(const char *what)
{
    cluster.error = what;
    for (;;)
        fake_yield();
}

static inline void fake_join(meeting &m, int count)
{
    cluster.progress++;
    if (++m.present == count) {
        m.present = 0;
        m.number++;
    }
}

static inline void fake_meet(meeting &m, int count)
{
    const uint32_t number = m.number;

    fake_join(m, count);
    while (m.number == number)
        fake_yield();
}

static inline uint32_t shared_address(const void *p)
{
    return (uint32_t)((const uint8_t *)p - fake_own().shared);
}

/* Barriers and clusters ----------------------------------------------------------------------- */

static inline void fake_arrive(int block, uint32_t at, int arrivals, int64_t bytes)
{
    fake_barrier &b = cluster.blocks[block].barriers[at];

    b.missing -= arrivals;
    b.bytes += bytes;
    if (b.missing < 0 || b.count == 0)
        cluster.error = "more arrivals than a barrier expects";
    if (b.missing == 0 && b.bytes == 0) {
        b.missing = b.count;
        b.phase++;
    }
    cluster.progress++;
}

static inline void barrier_init(uint32_t barrier, int arrivals)
{
    fake_own().barriers[barrier] = {arrivals, arrivals, 0, 0};
}

static inline void barrier_init_done(void)
{
}

static inline void barrier_arrive_expect(uint32_t barrier, int bytes)
{
    fake_arrive(current->block, barrier, 1, bytes);
}

static inline void barrier_arrive(uint32_t barrier)
{
    fake_arrive(current->block, barrier, 1, 0);
}

static inline void barrier_arrive_at(uint32_t barrier, uint32_t rank)
{
    fake_arrive((int)rank, barrier, 1, 0);
}

static inline void barrier_wait(uint32_t barrier, uint32_t parity)
{
    while ((fake_own().barriers[barrier].phase & 1) == parity)
        fake_yield();
}

static inline uint32_t cluster_rank(void)
{
    return (uint32_t)current->block;
}

static inline void cluster_sync(void)
{
    fake_meet(cluster.meet, CLUSTER_THREADS);
}

static inline void group_sync(int id, int threads)
{
    fake_meet(fake_own().groups[id], threads);
}

static inline void __syncthreads(void)
{
    group_sync(0, BLOCK_THREADS);
}

static inline void group_arrive(int id, int threads)
{
    fake_join(fake_own().groups[id], threads);
}

template <int COUNT> void registers_fewer(void)
{
}
template <int COUNT> void registers_more(void)
{
}

/* Copies -------------------------------------------------------------------------------------- */

static inline void matrix_load_shared(uint32_t to, const CUtensorMap *map, int x, int y,
                                      uint32_t barrier, int blocks)
{
    cluster.loads.push_back({map, {x, y, 0, 0}, to, barrier, blocks, NULL, 0});
}

static inline void matrix_load(uint32_t to, const CUtensorMap *map, int x, int y, uint32_t barrier)
{
    matrix_load_shared(to, map, x, y, barrier, 1 << current->block);
}

static inline void tile_load_at(uint32_t to, const CUtensorMap *map, int x, int y, int z, int w,
                                uint32_t barrier)
{
    cluster.loads.push_back({map, {x, y, z, w}, to, barrier, 1 << current->block, NULL, 0});
}

static inline void bytes_load(uint32_t to, const void *from, int bytes, uint32_t barrier)
{
    cluster.loads.push_back({NULL, {}, to, barrier, 1 << current->block, from, bytes});
}

static inline void matrix_store(const CUtensorMap *map, int x, int y, uint32_t from)
{
    current->stores.push_back({map, {x, y, 0, 0}, from});
}

static inline void tile_store_at(const CUtensorMap *map, int x, int y, int z, int w, uint32_t from)
{
    current->stores.push_back({map, {x, y, z, w}, from});
}

static inline void tile_store_commit(void)
{
    current->store_groups.push_back(current->stores);
    current->stores.clear();
}

template <int PENDING = 0> void tile_store_wait(void)
{
    while (current->store_groups.size() > PENDING) {
        for (const fake_store &s : current->store_groups.front())
            fake_copy(s.map, s.at, fake_own().shared, s.from, true);
        current->store_groups.pop_front();
    }
}

static inline void shared_written(void)
{
}

/* Products ------------------------------------------------------------------------------------ */

static inline void product_begin(void)
{
    current->fenced = true;
}

static inline void product_commit(void)
{
    current->product_groups.push_back(current->products);
    current->products.clear();
    current->fenced = false;
}

static inline void fake_begin(const fake_product &product)
{
    if (!current->fenced)
        fake_wrong("a product without fence");
    current->products.push_back(product);
}

template <typename T, bool ACROSS>
void product_widest(float (&d)[128], uint64_t a, uint64_t b, int add)
{
    fake_begin({d, 256, a, b, add != 0, false, ACROSS, false, {}});
}

template <typename T, bool ADD, int COUNT>
void product_wide(float (&d)[COUNT], uint64_t a, uint64_t b)
{
    fake_begin({d, 2 * COUNT, a, b, ADD, false, false, false, {}});
}

/* The four threads of a row have its elements of A. */
template <typename T, int COUNT>
void product_held(float (&d)[COUNT], const uint32_t (&a)[4], uint64_t b);

/* Compute this thread's part of a product. */
void fake_multiply(const fake_product &product);

template <int PENDING> void product_wait(void)
{
    while (current->product_groups.size() > PENDING) {
        for (const fake_product &p : current->product_groups.front())
            fake_multiply(p);
        current->product_groups.pop_front();
    }
}

static inline bool fake_computes(const std::vector<fake_product> &products, const float *d)
{
    return std::any_of(products.begin(), products.end(),
                       [d](const fake_product &p) { return p.d == d; });
}

template <int COUNT> void settle(float (&d)[COUNT])
{
    bool pending = fake_computes(current->products, d);

    for (const std::vector<fake_product> &group : current->product_groups)
        pending = pending || fake_computes(group, d);
    if (pending)
        fake_wrong("a product is used before it has completed");
}

/* Warps --------------------------------------------------------------------------------------- */

static inline void fake_warp_sync(void)
{
    fake_meet(fake_own_warp().meet, WARP);
}

template <typename T, int COUNT>
void product_held(float (&d)[COUNT], const uint32_t (&a)[4], uint64_t b)
{
    const int lane = threadIdx.x % WARP;
    fake_product product = {d, 2 * COUNT, 0, b, true, true, false, true, {}};
    fake_warp &warp = fake_own_warp();

    memcpy(warp.words[lane], a, sizeof(warp.words[lane]));
    fake_warp_sync();
    for (int k = 0; k < 16; k += 2)
        for (int r = 0; r < 2; r++) {
            const float2 two = unpack_two<T>(warp.words[lane / 4 * 4 + k % 8 / 2][k / 8 * 2 + r]);

            product.rows[r][k] = two.x;
            product.rows[r][k + 1] = two.y;
        }
    fake_warp_sync();
    fake_begin(product);
}

/* Load or store 'count' blocks of 8 x 8 elements; transposed: a row in memory is a column of the
 * block. */
void fake_blocks(uint32_t address, uint32_t *words, int count, bool store, bool transposed);

template <bool TRANSPOSED> void load_blocks(uint32_t address, uint32_t (&block)[4])
{
    fake_blocks(address, block, 4, false, TRANSPOSED);
}

template <bool TRANSPOSED = false> void store_blocks(uint32_t address, const uint32_t (&block)[4])
{
    uint32_t words[4] = {block[0], block[1], block[2], block[3]};

    fake_blocks(address, words, 4, true, TRANSPOSED);
}

static inline void store_two_blocks(uint32_t address, const uint32_t (&block)[2])
{
    uint32_t words[2] = {block[0], block[1]};

    fake_blocks(address, words, 2, true, true);
}

static inline float fake_exchange(float number, int distance)
{
    const int lane = threadIdx.x % WARP;
    float other;

    fake_own_warp().number[lane] = number;
    fake_warp_sync();
    other = fake_own_warp().number[lane ^ distance];
    fake_warp_sync();
    return other;
}
#define __shfl_xor_sync(mask, number, distance) fake_exchange(number, distance)

/* What 'choose' makes of the numbers of a warp. */
template <typename CHOOSE> int fake_agree(int number, CHOOSE choose)
{
    fake_warp &warp = fake_own_warp();
    int result;

    warp.whole[threadIdx.x % WARP] = number;
    fake_warp_sync();
    result = choose(warp.whole);
    fake_warp_sync();
    return result;
}
#define __shfl_sync(mask, number, lane) \
    fake_agree(number, [](const int *numbers) { return numbers[lane]; })
#define __reduce_min_sync(mask, number) \
    fake_agree(number, [](const int *n) { return *std::min_element(n, n + WARP); })
#define __reduce_max_sync(mask, number) \
    fake_agree(number, [](const int *n) { return *std::max_element(n, n + WARP); })

static inline int atomicAdd(int32_t *at, int number)
{
    const int before = *at;

    *at += number;
    return before;
}

#endif
