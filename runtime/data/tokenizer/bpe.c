/* SPDX-License-Identifier: Apache-2.0 */
#include "bpe.h"
#include "unicode.h"

#include <stdlib.h>
#include <string.h>
#include "base/core/xmalloc.h"

void *bpe_scratch_reserve(struct bpe_scratch *scratch, size_t size)
{
    if (size <= scratch->size)
        return scratch->memory;
    free(scratch->memory);
    scratch->size = size + size / 4;
    scratch->memory = xmalloc(scratch->size);
    return scratch->memory;
}

void bpe_scratch_clear(struct bpe_scratch *scratch)
{
    free(scratch->memory);
    memset(scratch, 0, sizeof(*scratch));
}

/* Not after a space: if the space stays alone, it belongs to the spaces before it, and the code
 * that checks this expects it together with the next character. */
size_t bpe_cut(const struct bpe *bpe, const uint8_t *word, size_t length, size_t at)
{
    uint32_t before, point;
    size_t bit;

    if (at >= length)
        return length;
    if (bpe->units == BPE_BYTES) {
        for (at++; at < length && bpe_joined(bpe, word[at - 1], word[at]); at++)
            ;
        return at;
    }
    for (at += utf8_decode(word + at, word + length, &before); at < length; before = point) {
        size_t size = utf8_decode(word + at, word + length, &point);

        bit = bpe_neighbour(before, point);
        if (!bpe_joined(bpe, word[at - 1], word[at]) ||
            (before != ' ' && before != UNICODE_INVALID && point != UNICODE_INVALID &&
             !(bpe->neighbours[bit >> 6] >> (bit & 63) & 1)))
            return at;
        at += size;
    }
    return length;
}

static size_t encode_bytes(const struct bpe *bpe, struct bpe_scratch *scratch, const uint8_t *word,
                           size_t length, uint32_t *ids)
{
    if (length > BPE_SHORT && bpe_linear_suits(bpe, word, length))
        return bpe_linear_encode(bpe, scratch, word, length, ids);
    for (size_t i = 0; i < length; i++)
        ids[i] = bpe->byte_symbols[word[i]];
    return length > BPE_SHORT ? bpe_merge_heap(bpe, scratch, ids, length)
                              : bpe->engine->merge_bytes(bpe, word, ids, length);
}

/* The ids of one symbol or of an unknown character. */
static size_t put_symbol(const struct bpe *bpe, uint32_t symbol, const uint8_t *text, size_t length,
                         uint32_t *ids)
{
    if (symbol < bpe->token_count) {
        ids[0] = symbol;
        return 1;
    }
    if (!bpe->unknown_bytes) {
        ids[0] = bpe->unknown_id;
        return bpe->unknown_id != BPE_NONE;
    }
    for (size_t i = 0; i < length; i++)
        ids[i] = bpe->byte_ids[text[i]];
    return length;
}

/* A run of characters that all have symbols. 'ids' has room for one id per byte of the run. */
static size_t encode_run(const struct bpe *bpe, struct bpe_scratch *scratch, const uint8_t *run,
                         size_t length, size_t characters, uint32_t *ids)
{
    uint32_t small[BPE_SHORT], *symbols = small;
    size_t count = 0, made = 0;

    if (characters > BPE_SHORT)
        symbols = xmalloc(characters * sizeof(*symbols));
    if (characters > BPE_SHORT && bpe_linear_suits(bpe, run, length)) {
        count = bpe_linear_encode(bpe, scratch, run, length, symbols);
    } else {
        for (size_t at = 0; at < length;) {
            uint32_t point;

            at += utf8_decode(run + at, run + length, &point);
            symbols[count++] = bpe_character(bpe, point);
        }
        count = characters > BPE_SHORT ? bpe_merge_heap(bpe, scratch, symbols, count)
                                       : bpe->engine->merge_short(bpe, symbols, count);
    }
    for (size_t i = 0; i < count; i++) {
        size_t size;
        const uint8_t *text = bpe_text(bpe, symbols[i], &size);

        made += put_symbol(bpe, symbols[i], text, size, ids + made);
    }
    if (symbols != small)
        free(symbols);
    return made;
}

/* A well-formed word: unknown characters stay single, and the runs between them merge. */
static size_t encode_characters(const struct bpe *bpe, struct bpe_scratch *scratch,
                                const uint8_t *word, size_t length, uint32_t *ids)
{
    size_t made = 0, run = 0, characters = 0;

    for (size_t at = 0, size; at < length; at += size) {
        uint32_t point;

        size = utf8_decode(word + at, word + length, &point);
        characters++;
        if (bpe_character(bpe, point) != BPE_NONE)
            continue;
        made += encode_run(bpe, scratch, word + run, at - run, characters - 1, ids + made);
        made += put_symbol(bpe, BPE_NONE, word + at, size, ids + made);
        run = at + size;
        characters = 0;
    }
    return made + encode_run(bpe, scratch, word + run, length - run, characters, ids + made);
}

/* Encode a word with bytes that are not UTF-8; each of them becomes U+FFFD. */
static size_t encode_repaired(const struct bpe *bpe, struct bpe_scratch *scratch,
                              const uint8_t *word, size_t length, uint32_t *ids)
{
    uint8_t *copy = xmalloc(length * 3);
    size_t copied = 0, made;

    for (size_t at = 0, size; at < length; at += size) {
        uint32_t point;

        size = utf8_decode(word + at, word + length, &point);
        copied +=
            utf8_encode(point == UNICODE_INVALID ? UNICODE_REPLACEMENT : point, copy + copied);
    }
    made = encode_characters(bpe, scratch, copy, copied, ids);
    free(copy);
    return made;
}

/* A word of bytes, some of which have no token: these are skipped. */
static size_t encode_without(const struct bpe *bpe, struct bpe_scratch *scratch,
                             const uint8_t *word, size_t length, uint32_t *ids)
{
    uint8_t small[64], *copy = length <= sizeof(small) ? small : xmalloc(length);
    size_t copied = 0, made = 0;

    for (size_t i = 0; i < length; i++)
        if (bpe->byte_symbols[word[i]] != BPE_NONE)
            copy[copied++] = word[i];
    if (copied > 0)
        made = encode_bytes(bpe, scratch, copy, copied, ids);
    if (copy != small)
        free(copy);
    return made;
}

static int is_missing_any(const struct bpe *bpe, const uint8_t *word, size_t length)
{
    for (size_t i = 0; bpe->has_missing && i < length; i++)
        if (bpe->byte_symbols[word[i]] == BPE_NONE)
            return 1;
    return 0;
}

size_t bpe_encode(const struct bpe *bpe, struct bpe_scratch *scratch, const uint8_t *word,
                  size_t length, uint32_t *ids)
{
    if (length == 0)
        return 0;
    ids[0] = bpe_whole_word(bpe, word, length);
    if (ids[0] != BPE_NONE)
        return 1;
    if (bpe->units == BPE_BYTES && is_missing_any(bpe, word, length))
        return encode_without(bpe, scratch, word, length, ids);
    if (bpe->units == BPE_BYTES)
        return encode_bytes(bpe, scratch, word, length, ids);
    if (!utf8_valid(word, length))
        return encode_repaired(bpe, scratch, word, length, ids);
    return encode_characters(bpe, scratch, word, length, ids);
}
