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

/* Which of the eight elements of a block of random numbers are dropped, a bit each. */
__device__ inline uint32_t dropped_of_block(const dropout &drop, uint64_t seed, uint32_t step,
                                            uint64_t number)
{
    const rng_block block = rng_philox(seed, number, drop.purpose, step);
    const uint32_t most = (drop.threshold << 16) - 1; /* an element's number is half a word */
    uint32_t bits = 0;

#pragma unroll
    for (int i = 0; i < VECTOR / 2; i++) {
        bits |= block.word[i] << 16 <= most ? 1u << 2 * i : 0;
        bits |= block.word[i] <= most ? 2u << 2 * i : 0;
    }
    return bits;
}

/* Which of eight elements, number 'index' on, are dropped: the lowest bit is the first one's.
 * WHOLE: the index is a multiple of eight, else they lie in two blocks. */
template <bool WHOLE>
__device__ inline uint32_t dropped_from(const dropout &drop, uint64_t seed, uint32_t step,
                                        int64_t index)
{
    const uint64_t number = (uint64_t)index / VECTOR;
    const uint32_t bits = dropped_of_block(drop, seed, step, number);

    if (WHOLE)
        return bits;
    return (bits | dropped_of_block(drop, seed, step, number + 1) << VECTOR) >> index % VECTOR;
}

/* The same, now: where loads were begun before, it is done while they are on their way. Left to
 * itself the compiler does it behind them. */
template <bool WHOLE>
__device__ inline uint32_t dropped_meanwhile(const dropout &drop, uint64_t seed, uint32_t step,
                                             int64_t index)
{
    uint32_t bits = dropped_from<WHOLE>(drop, seed, step, index);

    asm volatile("" : "+r"(bits));
    return bits;
}

__device__ inline void apply_dropout(const dropout &drop, uint32_t dropped, float *v)
{
#pragma unroll
    for (int i = 0; i < VECTOR; i++)
        v[i] = dropped >> i & 1 ? 0.0f : v[i] * drop.scale;
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
