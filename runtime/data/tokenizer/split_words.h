/* SPDX-License-Identifier: Apache-2.0 */
/* The regular expression of Llama 3 and similar ones as bit operations on masks of 64 bytes;
 * included by split_simd.h. A chunk begins with a word, so nothing before it matters. Rare cases
 * (wide white space and digits; in cased patterns letters that are neither upper nor lower case)
 * are left to the regular expression. */
#include "property.h"

#define WORDS_BLOCKS SPLIT_BLOCKS
#define WORDS_LEAST  128 /* bytes before a rare case that are worth it */

/* Bits of a chunk; bit i of block b is byte 64 * b + i. */
struct words_masks {
    uint64_t letter[WORDS_BLOCKS + 1], number[WORDS_BLOCKS + 1], space[WORDS_BLOCKS + 1];
    uint64_t newline[WORDS_BLOCKS + 1], blank[WORDS_BLOCKS + 1], quote[WORDS_BLOCKS + 1];
    uint64_t slash[WORDS_BLOCKS + 1]; /* may also follow a line end after punctuation */
    uint64_t upper[WORDS_BLOCKS + 1];
    uint64_t tail[WORDS_BLOCKS + 1]; /* bytes of a character after its first */
};

/* Set 'size' bits from 'at' on. */
static inline void words_mark(uint64_t *masks, size_t at, size_t size)
{
    uint64_t bits = (UINT64_C(1) << size) - 1;

    masks[at / 64] |= bits << (at & 63);
    if ((at & 63) + size > 64)
        masks[at / 64 + 1] |= bits >> (64 - (at & 63));
}

/* Enter one character beyond ASCII. Returns -1 for a rare case that is left to the caller. */
static inline int words_mark_high(struct words_masks *masks, size_t at, size_t size, uint32_t point,
                                  int cased)
{
    enum unicode_class class = point == UNICODE_INVALID ? UNICODE_OTHER : unicode_class(point);

    words_mark(masks->tail, at + 1, size - 1);
    if (cased && (class == UNICODE_LETTER || class == UNICODE_OTHER) && point != UNICODE_INVALID) {
        unsigned category = property_of(point).category;

        if (category == CATEGORY_LU || category == CATEGORY_LT)
            words_mark(masks->upper, at, size);
        else if (class == UNICODE_LETTER ? category != CATEGORY_LL
                                         : category >= CATEGORY_MC && category <= CATEGORY_MN)
            return -1;
    }
    if (class == UNICODE_LETTER)
        words_mark(masks->letter, at, size);
    return class == UNICODE_LETTER || class == UNICODE_OTHER ? 0 : -1;
}

/* Make the masks of a chunk; after the text everything counts as white space. Returns 'size', or
 * where the block begins that has the first rare case, which is left to the caller. */
static size_t words_classify(const struct splitter *splitter, size_t size,
                             struct words_masks *masks, int cased)
{
    const uint8_t *text = splitter->text + splitter->base, *end = splitter->text + splitter->length;
    size_t count = (size + 63) / 64, decoded = 0;

    memset(masks->letter, 0, sizeof(masks->letter));
    memset(masks->tail, 0, sizeof(masks->tail));
    memset(masks->upper, 0, sizeof(masks->upper));
    for (size_t block = 0; block < count; block++) {
        const uint8_t *from = text + block * 64;
        struct byte_masks bytes;
        uint8_t last[64];
        uint64_t behind = 0;

        if (end - from < 64) {
            memset(last, 0, sizeof(last));
            memcpy(last, from, (size_t)(end - from));
            behind = ~UINT64_C(0) << (end - from);
            simd_classify(last, &bytes);
        } else {
            simd_classify(from, &bytes);
        }
        masks->letter[block] |= bytes.letter;
        masks->number[block] = bytes.number;
        masks->space[block] = bytes.space | behind;
        masks->newline[block] = bytes.newline;
        masks->blank[block] = bytes.blank;
        masks->quote[block] = bytes.quote;
        masks->slash[block] = bytes.slash;
        masks->upper[block] |= bytes.upper;
        for (uint64_t high = bytes.high; high; high &= high - 1) {
            size_t at = block * 64 + (size_t)__builtin_ctzll(high), length;
            uint32_t point;

            if (at < decoded)
                continue;
            length = utf8_decode(text + at, end, &point);
            if (words_mark_high(masks, at, length, point, cased) < 0)
                return block * 64;
            decoded = at + length;
        }
    }
    return size;
}

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

/* a + b + *carry, and its carry. */
static inline uint64_t words_add(uint64_t a, uint64_t b, unsigned *carry)
{
    uint64_t sum = a + b, out = sum + *carry;

    *carry = (sum < a) | (out < sum);
    return out;
}

static inline int words_bit(const uint64_t *masks, size_t at)
{
    return masks[at / 64] >> (at & 63) & 1;
}

/* White space after a line end was taken for the start of a word, but another line end follows:
 * everything up to that one is one word. */
static void words_join_lines(const struct words_masks *masks, uint64_t *starts, size_t block,
                             uint64_t ends)
{
    for (; ends; ends &= ends - 1) {
        size_t at = block * 64 + (size_t)__builtin_ctzll(ends);

        while (at > 0 && !words_bit(masks->newline, at - 1))
            at--;
        starts[at / 64] &= ~(UINT64_C(1) << (at & 63));
    }
}

/* State between blocks: the bits of the previous block, and carries. */
struct words_state {
    uint64_t letter, number, space, other, blank, newline, swallowed, lower;
    unsigned swallow, marks, lines;
};

#define WORDS_BEFORE(now, before) ((now) << 1 | (before) >> 63)

/* Where words begin in one block. '*joined' are line ends for words_join_lines. */
static inline uint64_t words_block(const struct words_masks *masks, size_t block,
                                   struct words_state *state, int cased, uint64_t *joined)
{
    uint64_t letter = masks->letter[block], number = masks->number[block];
    uint64_t space = masks->space[block], newline = masks->newline[block];
    uint64_t blank = masks->blank[block], other = ~(letter | number | space);
    uint64_t next_space = masks->space[block + 1] << 63;
    uint64_t after_punctuation = newline & WORDS_BEFORE(other, state->other);
    /* Line ends after punctuation belong to it. */
    uint64_t swallowed = newline & ~words_add(newline, after_punctuation, &state->swallow);
    uint64_t own_space = space & ~swallowed, own_newline = newline & ~swallowed;
    uint64_t wide = own_space & ~newline; /* white space except line ends */
    uint64_t before_blank = WORDS_BEFORE(blank, state->blank);
    uint64_t run = other & ~WORDS_BEFORE(other, state->other);
    /* Punctuation of several characters, or after a space, is separate from letters after it. */
    uint64_t apart = (other & ~masks->tail[block] & ~run) | (run & before_blank);
    uint64_t after_apart = words_add(other, apart, &state->marks) & ~other;
    uint64_t begins = letter & ~WORDS_BEFORE(letter, state->letter);
    uint64_t lines = wide & WORDS_BEFORE(own_newline, state->newline);
    uint64_t starts;

    begins &= ~((WORDS_BEFORE(other, state->other) & ~after_apart) |
                WORDS_BEFORE(wide, state->space & ~state->newline));
    if (cased)
        begins |= letter & masks->upper[block] &
                  WORDS_BEFORE(letter & ~masks->upper[block], state->lower);
    starts = begins | (run & ~before_blank) | (number & ~WORDS_BEFORE(number, state->number)) |
             (own_space & ~WORDS_BEFORE(own_space, state->space)) |
             (wide & ~(space >> 1 | next_space)) | lines;
    *joined = words_add(wide, lines, &state->lines) & ~wide & newline;
    state->letter = letter;
    state->lower = letter & ~masks->upper[block];
    state->number = number;
    state->space = own_space;
    state->other = other;
    state->blank = blank;
    state->newline = own_newline;
    state->swallowed = swallowed;
    return starts;
}

static inline void words_set(uint64_t *starts, size_t at, int on)
{
    uint64_t bit = UINT64_C(1) << (at & 63);

    starts[at / 64] = on ? starts[at / 64] | bit : starts[at / 64] & ~bit;
}

/* A contraction is a separate word or, in cased patterns, the end of the word before it. */
static void words_contract(const struct splitter *splitter, const struct words_masks *masks,
                           uint64_t *starts, size_t size, int cased)
{
    const uint8_t *text = splitter->text + splitter->base, *end = splitter->text + splitter->length;
    size_t ended = 0; /* where the last one ended */

    for (size_t block = 0; block * 64 < size; block++) {
        uint64_t quotes = masks->quote[block] & starts[block];

        for (; quotes; quotes &= quotes - 1) {
            size_t at = block * 64 + (size_t)__builtin_ctzll(quotes), length;

            if (cased && (at == 0 || at == ended || !words_bit(masks->letter, at - 1)))
                continue;
            length = split_contraction(text + at, end);
            if (length == 0 || at + length > size)
                continue;
            for (size_t i = cased ? 0 : 1; i < length; i++)
                words_set(starts, at + i, 0);
            words_set(starts, at + length, 1);
            ended = at + length;
        }
    }
}

/* Digits in groups. */
static void words_group(const struct words_masks *masks, uint64_t *starts, size_t size, int most)
{
    for (size_t block = 0; block * 64 < size; block++) {
        uint64_t number = masks->number[block], begins;

        if (most == 1) {
            starts[block] |= number;
            continue;
        }
        begins = starts[block] & number;
        /* Only runs with a fourth digit; runs at the end of the block may have one. */
        begins &= (number >> 1 & number >> 2 & number >> 3) | UINT64_C(7) << 61;
        for (; begins; begins &= begins - 1) {
            size_t at = block * 64 + (size_t)__builtin_ctzll(begins), digits = 0;

            for (; at < size && words_bit(masks->number, at); at++, digits++)
                if (digits == (size_t)most) {
                    words_set(starts, at, 1);
                    digits = 0;
                }
        }
    }
}

/* Cased patterns: slashes and line ends after a line end after punctuation belong to that, too. */
static void words_slashes(const struct splitter *splitter, const struct words_masks *masks,
                          uint64_t *starts, const uint64_t *swallowed, size_t size)
{
    const uint8_t *text = splitter->text + splitter->base;
    size_t done = 0;

    for (size_t block = 0; block * 64 < size; block++) {
        uint64_t before = block ? swallowed[block - 1] : 0;
        uint64_t slashes = masks->slash[block] & WORDS_BEFORE(swallowed[block], before);

        for (; slashes; slashes &= slashes - 1) {
            size_t at = block * 64 + (size_t)__builtin_ctzll(slashes);

            if (at < done)
                continue;
            for (; at < size && (text[at] == '/' || text[at] == '\n' || text[at] == '\r'); at++)
                words_set(starts, at, 0);
            done = at;
            if (at >= size)
                break;
            words_set(starts, at, 1);
            /* A single punctuation character belongs to the letters after it. */
            if (words_bit(masks->letter, at) || words_bit(masks->number, at) ||
                words_bit(masks->space, at))
                continue;
            for (at++; at < size && words_bit(masks->tail, at); at++)
                ;
            if (at < size && words_bit(masks->letter, at))
                words_set(starts, at, 0);
        }
    }
}

/* The last position at which a word certainly begins: not at white space, and not at the end. */
static size_t words_last(const struct words_masks *masks, const uint64_t *starts, size_t size)
{
    size_t limit = size - 16;

    for (size_t block = limit / 64 + 1; block-- > 0;) {
        uint64_t bits = starts[block] & ~masks->space[block];

        if (block == limit / 64)
            bits &= (UINT64_C(1) << (limit & 63)) - 1;
        if (bits)
            return block * 64 + 63 - (size_t)__builtin_clzll(bits);
    }
    return 0;
}

/* One chunk, up to the first rare case in it. Returns the number of bytes done, or 0 if the caller
 * must do it. */
static inline __attribute__((always_inline)) size_t split_words(struct splitter *splitter,
                                                                size_t size, int cased)
{
    struct words_masks masks;
    struct words_state state = {0};
    uint64_t swallowed[WORDS_BLOCKS + 1], *starts = splitter->starts, slashes = 0;
    size_t known = words_classify(splitter, size, &masks, cased), count;
    size_t whole = splitter->length - splitter->base;

    if (known < size && known < WORDS_LEAST)
        return 0;
    size = known;
    count = (size + 63) / 64;
    masks.space[count] = ~UINT64_C(0);
    masks.number[count] = masks.newline[count] = 0;
    starts[count] = 0;
    for (size_t block = 0; block < count; block++) {
        uint64_t joined;

        starts[block] = words_block(&masks, block, &state, cased, &joined);
        swallowed[block] = state.swallowed;
        slashes |=
            masks.slash[block] & WORDS_BEFORE(state.swallowed, block ? swallowed[block - 1] : 0);
        if (joined)
            words_join_lines(&masks, starts, block, joined);
    }
    starts[0] |= 1;
    if (cased && slashes)
        words_slashes(splitter, &masks, starts, swallowed, size);
    if (!splitter->options.no_contractions)
        words_contract(splitter, &masks, starts, size, cased);
    if (splitter->options.digits > 0)
        words_group(&masks, starts, size, splitter->options.digits);
    if (size < whole) {
        size = words_last(&masks, starts, size);
        if (size == 0)
            return 0;
        /* The end of the last word; split_emit writes the words before it. */
    }
    starts[0] &= ~UINT64_C(1);
    if (size & 63)
        starts[size / 64] &= ~(~UINT64_C(0) << (size & 63));
    split_emit(splitter, starts, size);
    if (size < whole)
        splitter->ends[splitter->count++] = (uint32_t)size;
    return size;
}

static size_t split_llama3_fast(struct splitter *splitter, size_t size)
{
    return split_words(splitter, size, 0);
}

static size_t split_cased_fast(struct splitter *splitter, size_t size)
{
    return split_words(splitter, size, 1);
}
