/* SPDX-License-Identifier: Apache-2.0 */
/* Dropout masks of eight elements at a time, from the random numbers of rng.h. */
#ifndef MEGATRON_DROPOUT_CUH
#define MEGATRON_DROPOUT_CUH

#include "common.cuh"
#include "base/core/rng.h"

namespace
{

struct dropout {
    uint32_t threshold; /* 0: nothing is dropped, also at very low rates */
    float scale;        /* scale of the elements that are kept */
    uint32_t purpose;
    const step_state *state;
};

/* The inputs of its random numbers, from the state of the step. */
struct numbers {
    uint64_t seed;
    uint32_t step, purpose, threshold;
};

__device__ inline numbers numbers_of(const dropout &drop)
{
    return {drop.state->seed, (uint32_t)drop.state->iteration, drop.purpose, drop.threshold};
}

static_assert(VECTOR == 8, "a block of random numbers serves eight elements");

/* Which of the elements of a block of random numbers are dropped, one bit each. */
__device__ inline uint32_t dropped_of_block(const numbers &n, uint64_t number)
{
    const rng_block block = rng_philox(n.seed, number, n.purpose, n.step);
    const uint32_t most = (n.threshold << 16) - 1; /* an element's number is half a word */
    uint32_t bits = 0;

#pragma unroll
    for (int i = 0; i < VECTOR / 2; i++) {
        bits |= block.word[i] << 16 <= most ? 1u << 2 * i : 0;
        bits |= block.word[i] <= most ? 2u << 2 * i : 0;
    }
    return n.threshold ? bits : 0;
}

/* Which of eight elements, starting at 'index', are dropped; the lowest bit is the first element.
 * WHOLE: the index is a multiple of eight; otherwise they may be in two blocks. */
template <bool WHOLE> __device__ inline uint32_t dropped_from(const numbers &n, int64_t index)
{
    const uint64_t block = (uint64_t)index / VECTOR;
    const uint32_t bits = dropped_of_block(n, block);

    if (WHOLE || index % VECTOR == 0)
        return bits;
    return (bits | dropped_of_block(n, block + 1) << VECTOR) >> index % VECTOR;
}

/* The same, at this point of the program: between loads and their use, to hide their latency. The
 * compiler alone would move it after them. */
template <bool WHOLE> __device__ inline uint32_t dropped_meanwhile(const numbers &n, int64_t index)
{
    uint32_t bits = dropped_from<WHOLE>(n, index);

    asm volatile("" : "+r"(bits));
    return bits;
}

/* Drop those of eight elements whose bit is set. */
__device__ inline void apply_dropout(const dropout &drop, uint32_t dropped, float *v)
{
#pragma unroll
    for (int i = 0; i < VECTOR; i++)
        v[i] = dropped >> i & 1 ? 0.0f : v[i] * drop.scale;
}

} // namespace

#endif
