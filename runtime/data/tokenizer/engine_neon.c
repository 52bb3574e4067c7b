/* SPDX-License-Identifier: Apache-2.0 */
#ifdef __aarch64__
#define ENGINE engine_neon
#include "engine_body.h"
#else
typedef int engine_neon_is_empty;
#endif
