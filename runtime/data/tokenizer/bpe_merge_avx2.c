/* SPDX-License-Identifier: Apache-2.0 */
/* Compiled for AVX2 whatever the rest is compiled for; bpe_init asks the processor before it is
 * called. */
#if defined(__x86_64__) && !defined(__clang__)
#pragma GCC target("avx2,bmi")
#define BPE_ENGINE bpe_engine_avx2
#include "bpe_merge.h"
#else
typedef int bpe_merge_avx2_is_empty;
#endif
