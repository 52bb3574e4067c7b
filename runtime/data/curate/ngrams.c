/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"
#include "ngrams.h"
#include "hash.h"

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
static int look(const struct ngrams *ngrams, struct ngram_scratch *scratch, const char *text,
                size_t size)
{
    if (scratch->folded_capacity < size + 1) {
        char *folded = realloc(scratch->folded, 2 * size + 1);

        if (!folded)
            return -1;
        scratch->folded = folded;
        scratch->folded_capacity = 2 * size + 1;
    }
    wordlist_fold(text, size, scratch->folded);
    if (wordlist_find(&scratch->words, scratch->folded, size, ngrams->mode) < 0)
        return -1;
    if (scratch->sums_capacity < scratch->words.count + 1) {
        uint64_t *sums = realloc(scratch->sums, (2 * scratch->words.count + 1) * sizeof(*sums));

        if (!sums)
            return -1;
        scratch->sums = sums;
        scratch->sums_capacity = 2 * scratch->words.count + 1;
    }
    scratch->sums[0] = 0;
    for (size_t i = 0; i < scratch->words.count; i++)
        scratch->sums[i + 1] = scratch->sums[i] * HASH_A + scratch->words.items[i].hash;
    return 0;
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

static int grow(struct ngrams *ngrams)
{
    size_t capacity = ngrams->capacity ? ngrams->capacity * 2 : 1024, slot;
    uint64_t *keys = realloc(ngrams->keys, capacity * sizeof(*keys));
    uint32_t *slots = calloc(capacity * 4, sizeof(*slots));

    if (keys)
        ngrams->keys = keys;
    if (!keys || !slots || capacity > UINT32_MAX / 4) {
        free(slots);
        return -1;
    }
    free(ngrams->slots);
    ngrams->slots = slots;
    ngrams->mask = capacity * 4 - 1;
    ngrams->capacity = capacity;
    for (size_t i = 0; i < ngrams->count; i++) {
        find_key(ngrams, keys[i], &slot);
        slots[slot] = (uint32_t)i + 1;
    }
    return 0;
}

static int add_key(struct ngrams *ngrams, uint64_t key)
{
    size_t slot;

    if (ngrams->count == ngrams->capacity && grow(ngrams) < 0)
        return -1;
    if (find_key(ngrams, key, &slot) > 0)
        return 0;
    ngrams->keys[ngrams->count] = key;
    ngrams->slots[slot] = (uint32_t)++ngrams->count;
    return 0;
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

int ngrams_add(struct ngrams *ngrams, struct ngram_scratch *scratch, const char *text, size_t size)
{
    size_t n = ngrams->longest, count;
    uint64_t power = power_of(n);

    if (look(ngrams, scratch, text, size) < 0)
        return -1;
    count = scratch->words.count;
    if (count < ngrams->least)
        return 0;
    if (count < n) {
        note_length(ngrams, count);
        return add_key(ngrams, key_at(scratch, 0, count, power_of(count)));
    }
    for (size_t i = 0; i + n <= count; i++)
        if (add_key(ngrams, key_at(scratch, i, n, power)) < 0)
            return -1;
    return 0;
}

static int try_at(const struct ngrams *ngrams, const struct ngram_scratch *scratch, size_t at,
                  size_t n, uint64_t power, struct ngram_match *match)
{
    size_t slot;
    uint32_t key = find_key(ngrams, key_at(scratch, at, n, power), &slot);

    if (key == 0 || (ngrams->spared && ngrams->spared[key - 1]))
        return 0;
    *match = (struct ngram_match){key - 1, scratch->words.items[at].begin, at, n, n - 1};
    for (size_t i = 0; i < n; i++)
        match->chars += scratch->words.items[at + i].chars;
    return 1;
}

/* At each word tries the longest n-gram first, then the shorter ones. Shorter ones that begin
 * within the last longest n-gram are tried at the end, by length. */
int ngrams_find(const struct ngrams *ngrams, struct ngram_scratch *scratch, const char *text,
                size_t size, struct ngram_match *match)
{
    size_t n = ngrams->longest, count;
    uint64_t power = power_of(n), powers[NGRAM_MOST];

    if (ngrams->count == 0)
        return 0;
    if (look(ngrams, scratch, text, size) < 0)
        return -1;
    count = scratch->words.count;
    for (size_t k = 0; k < ngrams->length_count; k++)
        powers[k] = power_of(ngrams->lengths[k]);
    for (size_t i = 0; i + n <= count; i++) {
        if (try_at(ngrams, scratch, i, n, power, match))
            return 1;
        for (size_t k = 0; k < ngrams->length_count; k++)
            if (try_at(ngrams, scratch, i, ngrams->lengths[k], powers[k], match))
                return 1;
    }
    for (size_t k = 0; count > n && k < ngrams->length_count; k++)
        for (size_t i = count - n; i + ngrams->lengths[k] <= count; i++)
            if (try_at(ngrams, scratch, i, ngrams->lengths[k], powers[k], match))
                return 1;
    return 0;
}
