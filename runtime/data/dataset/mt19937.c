/* SPDX-License-Identifier: Apache-2.0 */
#include "mt19937.h"

enum { SHIFT = 397 };

static uint32_t twist(uint32_t here, uint32_t next, uint32_t far)
{
    uint32_t mixed = (here & 0x80000000u) | (next & 0x7fffffffu);

    return far ^ (mixed >> 1) ^ (-(mixed & 1u) & 0x9908b0dfu);
}

static uint32_t temper(uint32_t y)
{
    y ^= y >> 11;
    y ^= (y << 7) & 0x9d2c5680u;
    y ^= (y << 15) & 0xefc60000u;
    return y ^ (y >> 18);
}

/* Loops without dependences within the width of a vector. */
static void refill(struct mt19937 *rng)
{
    uint32_t *s = rng->state;
    int i;

    for (i = 0; i < MT19937_WORDS - SHIFT; i++)
        s[i] = twist(s[i], s[i + 1], s[i + SHIFT]);
    for (; i < MT19937_WORDS - 1; i++)
        s[i] = twist(s[i], s[i + 1], s[i + SHIFT - MT19937_WORDS]);
    s[i] = twist(s[i], s[0], s[SHIFT - 1]);
    for (i = 0; i < MT19937_WORDS; i++)
        rng->ready[i] = temper(s[i]);
    rng->at = 0;
}

void mt19937_seed(struct mt19937 *rng, uint32_t seed)
{
    rng->state[0] = seed;
    for (uint32_t i = 1; i < MT19937_WORDS; i++) {
        uint32_t before = rng->state[i - 1];

        rng->state[i] = 1812433253u * (before ^ (before >> 30)) + i;
    }
    rng->at = MT19937_WORDS;
}

uint32_t mt19937_next(struct mt19937 *rng)
{
    if (rng->at == MT19937_WORDS)
        refill(rng);
    return rng->ready[rng->at++];
}

double mt19937_double(struct mt19937 *rng)
{
    uint32_t high = mt19937_next(rng) >> 5, low = mt19937_next(rng) >> 6;

    return (high * 67108864.0 + low) / 9007199254740992.0;
}

uint64_t mt19937_interval(struct mt19937 *rng, uint64_t max)
{
    uint64_t mask, value;

    if (max == 0)
        return 0;
    mask = UINT64_MAX >> __builtin_clzll(max);
    do {
        value = mt19937_next(rng);
        if (max > UINT32_MAX)
            value = value << 32 | mt19937_next(rng);
        value &= mask;
    } while (value > max);
    return value;
}

/* How many swaps are drawn ahead. Which elements are swapped depends only on the generator, so a
 * whole block can be prefetched at once: a shuffle of a large array is bound by memory latency. */
enum { BLOCK = 128 };

/* Draw the targets of up to 'most' swaps of the elements top, top - 1, ... (at least 1). Returns
 * their number. One mask serves the whole block: the block ends where 'top' would lose a bit. */
static int draw_block(struct mt19937 *rng, uint64_t top, int most, uint64_t *targets)
{
    uint64_t mask, last;
    int count = 0, want;

    if (top == 0)
        return 0;
    if (top > UINT32_MAX) {
        for (; count < most && top - (uint64_t)count > UINT32_MAX; count++)
            targets[count] = mt19937_interval(rng, top - (uint64_t)count);
        return count;
    }
    mask = UINT64_MAX >> __builtin_clzll(top);
    last = (mask >> 1) + 1;
    want = top - last + 1 < (uint64_t)most ? (int)(top - last + 1) : most;
    while (count < want) {
        int at;

        if (rng->at == MT19937_WORDS)
            refill(rng);
        /* Branch-free: the outcome is unpredictable. */
        for (at = rng->at; at < MT19937_WORDS && count < want; at++) {
            uint64_t value = rng->ready[at] & mask;

            targets[count] = value;
            count += value <= top - (uint64_t)count;
        }
        rng->at = at;
    }
    return count;
}

void mt19937_targets(struct mt19937 *rng, uint64_t top, uint32_t count, uint64_t *targets)
{
    uint64_t block[BLOCK];
    uint32_t done = 0;

    while (done < count) {
        int drawn =
            draw_block(rng, top - done, count - done < BLOCK ? (int)(count - done) : BLOCK, block);

        for (int i = 0; i < drawn; i++)
            targets[done++] = block[i];
    }
}

#define SHUFFLE(name, type)                                                   \
    void name(struct mt19937 *rng, type *array, int64_t count)                \
    {                                                                         \
        uint64_t targets[2][BLOCK];                                           \
        uint64_t top = count > 0 ? (uint64_t)count - 1 : 0, ahead = top;      \
        int turn = 0, drawn = draw_block(rng, ahead, BLOCK, targets[0]);      \
                                                                              \
        while (drawn > 0) {                                                   \
            int next;                                                         \
                                                                              \
            ahead -= (uint64_t)drawn;                                         \
            next = draw_block(rng, ahead, BLOCK, targets[!turn]);             \
            /* A block that is cut short is followed by a longer one once. */ \
            for (int i = drawn; i < next; i++)                                \
                __builtin_prefetch(&array[targets[!turn][i]], 1);             \
            for (int i = 0; i < drawn; i++, top--) {                          \
                type *other = &array[targets[turn][i]], value = *other;       \
                                                                              \
                if (i < next)                                                 \
                    __builtin_prefetch(&array[targets[!turn][i]], 1);         \
                *other = array[top];                                          \
                array[top] = value;                                           \
            }                                                                 \
            drawn = next;                                                     \
            turn = !turn;                                                     \
        }                                                                     \
    }

SHUFFLE(mt19937_shuffle_u32, uint32_t)
SHUFFLE(mt19937_shuffle_i64, int64_t)
