/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by split*.c. */
#ifndef MEGATRON_SPLIT_RULES_H
#define MEGATRON_SPLIT_RULES_H

#include "simd.h"
#include "split.h"

/* SPLIT_LLAMA3 and SPLIT_CASED: a chunk of 'size' bytes at splitter->base, by the engine or, where
 * that cannot do it, by the pattern. Returns how many bytes were split; the last word may extend
 * beyond the chunk. */
size_t split_quick(struct splitter *splitter, size_t size);

/* SPLIT_STEPS and SPLIT_BERT: at most 'size' bytes, and the rest of a piece. Return how many. */
size_t split_steps(struct splitter *splitter, size_t size);
size_t split_bert(struct splitter *splitter, size_t size);

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
