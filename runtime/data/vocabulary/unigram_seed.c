/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"
#include "data/curate/hash.h"
#include "data/tokenizer/unicode.h"
#include "unigram_learn.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "base/core/xmalloc.h"

enum {
    LONGEST = 16,          /* characters of a piece */
    SEED_WORDS = 1000000,  /* words that parts are taken from: the most frequent ones */
    SEED_PIECES = 1000000, /* at most */
    LONGEST_SPAN = 128,    /* bytes */
};

static const double coverage = 0.9995;

/* Put the characters into 'pieces', with how often they occur as scores. */
static void add_characters(const struct lexicon *lexicon, int64_t limit,
                           struct unigram_pieces *pieces)
{
    size_t count, kept = 0;
    struct character *all = lexicon_characters(lexicon, &count);
    double sum = 0, covered = 0;

    for (size_t i = 0; i < count; i++)
        sum += (double)all[i].times;
    for (; kept < count && (limit > 0 ? kept < (size_t)limit : covered < coverage * sum); kept++)
        covered += (double)all[kept].times;
    pieces->scores = xmalloc((SEED_PIECES + kept + 1) * sizeof(*pieces->scores));
    for (size_t i = 0; i < kept; i++) {
        uint8_t text[4];
        size_t size = utf8_encode(all[i].point, text);

        tokens_add(&pieces->tokens, text, size);
        pieces->scores[i] = (double)all[i].times;
    }
    pieces->required = pieces->tokens.count;
    free(all);
}

/* --- Spans ------------------------------------------------------------------------------------ */

/* Cut a word where a character is not among the pieces, and where it is very long. */
static void add_spans(const struct unigram_pieces *pieces, const uint8_t *at, size_t size,
                      int64_t times, struct lexicon *spans)
{
    const uint8_t *begin = at, *end = at + size;

    while (at < end) {
        uint32_t point;
        size_t length = utf8_decode(at, end, &point);
        int known = tokens_find(&pieces->tokens, at, length) >= 0;

        if (at > begin && (!known || (size_t)(at - begin) + length > LONGEST_SPAN)) {
            lexicon_add(spans, begin, (size_t)(at - begin), times);
            begin = at;
        }
        at += length;
        if (!known)
            begin = at;
    }
    if (at > begin)
        lexicon_add(spans, begin, (size_t)(at - begin), times);
}

/* --- Parts ------------------------------------------------------------------------------------ */

/* A part of a word: where one copy of it is. */
struct part {
    uint64_t offset;
    int64_t times;
    uint32_t size, characters; /* size 0: an empty slot */
};

struct parts {
    const uint8_t *text;
    struct part *slots;
    size_t capacity, count;
};

static struct part *find_part(const struct parts *parts, struct part *slots, size_t capacity,
                              uint64_t offset, uint32_t size)
{
    const uint8_t *text = parts->text + offset;
    size_t at = hash_bytes(text, size, 0) & (capacity - 1);

    while (slots[at].size != 0 &&
           (slots[at].size != size || memcmp(parts->text + slots[at].offset, text, size) != 0))
        at = (at + 1) & (capacity - 1);
    return &slots[at];
}

static void grow_parts(struct parts *parts)
{
    size_t capacity = parts->capacity ? parts->capacity * 2 : 1 << 16;
    struct part *slots = xcalloc(capacity, sizeof(*slots));

    for (size_t i = 0; i < parts->capacity; i++)
        if (parts->slots[i].size != 0)
            *find_part(parts, slots, capacity, parts->slots[i].offset, parts->slots[i].size) =
                parts->slots[i];
    free(parts->slots);
    parts->slots = slots;
    parts->capacity = capacity;
}

static void count_part(struct parts *parts, uint64_t offset, uint32_t size, uint32_t characters,
                       int64_t times)
{
    struct part *part;

    if (parts->count * 2 >= parts->capacity)
        grow_parts(parts);
    part = find_part(parts, parts->slots, parts->capacity, offset, size);
    if (part->size == 0) {
        *part = (struct part){offset, 0, size, characters};
        parts->count++;
    }
    part->times += times;
}

/* All parts of two characters and more. */
static void count_parts(struct parts *parts, const struct lexicon_word *span)
{
    const uint8_t *begin = parts->text + span->offset, *end = begin + span->size;

    while (begin < end) {
        const uint8_t *at = begin;
        uint32_t point;
        size_t first = utf8_decode(begin, end, &point);

        for (uint32_t characters = 1; characters <= LONGEST && at < end; characters++) {
            at += utf8_decode(at, end, &point);
            if (characters > 1)
                count_part(parts, (uint64_t)(begin - parts->text), (uint32_t)(at - begin),
                           characters, span->times);
        }
        begin += first;
    }
}

/* The score of a part: the characters that it covers in the corpus. */
static double saving(const struct part *part)
{
    return (double)part->times * part->characters;
}

static int by_saving(const void *a, const void *b, void *context)
{
    const struct part *left = a, *right = b;
    const uint8_t *text = context;
    double x = saving(left), y = saving(right);
    int order;

    if (x != y)
        return x > y ? -1 : 1;
    order = memcmp(text + left->offset, text + right->offset,
                   left->size < right->size ? left->size : right->size);
    return order != 0 ? order : left->size < right->size ? -1 : left->size > right->size;
}

static void add_parts(struct parts *parts, struct unigram_pieces *pieces)
{
    size_t count = 0;

    for (size_t i = 0; i < parts->capacity; i++)
        if (parts->slots[i].size != 0 && parts->slots[i].times > 1)
            parts->slots[count++] = parts->slots[i];
    if (count > 1)
        qsort_r(parts->slots, count, sizeof(*parts->slots), by_saving, (void *)parts->text);
    for (size_t i = 0; i < count && i < SEED_PIECES; i++) {
        size_t id =
            tokens_add(&pieces->tokens, parts->text + parts->slots[i].offset, parts->slots[i].size);

        pieces->scores[id] = saving(&parts->slots[i]);
    }
}

void unigram_seed(const struct lexicon *lexicon, const struct unigram_rules *rules,
                  struct unigram_pieces *pieces, struct lexicon *spans)
{
    struct parts parts = {0};
    double sum = 0;

    add_characters(lexicon, rules->limit_alphabet, pieces);
    for (size_t i = 0; i < lexicon->count; i++)
        add_spans(pieces, lexicon->text.data + lexicon->words[i].offset, lexicon->words[i].size,
                  lexicon->words[i].times, spans);
    parts.text = spans->text.data;
    for (size_t i = 0; i < spans->count && i < SEED_WORDS; i++)
        count_parts(&parts, &spans->words[i]);
    add_parts(&parts, pieces);
    free(parts.slots);
    for (size_t i = 0; i < pieces->tokens.count; i++)
        sum += pieces->scores[i];
    for (size_t i = 0; i < pieces->tokens.count; i++)
        pieces->scores[i] = log(pieces->scores[i]) - log(sum);
}

void unigram_pieces_clear(struct unigram_pieces *pieces)
{
    tokens_clear(&pieces->tokens);
    free(pieces->scores);
    memset(pieces, 0, sizeof(*pieces));
}
