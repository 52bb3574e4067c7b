/* A fast 64-bit checksum against damage (a flipped bit, a lost block), not against an enemy. */
#ifndef MEGATRON_CHECKSUM_H
#define MEGATRON_CHECKSUM_H

#include <stddef.h>
#include <stdint.h>

struct checksum {
    uint64_t lanes[4];
    uint64_t length;
    unsigned char rest[32];
    size_t rest_size;
};

/* The checksum of a stream of bytes does not depend on how it is cut into calls. */
void checksum_begin(struct checksum *sum);
void checksum_add(struct checksum *sum, const void *bytes, size_t count);
uint64_t checksum_end(struct checksum *sum);

/* All three for bytes in one piece. */
uint64_t checksum_of(const void *bytes, size_t count);

#endif
