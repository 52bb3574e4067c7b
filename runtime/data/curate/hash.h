/* SPDX-License-Identifier: Apache-2.0 */
/* A fast hash of short texts: folded 128-bit products. Not secure against an attacker.
 * lib/checksum.h serves everything else: this one is inlined, because it is called for every word
 * and shingle, and it must never change, because it decides which near-duplicates are found. */
#ifndef MEGATRON_CURATE_HASH_H
#define MEGATRON_CURATE_HASH_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define HASH_A 0x9E3779B97F4A7C15ull
#define HASH_B 0xD6E8FEB86659FD93ull
#define HASH_C 0xA0761D6478BD642Full

static inline uint64_t hash_fold(uint64_t a, uint64_t b)
{
    unsigned __int128 product = (unsigned __int128)a * b;

    return (uint64_t)product ^ (uint64_t)(product >> 64);
}

static inline uint64_t hash_load8(const unsigned char *at)
{
    uint64_t value;

    memcpy(&value, at, 8);
    return value;
}

static inline uint64_t hash_load4(const unsigned char *at)
{
    uint32_t value;

    memcpy(&value, at, 4);
    return value;
}

/* Mix one number: every bit of the result depends on every bit of 'value'. */
static inline uint64_t hash_mix(uint64_t value)
{
    return hash_fold(value ^ HASH_C, HASH_A);
}

static inline uint64_t hash_bytes(const void *data, size_t size, uint64_t seed)
{
    const unsigned char *at = data;
    uint64_t sum = seed ^ hash_fold(size ^ HASH_A, HASH_B), a = 0, b = 0;

    for (; size > 16; at += 16, size -= 16)
        sum = hash_fold(hash_load8(at) ^ HASH_A ^ sum, hash_load8(at + 8) ^ HASH_B);
    /* Overlapping loads instead of a byte loop. */
    if (size >= 8) {
        a = hash_load8(at);
        b = hash_load8(at + size - 8);
    } else if (size >= 4) {
        a = hash_load4(at);
        b = hash_load4(at + size - 4);
    } else if (size > 0) {
        a = (uint64_t)at[0] << 16 | (uint64_t)at[size / 2] << 8 | at[size - 1];
    }
    return hash_fold(a ^ HASH_A ^ sum, b ^ HASH_C);
}

#endif
