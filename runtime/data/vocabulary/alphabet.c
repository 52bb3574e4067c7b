/* SPDX-License-Identifier: Apache-2.0 */
/* The tokens that BPE begins with, and the words written with them. */
#include "config.h"
#include "bpe_private.h"
#include "data/tokenizer/pretokenizer.h"
#include "data/tokenizer/unicode.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include "base/core/xmalloc.h"

static void add_character(struct bpe_learning *l, uint32_t point)
{
    uint8_t text[4];
    size_t size = utf8_encode(point, text);

    tokens_add(&l->learned->tokens, text, size);
}

static int by_point(const void *a, const void *b)
{
    const uint32_t left = *(const uint32_t *)a, right = *(const uint32_t *)b;

    return left < right ? -1 : left > right;
}

/* All bytes as GPT-2 writes them, or the most frequent characters; by code point. */
static void add_alphabet(struct bpe_learning *l, const struct lexicon *lexicon)
{
    size_t most = (size_t)l->rules->limit_alphabet, count = 256;
    struct character *characters = NULL;
    uint32_t *points;

    if (!l->rules->byte_level) {
        characters = lexicon_characters(lexicon, &count);
        count = most > 0 && count > most ? most : count;
    }
    points = xcalloc(count, sizeof(*points));
    for (size_t i = 0; i < count; i++)
        points[i] = characters ? characters[i].point : byte_level_character((uint8_t)i);
    qsort(points, count, sizeof(*points), by_point);
    for (size_t i = 0; i < count; i++)
        add_character(l, points[i]);
    free(characters);
    free(points);
}

/* The token of a character at the beginning of a word or inside one; -1: not in the alphabet. */
static int64_t symbol_of(struct bpe_learning *l, const uint8_t *text, size_t size, bool inside)
{
    size_t prefix = inside && l->rules->prefix ? strlen(l->rules->prefix) : 0;
    char written[64];
    int64_t id = tokens_find(&l->learned->tokens, text, size);

    if (id < 0 || prefix == 0)
        return id;
    memcpy(written, l->rules->prefix, prefix);
    memcpy(written + prefix, text, size);
    return (int64_t)tokens_add(&l->learned->tokens, written, prefix + size);
}

/* Tokens of each byte as GPT-2 writes it. */
static void find_bytes(const struct bpe_learning *l, uint32_t *ids)
{
    for (int byte = 0; byte < 256; byte++) {
        uint8_t text[4];
        size_t size = utf8_encode(byte_level_character((uint8_t)byte), text);

        ids[byte] = (uint32_t)tokens_find(&l->learned->tokens, text, size);
    }
}

static void write_word(struct bpe_learning *l, const uint8_t *at, size_t size,
                       const uint32_t *bytes, struct bpe_word *word)
{
    const uint8_t *begin = at, *end = at + size;
    uint32_t *symbols = l->symbols + word->offset;

    if (l->rules->byte_level) {
        for (; at < end; at++)
            symbols[word->length++] = bytes[*at];
        return;
    }
    while (at < end) {
        uint32_t point;
        size_t length = utf8_decode(at, end, &point);
        int64_t id = point == UNICODE_INVALID ? -1 : symbol_of(l, at, length, at > begin);

        if (id >= 0)
            symbols[word->length++] = (uint32_t)id;
        at += length;
    }
}

void bpe_write_words(struct bpe_learning *l, const struct lexicon *lexicon)
{
    uint32_t bytes[256];
    uint64_t offset = 0;

    l->words = xcalloc(lexicon->count, sizeof(*l->words));
    l->symbols = xcalloc(lexicon->text.size + 1, sizeof(*l->symbols));
    find_bytes(l, bytes);
    l->word_count = lexicon->count;
    for (size_t i = 0; i < lexicon->count; i++) {
        const struct lexicon_word *from = &lexicon->words[i];

        l->words[i] = (struct bpe_word){.offset = offset, .times = from->times};
        write_word(l, lexicon->text.data + from->offset, from->size, bytes, &l->words[i]);
        offset += l->words[i].length;
    }
}

void bpe_add_alphabet(struct bpe_learning *l, const struct lexicon *lexicon)
{
    for (size_t i = 0; i < l->rules->special_count; i++)
        tokens_add(&l->learned->tokens, l->rules->specials[i], strlen(l->rules->specials[i]));
    add_alphabet(l, lexicon);
}
