/* SPDX-License-Identifier: Apache-2.0 */
/* The internals of an encoder; private to this folder. */
#ifndef MEGATRON_ENCODER_H
#define MEGATRON_ENCODER_H

#include "tokenizer_private.h"
#include "words.h"

#define JOBS     256
#define JOB_LONG UINT32_MAX

/* A word in progress: its key and set in the first table; or, with JOB_LONG, its address and
 * length. */
struct job {
    uint64_t low, high;
    uint32_t set;
};

/* The ids of this many spaces; 0 ids: not known yet. */
#define SPACE_RUNS    256
#define SPACE_RUN_IDS 31
struct space_run {
    uint32_t count, ids[SPACE_RUN_IDS];
};

struct encoder {
    const struct tokenizer *tokenizer;
    int wide;
    int keep_spaces; /* encoder_keep_spaces */
    struct words words;
    struct bpe_scratch scratch;
    uint32_t *ids; /* of one word */
    size_t id_capacity;
    struct text_buffer normal; /* normalized text */
    struct rewriting rewriting;
    double score; /* unigram.whole: sum of the text up to the id 'score_at' */
    size_t score_at;
    int near_reset; /* the sum came near to where sentencepiece resets it */
    int careful;    /* look at the sum before each word */
    size_t job_count;
    struct space_run *runs; /* by length; with bpe.space_runs only */
    struct splitter splitter;
    struct job jobs[JOBS], before; /* before: the last one of the previous batch */
};

/* Append the ids of a text without special tokens, or one id. */
void encoder_span(struct encoder *encoder, const uint8_t *text, size_t length,
                  struct token_buffer *out);

void encoder_put(struct encoder *encoder, uint32_t id, struct token_buffer *out);

/* Append the ids of a text that the normalizer may change; 'first': it is the start of the whole
 * text. */
void encoder_normalized(struct encoder *encoder, const uint8_t *text, size_t length, bool first,
                        struct token_buffer *out);

/* Within encoder*.c. Make room for the ids of a word in encoder->ids. */
void encoder_reserve(struct encoder *encoder, size_t length);

/* Append ids of encoder->ids. */
void encoder_put_ids(struct encoder *encoder, size_t count, struct token_buffer *out);

/* Unigram: a word whose ids depend on the sum of the preceding text. */
void encoder_take_after(struct encoder *encoder, const uint8_t *word, size_t length,
                        struct token_buffer *out);

/* Unigram with sums over the whole text: add up the scores of the ids written so far. */
void encoder_sum(struct encoder *encoder, const struct token_buffer *out);

/* Start a text, of which several spans may follow: resets the sum of scores. */
static inline void encoder_begin(struct encoder *encoder, const struct token_buffer *out)
{
    encoder->score = 0;
    encoder->score_at = out->count;
    encoder->near_reset = 0;
}

#endif
