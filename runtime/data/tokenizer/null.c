/* SPDX-License-Identifier: Apache-2.0 */
/* NullTokenizer: texts are numbers with single spaces between them. */
#include "tokenizer_private.h"

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
        if (out)
            token_buffer_put(out, id, tokenizer->id_size);
        at += at < length;
    }
    return 0;
}

int tokenizer_accepts(const struct tokenizer *tokenizer, const char *text, size_t length)
{
    return tokenizer->config.type != TOKENIZER_NULL ||
           null_encode(tokenizer, text, length, NULL, NULL) == 0;
}
