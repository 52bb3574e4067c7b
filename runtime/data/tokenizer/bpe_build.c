/* SPDX-License-Identifier: Apache-2.0 */
/* The tables of a vocabulary. */
#include "bpe.h"
#include "unicode.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include "base/core/last_resort.h"
#include "base/core/xmalloc.h"

#define TEXT_LIMIT (UINT32_C(1) << 28)
#define HUGE_PAGE  ((size_t)2 << 20)

void bpe_init(struct bpe *bpe, enum bpe_units units)
{
    memset(bpe, 0, sizeof(*bpe));
    bpe->units = units;
    bpe->unknown_id = BPE_NONE;
    bpe->engine = engine_best();
    bpe->pair_mask = 1023;
    bpe->pairs = xcalloc(bpe->pair_mask + 1, sizeof(*bpe->pairs));
    trie_init(&bpe->trie);
    trie_init(&bpe->unmade);
}

void bpe_clear(struct bpe *bpe)
{
    free(bpe->text);
    free(bpe->offsets);
    trie_clear(&bpe->trie);
    trie_clear(&bpe->unmade);
    free(bpe->pairs);
    free(bpe->merged);
    free(bpe->filter);
    free(bpe->byte_pairs);
    free(bpe->character_pages);
    free(bpe->characters);
    free(bpe->made_at);
    free(bpe->left);
    free(bpe->right);
    free(bpe->shorter);
    free(bpe->neighbours);
    memset(bpe, 0, sizeof(*bpe));
}

/* Zeroed memory that is read at random: with huge pages a lookup does not miss the TLB as well. */
static void *allocate_large(size_t size)
{
    size_t page = size < HUGE_PAGE ? 64 : HUGE_PAGE;
    size_t rounded = (size + page - 1) / page * page;
    void *memory = aligned_alloc(page, rounded);

    if (!memory)
        last_resort("out of memory for the tables of a vocabulary");
    if (page == HUGE_PAGE)
        madvise(memory, rounded, MADV_HUGEPAGE);
    memset(memory, 0, rounded);
    return memory;
}

/* The entry of a character's symbol in the two-stage table. */
static uint32_t *character_slot(struct bpe *bpe, uint32_t point)
{
    if (!bpe->character_pages[point >> 8]) {
        bpe->characters = xrealloc(bpe->characters, bpe->page_count + 1, sizeof(*bpe->characters));
        memset(bpe->characters[bpe->page_count], 0xFF, sizeof(*bpe->characters));
        bpe->character_pages[point >> 8] = (uint16_t)++bpe->page_count;
    }
    return &bpe->characters[bpe->character_pages[point >> 8] - 1][point & 255];
}

/* Give every character that occurs in a token a symbol: the token with that text, or a new symbol
 * after all tokens. */
static int add_characters(struct bpe *bpe, size_t *text_capacity, struct error *err)
{
    size_t text_length = bpe->offsets[bpe->token_count];

    bpe->character_pages = xcalloc(0x110000 >> 8, sizeof(*bpe->character_pages));
    for (size_t at = 0, size; at < text_length; at += size) {
        uint32_t point, former, *slot;

        size = utf8_decode(bpe->text + at, bpe->text + text_length, &point);
        if (point == UNICODE_INVALID)
            return error_set(err, "a token of the vocabulary is not UTF-8");
        slot = character_slot(bpe, point);
        if (*slot != BPE_NONE)
            continue;
        if (trie_insert(&bpe->trie, bpe->text + at, size, bpe->symbol_count, &former) < 0)
            return trie_full(err);
        *slot = former;
        if (former != TRIE_NONE)
            continue;
        *slot = bpe->symbol_count;
        bpe->offsets = xrealloc(bpe->offsets, bpe->symbol_count + 2, sizeof(*bpe->offsets));
        if (bpe->offsets[bpe->symbol_count] + size > *text_capacity) {
            *text_capacity = *text_capacity * 2 + 64;
            bpe->text = xrealloc(bpe->text, *text_capacity, 1);
        }
        memcpy(bpe->text + bpe->offsets[bpe->symbol_count], bpe->text + at, size);
        bpe->offsets[bpe->symbol_count + 1] = bpe->offsets[bpe->symbol_count] + (uint32_t)size;
        if (++bpe->symbol_count >= BPE_SYMBOL_LIMIT)
            return error_set(err,
                             "the vocabulary has more than %u tokens and characters, the most that "
                             "are supported" OTHER_TOKENIZER,
                             BPE_SYMBOL_LIMIT - 1);
    }
    return 0;
}

/* A byte without a token is dropped from texts, as Hugging Face does. GPT-NeoX has none for bytes
 * that are never part of UTF-8. */
static int add_bytes(struct bpe *bpe, struct error *err)
{
    unsigned found = 0;

    for (unsigned byte = 0; byte < 256; byte++) {
        uint8_t text = (uint8_t)byte;

        bpe->byte_symbols[byte] = trie_find(&bpe->trie, &text, 1);
        found += bpe->byte_symbols[byte] != TRIE_NONE;
        if (bpe->byte_symbols[byte] == TRIE_NONE && !bpe->drops_missing)
            return error_set(
                err, "the vocabulary has no token for byte 0x%02X, so it cannot encode every text",
                byte);
    }
    bpe->has_missing = found < 256;
    return found > 0 ? 0
                     : error_set(err, "the vocabulary has no tokens for single bytes, which "
                                      "byte-level BPE begins with");
}

int bpe_set_tokens(struct bpe *bpe, const struct vocabulary *vocabulary, struct error *err)
{
    size_t total = 0, count = vocabulary->count, capacity;
    uint32_t former;

    for (size_t i = 0; i < count; i++)
        total += vocabulary->entries[i].length;
    if (count == 0)
        return error_set(err, "the vocabulary is empty");
    if (count >= BPE_SYMBOL_LIMIT || total > TEXT_LIMIT)
        return error_set(err,
                         "the vocabulary has %zu tokens of %zu bytes in all; at most %u "
                         "tokens of %u bytes in all are supported" OTHER_TOKENIZER,
                         count, total, BPE_SYMBOL_LIMIT - 1, TEXT_LIMIT);
    capacity = total + 64;
    bpe->text = xmalloc(capacity);
    bpe->offsets = xcalloc(count + 1, sizeof(*bpe->offsets));
    bpe->token_count = bpe->symbol_count = (uint32_t)count;
    for (size_t i = 0; i < count; i++) {
        uint8_t *text = bpe->text + bpe->offsets[i];
        size_t length;
        const uint8_t *from = vocabulary_text(vocabulary, i, &length);

        if (vocabulary->entries[i].kind != VOCABULARY_TOKEN)
            length = 0;
        bpe->offsets[i + 1] = bpe->offsets[i] + (uint32_t)length;
        if (length == 0)
            continue;
        memcpy(text, from, length);
        if (trie_insert(&bpe->trie, text, length, (uint32_t)i, &former) < 0)
            return trie_full(err);
    }
    return bpe->units == BPE_BYTES ? add_bytes(bpe, err) : add_characters(bpe, &capacity, err);
}

static void put_entry(uint64_t *pairs, size_t mask, uint64_t entry)
{
    size_t slot = (size_t)(bpe_pair_hash(entry >> 22) >> 32);

    while (pairs[slot & mask])
        slot++;
    pairs[slot & mask] = entry;
}

void bpe_put_pair(struct bpe *bpe, uint32_t left, uint32_t right, uint32_t rank)
{
    put_entry(bpe->pairs, bpe->pair_mask, bpe_pair_key(left, right) << 22 | (rank + 1));
}

static void grow_pairs(struct bpe *bpe)
{
    size_t mask = bpe->pair_mask * 2 + 1;
    uint64_t *pairs = allocate_large((mask + 1) * sizeof(*pairs));

    for (size_t i = 0; i <= bpe->pair_mask; i++)
        if (bpe->pairs[i])
            put_entry(pairs, mask, bpe->pairs[i]);
    free(bpe->pairs);
    bpe->pairs = pairs;
    bpe->pair_mask = mask;
}

/* Enter a pair with this rank, replacing an entry that it may have. */
static void enter_pair(struct bpe *bpe, uint32_t left, uint32_t right, uint32_t rank)
{
    uint64_t key = bpe_pair_key(left, right);

    if (bpe->pair_count * 2 > bpe->pair_mask)
        grow_pairs(bpe);
    for (size_t slot = (size_t)(bpe_pair_hash(key) >> 32);; slot++) {
        uint64_t *entry = &bpe->pairs[slot & bpe->pair_mask];

        if (*entry && *entry >> 22 != key)
            continue;
        bpe->pair_count += *entry == 0;
        *entry = key << 22 | (rank + 1);
        return;
    }
}

static int next_rank(struct bpe *bpe, uint32_t symbol, struct error *err)
{
    if (bpe->rank_count >= BPE_RANK_LIMIT)
        return error_set(
            err,
            "the tokenizer has more than %u merges, the most that are supported" OTHER_TOKENIZER,
            BPE_RANK_LIMIT);
    if ((bpe->rank_count & (bpe->rank_count - 1)) == 0) {
        size_t capacity = bpe->rank_count ? (size_t)bpe->rank_count * 2 : 1;

        bpe->merged = xrealloc(bpe->merged, capacity, sizeof(*bpe->merged));
    }
    bpe->merged[bpe->rank_count++] = symbol;
    return 0;
}

uint32_t bpe_joint(const struct bpe *bpe, uint32_t left, uint32_t right)
{
    size_t left_length, right_length;
    const uint8_t *left_text = bpe_text(bpe, left, &left_length);
    const uint8_t *right_text = bpe_text(bpe, right, &right_length);
    uint32_t node = TRIE_ROOT;

    for (size_t i = 0; i < left_length + right_length && node != TRIE_NONE; i++)
        node = trie_step(&bpe->trie, node,
                         i < left_length ? left_text[i] : right_text[i - left_length]);
    return node == TRIE_NONE ? TRIE_NONE : bpe->trie.values[node];
}

int bpe_add_pair(struct bpe *bpe, uint32_t left, uint32_t right, struct error *err)
{
    uint32_t joint = bpe_joint(bpe, left, right);

    if (joint == TRIE_NONE || joint >= bpe->token_count)
        return error_set(err, "the vocabulary does not contain the token that the two merge to");
    if (next_rank(bpe, joint, err) < 0)
        return -1;
    enter_pair(bpe, left, right, bpe->rank_count - 1);
    return 0;
}

int bpe_add_all_pairs(struct bpe *bpe, const uint32_t *order, const uint8_t *ties, size_t count,
                      struct error *err)
{
    int tied = 0; /* does the token share the rank that was given last? */

    for (size_t i = 0; i < count; i++) {
        size_t length;
        const uint8_t *text = bpe_text(bpe, order[i], &length);
        uint32_t node = TRIE_ROOT, ranked = 0;

        tied = tied && ties && ties[i];
        /* A text given twice has its first id. */
        if (length < 2 || trie_find(&bpe->trie, text, length) != order[i])
            continue;
        for (size_t cut = 1; cut < length; cut++) {
            uint32_t left, right;

            node = trie_step(&bpe->trie, node, text[cut - 1]);
            left = bpe->trie.values[node];
            if (left == TRIE_NONE)
                continue;
            right = trie_find(&bpe->trie, text + cut, length - cut);
            if (right == TRIE_NONE)
                continue;
            if (!ranked && tied)
                bpe->merged[bpe->rank_count - 1] = BPE_NONE;
            else if (!ranked && next_rank(bpe, order[i], err) < 0)
                return -1;
            ranked = tied = 1;
            enter_pair(bpe, left, right, bpe->rank_count - 1);
        }
    }
    return 0;
}

/* Record which characters are adjacent within a text. */
static void mark_neighbours(uint64_t *map, const uint8_t *text, size_t length)
{
    uint32_t before, point;
    size_t at = utf8_decode(text, text + length, &before);

    for (; at < length; before = point) {
        size_t bit;

        at += utf8_decode(text + at, text + length, &point);
        bit = bpe_neighbour(before, point);
        map[bit >> 6] |= UINT64_C(1) << (bit & 63);
    }
}

/* Record which bytes and characters are adjacent within tokens that can be produced. */
static void mark_joined(struct bpe *bpe)
{
    for (uint32_t symbol = 0; symbol < bpe->symbol_count; symbol++) {
        size_t length;
        const uint8_t *text = bpe_text(bpe, symbol, &length);

        if (!bpe->all_tokens && !bpe->whole_words && bpe->made_at[symbol] == BPE_NONE)
            continue;
        bpe_mark(bpe->joined, text, length);
        if (bpe->neighbours && length > 0)
            mark_neighbours(bpe->neighbours, text, length);
    }
    for (unsigned byte = 0; bpe->has_missing && byte < 256; byte++)
        for (unsigned other = 0; bpe->byte_symbols[byte] == BPE_NONE && other < 256; other++) {
            bpe->joined[(byte << 8 | other) >> 3] |= (uint8_t)(1 << (other & 7));
            bpe->joined[(other << 8 | byte) >> 3] |= (uint8_t)(1 << (byte & 7));
        }
    if (bpe->units == BPE_CHARACTERS)
        for (unsigned first = 0; first < 256; first++)
            memset(&bpe->joined[(first << 8 | 0x80) >> 3], 0xFF, 64 / 8);
}

static void make_neighbours(struct bpe *bpe)
{
    if (!bpe->neighbours && bpe->units == BPE_CHARACTERS)
        bpe->neighbours = xcalloc((1 << BPE_NEIGHBOUR_BITS) / 64, sizeof(*bpe->neighbours));
}

int bpe_add_text(struct bpe *bpe, const uint8_t *text, size_t length, uint32_t token)
{
    uint32_t former;

    make_neighbours(bpe);
    if (trie_insert(&bpe->trie, text, length, token, &former) < 0)
        return -1;
    bpe_mark(bpe->joined, text, length);
    if (bpe->neighbours)
        mark_neighbours(bpe->neighbours, text, length);
    return 0;
}

static void make_filter(struct bpe *bpe)
{
    int bits = 12;

    while ((size_t)1 << bits < bpe->pair_count * 12)
        bits++;
    bpe->filter_shift = 64 - bits;
    bpe->filter = allocate_large(((size_t)1 << bits) / 8);
    for (size_t i = 0; i <= bpe->pair_mask; i++)
        if (bpe->pairs[i]) {
            uint64_t bit = bpe_pair_hash(bpe->pairs[i] >> 22) >> bpe->filter_shift;

            bpe->filter[bit >> 6] |= UINT64_C(1) << (bit & 63);
        }
}

/* Where a token has spaces: only at its start, if at all (0); it consists of several spaces (1); or
 * elsewhere (-1). */
static int spaces_within(const uint8_t *text, size_t length)
{
    size_t spaces = 0;

    for (size_t i = 0; i < length; i++)
        spaces += text[i] == ' ';
    if (spaces == length && length > 1)
        return 1;
    return spaces == 0 || (spaces == 1 && text[0] == ' ') ? 0 : -1;
}

/* Do the merges of several spaces come after all others, and consist of spaces only? Then the
 * spaces before the last one of a run do not influence the word that begins with that last space;
 * the word influences them only if it leaves that space alone. */
static int has_space_runs(const struct bpe *bpe)
{
    uint32_t first_run = BPE_NONE, last_other = 0;

    if (bpe->units != BPE_CHARACTERS || bpe->whole_words ||
        bpe->byte_symbols[' '] >= bpe->token_count)
        return 0;
    for (size_t i = 0; i <= bpe->pair_mask; i++) {
        uint64_t entry = bpe->pairs[i];
        uint32_t rank = (uint32_t)(entry & 0x3FFFFF) - 1, joint;
        const uint8_t *text;
        size_t length;
        int kind;

        if (!entry)
            continue;
        joint = bpe_merge(bpe, (uint32_t)(entry >> 43), (uint32_t)(entry >> 22 & 0x1FFFFF), rank);
        text = bpe_text(bpe, joint, &length);
        kind = spaces_within(text, length);
        if (kind < 0)
            return 0;
        if (kind > 0 && rank < first_run)
            first_run = rank;
        if (kind == 0 && rank > last_other)
            last_other = rank;
    }
    return first_run != BPE_NONE && first_run > last_other;
}

/* With whole_words: the merges of nearly every token's own text produce it anyway; only the others
 * must be looked up as words. */
static void find_unmade(struct bpe *bpe)
{
    for (uint32_t token = 0; bpe->whole_words && token < bpe->token_count; token++) {
        size_t length;
        const uint8_t *text = bpe_text(bpe, token, &length);
        uint32_t former;
        unsigned bit;

        if (length == 0 || trie_find(&bpe->trie, text, length) != token ||
            (bpe->made_at[token] != BPE_NONE && length <= BPE_TRACED))
            continue;
        /* This cannot fail: 'trie' has all these texts. */
        trie_insert(&bpe->unmade, text, length, token, &former);
        bit = bpe_unmade_bit(text, length);
        bpe->unmade_filter[bit >> 6] |= UINT64_C(1) << (bit & 63);
    }
}

void bpe_finish(struct bpe *bpe, bool cut_spaces)
{
    if (!bpe->all_tokens)
        bpe_linear_prepare(bpe);
    find_unmade(bpe);
    make_filter(bpe);
    make_neighbours(bpe);
    bpe->byte_pairs = xmalloc(65536 * sizeof(*bpe->byte_pairs));
    for (unsigned byte = 0; byte < 256 && bpe->units == BPE_CHARACTERS; byte++)
        bpe->byte_symbols[byte] = byte < 0x80 ? bpe_character(bpe, byte) : BPE_NONE;
    for (unsigned at = 0; at < 65536; at++)
        bpe->byte_pairs[at] =
            bpe_rank(bpe, bpe->byte_symbols[at >> 8], bpe->byte_symbols[at & 255]);
    bpe->space_runs = !cut_spaces && has_space_runs(bpe);
    mark_joined(bpe);
    for (unsigned first = 0; cut_spaces && first < 256; first++)
        bpe->joined[(first << 8 | ' ') >> 3] &= (uint8_t) ~(1 << (' ' & 7));
}
