/* FNV-1a, a hash of text that is the same everywhere. */
#ifndef MEGATRON_HASH_H
#define MEGATRON_HASH_H

#include <stdint.h>

#define HASH_BEGIN UINT64_C(14695981039346656037)

/* Go on with 'text' from the hash of what comes before it, or from HASH_BEGIN. */
static inline uint64_t hash_text(uint64_t hash, const char *text)
{
    for (; *text; text++)
        hash = (hash ^ (unsigned char)*text) * 1099511628211u;
    return hash;
}

#endif
