/* SPDX-License-Identifier: Apache-2.0 */
/* Words of a Unigram model whose ids are not simply in the first table: long ones, and those that
 * depend on the sum of scores of the preceding text (unigram.h). */
#include "encoder.h"

#include <math.h>
#include <string.h>

#define SUMMED 64 /* ids at a time */

static inline __attribute__((always_inline)) float
add(const float *added, const void *ids, size_t from, size_t to, float score, int wide)
{
    for (size_t i = from; i < to; i++)
        score += added[wide ? ((const uint32_t *)ids)[i] : ((const uint16_t *)ids)[i]];
    return score;
}

/* Add the scores of ids in float. '*near': did the sum come near to a reset? */
static float sum_single(const struct encoder *encoder, const void *ids, size_t from, size_t to,
                        int *near)
{
    const struct unigram *unigram = &encoder->tokenizer->unigram;
    const float *added = unigram->added_single;
    float score = (float)encoder->score;

    while (from < to) {
        size_t end = to - from > SUMMED ? from + SUMMED : to;

        /* Within a sum that grows and shrinks, it may come nearer than it is at the end. */
        if (unigram->positive && unigram_may_reset(unigram, score, end - from, WORD_LONG))
            end = from + 1;
        score = encoder->wide ? add(added, ids, from, end, score, 1)
                              : add(added, ids, from, end, score, 0);
        *near |= unigram_resets(unigram, score, WORD_LONG);
        from = end;
    }
    return score;
}

void encoder_sum(struct encoder *encoder, const struct token_buffer *out)
{
    const struct unigram *unigram = &encoder->tokenizer->unigram;
    const void *ids = out->ids;
    double score = encoder->score;

    encoder->near_reset = encoder->careful ? 0 : encoder->near_reset;
    if (unigram->single) {
        score =
            (double)sum_single(encoder, ids, encoder->score_at, out->count, &encoder->near_reset);
    } else {
        for (size_t i = encoder->score_at; i < out->count; i++) {
            uint32_t id = encoder->wide ? ((const uint32_t *)ids)[i] : ((const uint16_t *)ids)[i];

            score = (unigram_begins(unigram, id) ? 0 : score) + unigram->added[id];
        }
    }
    encoder->score = score;
    encoder->score_at = out->count;
}

/* Store a word under a key of the table for its length. With 'mark' it has no ids. */
static void store(struct encoder *encoder, size_t length, const uint64_t *key, size_t count,
                  int mark)
{
    struct words *words = &encoder->words;

    if (length <= WORD_SHORT)
        words_put_short(words, key[0], key[1], encoder->ids, count, encoder->wide, mark);
    else
        words_put_long(words, key, encoder->ids, count, encoder->wide, mark);
}

/* The ids stored under a key and their number, or NULL. */
static const uint8_t *find(const struct encoder *encoder, size_t length, const uint64_t *key,
                           size_t *count)
{
    const struct word_long *entry;

    if (length <= WORD_SHORT) {
        const struct word_short *set =
            encoder->words.shorts + word_short_set(&encoder->words, key[0], key[1]);

        for (int way = 0; way < 2; way++)
            if (set[way].low == key[0] && set[way].high == key[1] &&
                set[way].count != WORD_ELSEWHERE) {
                *count = set[way].count;
                return set[way].ids;
            }
        return NULL;
    }
    entry = words_find_long(&encoder->words, key);
    if (!entry)
        return NULL;
    *count = entry->count;
    return entry->ids;
}

/* A word encoded after all others, with their sum. With 'key' its ids are stored if they are valid
 * for other sums, too. */
static void take_after(struct encoder *encoder, const uint8_t *word, size_t length,
                       const uint64_t *key, struct token_buffer *out)
{
    const struct unigram *unigram = &encoder->tokenizer->unigram;
    double score = unigram->from_space && word[0] == ' ' ? 0 : encoder->score;
    size_t count;
    int even;

    encoder_reserve(encoder, length);
    count =
        unigram_encode_after(unigram, &encoder->scratch, word, length, &score, encoder->ids, &even);
    encoder_put_ids(encoder, count, out);
    if (key && even)
        store(encoder, length, key, count, 0);
    encoder->score = score;
    encoder->score_at = out->count;
}

/* A word of up to 31 bytes whose ids depend on the preceding text. */
static void take_unsure(struct encoder *encoder, const uint8_t *word, size_t length,
                        struct token_buffer *out)
{
    const struct unigram *unigram = &encoder->tokenizer->unigram;
    const uint8_t *ids;
    uint64_t key[4];
    unsigned binade;
    size_t count;

    encoder_sum(encoder, out);
    binade = unigram_binade(unigram, encoder->score, length);
    if (binade == 0) {
        take_after(encoder, word, length, NULL, out);
        return;
    }
    if (length <= WORD_SHORT)
        word_short_key(word, length, length, &key[0], &key[1]);
    else
        word_long_key(word, length, key);
    key[length <= WORD_SHORT ? 1 : 3] |= (uint64_t)binade << WORD_CLASS;
    ids = find(encoder, length, key, &count);
    if (ids)
        encoder_put_entry(encoder, ids, count, out);
    else
        take_after(encoder, word, length, key, out);
}

/* A word of up to 31 bytes, looked up in the second table. */
static void take_long(struct encoder *encoder, const uint8_t *word, size_t length,
                      struct token_buffer *out)
{
    const struct word_long *entry;
    uint64_t key[4];
    size_t count;
    int sure;

    word_long_key(word, length, key);
    entry = words_find_long(&encoder->words, key);
    if (entry && entry->count == WORD_UNSURE) {
        take_unsure(encoder, word, length, out);
    } else if (entry) {
        encoder_put_entry(encoder, entry->ids, entry->count, out);
    } else {
        encoder_reserve(encoder, length);
        count = unigram_encode(&encoder->tokenizer->unigram, &encoder->scratch, word, length,
                               encoder->ids, &sure);
        words_put_long(&encoder->words, key, encoder->ids, sure ? count : 0, encoder->wide,
                       sure ? 0 : WORD_UNSURE);
        if (sure)
            encoder_put_ids(encoder, count, out);
        else
            take_unsure(encoder, word, length, out);
    }
}

void encoder_take_unigram(struct encoder *encoder, const uint8_t *word, size_t length,
                          const struct word_short *entry, struct token_buffer *out)
{
    const struct unigram *unigram = &encoder->tokenizer->unigram;
    int sure;

    if (encoder->careful) {
        encoder_sum(encoder, out);
        if (unigram_resets(unigram, encoder->score, length)) {
            take_after(encoder, word, length, NULL, out);
            return;
        }
    }
    if (length > WORD_LONG && unigram->whole) {
        encoder_sum(encoder, out);
        take_after(encoder, word, length, NULL, out);
    } else if (length > WORD_LONG) {
        encoder_reserve(encoder, length);
        encoder_put_ids(
            encoder, unigram_encode(unigram, &encoder->scratch, word, length, encoder->ids, &sure),
            out);
    } else if (!entry || entry->count == WORD_ELSEWHERE) {
        take_long(encoder, word, length, out);
    } else if (entry->count == WORD_UNSURE) {
        take_unsure(encoder, word, length, out);
    } else {
        encoder_put_entry(encoder, entry->ids, entry->count, out);
    }
}
