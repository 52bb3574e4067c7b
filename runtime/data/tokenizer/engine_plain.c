/* SPDX-License-Identifier: Apache-2.0 */
#define TOKENIZER_PLAIN
#define ENGINE engine_plain
#include "engine_body.h"

const struct engine *engine_best(void)
{
#if defined(__aarch64__)
    return &engine_neon;
#elif defined(__x86_64__) && !defined(__clang__)
    return __builtin_cpu_supports("avx2") ? &engine_avx2 : &engine_plain;
#else
    return &engine_plain;
#endif
}
