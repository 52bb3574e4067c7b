/* SPDX-License-Identifier: Apache-2.0 */
/* Compiled for AVX2 whatever the rest is compiled for; split.c asks the processor before it is
 * called. */
#if defined(__x86_64__) && !defined(__clang__)
#pragma GCC target("avx2,bmi,popcnt")
#define SPLIT_ENGINE split_avx2
#include "split_simd.h"
#else
typedef int split_avx2_is_empty;
#endif
