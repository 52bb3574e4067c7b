/* SPDX-License-Identifier: Apache-2.0 */
/* A whole text: special tokens are found in it, the text between them passes through the normalizer
 * to encoder.c, and the tokens around it are added. */
#include "encoder.h"

#include <stdbool.h>
#include <string.h>

#define TEXT_LIMIT (UINT64_C(1) << 32) /* offsets within a text have 32 bits */
#define MERGED     32                  /* ids at a time, where unknown ones are merged */

int tokenizer_append(struct encoder *encoder, int64_t id, struct token_buffer *out,
                     struct error *err)
{
    if (id < 0 || id >= encoder->tokenizer->vocab_size)
        return error_set(err,
                         "id %lld is not in the vocabulary; use the tokenizer that the id is from",
                         (long long)id);
    encoder_put(encoder, (uint32_t)id, out);
    return 0;
}

static inline uint32_t id_at(const void *ids, size_t at, int wide)
{
    return wide ? ((const uint32_t *)ids)[at] : ((const uint16_t *)ids)[at];
}

/* Are an id and the next one unknown? */
static inline uint16_t is_pair(const void *ids, size_t at, uint32_t unknown, int wide)
{
    return ((id_at(ids, at, wide) ^ unknown) | (id_at(ids, at + 1, wide) ^ unknown)) == 0;
}

/* Keep one of adjacent ids 'unknown'. Nearly all texts have no two of them, which vector
 * instructions find out, block by block. Returns the new count. */
static inline __attribute__((always_inline)) size_t merge(void *ids, size_t from, size_t count,
                                                          uint32_t unknown, int wide)
{
    uint16_t pairs = 0;
    size_t kept;

    for (; count - from > MERGED; from += MERGED) {
        for (size_t i = from; i < from + MERGED; i++)
            pairs |= is_pair(ids, i, unknown, wide);
        if (pairs)
            break;
    }
    for (kept = from; from < count; from++) {
        if (wide)
            ((uint32_t *)ids)[kept] = ((const uint32_t *)ids)[from];
        else
            ((uint16_t *)ids)[kept] = ((const uint16_t *)ids)[from];
        kept += from + 1 == count || !is_pair(ids, from, unknown, wide);
    }
    return kept;
}

/* Adjacent unknown characters become one id. */
static void merge_unknown(const struct tokenizer *tokenizer, struct token_buffer *out, size_t from)
{
    uint32_t unknown = tokenizer->bpe.unknown_id;

    out->count = tokenizer->id_size == 4 ? merge(out->ids, from, out->count, unknown, 1)
                                         : merge(out->ids, from, out->count, unknown, 0);
}

static void encode_between(struct encoder *encoder, const uint8_t *text, size_t length, bool first,
                           struct token_buffer *out)
{
    const struct tokenizer *tokenizer = encoder->tokenizer;
    struct text_buffer *normal = &encoder->normal;
    size_t before = out->count;

    if (length == 0)
        return;
    encoder_begin(encoder, out);
    if (tokenizer->prefix_space && *text != ' ') { /* ByteLevel with add_prefix_space */
        normal->length = 0;
        text_buffer_put(normal, " ", 1);
        text_buffer_put(normal, text, length);
        encoder_span(encoder, (const uint8_t *)normal->data, length + 1, out);
    } else if (tokenizer->normalizer.active) {
        encoder_normalized(encoder, text, length, first, out);
    } else {
        encoder_span(encoder, text, length, out);
    }
    /* The unknown token may also be a special token: that one stays separate. */
    if (tokenizer->merge_unknown)
        merge_unknown(tokenizer, out, before);
}

/* 'specials' are searched for in the whole text; then 'more', after the normalizers, in the text
 * between them. Returns -1 if the normalizers make a text too long. */
static int encode_text(struct encoder *encoder, const struct specials *specials,
                       const struct specials *more, const uint8_t *text, size_t length, bool first,
                       struct token_buffer *out)
{
    size_t at, size;
    uint32_t id;

    if (!specials) {
        encode_between(encoder, text, length, first, out);
        return 0;
    }
    /* The normalizers run once, on the text between the first specials. */
    if (!more &&
        rewrites_run(&encoder->tokenizer->rewrites, &encoder->rewriting, &text, &length) < 0)
        return -1;
    while ((id = specials_find(specials, text, length, &at, &size)) != TRIE_NONE) {
        if (encode_text(encoder, more, NULL, text, at, first, out) < 0)
            return -1;
        encoder_put(encoder, id, out);
        first = false;
        text += at + size;
        length -= at + size;
    }
    return encode_text(encoder, more, NULL, text, length, first, out);
}

static void put_around(struct encoder *encoder, const struct around *around,
                       struct token_buffer *out)
{
    for (size_t i = 0; i < around->count; i++)
        encoder_put(encoder, around->ids[i], out);
}

void encoder_keep_spaces(struct encoder *encoder)
{
    encoder->keep_spaces = 1;
}

int tokenizer_encode(struct encoder *encoder, const char *text, size_t length,
                     struct token_buffer *out, struct error *err)
{
    const struct tokenizer *tokenizer = encoder->tokenizer;
    size_t before = out->count;

    /* As fairseq's encoder of lines does. */
    if (tokenizer->map && !encoder->keep_spaces)
        word_strip(&text, &length);
    if (length >= TEXT_LIMIT)
        return error_set(err,
                         "a text has %zu bytes, and at most %llu can be encoded; split it into "
                         "several documents",
                         length, (unsigned long long)TEXT_LIMIT - 1);
    if (tokenizer->config.type == TOKENIZER_NULL) {
        if (null_encode(tokenizer, text, length, out, err) < 0)
            goto failed;
    } else if (tokenizer->model == MODEL_WORDS) {
        words_encode(tokenizer, text, length, out);
    } else {
        put_around(encoder, &tokenizer->before, out);
        if (encode_text(encoder, &tokenizer->specials, &tokenizer->late_specials,
                        (const uint8_t *)text, length, true, out) < 0) {
            error_set(err, "a text has 4 GiB or more after the tokenizer's normalizers; split it "
                           "into several documents");
            goto failed;
        }
        put_around(encoder, &tokenizer->after, out);
    }
    return 0;
failed:
    encoder->job_count = 0;
    out->count = before;
    return -1;
}
