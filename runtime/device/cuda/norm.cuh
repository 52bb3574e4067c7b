/* What the two directions of a step of the residual stream share. */
#ifndef MEGATRON_NORM_CUH
#define MEGATRON_NORM_CUH

#include "common.cuh"
#include "rng.h"

namespace
{

struct dropout {
    uint32_t threshold;
    float scale;
    uint32_t purpose;
    const step_state *state;
};

/* Drop some of V elements, number 'index' on (a multiple of V). */
template <int V>
__device__ inline void apply_dropout(const dropout &drop, uint64_t seed, uint32_t step,
                                     int64_t index, float *v)
{
    const rng_block block = rng_philox(seed, (uint64_t)index / 8, drop.purpose, step);

#pragma unroll
    for (int i = 0; i < V; i++)
        v[i] = rng_dropout_lane(block, (uint64_t)index + i) < drop.threshold ? 0.0f
                                                                             : v[i] * drop.scale;
}

/* The same for an index that is not a multiple of VECTOR: its elements lie in two blocks. */
__device__ inline void apply_dropout_across(const dropout &drop, uint64_t seed, uint32_t step,
                                            int64_t index, float *v)
{
    const rng_block blocks[2] = {rng_philox(seed, (uint64_t)index / 8, drop.purpose, step),
                                 rng_philox(seed, (uint64_t)index / 8 + 1, drop.purpose, step)};

#pragma unroll
    for (int i = 0; i < VECTOR; i++) {
        const bool second = (index + i) / 8 != index / 8;
        const uint32_t drawn = second ? rng_dropout_lane(blocks[1], (uint64_t)index + i)
                                      : rng_dropout_lane(blocks[0], (uint64_t)index + i);

        v[i] = drawn < drop.threshold ? 0.0f : v[i] * drop.scale;
    }
}

dropout make_dropout(const residual_norm_shape *shape, const step_state *state, uint32_t purpose)
{
    dropout drop = {shape->dropout > 0 ? dropout_threshold(shape->dropout) : 0,
                    dropout_scale(shape->dropout), purpose, state};

    return drop;
}

/* Threads for 'wanted' at least, in whole powers of two. */
int round_threads(int64_t wanted, int limit)
{
    int threads = WARP;

    while (threads < wanted && threads < limit)
        threads *= 2;
    return threads;
}

/* Shared memory beyond the usual limit, and all of it rather than cache: blocks side by side. */
template <typename Kernel> void allow_shared(Kernel *kernel, size_t bytes)
{
    cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, (int)bytes);
    cudaFuncSetAttribute(kernel, cudaFuncAttributePreferredSharedMemoryCarveout,
                         cudaSharedmemCarveoutMaxShared);
}

/* Rows in whole vectors, each done by some warps side by side; a block does several rows at once.
 * Where the warps of a row meet, a group has a barrier of its own. */
struct row_split {
    int warps;  /* of a row */
    int groups; /* rows side by side in a block */
};

constexpr int ROW_BLOCK = 8; /* warps of a block where a row does not need more */

row_split split_rows(int64_t cols, int warp_cols)
{
    const int warps = (int)divide_up(cols, warp_cols);

    return {warps, warps < ROW_BLOCK ? ROW_BLOCK / warps : 1};
}

} // namespace

#endif
