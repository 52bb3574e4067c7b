/* SPDX-License-Identifier: Apache-2.0 */
/* Unigram: the sum of scores over a text, and words whose ids depend on it (unigram.h). */
#include "encoder.h"

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

void encoder_take_after(struct encoder *encoder, const uint8_t *word, size_t length,
                        struct token_buffer *out)
{
    const struct unigram *unigram = &encoder->tokenizer->unigram;
    double score;
    size_t count;

    encoder_sum(encoder, out);
    score = unigram->from_space && word[0] == ' ' ? 0 : encoder->score;
    encoder_reserve(encoder, length);
    count = unigram_encode_after(unigram, &encoder->scratch, word, length, &score, encoder->ids);
    encoder_put_ids(encoder, count, out);
    encoder->score = score;
    encoder->score_at = out->count;
}
