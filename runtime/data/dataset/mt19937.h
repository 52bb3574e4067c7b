/* SPDX-License-Identifier: Apache-2.0 */
/* numpy's legacy generator, numpy.random.RandomState. Megatron shuffles with it, so the order of
 * all samples depends on every bit of it. */
#ifndef MEGATRON_MT19937_H
#define MEGATRON_MT19937_H

#include <stdint.h>

#define MT19937_WORDS 624

struct mt19937 {
    uint32_t state[MT19937_WORDS];
    uint32_t ready[MT19937_WORDS]; /* the outputs of 'state' */
    int at;                        /* the next of them */
};

/* RandomState(seed) */
void mt19937_seed(struct mt19937 *rng, uint32_t seed);

/* 32 random bits */
uint32_t mt19937_next(struct mt19937 *rng);

/* RandomState.random_sample: a double in [0, 1) of 53 bits */
double mt19937_double(struct mt19937 *rng);

/* A number in [0, max], drawn as in RandomState: masked to the bits of 'max' and redrawn while it
 * is larger. */
uint64_t mt19937_interval(struct mt19937 *rng, uint64_t max);

/* The numbers that a shuffle draws for its elements top, top - 1, ..., top - count + 1, which must
 * be at least 1: each in [0, its element]. */
void mt19937_targets(struct mt19937 *rng, uint64_t top, uint32_t count, uint64_t *targets);

/* RandomState.shuffle of 'count' elements. Arrays of int32 are shuffled as uint32. */
void mt19937_shuffle_u32(struct mt19937 *rng, uint32_t *array, int64_t count);
void mt19937_shuffle_i64(struct mt19937 *rng, int64_t *array, int64_t count);

/* shuffle.c: like mt19937_shuffle_u32 and _i64, with identical results, including the state of the
 * generator. Needs about 20 MiB of memory. */
void shuffle_u32(struct mt19937 *rng, uint32_t *array, int64_t count, int threads);
void shuffle_i64(struct mt19937 *rng, int64_t *array, int64_t count, int threads);

#endif
