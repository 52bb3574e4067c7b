/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"
#include "lexicon.h"
#include "data/tokenizer/unicode.h"

#include <stdlib.h>
#include <string.h>
#include "base/core/xmalloc.h"

void lexicon_add(struct lexicon *lexicon, const void *text, size_t size, int64_t times)
{
    if (lexicon->count == lexicon->capacity) {
        lexicon->capacity = lexicon->capacity ? lexicon->capacity * 2 : 1024;
        lexicon->words = xrealloc(lexicon->words, lexicon->capacity, sizeof(*lexicon->words));
    }
    lexicon->words[lexicon->count++] = (struct lexicon_word){lexicon->text.size, size, times};
    bytes_put(&lexicon->text, text, size);
}

static int by_frequency(const void *a, const void *b, void *context)
{
    const struct lexicon_word *left = a, *right = b;
    const unsigned char *text = context;
    size_t size = left->size < right->size ? left->size : right->size;
    int order;

    if (left->times != right->times)
        return left->times > right->times ? -1 : 1;
    order = memcmp(text + left->offset, text + right->offset, size);
    if (order != 0)
        return order;
    return left->size < right->size ? -1 : left->size > right->size;
}

void lexicon_sort(struct lexicon *lexicon)
{
    if (lexicon->count > 1)
        qsort_r(lexicon->words, lexicon->count, sizeof(*lexicon->words), by_frequency,
                lexicon->text.data);
}

void lexicon_clear(struct lexicon *lexicon)
{
    bytes_clear(&lexicon->text);
    free(lexicon->words);
    memset(lexicon, 0, sizeof(*lexicon));
}

static int by_times(const void *a, const void *b)
{
    const struct character *left = a, *right = b;

    if (left->times != right->times)
        return left->times > right->times ? -1 : 1;
    return left->point < right->point ? -1 : left->point > right->point;
}

struct character *lexicon_characters(const struct lexicon *lexicon, size_t *count)
{
    enum { POINTS = 0x110000 };
    struct character *all = xcalloc(POINTS, sizeof(*all));
    size_t found = 0;

    for (size_t i = 0; i < lexicon->count; i++) {
        const uint8_t *at = lexicon->text.data + lexicon->words[i].offset;
        const uint8_t *end = at + lexicon->words[i].size;

        while (at < end) {
            uint32_t point;

            at += utf8_decode(at, end, &point);
            if (point != UNICODE_INVALID)
                all[point].times += lexicon->words[i].times;
        }
    }
    for (uint32_t point = 0; point < POINTS; point++)
        if (all[point].times > 0)
            all[found++] = (struct character){all[point].times, point};
    qsort(all, found, sizeof(*all), by_times);
    *count = found;
    return all;
}
