/* SPDX-License-Identifier: Apache-2.0 */
/* Compiled for AVX2 whatever the rest is compiled for; engine_best asks the processor. */
#if defined(__x86_64__) && !defined(__clang__)
#pragma GCC target("avx2,bmi,lzcnt,popcnt")
#define ENGINE engine_avx2
#include "engine_body.h"
#else
typedef int engine_avx2_is_empty;
#endif
