/* Within split*.c. */
#ifndef MEGATRON_SPLIT_RULES_H
#define MEGATRON_SPLIT_RULES_H

#include "simd.h"
#include "split.h"

/* One chunk of 'size' bytes from splitter->base on. Returns how many bytes it went: its last word
 * may be longer. */
size_t split_llama3(struct splitter *splitter, size_t size);
size_t split_cased(struct splitter *splitter, size_t size);

/* The same for SPLIT_CUTS; always all of it. */
void split_cuts(struct splitter *splitter, size_t size);

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
        /* Several at a time, some of them in vain: that is quicker than guessing where to stop. */
        for (; bits; to += SPLIT_AHEAD) {
            UNROLLED
            for (int i = 0; i < SPLIT_AHEAD; i++, bits &= bits - 1)
                to[i] = base + (uint32_t)__builtin_ctzll(bits | UINT64_C(1) << 63);
        }
    }
    splitter->count = (size_t)(out - splitter->ends);
}

#endif
