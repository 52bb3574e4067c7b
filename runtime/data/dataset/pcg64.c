/* SPDX-License-Identifier: Apache-2.0 */
#include "pcg64.h"

/* --- SeedSequence ---------------------------------------------------------------------------- */

enum { POOL = 4 };

static uint32_t hash_word(uint32_t value, uint32_t *constant)
{
    value ^= *constant;
    *constant *= 0x931e8875u;
    value *= *constant;
    return value ^ value >> 16;
}

static uint32_t mix_words(uint32_t x, uint32_t y)
{
    uint32_t result = 0xca01f9ddu * x - 0x4973f715u * y;

    return result ^ result >> 16;
}

/* SeedSequence(seed).generate_state(4, uint64) */
static void seed_sequence(uint32_t seed, uint64_t words[4])
{
    uint32_t pool[POOL], constant = 0x43b0d7e5u, output = 0x8b51f9ddu, half[8];

    for (int i = 0; i < POOL; i++)
        pool[i] = hash_word(i == 0 ? seed : 0, &constant);
    for (int from = 0; from < POOL; from++)
        for (int to = 0; to < POOL; to++)
            if (from != to)
                pool[to] = mix_words(pool[to], hash_word(pool[from], &constant));
    for (int i = 0; i < 8; i++) {
        uint32_t value = pool[i % POOL] ^ output;

        output *= 0x58f38dedu;
        value *= output;
        half[i] = value ^ value >> 16;
    }
    for (int i = 0; i < 4; i++)
        words[i] = half[2 * i] | (uint64_t)half[2 * i + 1] << 32;
}

/* --- PCG64 ----------------------------------------------------------------------------------- */

static void step(struct pcg64 *rng)
{
    const unsigned __int128 multiplier =
        (unsigned __int128)2549297995355413924ULL << 64 | 4865540595714422341ULL;

    rng->state = rng->state * multiplier + rng->increment;
}

void pcg64_seed(struct pcg64 *rng, uint32_t seed)
{
    uint64_t words[4];

    seed_sequence(seed, words);
    rng->increment = ((unsigned __int128)words[2] << 64 | words[3]) << 1 | 1;
    rng->state = 0;
    step(rng);
    rng->state += (unsigned __int128)words[0] << 64 | words[1];
    step(rng);
    rng->has_kept = 0;
}

static uint64_t next64(struct pcg64 *rng)
{
    uint64_t value;
    unsigned turn;

    step(rng);
    value = (uint64_t)(rng->state >> 64) ^ (uint64_t)rng->state;
    turn = (unsigned)(rng->state >> 122);
    return value >> turn | value << (-turn & 63);
}

/* The lower half of a number comes first. */
static uint32_t next32(struct pcg64 *rng)
{
    uint64_t value;

    if (rng->has_kept) {
        rng->has_kept = 0;
        return rng->kept;
    }
    value = next64(rng);
    rng->has_kept = 1;
    rng->kept = (uint32_t)(value >> 32);
    return (uint32_t)value;
}

double pcg64_double(struct pcg64 *rng)
{
    return (double)(next64(rng) >> 11) * (1.0 / 9007199254740992.0);
}

uint32_t pcg64_interval(struct pcg64 *rng, uint32_t max)
{
    uint32_t count = max + 1, threshold;
    uint64_t product;

    if (max == 0)
        return 0;
    if (count == 0)
        return next32(rng);
    product = (uint64_t)next32(rng) * count;
    if ((uint32_t)product < count) {
        threshold = (UINT32_MAX - max) % count;
        while ((uint32_t)product < threshold)
            product = (uint64_t)next32(rng) * count;
    }
    return (uint32_t)(product >> 32);
}
