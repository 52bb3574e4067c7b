/* SPDX-License-Identifier: Apache-2.0 */
/* A whole text: special tokens are found in it, the text between them passes through the normalizer
 * to encoder.c, and the tokens around it are added. */
#include "encoder.h"
#include "remedy.h"

#include <string.h>

#define TEXT_LIMIT (UINT64_C(1) << 32) /* offsets within a text have 32 bits */

static int out_of_memory(struct error *err)
{
    return error_memory(err, "token ids");
}

int tokenizer_append(struct encoder *encoder, int64_t id, struct token_buffer *out,
                     struct error *err)
{
    if (id < 0 || id >= encoder->tokenizer->vocab_size)
        return error_set(err,
                         "id %lld is not in the vocabulary; use the tokenizer that the id is from",
                         (long long)id);
    return encoder_put(encoder, (uint32_t)id, out) < 0 ? out_of_memory(err) : 0;
}

/* The first 'id' from 'from' on, or the end. Narrow ids are compared 32 at a time, as vectors. */
static size_t find_id(const struct token_buffer *out, size_t from, uint32_t id, int wide)
{
    const uint16_t *narrow = out->ids, wanted = (uint16_t)id;

    if (wide) {
        while (from < out->count && ((const uint32_t *)out->ids)[from] != id)
            from++;
        return from;
    }
    for (; out->count - from >= 32; from += 32) {
        uint16_t found = 0;

        for (unsigned i = 0; i < 32; i++)
            found |= narrow[from + i] == wanted ? UINT16_MAX : 0;
        if (found)
            break;
    }
    while (from < out->count && narrow[from] != wanted)
        from++;
    return from;
}

static uint32_t id_at(const struct token_buffer *out, size_t at, int wide)
{
    return wide ? ((const uint32_t *)out->ids)[at] : ((const uint16_t *)out->ids)[at];
}

/* Adjacent unknown characters become one id. */
static void merge_unknown(const struct tokenizer *tokenizer, struct token_buffer *out, size_t from)
{
    uint32_t unknown = tokenizer->bpe.unknown_id;
    int wide = tokenizer->id_size == 4;
    size_t size = tokenizer->id_size, kept = from = find_id(out, from, unknown, wide);

    while (from < out->count) {
        size_t last = from, end; /* last: of adjacent ones, which stays */

        while (last + 1 < out->count && id_at(out, last + 1, wide) == unknown)
            last++;
        end = find_id(out, last + 1, unknown, wide);
        if (last > kept)
            memmove((char *)out->ids + kept * size, (char *)out->ids + last * size,
                    (end - last) * size);
        kept += end - last;
        from = end;
    }
    out->count = kept;
}

/* ByteLevel with add_prefix_space. */
static int encode_after_space(struct encoder *encoder, const uint8_t *text, size_t length,
                              struct token_buffer *out)
{
    encoder->normal.length = 0;
    if (text_buffer_put(&encoder->normal, " ", 1) < 0 ||
        text_buffer_put(&encoder->normal, text, length) < 0)
        return -1;
    return encoder_span(encoder, (const uint8_t *)encoder->normal.data, length + 1, out);
}

static int encode_between(struct encoder *encoder, const uint8_t *text, size_t length, int first,
                          struct token_buffer *out)
{
    const struct tokenizer *tokenizer = encoder->tokenizer;
    size_t before = out->count;
    int rc;

    if (length == 0)
        return 0;
    encoder_begin(encoder, out);
    if (tokenizer->prefix_space && *text != ' ')
        rc = encode_after_space(encoder, text, length, out);
    else
        rc = tokenizer->normalizer.active ? encoder_normalized(encoder, text, length, first, out)
                                          : encoder_span(encoder, text, length, out);
    /* The unknown token may also be a special token: that one stays separate. */
    if (rc == 0 && tokenizer->merge_unknown)
        merge_unknown(tokenizer, out, before);
    return rc;
}

/* Convert a text to form C if needed. */
static int compose(struct encoder *encoder, const uint8_t **text, size_t *length)
{
    if (nfc_stays(*text, *length) == *length)
        return 0;
    if (nfc_compose(&encoder->nfc, *text, *length) < 0)
        return -1;
    *text = (const uint8_t *)encoder->nfc.text.data;
    *length = encoder->nfc.text.length;
    return 0;
}

/* 'specials' are searched for in the whole text; then 'more', after the normalizers, in the text
 * between them. */
static int encode_text(struct encoder *encoder, const struct specials *specials,
                       const struct specials *more, const uint8_t *text, size_t length, int first,
                       struct token_buffer *out)
{
    size_t at, size;
    uint32_t id;

    if (!specials)
        return encode_between(encoder, text, length, first, out);
    /* Between the first specials, once. */
    if (!more && encoder->tokenizer->composes && compose(encoder, &text, &length) < 0)
        return -1;
    if (!more &&
        rewrites_run(&encoder->tokenizer->rewrites, &encoder->rewriting, &text, &length) < 0)
        return -1;
    while ((id = specials_find(specials, text, length, &at, &size)) != TRIE_NONE) {
        if (encode_text(encoder, more, NULL, text, at, first, out) < 0 ||
            encoder_put(encoder, id, out) < 0)
            return -1;
        first = 0;
        text += at + size;
        length -= at + size;
    }
    return encode_text(encoder, more, NULL, text, length, first, out);
}

static int put_around(struct encoder *encoder, const struct around *around,
                      struct token_buffer *out)
{
    for (size_t i = 0; i < around->count; i++)
        if (encoder_put(encoder, around->ids[i], out) < 0)
            return -1;
    return 0;
}

void encoder_keep_spaces(struct encoder *encoder)
{
    encoder->keep_spaces = 1;
}

int tokenizer_encode(struct encoder *encoder, const char *text, size_t length,
                     struct token_buffer *out, struct error *err)
{
    const struct tokenizer *tokenizer = encoder->tokenizer;
    uint64_t limit = tokenizer->composes ? TEXT_LIMIT / NFC_GROWTH : TEXT_LIMIT;
    size_t before = out->count;

    /* As fairseq's encoder of lines does. */
    if (tokenizer->map && !encoder->keep_spaces)
        word_strip(&text, &length);
    if (length >= limit)
        return error_set(err,
                         "a text has %zu bytes, and at most %llu can be encoded; split it into "
                         "several documents",
                         length, (unsigned long long)limit - 1);
    if (tokenizer->config.type == TOKENIZER_NULL) {
        if (null_encode(tokenizer, text, length, out, err) == 0)
            return 0;
    } else if (tokenizer->model == MODEL_WORDS) {
        if (words_encode(tokenizer, text, length, out, err) == 0)
            return 0;
    } else if (put_around(encoder, &tokenizer->before, out) == 0 &&
               encode_text(encoder, &tokenizer->specials, &tokenizer->late_specials,
                           (const uint8_t *)text, length, 1, out) == 0) {
        if (put_around(encoder, &tokenizer->after, out) == 0)
            return 0;
        out_of_memory(err);
    } else {
        out_of_memory(err);
    }
    encoder->job_count = 0;
    out->count = before;
    return -1;
}
