/* SPDX-License-Identifier: Apache-2.0 */
/* An engine's splitting by GPT-2's regular expression, as bit algebra on the masks of 64 bytes
 * (engine_body.h). */
#include "split_rules.h"
#include "simd.h"
#include "unicode.h"

#include <string.h>

/* Enter the class of 'length' bytes at 'at' (relative to the chunk) into the masks. */
static void mark_character(struct split_block *blocks, size_t at, size_t length,
                           enum unicode_class class)
{
    for (size_t i = at; i < at + length; i++) {
        struct split_block *block = &blocks[1 + i / 64];
        uint64_t bit = UINT64_C(1) << (i & 63);

        if (class == UNICODE_LETTER)
            block->letter |= bit;
        else if (class == UNICODE_NUMBER)
            block->number |= bit;
        else if (class == UNICODE_SPACE) {
            block->space |= bit;
            if (i > at)
                block->tail |= bit;
        }
    }
}

/* Decode the characters beyond ASCII that begin in a block. */
static void mark_high(struct splitter *splitter, size_t block, uint64_t high)
{
    const uint8_t *text = splitter->text + splitter->base, *end = splitter->text + splitter->length;
    size_t limit = (block + 1) * 64;

    while (high) {
        size_t at = block * 64 + (size_t)__builtin_ctzll(high);

        if (splitter->base + at < splitter->decoded)
            at = splitter->decoded - splitter->base;
        while (at < limit && text + at < end && text[at] >= 0x80) {
            uint32_t point;
            size_t length = utf8_decode(text + at, end, &point);

            if (point != UNICODE_INVALID)
                mark_character(splitter->blocks, at, length, unicode_class(point));
            at += length;
        }
        splitter->decoded = splitter->base + at;
        if (at >= limit)
            break;
        high &= ~UINT64_C(0) << (at & 63);
    }
}

/* One block of 64 bytes; 'blocks' may already contain bits of a character that began before it. */
static void classify_block(struct splitter *splitter, size_t block)
{
    struct split_block *out = &splitter->blocks[1 + block];
    size_t at = splitter->base + block * 64;
    struct byte_masks masks;
    uint8_t last[64];
    uint64_t behind = 0;

    if (at + 64 <= splitter->length) {
        simd_classify(splitter->text + at, &masks);
    } else {
        size_t left = at < splitter->length ? splitter->length - at : 0;

        memset(last, 0, sizeof(last));
        if (left > 0)
            memcpy(last, splitter->text + at, left);
        simd_classify(last, &masks);
        behind = ~UINT64_C(0) << left;
    }
    out->letter |= masks.letter;
    out->number |= masks.number;
    out->space |= masks.space | behind;
    out->blank = masks.blank;
    out->quote = masks.quote;
    if (masks.high)
        mark_high(splitter, block, masks.high);
}

/* Masks for the blocks of the chunk and the block after it; blocks[0] has those of the byte before
 * the chunk, blocks[1] is its first block. After the text everything counts as white space. */
static void classify(struct splitter *splitter, size_t size)
{
    struct split_block *blocks = splitter->blocks;
    size_t count = (size + 63) / 64, block = 0;

    if (splitter->base == 0) {
        memset(blocks, 0, 3 * sizeof(*blocks));
    } else {
        /* The block after the last chunk is the first of this one, and already classified. */
        blocks[0] = blocks[SPLIT_BLOCKS];
        blocks[1] = blocks[SPLIT_BLOCKS + 1];
        blocks[2] = blocks[SPLIT_BLOCKS + 2];
        block = 1;
    }
    for (; block <= count; block++) {
        memset(&blocks[block + 2], 0, sizeof(*blocks));
        classify_block(splitter, block);
    }
}

/* A contraction at an apostrophe that begins a word is a word: 's 't 'm 'd 're 've 'll. Returns its
 * length, or 0. */
static size_t contraction(const struct splitter *splitter, size_t at)
{
    const uint8_t *text = splitter->text + at;
    size_t left = splitter->length - at;

    if (left < 2)
        return 0;
    if (text[1] == 's' || text[1] == 't' || text[1] == 'm' || text[1] == 'd')
        return 2;
    if (left >= 3 && ((text[1] == 'r' && text[2] == 'e') || (text[1] == 'v' && text[2] == 'e') ||
                      (text[1] == 'l' && text[2] == 'l')))
        return 3;
    return 0;
}

static void move_start(struct splitter *splitter, size_t at, int on)
{
    uint64_t bit = UINT64_C(1) << (at & 63);

    if (at >= SPLIT_CHUNK) {
        if (on)
            splitter->set |= bit;
        else
            splitter->clear |= bit;
    } else if (on) {
        splitter->starts[at / 64] |= bit;
    } else {
        splitter->starts[at / 64] &= ~bit;
    }
}

static void apply_contractions(struct splitter *splitter, size_t blocks)
{
    for (size_t block = 0; block < blocks; block++) {
        uint64_t quotes = splitter->blocks[1 + block].quote & splitter->starts[block];

        for (; quotes; quotes &= quotes - 1) {
            size_t at = block * 64 + (size_t)__builtin_ctzll(quotes);
            size_t length = contraction(splitter, splitter->base + at);

            if (length == 0)
                continue;
            move_start(splitter, at + 1, 0);
            if (splitter->base + at + length < splitter->length)
                move_start(splitter, at + length, 1);
        }
    }
}

/* The last white space character of a run begins a word; move the bit from its last byte to its
 * first. */
static void mend_wide_spaces(struct splitter *splitter, size_t block, uint64_t ends)
{
    for (; ends; ends &= ends - 1) {
        size_t at = block * 64 + (size_t)__builtin_ctzll(ends), first = at;

        while (first > 0 && splitter->blocks[1 + first / 64].tail >> (first & 63) & 1)
            first--;
        /* A tail at the chunk's own begin: its first byte was dealt with in the chunk before. */
        if (splitter->blocks[1 + first / 64].tail >> (first & 63) & 1)
            continue;
        splitter->starts[first / 64] |= UINT64_C(1) << (first & 63);
    }
}

static void split_gpt2(struct splitter *splitter, size_t size)
{
    const struct split_block *block = splitter->blocks + 1;
    size_t count = (size + 63) / 64;

    classify(splitter, size);
    memset(splitter->starts, 0, (count + 1) * sizeof(*splitter->starts));
    for (size_t i = 0; i <= count; i++, block++) {
        const struct split_block *before = block - 1;
        uint64_t letter = block->letter, number = block->number, space = block->space;
        uint64_t other = ~(letter | number | space);
        uint64_t before_other = ~(before->letter | before->number | before->space);
        uint64_t next_space = i < count ? block[1].space << 63 : UINT64_C(1) << 63;
        uint64_t changed = (letter & ~(letter << 1 | before->letter >> 63)) |
                           (number & ~(number << 1 | before->number >> 63)) |
                           (other & ~(other << 1 | before_other >> 63));
        uint64_t run = space & ~(space << 1 | before->space >> 63);
        uint64_t last = space & ~(space >> 1 | next_space);
        uint64_t wide = last & block->tail;

        splitter->starts[i] |=
            (changed & ~(block->blank << 1 | before->blank >> 63)) | run | (last & ~wide);
        if (wide)
            mend_wide_spaces(splitter, i, wide);
    }
    splitter->starts[0] = (splitter->starts[0] | splitter->set) & ~splitter->clear;
    if (splitter->base == 0)
        splitter->starts[0] |= 1;
    splitter->set = splitter->clear = 0;
    apply_contractions(splitter, count);
    /* The start of the first word does not end another word. */
    if (splitter->base == 0)
        splitter->starts[0] &= ~UINT64_C(1);
    /* Nothing begins at or after the end of the text. */
    if (size & 63)
        splitter->starts[size / 64] &= ~(~UINT64_C(0) << (size & 63));
    split_emit(splitter, splitter->starts, size);
}

#include "split_words.h"
#include "split_cuts.h"
