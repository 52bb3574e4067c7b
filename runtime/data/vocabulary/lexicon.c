/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"
#include "lexicon.h"

#include <stdlib.h>
#include <string.h>

int lexicon_add(struct lexicon *lexicon, const void *text, size_t size, int64_t times,
                struct error *err)
{
    if (lexicon->count == lexicon->capacity) {
        size_t capacity = lexicon->capacity ? lexicon->capacity * 2 : 1024;
        struct lexicon_word *words = realloc(lexicon->words, capacity * sizeof(*words));

        if (!words)
            return error_set(err, "%zu words: out of memory", capacity);
        lexicon->words = words;
        lexicon->capacity = capacity;
    }
    lexicon->words[lexicon->count++] = (struct lexicon_word){lexicon->text.size, size, times};
    bytes_put(&lexicon->text, text, size);
    return lexicon->text.failed ? error_set(err, "%zu words: out of memory", lexicon->count) : 0;
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
