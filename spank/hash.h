/* SPDX-License-Identifier: Apache-2.0 */
/* FNV-1a for a few short names: the port of a step and the name of the stored topology.
 * lib/checksum.h would put all of xxHash into a plugin that slurmd loads. */
#ifndef MEGATRON_HASH_H
#define MEGATRON_HASH_H

#include <stdint.h>

#define HASH_BEGIN UINT64_C(14695981039346656037)

/* Continue the hash of the preceding text, or HASH_BEGIN, with 'text'. */
static inline uint64_t hash_text(uint64_t hash, const char *text)
{
    for (; *text; text++)
        hash = (hash ^ (unsigned char)*text) * 1099511628211u;
    return hash;
}

#endif
