/* SPDX-License-Identifier: Apache-2.0 */
/* An engine's merging of words of up to 64 symbols (engine_body.h). */
#include "bpe.h"
#include "simd.h"
#include "unicode.h"

#include <string.h>

#define KEY(rank, at) ((rank) == BPE_NONE ? BPE_NONE : (rank) << 6 | (uint32_t)(at))

/* --- Up to 15 bytes, which are most words: all data is in a few fixed arrays ----------------- */

struct small_chain {
    struct simd_sixteen keys;
    uint32_t alive; /* bits of the remaining symbols, and of the end */
    size_t count;   /* initial number of symbols */
};

/* Each byte is a symbol. Returns 0 if one is not. */
static int begin_bytes(const struct bpe *bpe, const uint8_t *word, size_t length, uint32_t *ids,
                       struct small_chain *chain)
{
    uint32_t keys[16], known = 0;

    memset(keys, 0xFF, sizeof(keys));
    for (size_t i = 0; i < length; i++) {
        ids[i] = bpe->byte_symbols[word[i]];
        known |= ids[i];
    }
    for (size_t i = 0; i + 1 < length; i++) {
        uint32_t rank = bpe->byte_pairs[(unsigned)word[i] << 8 | word[i + 1]];

        keys[i] = KEY(rank, i);
    }
    chain->keys = simd_load(keys);
    chain->count = length;
    return known < BPE_SYMBOL_LIMIT;
}

static int is_ascii(const uint8_t *word)
{
    uint64_t bytes[2];

    memcpy(bytes, word, sizeof(bytes));
    return ((bytes[0] | bytes[1]) & UINT64_C(0x8080808080808080)) == 0;
}

/* Each character is a symbol. Returns 0 if one is not. */
static int begin_characters(const struct bpe *bpe, const uint8_t *word, size_t length,
                            uint32_t *ids, struct small_chain *chain)
{
    const uint8_t *at = word, *end = at + length;
    uint32_t keys[16];

    chain->count = 0;
    while (at < end) {
        uint32_t point;

        at += utf8_decode(at, end, &point);
        ids[chain->count] = point == UNICODE_INVALID ? BPE_NONE : bpe_character(bpe, point);
        if (ids[chain->count++] == BPE_NONE)
            return 0;
    }
    memset(keys, 0xFF, sizeof(keys));
    for (size_t i = 0; i + 1 < chain->count; i++) {
        uint32_t rank = bpe_rank(bpe, ids[i], ids[i + 1]);

        keys[i] = KEY(rank, i);
    }
    chain->keys = simd_load(keys);
    return 1;
}

/* The first remaining symbol after 'at', or the end. */
static inline size_t next_of(const struct small_chain *chain, size_t at)
{
    return (size_t)__builtin_ctz(chain->alive & ~UINT32_C(1) << at);
}

/* One merge. Returns 0 when there is none left. */
static inline int merge_one(const struct bpe *bpe, uint32_t *ids, struct small_chain *chain)
{
    uint32_t key = simd_lowest_of(&chain->keys), symbol, rank = BPE_NONE;
    size_t at = key & 63, gone, next, before = 0;

    if (key == BPE_NONE)
        return 0;
    gone = next_of(chain, at);
    next = next_of(chain, gone);
    symbol = bpe_merge(bpe, ids[at], ids[gone], key >> 6);
    ids[at] = symbol;
    chain->alive &= ~(UINT32_C(1) << gone);
    simd_set(&chain->keys, gone, BPE_NONE);
    if (at > 0)
        before = 31 - (size_t)__builtin_clz(chain->alive & ((UINT32_C(1) << at) - 1));
    /* Both neighbors are prefetched before the first one is read. */
    if (at > 0)
        bpe_rank_prefetch(bpe, ids[before], symbol);
    if (next < chain->count)
        rank = bpe_rank(bpe, symbol, ids[next]);
    simd_set(&chain->keys, at, KEY(rank, at));
    if (at > 0) {
        rank = bpe_rank(bpe, ids[before], symbol);
        simd_set(&chain->keys, before, KEY(rank, before));
    }
    return 1;
}

static size_t encode_small(const struct bpe *bpe, const uint8_t *word, size_t length, uint32_t *ids)
{
    struct small_chain chain;
    size_t made = 0;

    ids[0] = bpe_whole_word(bpe, word, length);
    if (ids[0] != BPE_NONE)
        return 1;
    if (bpe->units == BPE_BYTES || is_ascii(word)) {
        if (!begin_bytes(bpe, word, length, ids, &chain))
            return 0;
    } else if (!begin_characters(bpe, word, length, ids, &chain)) {
        return 0;
    }
    chain.alive = (UINT32_C(2) << chain.count) - 1;
    while (merge_one(bpe, ids, &chain))
        ;
    for (size_t i = 0; i < chain.count; i = next_of(&chain, i)) {
        if (ids[i] >= bpe->token_count)
            return 0;
        ids[made++] = ids[i];
    }
    return made;
}

/* --- Up to 64 symbols ------------------------------------------------------------------------ */

/* The symbols of a word as a linked list. A key is a rank with the position in its low bits, so the
 * smallest key is the leftmost pair of the lowest rank. */
struct chain {
    uint32_t keys[BPE_SHORT];
    uint8_t next[BPE_SHORT + 1], previous[BPE_SHORT + 1];
};

/* Merge until no pair is left. Keys after 'count', up to a multiple of 8, are overwritten too. */
static size_t merge_chain(const struct bpe *bpe, struct chain *chain, uint32_t *symbols,
                          size_t count)
{
    size_t padded = (count + 7) & ~(size_t)7, made = 0;
    uint32_t key;

    for (size_t i = count - 1; i < padded; i++)
        chain->keys[i] = BPE_NONE;
    for (size_t i = 0; i < count; i++) {
        chain->next[i] = (uint8_t)(i + 1);
        chain->previous[i + 1] = (uint8_t)i;
    }
    while ((key = simd_lowest(chain->keys, padded)) != BPE_NONE) {
        size_t at = key & 63, gone = chain->next[at], next = chain->next[gone];
        uint32_t rank, symbol = bpe_merge(bpe, symbols[at], symbols[gone], key >> 6);

        symbols[at] = symbol;
        chain->keys[gone] = BPE_NONE;
        chain->next[at] = (uint8_t)next;
        chain->keys[at] = BPE_NONE;
        /* Both neighbors are prefetched before the first one is read. */
        if (at > 0)
            bpe_rank_prefetch(bpe, symbols[chain->previous[at]], symbol);
        if (next < count) {
            chain->previous[next] = (uint8_t)at;
            rank = bpe_rank(bpe, symbol, symbols[next]);
            chain->keys[at] = KEY(rank, at);
        }
        if (at > 0) {
            size_t before = chain->previous[at];

            rank = bpe_rank(bpe, symbols[before], symbol);
            chain->keys[before] = KEY(rank, before);
        }
    }
    for (size_t i = 0; i < count; i = chain->next[i])
        symbols[made++] = symbols[i];
    return made;
}

static size_t merge_short(const struct bpe *bpe, uint32_t *symbols, size_t count)
{
    struct chain chain;

    if (count == 0)
        return 0;
    for (size_t i = 0; i + 1 < count; i++) {
        uint32_t rank = bpe_rank(bpe, symbols[i], symbols[i + 1]);

        chain.keys[i] = KEY(rank, i);
    }
    return merge_chain(bpe, &chain, symbols, count);
}

static size_t merge_bytes(const struct bpe *bpe, const uint8_t *word, uint32_t *symbols,
                          size_t count)
{
    struct chain chain;

    for (size_t i = 0; i + 1 < count; i++) {
        uint32_t rank = bpe->byte_pairs[(unsigned)word[i] << 8 | word[i + 1]];

        chain.keys[i] = KEY(rank, i);
    }
    return merge_chain(bpe, &chain, symbols, count);
}
