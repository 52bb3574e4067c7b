/* SPDX-License-Identifier: Apache-2.0 */
/* A cache of words and their ids: two tables, for words of up to 15 and up to 31 bytes. Bounded,
 * exact (whole words are compared), and used by one thread. */
#ifndef MEGATRON_WORDS_H
#define MEGATRON_WORDS_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define WORD_SHORT 15
#define WORD_LONG  31

/* Half a cache line: a word and its ids, which are copied out with one store. Narrow ids take two
 * bytes each, wide ones three; 'count' is the last byte. */
struct word_short {
    uint64_t low, high; /* the bytes, zero padded; the length is the last byte */
    uint8_t ids[15];
    uint8_t count;
};
#define WORD_SHORT_NARROW 7
#define WORD_SHORT_WIDE   5
#define WORD_ELSEWHERE    255 /* as a count: the ids are in the second table */
#define WORD_BARE         64  /* added to a count: the first id is a single space */
#define WORD_UNSURE       254 /* Unigram: the ids depend on the preceding text */

/* A whole cache line. */
struct word_long {
    uint64_t key[4];
    uint8_t ids[31];
    uint8_t count;
};
#define WORD_LONG_NARROW 15
#define WORD_LONG_WIDE   10

struct words {
    struct word_short *shorts; /* sets of two, a cache line */
    struct word_long *longs;   /* sets of two, two cache lines */
    int short_shift, long_shift;
    void *memory;
    size_t size;
};

/* 'bytes' is a power of two, at least 64 KiB. Returns 0 or -1 if out of memory. */
int words_init(struct words *words, size_t bytes);
void words_clear(struct words *words);

#define WORD_K1 UINT64_C(0x9E3779B97F4A7C15)
#define WORD_K2 UINT64_C(0xC2B2AE3D27D4EB4F)
#define WORD_K3 UINT64_C(0xD6E8FEB86659FD93)

static inline uint64_t word_hash(uint64_t low, uint64_t high)
{
    uint64_t hash = (low ^ (high >> 23)) * WORD_K1 + high * WORD_K2;

    return (hash ^ hash >> 31) * WORD_K3;
}

/* The set a short word belongs to. There is a single multiplication because this hash is on the
 * critical path of encoding. */
static inline size_t word_short_set(const struct words *words, uint64_t low, uint64_t high)
{
    return (size_t)((low ^ (high << 35 | high >> 29)) * WORD_K1 >> words->short_shift) * 2;
}

static inline size_t word_long_set(const struct words *words, const uint64_t *key)
{
    uint64_t hash = word_hash(key[0], key[1]) ^ word_hash(key[2], key[3] ^ WORD_K1);

    return (size_t)((hash ^ hash >> 29) * WORD_K1 >> words->long_shift) * 2;
}

/* Masks of the bytes of a word, by length. */
#define WORD_MASK(n) (n) >= 8 ? UINT64_MAX : (UINT64_C(1) << (n) % 8 * 8) - 1
static const struct {
    uint64_t low, high;
} word_masks[WORD_SHORT + 1] = {
    {WORD_MASK(0), 0},
    {WORD_MASK(1), 0},
    {WORD_MASK(2), 0},
    {WORD_MASK(3), 0},
    {WORD_MASK(4), 0},
    {WORD_MASK(5), 0},
    {WORD_MASK(6), 0},
    {WORD_MASK(7), 0},
    {WORD_MASK(8), WORD_MASK(0)},
    {WORD_MASK(8), WORD_MASK(1)},
    {WORD_MASK(8), WORD_MASK(2)},
    {WORD_MASK(8), WORD_MASK(3)},
    {WORD_MASK(8), WORD_MASK(4)},
    {WORD_MASK(8), WORD_MASK(5)},
    {WORD_MASK(8), WORD_MASK(6)},
    {WORD_MASK(8), WORD_MASK(7)},
};

/* The bytes of a word of 1 to 15 as a key; 'left' bytes from 'word' on may be read. */
static inline void word_short_key(const uint8_t *word, size_t length, size_t left, uint64_t *low,
                                  uint64_t *high)
{
    uint64_t first = 0, second = 0;

    if (__builtin_expect(left >= 16, 1)) {
        memcpy(&first, word, 8);
        memcpy(&second, word + 8, 8);
    } else {
        uint8_t bytes[16] = {0};

        memcpy(bytes, word, length);
        memcpy(&first, bytes, 8);
        memcpy(&second, bytes + 8, 8);
    }
    *low = first & word_masks[length].low;
    *high = (second & word_masks[length].high) | (uint64_t)length << 56;
}

static inline void word_long_key(const uint8_t *word, size_t length, uint64_t *key)
{
    memset(key, 0, 32);
    memcpy(key, word, length);
    key[3] |= (uint64_t)length << 56;
}

/* Store a word. It takes the second place of its set, and the first one when it occurs again
 * (words_promote), so that words that occur once only replace each other. Words with more ids than
 * fit are not stored. 'wide': ids of three bytes; 'mark': 0, WORD_BARE or, without ids,
 * WORD_UNSURE. */
void words_put_short(struct words *words, uint64_t low, uint64_t high, const uint32_t *ids,
                     size_t count, int wide, int mark);
void words_put_long(struct words *words, const uint64_t *key, const uint32_t *ids, size_t count,
                    int wide, int mark);

/* The word in the second place of a set occurred again. */
static inline void words_promote(struct words *words, size_t set)
{
    struct word_short first = words->shorts[set];

    words->shorts[set] = words->shorts[set + 1];
    words->shorts[set + 1] = first;
}

/* The entry of a longer word, or NULL. */
static inline const struct word_long *words_find_long(const struct words *words,
                                                      const uint64_t *key)
{
    const struct word_long *set = words->longs + word_long_set(words, key);

    for (int way = 0; way < 2; way++)
        if (memcmp(set[way].key, key, sizeof(set[way].key)) == 0)
            return &set[way];
    return NULL;
}

#endif
