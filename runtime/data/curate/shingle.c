/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"
#include "shingle.h"
#include "hash.h"
#include "data/tokenizer/unicode.h"
#include "base/core/xmalloc.h"

#include <stdlib.h>
#include <string.h>

static void make_room(struct shingles *shingles, size_t count)
{
    if (shingles->capacity >= count)
        return;
    shingles->capacity = 2 * count;
    shingles->items = xrealloc(shingles->items, shingles->capacity, sizeof(*shingles->items));
}

static uint32_t finish(uint64_t sum)
{
    return (uint32_t)(hash_mix(sum) >> 32);
}

/* All numbers count as the same word. */
static uint64_t word_hash(const struct word *word, const char *text)
{
    if (word->flags & WORD_ALPHA)
        return word->hash;
    for (uint32_t i = 0; i < word->size; i++)
        if (text[word->begin + i] < '0' || text[word->begin + i] > '9')
            return word->hash;
    return HASH_B;
}

static void of_words(struct shingles *shingles, size_t n, const char *text, size_t size)
{
    uint64_t sum = 0, power = 1;
    size_t count;

    if (shingles->folded_capacity < size) {
        shingles->folded_capacity = 2 * size;
        shingles->folded = xrealloc(shingles->folded, shingles->folded_capacity, 1);
    }
    wordlist_fold(text, size, shingles->folded);
    wordlist_find(&shingles->words, shingles->folded, size, WORDS_ONLY);
    count = shingles->words.count;
    make_room(shingles, count + 1);
    for (size_t i = 1; i < n; i++)
        power *= HASH_A;
    for (size_t i = 0; i < count; i++) {
        struct word *word = &shingles->words.items[i];

        word->hash = word_hash(word, shingles->folded);
        sum = sum * HASH_A + word->hash;
        if (i + 1 >= n) {
            shingles->items[shingles->count++] = finish(sum);
            sum -= shingles->words.items[i + 1 - n].hash * power;
        }
    }
    if (count > 0 && count < n)
        shingles->items[shingles->count++] = finish(sum);
}

static void of_characters(struct shingles *shingles, size_t n, const char *text, size_t size)
{
    const uint8_t *lead = (const uint8_t *)text, *tail = lead, *end = lead + size;
    uint64_t sum = 0, power = 1;
    size_t chars = 0;

    make_room(shingles, size + 1);
    for (size_t i = 1; i < n; i++)
        power *= HASH_A;
    while (lead < end) {
        uint32_t point;

        lead += utf8_decode(lead, end, &point);
        sum = sum * HASH_A + hash_mix(point);
        if (++chars >= n) {
            shingles->items[shingles->count++] = finish(sum);
            tail += utf8_decode(tail, end, &point);
            sum -= hash_mix(point) * power;
        }
    }
    if (chars > 0 && chars < n)
        shingles->items[shingles->count++] = finish(sum);
}

void shingles_make(struct shingles *shingles, enum shingle_unit unit, size_t n, const char *text,
                   size_t size)
{
    shingles->count = 0;
    if (size == 0)
        return;
    if (unit == SHINGLE_WORDS)
        of_words(shingles, n, text, size);
    else
        of_characters(shingles, n, text, size);
}

static int by_value(const void *a, const void *b)
{
    uint32_t left = *(const uint32_t *)a, right = *(const uint32_t *)b;

    return left < right ? -1 : left > right;
}

void shingles_unique(struct shingles *shingles)
{
    size_t kept = 0;

    if (shingles->count == 0)
        return;
    qsort(shingles->items, shingles->count, sizeof(*shingles->items), by_value);
    for (size_t i = 1; i < shingles->count; i++)
        if (shingles->items[i] != shingles->items[kept])
            shingles->items[++kept] = shingles->items[i];
    shingles->count = kept + 1;
}

double shingles_similarity(const uint32_t *a, size_t a_count, const uint32_t *b, size_t b_count)
{
    size_t i = 0, j = 0, common = 0;

    if (a_count + b_count == 0)
        return 1;
    while (i < a_count && j < b_count) {
        common += a[i] == b[j];
        if (a[i] < b[j]) {
            i++;
        } else {
            i += a[i] == b[j];
            j++;
        }
    }
    return (double)common / (double)(a_count + b_count - common);
}

void shingles_clear(struct shingles *shingles)
{
    wordlist_clear(&shingles->words);
    free(shingles->folded);
    free(shingles->items);
    memset(shingles, 0, sizeof(*shingles));
}
