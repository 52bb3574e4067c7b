/* SPDX-License-Identifier: Apache-2.0 */
/* FNV-1a, a hash for tables in memory: simple and fast for short keys, not safe against chosen
 * keys. */
#ifndef MEGATRON_FNV_H
#define MEGATRON_FNV_H

#include <stddef.h>
#include <stdint.h>

#define FNV_START UINT64_C(0xcbf29ce484222325)

/* The hash of what 'hash' is the hash of, or of nothing (FNV_START), followed by 'size' bytes. */
static inline uint64_t fnv_add(uint64_t hash, const void *data, size_t size)
{
    const unsigned char *bytes = data;

    for (size_t i = 0; i < size; i++)
        hash = (hash ^ bytes[i]) * UINT64_C(0x100000001b3);
    return hash;
}

#endif
