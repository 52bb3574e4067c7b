/* SPDX-License-Identifier: Apache-2.0 */
/* The inner loop of MinHash, as a template. The including file defines the function's name
 * (MINHASH_LOWER), the vector type (lanes), its size in bytes (MINHASH_VECTOR), and the operations
 * load, store, spread and lower(low, a, b, x) = min(low, a * x + b). */
#include <string.h>

enum { LANES = MINHASH_VECTOR / 4, MOST = 4 };

/* Keeps the hash functions of 'vectors' vectors in registers during the loop over all shingles. */
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
    enum { BLOCK = 2048 }; /* shingles that fit into the L1 cache */

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
