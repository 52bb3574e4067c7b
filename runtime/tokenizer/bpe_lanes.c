/* Several short words side by side. The merges of one word wait for each other's lookups; those of
 * different words do not, and the processor overlaps them. */
#include "bpe.h"
#include "simd.h"
#include "unicode.h"

#include <string.h>

#define KEY(rank, at) ((rank) == BPE_NONE ? BPE_NONE : (rank) << 6 | (uint32_t)(at))

struct lane_chain {
    uint32_t keys[16];
    uint8_t next[17], previous[17];
    size_t count; /* of symbols at first */
};

/* Each byte is a symbol. Returns 0 where one is not. */
static int begin_bytes(const struct bpe *bpe, struct bpe_lane *lane, struct lane_chain *chain)
{
    uint32_t known = 0;

    for (size_t i = 0; i < 16; i++) {
        uint32_t rank = BPE_NONE;

        lane->ids[i] = bpe->byte_symbols[lane->word[i]];
        if (i < lane->length)
            known |= lane->ids[i];
        if (i + 1 < lane->length)
            rank = bpe->byte_pairs[(unsigned)lane->word[i] << 8 | lane->word[i + 1]];
        chain->keys[i] = KEY(rank, i);
        chain->next[i] = (uint8_t)(i + 1);
        chain->previous[i + 1] = (uint8_t)i;
    }
    chain->count = lane->length;
    return known < BPE_SYMBOL_LIMIT;
}

static int is_ascii(const struct bpe_lane *lane)
{
    uint64_t bytes[2];

    memcpy(bytes, lane->word, sizeof(bytes));
    return ((bytes[0] | bytes[1]) & UINT64_C(0x8080808080808080)) == 0;
}

/* Each character is a symbol. Returns 0 where one is not. */
static int begin_characters(const struct bpe *bpe, struct bpe_lane *lane, struct lane_chain *chain)
{
    const uint8_t *at = lane->word, *end = at + lane->length;

    chain->count = 0;
    while (at < end) {
        uint32_t point;

        at += utf8_decode(at, end, &point);
        lane->ids[chain->count] = point == UNICODE_INVALID ? BPE_NONE : bpe_character(bpe, point);
        if (lane->ids[chain->count++] == BPE_NONE)
            return 0;
    }
    for (size_t i = 0; i < 16; i++) {
        uint32_t rank = BPE_NONE;

        if (i + 1 < chain->count)
            rank = bpe_rank(bpe, lane->ids[i], lane->ids[i + 1]);
        chain->keys[i] = KEY(rank, i);
        chain->next[i] = (uint8_t)(i + 1);
        chain->previous[i + 1] = (uint8_t)i;
    }
    return 1;
}

static int lane_begin(const struct bpe *bpe, struct bpe_lane *lane, struct lane_chain *chain)
{
    if (bpe->units == BPE_BYTES || is_ascii(lane))
        return begin_bytes(bpe, lane, chain);
    return begin_characters(bpe, lane, chain);
}

/* One merge. Returns 0 when there is none left. */
static inline int lane_step(const struct bpe *bpe, struct bpe_lane *lane, struct lane_chain *chain)
{
    uint32_t key = simd_lowest(chain->keys, 16), symbol, rank = BPE_NONE;
    size_t at = key & 63, gone, next, before;

    if (key == BPE_NONE)
        return 0;
    gone = chain->next[at];
    next = chain->next[gone];
    before = chain->previous[at];
    symbol = bpe_merge(bpe, lane->ids[at], lane->ids[gone], key >> 6);
    lane->ids[at] = symbol;
    chain->keys[gone] = BPE_NONE;
    chain->next[at] = (uint8_t)next;
    if (next < chain->count) {
        chain->previous[next] = (uint8_t)at;
        rank = bpe_rank(bpe, symbol, lane->ids[next]);
    }
    chain->keys[at] = KEY(rank, at);
    if (at > 0) {
        rank = bpe_rank(bpe, lane->ids[before], symbol);
        chain->keys[before] = KEY(rank, before);
    }
    return 1;
}

/* A symbol that is no token is left to others. */
static void lane_end(const struct bpe *bpe, struct bpe_lane *lane, const struct lane_chain *chain)
{
    size_t made = 0;

    for (size_t i = 0; i < chain->count; i = chain->next[i]) {
        if (lane->ids[i] >= bpe->token_count)
            return;
        lane->ids[made++] = lane->ids[i];
    }
    lane->made = made;
}

void bpe_encode_lanes(const struct bpe *bpe, struct bpe_lane *lanes, size_t count)
{
    struct lane_chain chains[BPE_LANES];
    unsigned active = 0;

    for (size_t i = 0; i < count; i++) {
        uint32_t token = TRIE_NONE;

        if (bpe->whole_words)
            token = trie_find(&bpe->trie, lanes[i].word, lanes[i].length);
        if (token < bpe->token_count) {
            lanes[i].ids[0] = token;
            lanes[i].made = 1;
            continue;
        }
        lanes[i].made = 0;
        if (lane_begin(bpe, &lanes[i], &chains[i]))
            active |= 1u << i;
    }
    for (unsigned left = active; left;)
        for (size_t i = 0; i < BPE_LANES; i++)
            if ((left >> i & 1) && !lane_step(bpe, &lanes[i], &chains[i]))
                left &= ~(1u << i);
    for (size_t i = 0; i < count; i++)
        if (active >> i & 1)
            lane_end(bpe, &lanes[i], &chains[i]);
}
