/* SPDX-License-Identifier: Apache-2.0 */
/* Texts that the normalizer touches. */
#include "encoder.h"
#include "unicode.h"

#include <string.h>

#define PART 65536
#define MARK 0x2581

/* Nothing changes except for the space prepended to the text: only the first word is copied. */
static void encode_prefixed(struct encoder *encoder, const uint8_t *text, size_t length,
                            struct token_buffer *out)
{
    const struct bpe *bpe = &encoder->tokenizer->bpe;
    size_t first = 1;

    while (first < length && bpe_joined(bpe, text[first - 1], text[first]))
        first++;
    encoder->normal.length = 0;
    text_buffer_put(&encoder->normal, " ", 1);
    text_buffer_put(&encoder->normal, text, first);
    encoder_span(encoder, (const uint8_t *)encoder->normal.data, first + 1, out);
    encoder_span(encoder, text + first, length - first, out);
}

/* A normalized text in which user-defined pieces are kept as they are. */
static void encode_kept(struct encoder *encoder, const uint8_t *text, size_t length,
                        struct token_buffer *out)
{
    const struct tokenizer *tokenizer = encoder->tokenizer;
    size_t at, size;
    uint32_t id;

    while ((id = specials_find(&tokenizer->kept, text, length, &at, &size)) != TRIE_NONE) {
        encoder_span(encoder, text, at, out);
        encoder_put(encoder, id, out);
        text += at + size;
        length -= at + size;
    }
    encoder_span(encoder, text, length, out);
}

/* WhitespaceSplit and Metaspace: white space is removed, each word has one space before it, and
 * U+2581 is a space. */
static void encode_words(struct encoder *encoder, const uint8_t *text, size_t length,
                         struct token_buffer *out)
{
    const uint8_t *end = text + length;
    struct text_buffer *normal = &encoder->normal;
    bool between = true;

    normal->length = 0;
    while (text < end) {
        uint32_t point;
        size_t size = utf8_decode(text, end, &point);

        if (point != UNICODE_INVALID && unicode_class(point) == UNICODE_SPACE) {
            between = true;
        } else {
            text_buffer_reserve(normal, 8);
            if (between && point != MARK)
                normal->data[normal->length++] = ' ';
            between = false;
            normal->length += utf8_encode(point == UNICODE_INVALID ? UNICODE_REPLACEMENT
                                          : point == MARK          ? ' '
                                                                   : point,
                                          (uint8_t *)normal->data + normal->length);
        }
        text += size;
    }
    encoder_span(encoder, (const uint8_t *)normal->data, normal->length, out);
}

/* The last position in 'text' at which a word certainly ends; 0 if there is none. */
static size_t last_cut(const struct bpe *bpe, const uint8_t *text, size_t length)
{
    for (size_t at = length; at-- > 1;)
        if (!bpe_joined(bpe, text[at - 1], text[at]))
            return at;
    return 0;
}

void encoder_normalized(struct encoder *encoder, const uint8_t *text, size_t length, bool first,
                        struct token_buffer *out)
{
    const struct tokenizer *tokenizer = encoder->tokenizer;
    const struct normalizer *normalizer = &tokenizer->normalizer;
    struct text_buffer *normal = &encoder->normal;
    struct normalizing state;
    int ended = 0;

    if (normalizer->words) {
        encode_words(encoder, text, length, out);
        return;
    }
    if (!normalizer_changes(normalizer, text, length) &&
        (tokenizer->model != MODEL_UNIGRAM || utf8_valid(text, length))) {
        if (normalizer_prefixes(normalizer, text, length, first))
            encode_prefixed(encoder, text, length, out);
        else
            encoder_span(encoder, text, length, out);
        return;
    }
    normalizing_begin(&state, normalizer, text, length, first);
    normal->length = 0;
    while (!ended) {
        size_t cut;

        text_buffer_reserve(normal, PART);
        normal->length +=
            normalizing_next(&state, (uint8_t *)normal->data + normal->length, PART, &ended);
        /* A user-defined piece may extend across a cut. */
        if (ended || tokenizer->kept.count > 0)
            continue;
        cut = last_cut(&tokenizer->bpe, (const uint8_t *)normal->data, normal->length);
        encoder_span(encoder, (const uint8_t *)normal->data, cut, out);
        normal->length -= cut;
        memmove(normal->data, normal->data + cut, normal->length);
    }
    if (tokenizer->kept.count > 0)
        encode_kept(encoder, (const uint8_t *)normal->data, normal->length, out);
    else
        encoder_span(encoder, (const uint8_t *)normal->data, normal->length, out);
}
