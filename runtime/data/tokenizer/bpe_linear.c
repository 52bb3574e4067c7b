/* SPDX-License-Identifier: Apache-2.0 */
/* Long words in linear time. If every merge has a higher rank than the merges that produced its two
 * halves, the encoding of a word is the only sequence of tokens in which no two adjacent tokens
 * merge when they are encoded together. So: take the longest token that is compatible with its left
 * neighbor, and backtrack if there is none. Two tokens are compatible if, when their merges are
 * undone, latest first, the symbols at the border would not have merged earlier. */
#include "bpe.h"
#include "unicode.h"

#include <stdlib.h>
#include <string.h>
#include "base/core/xmalloc.h"

struct unmade {
    uint32_t symbols[BPE_TRACED], ranks[BPE_TRACED];
};

static size_t load_units(const struct bpe *bpe, const uint8_t *text, size_t length,
                         uint32_t *symbols)
{
    size_t count = 0;

    for (size_t at = 0; at < length;) {
        uint32_t point;

        if (count == BPE_TRACED)
            return SIZE_MAX;
        if (bpe->units == BPE_BYTES) {
            symbols[count++] = bpe->byte_symbols[text[at++]];
            continue;
        }
        at += utf8_decode(text + at, text + length, &point);
        symbols[count++] = bpe->characters[bpe->character_pages[point >> 8] - 1][point & 255];
    }
    return count;
}

/* Encode the text of a symbol. If the result is the symbol itself, record its last merge. Returns
 * -1 if it is too long to examine. */
static int trace_symbol(struct bpe *bpe, struct unmade *work, uint32_t symbol)
{
    size_t length, count, at = 0;
    const uint8_t *text = bpe_text(bpe, symbol, &length);
    uint32_t left = BPE_NONE, right = BPE_NONE, best = BPE_NONE;

    bpe->made_at[symbol] = BPE_NONE;
    if (length == 0)
        return 0;
    count = load_units(bpe, text, length, work->symbols);
    if (count == SIZE_MAX)
        return -1;
    if (count == 1 && work->symbols[0] == symbol) {
        bpe->made_at[symbol] = 0;
        return 0;
    }
    for (size_t i = 0; i + 1 < count; i++)
        work->ranks[i] = bpe_rank(bpe, work->symbols[i], work->symbols[i + 1]);
    while (count > 1) {
        best = BPE_NONE;
        for (size_t i = 0; i + 1 < count; i++)
            if (work->ranks[i] < best) {
                best = work->ranks[i];
                at = i;
            }
        if (best == BPE_NONE)
            return 0;
        left = work->symbols[at];
        right = work->symbols[at + 1];
        work->symbols[at] = bpe_merge(bpe, left, right, best);
        count--;
        memmove(work->symbols + at + 1, work->symbols + at + 2,
                (count - at - 1) * sizeof(uint32_t));
        memmove(work->ranks + at, work->ranks + at + 1, (count - at) * sizeof(uint32_t));
        if (at + 1 < count)
            work->ranks[at] = bpe_rank(bpe, work->symbols[at], work->symbols[at + 1]);
        if (at > 0)
            work->ranks[at - 1] = bpe_rank(bpe, work->symbols[at - 1], work->symbols[at]);
    }
    if (work->symbols[0] == symbol) {
        bpe->made_at[symbol] = best + 1;
        bpe->left[symbol] = left;
        bpe->right[symbol] = right;
    }
    return 0;
}

/* The longest shorter symbol at the beginning of each. */
static void find_shorter(struct bpe *bpe)
{
    for (uint32_t symbol = 0; symbol < bpe->symbol_count; symbol++) {
        size_t length;
        const uint8_t *text = bpe_text(bpe, symbol, &length);
        uint32_t node = TRIE_ROOT, value;

        bpe->shorter[symbol] = BPE_NONE;
        for (size_t i = 0; i + 1 < length; i++) {
            node = trie_step(&bpe->trie, node, text[i]);
            if (node == TRIE_NONE)
                break;
            value = bpe->trie.values[node];
            if (value != TRIE_NONE && bpe->made_at[value] != BPE_NONE)
                bpe->shorter[symbol] = value;
        }
    }
}

/* Mark the bytes of tokens whose merges do not rise in rank, or share one. Words without such
 * adjacent bytes do not contain these tokens. */
static void mark_odd(struct bpe *bpe)
{
    for (uint32_t symbol = 0; symbol < bpe->symbol_count; symbol++) {
        uint32_t at = bpe->made_at[symbol];
        size_t length;
        const uint8_t *text = bpe_text(bpe, symbol, &length);

        if (at == 0 || at == BPE_NONE)
            continue;
        if (at <= bpe->made_at[bpe->left[symbol]] || at <= bpe->made_at[bpe->right[symbol]] ||
            bpe->merged[at - 1] == BPE_NONE)
            bpe_mark(bpe->odd, text, length);
    }
}

/* If tokens with higher numbers are made by merges of higher ranks, as in most vocabularies, let
 * the number of a token be its rank. Then a merge need not look up what it makes. */
static void number_by_symbol(struct bpe *bpe)
{
    uint32_t last = 0;

    for (uint32_t symbol = 0; symbol < bpe->symbol_count; symbol++) {
        uint32_t at = bpe->made_at[symbol];

        if (at == 0 || at == BPE_NONE)
            continue;
        if (at <= last || bpe->merged[at - 1] == BPE_NONE)
            return;
        last = at;
    }
    for (uint32_t symbol = 0; symbol < bpe->symbol_count; symbol++)
        if (bpe->made_at[symbol] != 0 && bpe->made_at[symbol] != BPE_NONE)
            bpe->made_at[symbol] = symbol + 1;
    bpe->rank_is_symbol = 1;
}

/* Keep one pair per token: the last merge when the token's text is encoded alone. A pair can only
 * merge if nothing has merged across its two ends, so its text is then encoded as if it were alone;
 * other pairs with the same text never get to merge. */
static void keep_used_pairs(struct bpe *bpe)
{
    memset(bpe->pairs, 0, (bpe->pair_mask + 1) * sizeof(*bpe->pairs));
    bpe->pair_count = 0;
    for (uint32_t symbol = 0; symbol < bpe->symbol_count; symbol++)
        if (bpe->made_at[symbol] != 0 && bpe->made_at[symbol] != BPE_NONE)
            bpe->pair_count++;
    /* Densely filled: the filter answers for pairs that do not exist, and a small table stays in
     * the processor's cache. */
    while (bpe->pair_mask > 1023 && bpe->pair_count * 5 <= (bpe->pair_mask / 2 + 1) * 4)
        bpe->pair_mask /= 2;
    for (uint32_t symbol = 0; symbol < bpe->symbol_count; symbol++) {
        uint32_t at = bpe->made_at[symbol];

        if (at != 0 && at != BPE_NONE)
            bpe_put_pair(bpe, bpe->left[symbol], bpe->right[symbol], at - 1);
    }
}

int bpe_linear_suits(const struct bpe *bpe, const uint8_t *word, size_t length)
{
    for (size_t i = 1; i < length; i++) {
        unsigned at = (unsigned)word[i - 1] << 8 | word[i];

        if (bpe->odd[at >> 3] >> (at & 7) & 1)
            return 0;
    }
    return 1;
}

void bpe_linear_prepare(struct bpe *bpe)
{
    struct unmade *work = xmalloc(sizeof(*work));
    bool all = true;

    bpe->made_at = xmalloc(bpe->symbol_count * sizeof(uint32_t));
    bpe->left = xmalloc(bpe->symbol_count * sizeof(uint32_t));
    bpe->right = xmalloc(bpe->symbol_count * sizeof(uint32_t));
    bpe->shorter = xmalloc(bpe->symbol_count * sizeof(uint32_t));
    for (uint32_t symbol = 0; symbol < bpe->symbol_count; symbol++)
        if (trace_symbol(bpe, work, symbol) < 0) {
            size_t length;
            const uint8_t *text = bpe_text(bpe, symbol, &length);

            bpe->made_at[symbol] = 0; /* it can be produced, but how is unknown */
            bpe_mark(bpe->odd, text, length);
            all = false;
        }
    free(work);
    mark_odd(bpe);
    if (all) {
        number_by_symbol(bpe);
        keep_used_pairs(bpe);
    }
    find_shorter(bpe);
}

/* Do two adjacent symbols stay separate? */
static int stay_apart(const struct bpe *bpe, uint32_t left, uint32_t right)
{
    uint32_t limit = BPE_NONE;

    for (;;) {
        uint32_t rank = bpe_rank(bpe, left, right);

        if (rank != BPE_NONE && rank + 1 < limit)
            return 0;
        if (bpe->made_at[left] > bpe->made_at[right]) {
            limit = bpe->made_at[left];
            left = bpe->right[left];
        } else if (bpe->made_at[right] > 0) {
            /* If ranks are equal, the left one merges first. */
            limit = bpe->made_at[right] + 1;
            right = bpe->left[right];
        } else {
            return 1;
        }
    }
}

/* Units of the word from 'at' on, at most BPE_SHORT. Returns their size in bytes. */
static size_t load_window(const struct bpe *bpe, const uint8_t *word, size_t length, size_t at,
                          uint32_t *symbols, size_t *count)
{
    size_t begin = at;

    *count = 0;
    while (at < length && *count < BPE_SHORT) {
        uint32_t point;

        if (bpe->units == BPE_BYTES) {
            symbols[(*count)++] = bpe->byte_symbols[word[at++]];
            continue;
        }
        at += utf8_decode(word + at, word + length, &point);
        symbols[(*count)++] = bpe->characters[bpe->character_pages[point >> 8] - 1][point & 255];
    }
    return at - begin;
}

/* Window by window: except in the last one, only the tokens well before the end of the window are
 * kept, and the next window begins after them. This is the encoding if the tokens at the border
 * stay separate; if not, the window begins one token earlier. Returns SIZE_MAX if that does not
 * help soon. */
static size_t encode_windows(const struct bpe *bpe, const uint8_t *word, size_t length,
                             uint32_t *symbols)
{
    size_t count = 0, at = 0, retries = 1 + length / 64;

    while (at < length) {
        uint32_t window[BPE_SHORT];
        size_t units, size = load_window(bpe, word, length, at, window, &units), end = at + size;
        size_t made = bpe->engine->merge_short(bpe, window, units);

        /* Runs of one character have tokens as long as a window. */
        if (made * 8 < units)
            return SIZE_MAX;
        if (count > 0 && !stay_apart(bpe, symbols[count - 1], window[0])) {
            if (retries-- == 0)
                return SIZE_MAX;
            count--;
            at -= bpe->offsets[symbols[count] + 1] - bpe->offsets[symbols[count]];
            continue;
        }
        for (size_t i = 0; i < made; i++) {
            size_t next = at + bpe->offsets[window[i] + 1] - bpe->offsets[window[i]];

            if (i > 0 && end < length && end - next < size / 4)
                break;
            symbols[count++] = window[i];
            at = next;
        }
    }
    return count;
}

static uint32_t longest(const struct bpe *bpe, const uint8_t *text, size_t length)
{
    uint32_t node = TRIE_ROOT, found = BPE_NONE, value;

    for (size_t i = 0; i < length; i++) {
        node = trie_step(&bpe->trie, node, text[i]);
        if (node == TRIE_NONE)
            break;
        value = bpe->trie.values[node];
        if (value != TRIE_NONE && bpe->made_at[value] != BPE_NONE)
            found = value;
    }
    return found;
}

size_t bpe_linear_encode(const struct bpe *bpe, struct bpe_scratch *scratch, const uint8_t *word,
                         size_t length, uint32_t *symbols)
{
    uint8_t *dead; /* bits: positions at which no encoding ends */
    size_t count = encode_windows(bpe, word, length, symbols), at = 0;
    uint32_t next;

    if (count != SIZE_MAX)
        return count;
    count = 0;
    dead = bpe_scratch_reserve(scratch, length / 8 + 1);
    memset(dead, 0, length / 8 + 1);
    next = longest(bpe, word, length);
    while (at < length) {
        uint32_t token = next;

        for (; token != BPE_NONE; token = bpe->shorter[token]) {
            size_t end = at + bpe->offsets[token + 1] - bpe->offsets[token];

            if (!(dead[end >> 3] >> (end & 7) & 1) &&
                (count == 0 || stay_apart(bpe, symbols[count - 1], token))) {
                symbols[count++] = token;
                at = end;
                next = longest(bpe, word + at, length - at);
                break;
            }
        }
        if (token != BPE_NONE)
            continue;
        /* There is a token before: every unit is a symbol, so the first one always fits. */
        dead[at >> 3] |= (uint8_t)(1 << (at & 7));
        next = symbols[--count];
        at -= bpe->offsets[next + 1] - bpe->offsets[next];
    }
    return count;
}
