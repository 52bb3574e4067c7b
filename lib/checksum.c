/* SPDX-License-Identifier: Apache-2.0 */
#include "checksum.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>

/* Compiled in, so that the plugin and the modules need no further library at run time. */
#define XXH_INLINE_ALL
/* With gcc on arm64, xxHash 0.8.2 and newer dereference unaligned pointers on purpose; UBSan ends
 * the program for that. */
#if defined(__aarch64__) && defined(__SANITIZE_ADDRESS__)
#define XXH_VECTOR XXH_SCALAR
#endif
#include <xxhash.h>

static_assert(sizeof(XXH3_state_t) <= sizeof(struct checksum), "the state must fit");
static_assert(_Alignof(XXH3_state_t) <= _Alignof(struct checksum), "and be aligned");

static XXH3_state_t *state_of(struct checksum *sum)
{
    return (XXH3_state_t *)(void *)sum;
}

void checksum_begin(struct checksum *sum)
{
    XXH3_INITSTATE(state_of(sum));
    XXH3_64bits_reset(state_of(sum));
}

void checksum_add(struct checksum *sum, const void *bytes, size_t count)
{
    XXH3_64bits_update(state_of(sum), bytes, count);
}

uint64_t checksum_end(struct checksum *sum)
{
    return XXH3_64bits_digest(state_of(sum));
}

uint64_t checksum_of(const void *bytes, size_t count)
{
    return XXH3_64bits(bytes, count);
}

uint64_t checksum_seeded(const void *bytes, size_t count, uint64_t seed)
{
    return XXH3_64bits_withSeed(bytes, count, seed);
}

void checksum_name(const void *bytes, size_t count, char name[33])
{
    XXH128_hash_t hash = XXH3_128bits(bytes, count);

    snprintf(name, 33, "%016" PRIx64 "%016" PRIx64, (uint64_t)hash.high64, (uint64_t)hash.low64);
}
