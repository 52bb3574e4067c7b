/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by split*.c: the slow splitters, and helpers of both. */
#ifndef MEGATRON_SPLIT_RULES_H
#define MEGATRON_SPLIT_RULES_H

#include "simd.h"
#include "split.h"

/* Split a chunk of 'size' bytes at splitter->base. Returns how many bytes were split; the last word
 * may extend beyond the chunk. */
size_t split_llama3(struct splitter *splitter, size_t size);
size_t split_cased(struct splitter *splitter, size_t size);

/* SPLIT_STEPS and SPLIT_BERT: at most 'size' bytes, and the rest of a piece. Return how many. */
size_t split_steps(struct splitter *splitter, size_t size);
size_t split_bert(struct splitter *splitter, size_t size);

/* Length of a contraction in any letter case at an apostrophe, or 0. The long s (U+017F) is an s.
 */
static inline size_t split_contraction(const uint8_t *at, const uint8_t *end)
{
    size_t left = (size_t)(end - at);
    uint8_t first, second;

    if (left < 2)
        return 0;
    first = at[1] | 0x20;
    if (first == 's' || first == 't' || first == 'm' || first == 'd')
        return 2;
    if (left < 3)
        return 0;
    if (at[1] == 0xC5 && at[2] == 0xBF)
        return 3;
    second = at[2] | 0x20;
    return (first == 'r' && second == 'e') || (first == 'v' && second == 'e') ||
                   (first == 'l' && second == 'l')
               ? 3
               : 0;
}

/* Write the places of the bits of 'starts' within 'size' bytes into splitter->ends. */
static inline void split_emit(struct splitter *splitter, const uint64_t *starts, size_t size)
{
    uint32_t *out = splitter->ends;

    for (size_t block = 0; block * 64 < size; block++) {
        uint64_t bits = starts[block];
        uint32_t base = (uint32_t)(block * 64), *to = out;

        out += __builtin_popcountll(bits);
        /* Write several at a time, even beyond the last one: cheaper than a mispredicted branch. */
        for (; bits; to += SPLIT_AHEAD) {
            UNROLLED
            for (int i = 0; i < SPLIT_AHEAD; i++, bits &= bits - 1)
                to[i] = base + (uint32_t)__builtin_ctzll(bits | UINT64_C(1) << 63);
        }
    }
    splitter->count = (size_t)(out - splitter->ends);
}

#endif
