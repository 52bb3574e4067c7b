/* Texts that the normaliser touches. */
#include "encoder.h"

#include <stdlib.h>
#include <string.h>

#define PART 65536

static int make_room(struct encoder *encoder, size_t wanted)
{
    uint8_t *normal;

    if (wanted <= encoder->normal_capacity)
        return 0;
    wanted += wanted / 2;
    normal = realloc(encoder->normal, wanted);
    if (!normal)
        return -1;
    encoder->normal = normal;
    encoder->normal_capacity = wanted;
    return 0;
}

/* Nothing changes but for the space put before the text: only the first word is copied. */
static int encode_prefixed(struct encoder *encoder, const uint8_t *text, size_t length,
                           struct token_buffer *out)
{
    const struct bpe *bpe = &encoder->tokenizer->bpe;
    size_t first = 1;

    while (first < length && bpe_joined(bpe, text[first - 1], text[first]))
        first++;
    if (make_room(encoder, first + 1) < 0)
        return -1;
    encoder->normal[0] = ' ';
    memcpy(encoder->normal + 1, text, first);
    if (encoder_span(encoder, encoder->normal, first + 1, out) < 0)
        return -1;
    return encoder_span(encoder, text + first, length - first, out);
}

/* A normalised text in which user-defined pieces stand for themselves. */
static int encode_kept(struct encoder *encoder, const uint8_t *text, size_t length,
                       struct token_buffer *out)
{
    const struct tokenizer *tokenizer = encoder->tokenizer;
    size_t at, size;
    uint32_t id;

    while ((id = specials_find(&tokenizer->kept, text, length, &at, &size)) != TRIE_NONE) {
        if (encoder_span(encoder, text, at, out) < 0 || encoder_put(encoder, id, out) < 0)
            return -1;
        text += at + size;
        length -= at + size;
    }
    return encoder_span(encoder, text, length, out);
}

/* The last place in 'text' where a word surely ends; 0 if there is none. */
static size_t last_cut(const struct bpe *bpe, const uint8_t *text, size_t length)
{
    for (size_t at = length; at-- > 1;)
        if (!bpe_joined(bpe, text[at - 1], text[at]))
            return at;
    return 0;
}

int encoder_normalized(struct encoder *encoder, const uint8_t *text, size_t length, int first,
                       struct token_buffer *out)
{
    const struct tokenizer *tokenizer = encoder->tokenizer;
    const struct normalizer *normalizer = &tokenizer->normalizer;
    struct normalizing state;
    size_t held = 0, cut;
    int ended = 0;

    if (!normalizer_changes(normalizer, text, length))
        return normalizer_prefixes(normalizer, text, length, first)
                   ? encode_prefixed(encoder, text, length, out)
                   : encoder_span(encoder, text, length, out);
    normalizing_begin(&state, normalizer, text, length, first);
    while (!ended) {
        if (make_room(encoder, held + PART) < 0)
            return -1;
        held += normalizing_next(&state, encoder->normal + held, PART, &ended);
        /* A user-defined piece may lie across a cut. */
        if (ended || tokenizer->kept.count > 0)
            continue;
        cut = last_cut(&tokenizer->bpe, encoder->normal, held);
        if (encoder_span(encoder, encoder->normal, cut, out) < 0)
            return -1;
        memmove(encoder->normal, encoder->normal + cut, held - cut);
        held -= cut;
    }
    return tokenizer->kept.count > 0 ? encode_kept(encoder, encoder->normal, held, out)
                                     : encoder_span(encoder, encoder->normal, held, out);
}
