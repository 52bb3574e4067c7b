/* SPDX-License-Identifier: Apache-2.0 */
#ifdef __aarch64__
#define NORMALIZE_ENGINE normalize_neon
#include "normalize_block.h"
#else
typedef int normalize_neon_is_empty;
#endif
