/* SPDX-License-Identifier: Apache-2.0 */
/* MinHash signatures and their bands (locality-sensitive hashing).
 *
 * A document is a set of shingles, each a random 32-bit number. Hash function i is the permutation
 * x -> a[i] * x + b[i] modulo 2^32 with odd a[i]; the i-th minimum of a set is its smallest value.
 * Two sets have the same i-th minimum with a probability equal to their Jaccard similarity s. All
 * 'rows' minima of a band agree with probability s^rows, and at least one of 'bands' bands agrees
 * with probability 1 - (1 - s^rows)^bands. */
#ifndef MEGATRON_CURATE_MINHASH_H
#define MEGATRON_CURATE_MINHASH_H

#include <stddef.h>
#include <stdint.h>
#include "lib/error.h"

struct minhash {
    size_t bands, rows;
    size_t count;    /* bands * rows, rounded up to a multiple of MINHASH_LANES */
    uint32_t *a, *b; /* parameters of the hash functions */
    void (*lower)(const struct minhash *minhash, const uint32_t *shingles, size_t count,
                  uint32_t *minima);
    const char *engine; /* "avx512", "avx2" or "plain" */
};

enum { MINHASH_LANES = 16 };

/* The hash functions follow from the seed. 'engine' selects the implementation, NULL the fastest
 * that this CPU runs; the results are the same. Returns 0 or -1. */
int minhash_init(struct minhash *minhash, size_t bands, size_t rows, uint64_t seed,
                 const char *engine, struct error *err);
void minhash_clear(struct minhash *minhash);

/* Compute the minima of a set of shingles: 'minhash->count' numbers. */
void minhash_minima(const struct minhash *minhash, const uint32_t *shingles, size_t count,
                    uint32_t *minima);

/* The hash of band 'band'. */
uint64_t minhash_band(const struct minhash *minhash, const uint32_t *minima, size_t band);

/* Private: the inner loop, compiled three times. */
void minhash_lower_plain(const struct minhash *minhash, const uint32_t *shingles, size_t count,
                         uint32_t *minima);
void minhash_lower_avx2(const struct minhash *minhash, const uint32_t *shingles, size_t count,
                        uint32_t *minima);
void minhash_lower_avx512(const struct minhash *minhash, const uint32_t *shingles, size_t count,
                          uint32_t *minima);

#endif
