/* SPDX-License-Identifier: Apache-2.0 */
/* NullTokenizer: texts are numbers with single spaces between them. */
#include "tokenizer_private.h"

static void put_id(const struct tokenizer *tokenizer, struct token_buffer *out, int64_t id)
{
    if (tokenizer->id_size == 4)
        ((int32_t *)out->ids)[out->count++] = (int32_t)id;
    else
        ((uint16_t *)out->ids)[out->count++] = (uint16_t)id;
}

/* 'out' may be NULL. */
int null_encode(const struct tokenizer *tokenizer, const char *text, size_t length,
                struct token_buffer *out, struct error *err)
{
    size_t at = 0;

    while (at < length) {
        int64_t id = 0;
        size_t begin = at;

        for (; at < length && text[at] != ' '; at++) {
            if (text[at] < '0' || text[at] > '9')
                return error_set(err,
                                 "NullTokenizer: byte %zu of the text is not a digit; texts are "
                                 "ids separated by single spaces",
                                 at);
            id = id * 10 + (text[at] - '0');
            if (id >= tokenizer->vocab_size)
                return error_set(
                    err,
                    "NullTokenizer: the id at byte %zu of the text is too "
                    "large for the vocabulary, whose last id is %lld; raise --vocab-size",
                    begin, (long long)tokenizer->vocab_size - 1);
        }
        if (at == begin || at + 1 == length)
            return error_set(err,
                             "NullTokenizer: there is no id at byte %zu of the text; texts are ids "
                             "separated by single spaces",
                             at);
        if (out) {
            token_buffer_reserve(out, 1, tokenizer->id_size);
            put_id(tokenizer, out, id);
        }
        at += at < length;
    }
    return 0;
}

int tokenizer_accepts(const struct tokenizer *tokenizer, const char *text, size_t length)
{
    return tokenizer->config.type != TOKENIZER_NULL ||
           null_encode(tokenizer, text, length, NULL, NULL) == 0;
}
