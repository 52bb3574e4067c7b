/* SPDX-License-Identifier: Apache-2.0 */
/* numpy's current generator, numpy.random.default_rng: SeedSequence and PCG64 (XSL-RR). */
#ifndef MEGATRON_PCG64_H
#define MEGATRON_PCG64_H

#include <stdint.h>

struct pcg64 {
    unsigned __int128 state, increment;
    uint32_t kept; /* the upper half of the last 64 bits, for the next 32 */
    int has_kept;
};

/* default_rng(seed) */
void pcg64_seed(struct pcg64 *rng, uint32_t seed);

/* Generator.random: a double in [0, 1) of 53 bits */
double pcg64_double(struct pcg64 *rng);

/* A number in [0, max] by Lemire's method; max == 0 draws nothing. */
uint32_t pcg64_interval(struct pcg64 *rng, uint32_t max);

#endif
