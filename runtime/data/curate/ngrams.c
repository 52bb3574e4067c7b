/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"
#include "ngrams.h"
#include "hash.h"
#include "base/core/xmalloc.h"

#include <stdlib.h>
#include <string.h>

void ngrams_init(struct ngrams *ngrams, size_t longest, size_t least, enum words_mode mode)
{
    memset(ngrams, 0, sizeof(*ngrams));
    ngrams->longest = longest;
    ngrams->least = least;
    ngrams->mode = mode;
}

void ngrams_clear(struct ngrams *ngrams)
{
    free(ngrams->keys);
    free(ngrams->slots);
    free(ngrams->spared);
    memset(ngrams, 0, sizeof(*ngrams));
}

void ngram_scratch_clear(struct ngram_scratch *scratch)
{
    wordlist_clear(&scratch->words);
    free(scratch->folded);
    free(scratch->sums);
    memset(scratch, 0, sizeof(*scratch));
}

/* Find the words and the prefix sums that give the hash of any n-gram. */
static void look(const struct ngrams *ngrams, struct ngram_scratch *scratch, const char *text,
                 size_t size)
{
    if (scratch->folded_capacity < size + 1) {
        scratch->folded_capacity = 2 * size + 1;
        scratch->folded = xrealloc(scratch->folded, scratch->folded_capacity, 1);
    }
    wordlist_fold(text, size, scratch->folded);
    wordlist_find(&scratch->words, scratch->folded, size, ngrams->mode);
    if (scratch->sums_capacity < scratch->words.count + 1) {
        scratch->sums_capacity = 2 * scratch->words.count + 1;
        scratch->sums = xrealloc(scratch->sums, scratch->sums_capacity, sizeof(*scratch->sums));
    }
    scratch->sums[0] = 0;
    for (size_t i = 0; i < scratch->words.count; i++)
        scratch->sums[i + 1] = scratch->sums[i] * HASH_A + scratch->words.items[i].hash;
}

static uint64_t power_of(size_t n)
{
    uint64_t power = 1;

    for (size_t i = 0; i < n; i++)
        power *= HASH_A;
    return power;
}

static uint64_t key_at(const struct ngram_scratch *scratch, size_t at, size_t n, uint64_t power)
{
    return hash_mix(scratch->sums[at + n] - scratch->sums[at] * power) + n;
}

/* Returns 1 + the index of the key; 0 if it is missing, with '*slot' where to insert it. */
static uint32_t find_key(const struct ngrams *ngrams, uint64_t key, size_t *slot)
{
    size_t at = key & ngrams->mask;

    while (ngrams->slots[at] > 0 && ngrams->keys[ngrams->slots[at] - 1] != key)
        at = (at + 1) & ngrams->mask;
    *slot = at;
    return ngrams->slots[at];
}

static void grow(struct ngrams *ngrams)
{
    size_t slot;

    ngrams->capacity = ngrams->capacity ? ngrams->capacity * 2 : 1024;
    ngrams->keys = xrealloc(ngrams->keys, ngrams->capacity, sizeof(*ngrams->keys));
    free(ngrams->slots);
    ngrams->slots = xcalloc(ngrams->capacity * 4, sizeof(*ngrams->slots));
    ngrams->mask = ngrams->capacity * 4 - 1;
    for (size_t i = 0; i < ngrams->count; i++) {
        find_key(ngrams, ngrams->keys[i], &slot);
        ngrams->slots[slot] = (uint32_t)i + 1;
    }
}

static void add_key(struct ngrams *ngrams, uint64_t key)
{
    size_t slot;

    if (ngrams->count == ngrams->capacity)
        grow(ngrams);
    if (find_key(ngrams, key, &slot) > 0)
        return;
    ngrams->keys[ngrams->count] = key;
    ngrams->slots[slot] = (uint32_t)++ngrams->count;
}

static void note_length(struct ngrams *ngrams, size_t length)
{
    size_t at = 0;

    while (at < ngrams->length_count && ngrams->lengths[at] < length)
        at++;
    if (at < ngrams->length_count && ngrams->lengths[at] == length)
        return;
    memmove(ngrams->lengths + at + 1, ngrams->lengths + at,
            (ngrams->length_count - at) * sizeof(*ngrams->lengths));
    ngrams->lengths[at] = length;
    ngrams->length_count++;
}

void ngrams_add(struct ngrams *ngrams, struct ngram_scratch *scratch, const char *text, size_t size)
{
    size_t n = ngrams->longest, count;
    uint64_t power = power_of(n);

    look(ngrams, scratch, text, size);
    count = scratch->words.count;
    if (count < ngrams->least)
        return;
    if (count < n) {
        note_length(ngrams, count);
        add_key(ngrams, key_at(scratch, 0, count, power_of(count)));
        return;
    }
    for (size_t i = 0; i + n <= count; i++)
        add_key(ngrams, key_at(scratch, i, n, power));
}

static bool try_at(const struct ngrams *ngrams, const struct ngram_scratch *scratch, size_t at,
                   size_t n, uint64_t power, struct ngram_match *match)
{
    size_t slot;
    uint32_t key = find_key(ngrams, key_at(scratch, at, n, power), &slot);

    if (key == 0 || (ngrams->spared && ngrams->spared[key - 1]))
        return false;
    *match = (struct ngram_match){key - 1, scratch->words.items[at].begin, at, n, n - 1};
    for (size_t i = 0; i < n; i++)
        match->chars += scratch->words.items[at + i].chars;
    return true;
}

/* At each word tries the longest n-gram first, then the shorter ones. Shorter ones that begin
 * within the last longest n-gram are tried at the end, by length. */
bool ngrams_find(const struct ngrams *ngrams, struct ngram_scratch *scratch, const char *text,
                 size_t size, struct ngram_match *match)
{
    size_t n = ngrams->longest, count;
    uint64_t power = power_of(n), powers[NGRAM_MOST];

    if (ngrams->count == 0)
        return false;
    look(ngrams, scratch, text, size);
    count = scratch->words.count;
    for (size_t k = 0; k < ngrams->length_count; k++)
        powers[k] = power_of(ngrams->lengths[k]);
    for (size_t i = 0; i + n <= count; i++) {
        if (try_at(ngrams, scratch, i, n, power, match))
            return true;
        for (size_t k = 0; k < ngrams->length_count; k++)
            if (try_at(ngrams, scratch, i, ngrams->lengths[k], powers[k], match))
                return true;
    }
    for (size_t k = 0; count > n && k < ngrams->length_count; k++)
        for (size_t i = count - n; i + ngrams->lengths[k] <= count; i++)
            if (try_at(ngrams, scratch, i, ngrams->lengths[k], powers[k], match))
                return true;
    return false;
}
