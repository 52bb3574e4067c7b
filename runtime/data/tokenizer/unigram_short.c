/* SPDX-License-Identifier: Apache-2.0 */
/* The search in words of up to UNIGRAM_SURE bytes: most words that are not in the cache. Its time
 * would go into branches that are predicted wrong (how far do pieces extend? is this sum the best
 * one?). So pieces of one and two bytes, as most are, are found without any, and sums are integers.
 * That is exact enough to see which path leads by more than all roundings; where none does,
 * unigram.c searches again. */
#include "unigram.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "base/core/xmalloc.h"

/* A path up to a place in the word is one number, so that the better of two is found without a
 * branch: the sum, then where its last piece begins, and id + 1. */
#define BEGIN_BITS 5
#define ID_BITS    (32 - BEGIN_BITS)
#define ID_MASK    ((UINT32_C(1) << ID_BITS) - 1)
#define SUM(path)  ((int64_t)((uint64_t)(path) & ~(uint64_t)UINT32_MAX))
#define ONE        (INT64_C(1) << 32) /* in a sum */

#define SUM_BITS   29 /* of the largest sum */
#define NO_PATH    (-(ONE << 30))
#define SCORE_MOST 1e4                /* with more, too few bits would remain for fractions */
#define PLACES     (UNIGRAM_SURE + 3) /* where pieces end, and some after the word */
#define FEW        16                 /* most words are shorter */

struct paths {
    int64_t best[PLACES], second[PLACES];
};

static inline void offer(struct paths *paths, size_t end, int64_t path)
{
    int64_t best = paths->best[end], second = paths->second[end];
    int64_t worse = path < best ? path : best;

    paths->best[end] = path < best ? best : path;
    paths->second[end] = worse < second ? second : worse;
}

/* Offer the pieces of more than two bytes that begin at 'at'; 'base' is that of the first two.
 * Returns the number of the piece of 'size' bytes, or 0. */
static inline uint32_t offer_longer(const struct unigram *unigram, struct paths *paths,
                                    const uint8_t *text, size_t length, size_t at, size_t size,
                                    uint32_t base, int64_t before)
{
    uint32_t known = 0, number;

    for (size_t end = at + 2;
         end < length && double_array_step(&unigram->pieces, text[end], &base, &number);) {
        end++;
        offer(paths, end, before + unigram->scores_short[number]);
        known = end - at == size ? number : known;
    }
    return known;
}

static inline void begin_paths(struct paths *paths, size_t count)
{
    for (size_t i = 0; i < count; i++)
        paths->best[i] = paths->second[i] = NO_PATH;
    paths->best[0] = 0;
}

/* 'text' has two bytes after the word. */
static void search(const struct unigram *unigram, struct paths *paths, const uint8_t *text,
                   size_t length)
{
    /* The length of a character, by its first four bits. */
    static const uint8_t sizes[16] = {1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 2, 2, 3, 4};
    const int64_t *scores = unigram->scores_short;

    if (length < FEW)
        begin_paths(paths, FEW + 2);
    else
        begin_paths(paths, PLACES);
    for (size_t at = 0, size; at < length; at += size) {
        int64_t before = SUM(paths->best[at]) + ((int64_t)(UNIGRAM_SURE - at) << ID_BITS);
        uint64_t pair = unigram->pairs[text[at] | text[at + 1] << 8];
        uint32_t known;

        size = sizes[text[at] >> 4];
        offer(paths, at + 1, before + unigram->singles[text[at]]);
        offer(paths, at + 2, before + scores[pair >> 32]);
        known = offer_longer(unigram, paths, text, length, at, size, (uint32_t)pair, before);
        if (size > 2 && !known && at + size <= length)
            offer(paths, at + size, before + scores[unigram->bpe->token_count + 1]);
    }
}

/* The path to the end, with characters that are unknown. */
static size_t write_unknown(const struct unigram *unigram, const struct paths *paths,
                            const uint8_t *text, size_t length, uint32_t *ids)
{
    const struct bpe *bpe = unigram->bpe;
    size_t made = 0;

    for (size_t at = length, begin; at > 0; at = begin) {
        uint32_t low = (uint32_t)paths->best[at], number = low & ID_MASK;

        begin = UNIGRAM_SURE - (low >> ID_BITS);
        if (number <= bpe->token_count)
            ids[made++] = number - 1;
        else if (!bpe->unknown_bytes)
            ids[made++] = bpe->unknown_id;
        else
            for (size_t i = at; i-- > begin;)
                ids[made++] = bpe->byte_ids[text[i]];
    }
    unigram_reverse(ids, made);
    return made;
}

size_t unigram_encode_short(const struct unigram *unigram, const uint8_t *word, size_t length,
                            uint32_t *ids)
{
    uint32_t reversed[UNIGRAM_SURE], *id = reversed + UNIGRAM_SURE, unknown = 0;
    uint8_t text[UNIGRAM_SURE + 2];
    struct paths paths;
    size_t count;
    int64_t least = INT64_MAX;

    memcpy(text, word, length);
    text[length] = text[length + 1] = 0;
    search(unigram, &paths, text, length);
    for (size_t at = length; at > 0;) {
        int64_t path = paths.best[at], lead = SUM(path) - SUM(paths.second[at]);

        /* No path ends here: that is not UTF-8. */
        if (path < NO_PATH / 2)
            return 0;
        *--id = ((uint32_t)path & ID_MASK) - 1;
        unknown |= *id >= unigram->bpe->token_count;
        least = lead < least ? lead : least;
        at = UNIGRAM_SURE - ((uint32_t)path >> ID_BITS);
    }
    count = (size_t)(reversed + UNIGRAM_SURE - id);
    /* Does it lead by more than the roundings of two paths? The other one has at most as many
     * pieces as the word has bytes. */
    if (least < unigram->lead_short * (int64_t)(count + length))
        return 0;
    if (unknown)
        return write_unknown(unigram, &paths, text, length, ids);
    for (size_t i = 0; i < count; i++)
        ids[i] = id[i];
    return count;
}

/* Tables by the first one or two bytes of pieces. */
static void prepare_starts(struct unigram *unigram)
{
    uint32_t unknown = unigram->bpe->token_count + 1;

    unigram->pairs = xmalloc(65536 * sizeof(*unigram->pairs));
    for (unsigned first = 0; first < 256; first++) {
        uint32_t base = unigram->pieces.root, number = 0;
        int there = double_array_step(&unigram->pieces, (uint8_t)first, &base, &number);

        unigram->singles[first] =
            first < 0x80 ? unigram->scores_short[number ? number : unknown] : NO_PATH;
        for (unsigned second = 0; second < 256; second++) {
            uint32_t next = base;

            number = 0;
            if (!there || !double_array_step(&unigram->pieces, (uint8_t)second, &next, &number))
                next = 0;
            if (first >= 0xC0 && first < 0xE0 && number == 0)
                number = unknown;
            unigram->pairs[first | second << 8] = (uint64_t)number << 32 | next;
        }
    }
}

void unigram_prepare_short(struct unigram *unigram)
{
    uint32_t count = unigram->bpe->token_count;
    double reach = unigram_reach(unigram, UNIGRAM_SURE) + 1, scale, rounding;

    if (!(unigram->largest <= SCORE_MOST) || count >= ID_MASK)
        return;
    scale = ldexp(1, SUM_BITS - 1 - ilogb(reach));
    unigram->scores_short = xcalloc((size_t)count + 2, sizeof(*unigram->scores_short));
    unigram->scores_short[0] = NO_PATH;
    for (uint32_t id = 0; id < count; id++) {
        double score = unigram->scores[id];

        unigram->scores_short[id + 1] =
            isnan(score) ? NO_PATH : (int64_t)rint(score * scale) * ONE + id + 1;
    }
    unigram->scores_short[count + 1] =
        (int64_t)rint(unigram->unknown_score * scale) * ONE + count + 1;
    /* A score is rounded here, and a sum there. */
    rounding = unigram->whole ? unigram->lead : ldexp(reach, unigram->single ? -23 : -52);
    unigram->lead_short = ((int64_t)ceil(rounding * scale) + 1) * ONE;
    prepare_starts(unigram);
}
