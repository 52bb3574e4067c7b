/* SPDX-License-Identifier: Apache-2.0 */
/* Always compiled for AVX-512; minhash.c checks the CPU first. */
#include "config.h"
#include "minhash.h"

#if defined(__x86_64__) && !defined(__clang__)
#pragma GCC target("avx512f,avx512dq,avx512bw,avx512vl")
#include <immintrin.h>

#define MINHASH_LOWER       minhash_lower_avx512
#define MINHASH_VECTOR      64
#define load(from)          _mm512_loadu_si512((const void *)(from))
#define store(to, value)    _mm512_storeu_si512((void *)(to), value)
#define spread(x)           _mm512_set1_epi32((int)(x))
#define lower(low, a, b, x) _mm512_min_epu32(low, _mm512_add_epi32(_mm512_mullo_epi32(a, x), b))
typedef __m512i lanes;

#include "minhash_loop.h"
#endif
