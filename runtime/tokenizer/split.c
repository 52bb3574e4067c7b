#include "split.h"
#include "simd.h"
#include "split_rules.h"

#include <string.h>

void split_begin(struct splitter *splitter, const uint8_t *text, size_t length)
{
    splitter->text = text;
    splitter->length = length;
    splitter->base = splitter->scanned = splitter->decoded = 0;
    splitter->count = 0;
    splitter->set = splitter->clear = 0;
}

void split_emit(struct splitter *splitter, const uint64_t *starts, size_t size)
{
    uint32_t *out = splitter->ends;

    for (size_t block = 0; block * 64 < size; block++) {
        uint64_t bits = starts[block];

        while (bits) {
            *out++ = (uint32_t)(block * 64) + (uint32_t)__builtin_ctzll(bits);
            bits &= bits - 1;
        }
    }
    splitter->count = (size_t)(out - splitter->ends);
}

/* Cut by pairs of bytes. */
static void next_cuts(struct splitter *splitter, size_t size)
{
    const uint8_t *text = splitter->text + splitter->base, *cuts = splitter->cuts;
    uint8_t flags[SPLIT_CHUNK];
    uint64_t starts[SPLIT_BLOCKS];
    size_t at = 0;

    if (splitter->base == 0)
        flags[at++] = 0;
    for (; at < size; at++) {
        uint16_t pair;

        memcpy(&pair, text + at - 1, 2);
        flags[at] = cuts[pair];
    }
    memset(flags + size, 0, (size_t)-size & 63);
    for (size_t block = 0; block * 64 < size; block++)
        starts[block] = simd_nonzero(flags + block * 64);
    split_emit(splitter, starts, size);
}

int split_next(struct splitter *splitter)
{
    size_t size = splitter->length - splitter->scanned;

    if (size == 0)
        return 0;
    if (size > SPLIT_CHUNK)
        size = SPLIT_CHUNK;
    splitter->base = splitter->scanned;
    if (splitter->options.rule == SPLIT_GPT2)
        split_gpt2(splitter, size);
    else if (splitter->options.rule == SPLIT_LLAMA3)
        size = split_llama3(splitter, size);
    else
        next_cuts(splitter, size);
    splitter->scanned += size;
    /* The end of the text is the last end. */
    if (splitter->scanned == splitter->length)
        splitter->ends[splitter->count++] = (uint32_t)(splitter->scanned - splitter->base);
    return 1;
}
