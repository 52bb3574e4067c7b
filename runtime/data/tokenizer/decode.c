/* SPDX-License-Identifier: Apache-2.0 */
/* Ids to text. */
#include "tokenizer_private.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void text_buffer_clear(struct text_buffer *buffer)
{
    free(buffer->data);
    memset(buffer, 0, sizeof(*buffer));
}

int text_buffer_reserve(struct text_buffer *buffer, size_t more)
{
    size_t capacity = buffer->capacity + buffer->capacity / 2 + more + 256;
    char *data;

    if (more <= buffer->capacity - buffer->length)
        return 0;
    data = realloc(buffer->data, capacity);
    if (!data)
        return -1;
    buffer->data = data;
    buffer->capacity = capacity;
    return 0;
}

int text_buffer_put(struct text_buffer *buffer, const void *text, size_t length)
{
    if (text_buffer_reserve(buffer, length) < 0)
        return -1;
    if (length > 0)
        memcpy(buffer->data + buffer->length, text, length);
    buffer->length += length;
    return 0;
}

static int put_number(struct text_buffer *out, int64_t id, int first)
{
    char text[32];
    int length = snprintf(text, sizeof(text), "%s%lld", first ? "" : " ", (long long)id);

    return text_buffer_put(out, text, (size_t)length);
}

/* SentencePiece: the unknown piece has its own surface, control pieces have none, and the space
 * that was prepended to the text is removed. */
static int put_piece(const struct tokenizer *tokenizer, size_t id, int *begun,
                     struct text_buffer *out)
{
    const struct normalizer *normalizer = &tokenizer->normalizer;
    size_t length;
    const uint8_t *text = vocabulary_text(&tokenizer->vocabulary, id, &length);

    switch (tokenizer->vocabulary.entries[id].kind) {
    case VOCABULARY_CONTROL:
        return 0;
    case VOCABULARY_UNKNOWN:
        *begun = 1;
        if (tokenizer->unknown_text)
            return text_buffer_put(out, tokenizer->unknown_text, strlen(tokenizer->unknown_text));
        return text_buffer_put(out, " \xE2\x81\x87 ", 5);
    case VOCABULARY_BYTE:
        *begun = 1;
        return text_buffer_put(out, text, length);
    default:
        break;
    }
    if (!*begun && (normalizer->prefix || normalizer->squeeze) && length > 0 && *text == ' ') {
        text++;
        length--;
        *begun = !normalizer->squeeze;
    }
    *begun |= length > 0;
    return text_buffer_put(out, text, length);
}

/* WordPiece: a space before each token but the first, unless it is written with ##. */
static int put_token(const struct tokenizer *tokenizer, size_t id, int first,
                     struct text_buffer *out)
{
    size_t length;
    const uint8_t *text = vocabulary_text(&tokenizer->vocabulary, id, &length);
    int inner = tokenizer->model != MODEL_WORDS && length > 2 && memcmp(text, "##", 2) == 0;

    if (!first && inner) {
        text += 2;
        length -= 2;
    }
    if (!first && !inner && text_buffer_put(out, " ", 1) < 0)
        return -1;
    return text_buffer_put(out, text, length);
}

int tokenizer_decode(const struct tokenizer *tokenizer, const int64_t *ids, size_t count,
                     struct text_buffer *out, struct error *err)
{
    size_t before = out->length;
    int begun = 0, rc = 0;

    for (size_t i = 0; i < count && rc == 0; i++) {
        size_t length;
        const uint8_t *text;

        if (ids[i] < 0 || ids[i] >= tokenizer->vocab_size ||
            (tokenizer->decode != DECODE_NUMBERS &&
             tokenizer->vocabulary.entries[ids[i]].kind == VOCABULARY_ABSENT)) {
            out->length = before;
            return error_set_code(err, ERROR_USAGE,
                                  "id %lld is not in the tokenizer's vocabulary of %lld; use the "
                                  "tokenizer that made the ids",
                                  (long long)ids[i], (long long)tokenizer->vocab_size);
        }
        if (tokenizer->decode == DECODE_NUMBERS) {
            rc = put_number(out, ids[i], i == 0);
        } else if (tokenizer->decode == DECODE_WORDPIECE) {
            rc = put_token(tokenizer, (size_t)ids[i], i == 0, out);
        } else if (tokenizer->decode == DECODE_SENTENCEPIECE) {
            rc = put_piece(tokenizer, (size_t)ids[i], &begun, out);
        } else {
            text = vocabulary_text(&tokenizer->vocabulary, (size_t)ids[i], &length);
            rc = text_buffer_put(out, text, length);
        }
    }
    if (rc == 0)
        return 0;
    out->length = before;
    return error_set(err, "text: out of memory");
}

const char *tokenizer_piece(const struct tokenizer *tokenizer, int64_t id, size_t *length)
{
    if (id < 0 || (size_t)id >= tokenizer->vocabulary.count ||
        tokenizer->vocabulary.entries[id].kind == VOCABULARY_ABSENT)
        return NULL;
    return (const char *)vocabulary_text(&tokenizer->vocabulary, (size_t)id, length);
}
