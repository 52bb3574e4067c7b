/* SPDX-License-Identifier: Apache-2.0 */
/* XXH3 hashes from xxHash. They detect damage (a flipped bit, a lost block) and identify things;
 * they do not protect against an attacker. The result is the same on every machine. */
#ifndef MEGATRON_CHECKSUM_H
#define MEGATRON_CHECKSUM_H

#include <stddef.h>
#include <stdint.h>

/* A checksum of a stream of bytes; large enough for xxHash's own state. */
struct checksum {
    _Alignas(64) unsigned char state[640];
};

/* The result does not depend on how the stream is split into calls. */
void checksum_begin(struct checksum *sum);
void checksum_add(struct checksum *sum, const void *bytes, size_t count);
uint64_t checksum_end(struct checksum *sum);

/* Compute a checksum in one call. */
uint64_t checksum_of(const void *bytes, size_t count);

/* The same with a seed, which selects a different hash. */
uint64_t checksum_seeded(const void *bytes, size_t count, uint64_t seed);

/* 128 bits in hexadecimal, for file names that must not collide. */
void checksum_name(const void *bytes, size_t count, char name[33]);

#endif
