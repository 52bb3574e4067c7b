/* SPDX-License-Identifier: Apache-2.0 */
/* Compiled for AVX2 whatever the rest is compiled for; normalizer_best_engine asks the processor
 * before it is called. */
#if defined(__x86_64__) && !defined(__clang__)
#pragma GCC target("avx2,bmi,lzcnt")
#define NORMALIZE_ENGINE normalize_avx2
#include "normalize_block.h"
#else
typedef int normalize_avx2_is_empty;
#endif
