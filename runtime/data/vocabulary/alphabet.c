/* SPDX-License-Identifier: Apache-2.0 */
/* The tokens that BPE begins with, and the words written with them. */
#include "config.h"
#include "bpe_private.h"
#include "data/tokenizer/byte_level.h"
#include "data/tokenizer/unicode.h"

#include <stdlib.h>
#include <string.h>

enum { POINTS = 0x110000 };

static int add_character(struct bpe_learning *l, uint32_t point, struct error *err)
{
    uint8_t text[4];
    size_t size = utf8_encode(point, text);

    return tokens_add(&l->learned->tokens, text, size, err) < 0 ? -1 : 0;
}

static int by_point(const void *a, const void *b)
{
    const uint32_t left = *(const uint32_t *)a, right = *(const uint32_t *)b;

    return left < right ? -1 : left > right;
}

static int add_bytes(struct bpe_learning *l, struct error *err)
{
    uint32_t points[256];

    for (int byte = 0; byte < 256; byte++)
        points[byte] = byte_level_character((uint8_t)byte);
    qsort(points, 256, sizeof(*points), by_point);
    for (int i = 0; i < 256; i++)
        if (add_character(l, points[i], err) < 0)
            return -1;
    return 0;
}

struct frequency {
    int64_t times;
    uint32_t point;
};

/* Most frequent first; equally frequent ones by code point. */
static int by_times(const void *a, const void *b)
{
    const struct frequency *left = a, *right = b;

    if (left->times != right->times)
        return left->times > right->times ? -1 : 1;
    return left->point < right->point ? -1 : left->point > right->point;
}

static int by_code_point(const void *a, const void *b)
{
    const struct frequency *left = a, *right = b;

    return left->point < right->point ? -1 : left->point > right->point;
}

static void count_characters(const struct lexicon *lexicon, int64_t *times)
{
    for (size_t i = 0; i < lexicon->count; i++) {
        const struct lexicon_word *word = &lexicon->words[i];
        const uint8_t *at = lexicon->text.data + word->offset, *end = at + word->size;

        while (at < end) {
            uint32_t point;

            at += utf8_decode(at, end, &point);
            if (point != UNICODE_INVALID)
                times[point] += word->times;
        }
    }
}

static int add_characters(struct bpe_learning *l, const struct lexicon *lexicon, struct error *err)
{
    int64_t *times = calloc(POINTS, sizeof(*times));
    struct frequency *found = malloc(POINTS * sizeof(*found));
    size_t count = 0, most = (size_t)l->rules->limit_alphabet;
    int rc = times && found ? 0 : error_set(err, "out of memory");

    if (rc == 0) {
        count_characters(lexicon, times);
        for (uint32_t point = 0; point < POINTS; point++)
            if (times[point] > 0)
                found[count++] = (struct frequency){times[point], point};
        if (most > 0 && count > most) {
            qsort(found, count, sizeof(*found), by_times);
            count = most;
            qsort(found, count, sizeof(*found), by_code_point);
        }
    }
    for (size_t i = 0; rc == 0 && i < count; i++)
        rc = add_character(l, found[i].point, err);
    free(times);
    free(found);
    return rc;
}

/* The token of a character at the beginning of a word or inside one; -1: not in the alphabet. */
static int64_t symbol_of(struct bpe_learning *l, const uint8_t *text, size_t size, int inside,
                         struct error *err)
{
    size_t prefix = inside && l->rules->prefix ? strlen(l->rules->prefix) : 0;
    char written[64];
    int64_t id = tokens_find(&l->learned->tokens, text, size);

    if (id < 0 || prefix == 0)
        return id;
    memcpy(written, l->rules->prefix, prefix);
    memcpy(written + prefix, text, size);
    id = tokens_add(&l->learned->tokens, written, prefix + size, err);
    l->failed = l->failed || id < 0;
    return id;
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
                       const uint32_t *bytes, struct bpe_word *word, struct error *err)
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
        int64_t id = point == UNICODE_INVALID ? -1 : symbol_of(l, at, length, at > begin, err);

        if (id >= 0)
            symbols[word->length++] = (uint32_t)id;
        at += length;
    }
}

int bpe_write_words(struct bpe_learning *l, const struct lexicon *lexicon, struct error *err)
{
    uint32_t bytes[256];
    uint64_t offset = 0;

    l->words = calloc(lexicon->count + 1, sizeof(*l->words));
    l->symbols = malloc((lexicon->text.size + 1) * sizeof(*l->symbols));
    if (!l->words || !l->symbols) {
        error_set(err, "out of memory for %zu words", lexicon->count);
        return error_append(err, "; lower --max-words");
    }
    find_bytes(l, bytes);
    l->word_count = lexicon->count;
    for (size_t i = 0; i < lexicon->count && !l->failed; i++) {
        const struct lexicon_word *from = &lexicon->words[i];

        l->words[i] = (struct bpe_word){.offset = offset, .times = from->times};
        write_word(l, lexicon->text.data + from->offset, from->size, bytes, &l->words[i], err);
        offset += l->words[i].length;
    }
    return l->failed ? -1 : 0;
}

int bpe_add_alphabet(struct bpe_learning *l, const struct lexicon *lexicon, struct error *err)
{
    for (size_t i = 0; i < l->rules->special_count; i++) {
        const char *text = l->rules->specials[i];

        if (tokens_add(&l->learned->tokens, text, strlen(text), err) < 0)
            return -1;
    }
    return l->rules->byte_level ? add_bytes(l, err) : add_characters(l, lexicon, err);
}
