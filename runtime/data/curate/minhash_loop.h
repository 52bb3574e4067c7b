/* SPDX-License-Identifier: Apache-2.0 */
/* The loop of MinHash. Whoever includes this names the function (MINHASH_LOWER), and says what a
 * vector is: its type (lanes), its bytes (MINHASH_VECTOR), and for it load, store, spread, and
 * lower(low, a, b, x) = min(low, a * x + b). */
#include <string.h>

enum { LANES = MINHASH_VECTOR / 4, MOST = 4 };

/* 'vectors' of hash functions stay in registers while all shingles pass by. */
static inline __attribute__((always_inline)) void lower_group(const uint32_t *a, const uint32_t *b,
                                                              const uint32_t *shingles,
                                                              size_t count, uint32_t *minima,
                                                              const int vectors)
{
    lanes as[MOST], bs[MOST], low[MOST];

#pragma GCC unroll 4
    for (int v = 0; v < vectors; v++) {
        as[v] = load(a + v * LANES);
        bs[v] = load(b + v * LANES);
        low[v] = load(minima + v * LANES);
    }
    for (size_t i = 0; i < count; i++) {
        lanes x = spread(shingles[i]);

#pragma GCC unroll 4
        for (int v = 0; v < vectors; v++)
            low[v] = lower(low[v], as[v], bs[v], x);
    }
#pragma GCC unroll 4
    for (int v = 0; v < vectors; v++)
        store(minima + v * LANES, low[v]);
}

void MINHASH_LOWER(const struct minhash *minhash, const uint32_t *shingles, size_t count,
                   uint32_t *minima)
{
    enum { BLOCK = 2048 }; /* shingles that stay in the first cache */

    for (size_t first = 0; first < count; first += BLOCK) {
        size_t part = count - first < BLOCK ? count - first : BLOCK, k = 0;
        const uint32_t *from = shingles + first;

        for (; k + MOST * LANES <= minhash->count; k += MOST * LANES)
            lower_group(minhash->a + k, minhash->b + k, from, part, minima + k, MOST);
        for (; k + 2 * LANES <= minhash->count; k += 2 * LANES)
            lower_group(minhash->a + k, minhash->b + k, from, part, minima + k, 2);
        for (; k < minhash->count; k += LANES)
            lower_group(minhash->a + k, minhash->b + k, from, part, minima + k, 1);
    }
}
