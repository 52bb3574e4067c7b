/* SPDX-License-Identifier: Apache-2.0 */
#ifdef __aarch64__
#define SPLIT_ENGINE split_neon
#include "split_simd.h"
#else
typedef int split_neon_is_empty;
#endif
