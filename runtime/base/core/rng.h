/* SPDX-License-Identifier: Apache-2.0 */
/* Every random number is a function of (seed, purpose, step, index): Philox4x32-10, a counter-based
 * generator. The same function on CPUs and GPUs, so a run does not depend on its layout of ranks.
 *
 * One block of 128 bits is philox(key, counter) with
 *     key     = { low, high half of seed }
 *     counter = { low, high half of block number, purpose, step }
 * and serves, by what is drawn:
 *     dropout        8 numbers of 16 bits: element i is bits 16*(i%2) and up of word (i%8)/2 of
 *                    block i/8. The element is dropped if its number < dropout_threshold(p), and
 *                    kept elements are multiplied by dropout_scale(p), so the mean is exact.
 *     normal         2 numbers: elements i (even) and i+1 come from block i/2 by Box and Muller's
 *                    transform in double precision (rng_normal below).
 *     bits           2 numbers of 64 bits: i%2 picks words 0,1 or 2,3 (low word first) of block
 * i/2. Compiles as C and as CUDA C++. */
#ifndef MEGATRON_RNG_H
#define MEGATRON_RNG_H

#include <math.h>
#include <stdint.h>

#ifdef __CUDACC__
#define RNG_FUNCTION static __host__ __device__ inline
#else
#define RNG_FUNCTION static inline
#endif

/* What a number is drawn for; the low 16 bits of the purpose are the number of the layer (or
 * tensor). */
enum rng_purpose {
    RNG_EMBEDDING_DROPOUT = 1 << 16,
    RNG_ATTENTION_DROPOUT = 2 << 16,  /* attention probabilities */
    RNG_PROJECTION_DROPOUT = 3 << 16, /* after the attention's output projection */
    RNG_MLP_DROPOUT = 4 << 16,
    RNG_INIT = 5 << 16, /* initial weights */
    RNG_MOCK_DATA = 6 << 16,
    RNG_TEST = 7 << 16,
    RNG_SAMPLING = 8 << 16, /* tokens of generated texts */
    RNG_CURATE = 16 << 16,  /* hash functions and the order of documents in megatron data */
};

struct rng_block {
    uint32_t word[4];
};

RNG_FUNCTION struct rng_block rng_philox(uint64_t seed, uint64_t block, uint32_t purpose,
                                         uint32_t step)
{
    uint32_t k0 = (uint32_t)seed, k1 = (uint32_t)(seed >> 32);
    uint32_t c0 = (uint32_t)block, c1 = (uint32_t)(block >> 32), c2 = purpose, c3 = step;
    struct rng_block out;

    for (int round = 0; round < 10; round++) {
        uint64_t p0 = (uint64_t)0xD2511F53u * c0, p1 = (uint64_t)0xCD9E8D57u * c2;

        c0 = (uint32_t)(p1 >> 32) ^ c1 ^ k0;
        c1 = (uint32_t)p1;
        c2 = (uint32_t)(p0 >> 32) ^ c3 ^ k1;
        c3 = (uint32_t)p0;
        k0 += 0x9E3779B9u;
        k1 += 0xBB67AE85u;
    }
    out.word[0] = c0, out.word[1] = c1, out.word[2] = c2, out.word[3] = c3;
    return out;
}

/* Elements with a 16-bit number below this are dropped. */
RNG_FUNCTION uint32_t dropout_threshold(double probability)
{
    return (uint32_t)(probability * 65536.0 + 0.5);
}

/* Scale of the elements that are kept: the inverse of the fraction that is actually kept. */
RNG_FUNCTION float dropout_scale(double probability)
{
    return (float)(65536.0 / (65536.0 - dropout_threshold(probability)));
}

/* The 16-bit number of element 'index' within its block. */
RNG_FUNCTION uint32_t rng_dropout_lane(struct rng_block block, uint64_t index)
{
    return (block.word[(index & 7) >> 1] >> (16 * (index & 1))) & 0xFFFF;
}

RNG_FUNCTION uint64_t rng_bits(uint64_t seed, uint32_t purpose, uint32_t step, uint64_t index)
{
    struct rng_block b = rng_philox(seed, index / 2, purpose, step);

    return index & 1 ? (uint64_t)b.word[3] << 32 | b.word[2]
                     : (uint64_t)b.word[1] << 32 | b.word[0];
}

/* The two normal numbers (mean 0, variance 1) of block 'block': elements 2*block and 2*block + 1. u
 * = (52 bits + 0.5) / 2^52 in (0, 1); r = sqrt(-2 ln u0); r cos(2 pi u1), r sin(2 pi u1). */
RNG_FUNCTION void rng_normal(uint64_t seed, uint32_t purpose, uint32_t step, uint64_t block,
                             double out[2])
{
    struct rng_block b = rng_philox(seed, block, purpose, step);
    uint64_t a0 = ((uint64_t)b.word[1] << 32 | b.word[0]) >> 12;
    uint64_t a1 = ((uint64_t)b.word[3] << 32 | b.word[2]) >> 12;
    double u0 = ((double)a0 + 0.5) * (1.0 / 4503599627370496.0);
    double u1 = ((double)a1 + 0.5) * (1.0 / 4503599627370496.0);
    double radius = sqrt(-2.0 * log(u0)), angle = 6.283185307179586476925 * u1;

    out[0] = radius * cos(angle);
    out[1] = radius * sin(angle);
}

#endif
