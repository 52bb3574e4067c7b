/* SPDX-License-Identifier: Apache-2.0 */
/* Ids to text. */
#include "tokenizer_private.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/core/xmalloc.h"

void text_buffer_clear(struct text_buffer *buffer)
{
    free(buffer->data);
    memset(buffer, 0, sizeof(*buffer));
}

void text_buffer_reserve(struct text_buffer *buffer, size_t more)
{
    if (more <= buffer->capacity - buffer->length)
        return;
    buffer->capacity += buffer->capacity / 2 + more + 256;
    buffer->data = xrealloc(buffer->data, buffer->capacity, 1);
}

void text_buffer_put(struct text_buffer *buffer, const void *text, size_t length)
{
    text_buffer_reserve(buffer, length);
    if (length > 0)
        memcpy(buffer->data + buffer->length, text, length);
    buffer->length += length;
}

static void put_number(struct text_buffer *out, int64_t id, bool first)
{
    char text[32];
    int length = snprintf(text, sizeof(text), "%s%lld", first ? "" : " ", (long long)id);

    text_buffer_put(out, text, (size_t)length);
}

/* SentencePiece: the unknown piece has its own surface, control pieces have none, and the space
 * that was prepended to the text is removed. */
static void put_piece(const struct tokenizer *tokenizer, size_t id, bool *begun,
                      struct text_buffer *out)
{
    const struct normalizer *normalizer = &tokenizer->normalizer;
    const char *unknown = tokenizer->unknown_text ? tokenizer->unknown_text : " \xE2\x81\x87 ";
    size_t length;
    const uint8_t *text = vocabulary_text(&tokenizer->vocabulary, id, &length);
    enum vocabulary_kind kind = tokenizer->vocabulary.entries[id].kind;

    if (kind == VOCABULARY_CONTROL)
        return;
    if (kind == VOCABULARY_UNKNOWN || kind == VOCABULARY_BYTE) {
        *begun = true;
        if (kind == VOCABULARY_UNKNOWN)
            text_buffer_put(out, unknown, strlen(unknown));
        else
            text_buffer_put(out, text, length);
        return;
    }
    if (!*begun && (normalizer->prefix || normalizer->squeeze) && length > 0 && *text == ' ') {
        text++;
        length--;
        *begun = !normalizer->squeeze;
    }
    *begun |= length > 0;
    text_buffer_put(out, text, length);
}

/* WordPiece: a space before each token but the first, unless it is written with ##. */
static void put_token(const struct tokenizer *tokenizer, size_t id, bool first,
                      struct text_buffer *out)
{
    size_t length;
    const uint8_t *text = vocabulary_text(&tokenizer->vocabulary, id, &length);
    bool inner = tokenizer->model != MODEL_WORDS && length > 2 && memcmp(text, "##", 2) == 0;

    if (!first && inner) {
        text += 2;
        length -= 2;
    }
    if (!first && !inner)
        text_buffer_put(out, " ", 1);
    text_buffer_put(out, text, length);
}

int tokenizer_decode(const struct tokenizer *tokenizer, const int64_t *ids, size_t count,
                     struct text_buffer *out, struct error *err)
{
    size_t before = out->length;
    bool begun = false;

    for (size_t i = 0; i < count; i++) {
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
            put_number(out, ids[i], i == 0);
        } else if (tokenizer->decode == DECODE_WORDPIECE) {
            put_token(tokenizer, (size_t)ids[i], i == 0, out);
        } else if (tokenizer->decode == DECODE_SENTENCEPIECE) {
            put_piece(tokenizer, (size_t)ids[i], &begun, out);
        } else {
            text = vocabulary_text(&tokenizer->vocabulary, (size_t)ids[i], &length);
            text_buffer_put(out, text, length);
        }
    }
    return 0;
}

const char *tokenizer_piece(const struct tokenizer *tokenizer, int64_t id, size_t *length)
{
    if (id < 0 || (size_t)id >= tokenizer->vocabulary.count ||
        tokenizer->vocabulary.entries[id].kind == VOCABULARY_ABSENT)
        return NULL;
    return (const char *)vocabulary_text(&tokenizer->vocabulary, (size_t)id, length);
}
