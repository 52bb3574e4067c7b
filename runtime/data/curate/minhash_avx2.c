/* SPDX-License-Identifier: Apache-2.0 */
/* Always compiled for AVX2; minhash.c checks the CPU first. */
#include "config.h"
#include "minhash.h"

#if defined(__x86_64__) && !defined(__clang__)
#pragma GCC target("avx2")
#include <immintrin.h>

#define MINHASH_LOWER       minhash_lower_avx2
#define MINHASH_VECTOR      32
#define load(from)          _mm256_loadu_si256((const __m256i *)(from))
#define store(to, value)    _mm256_storeu_si256((__m256i *)(to), value)
#define spread(x)           _mm256_set1_epi32((int)(x))
#define lower(low, a, b, x) _mm256_min_epu32(low, _mm256_add_epi32(_mm256_mullo_epi32(a, x), b))
typedef __m256i lanes;

#include "minhash_loop.h"
#endif
