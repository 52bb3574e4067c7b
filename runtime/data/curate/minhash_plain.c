/* SPDX-License-Identifier: Apache-2.0 */
/* For any CPU, with GCC's vector extensions: SSE2 on x86-64, NEON on ARM. */
#include "config.h"
#include "minhash.h"

#include <string.h>

#define MINHASH_LOWER  minhash_lower_plain
#define MINHASH_VECTOR 16
typedef uint32_t lanes __attribute__((vector_size(MINHASH_VECTOR)));

static inline lanes load(const uint32_t *from)
{
    lanes value;

    memcpy(&value, from, sizeof(value));
    return value;
}

static inline void store(uint32_t *to, lanes value)
{
    memcpy(to, &value, sizeof(value));
}

static inline lanes spread(uint32_t x)
{
    return (lanes){x, x, x, x};
}

static inline lanes lower(lanes low, lanes a, lanes b, lanes x)
{
    lanes value = a * x + b, is_lower = (lanes)(value < low);

    return (value & is_lower) | (low & ~is_lower);
}

#include "minhash_loop.h"
