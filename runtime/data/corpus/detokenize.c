/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"
#include "corpus.h"

#include <stdbool.h>

/* The state within a line. */
struct joiner {
    struct wiki_buffer *out;
    int glue;   /* no space before the next word */
    int quoted; /* inside "..." */
    int heading;
};

static bool is_word(struct wiki_span word, const char *text)
{
    return word.size == strlen(text) && memcmp(word.data, text, word.size) == 0;
}

/* Words that join the previous one without a space. */
static bool joins_left(struct wiki_span word)
{
    static const char *const words[] = {",",   ".",  ";",  ":",   "!",       "?",   ")",
                                        "]",   "}",  "%",  "'s",  "'t",      "'re", "'ve",
                                        "'ll", "'d", "'m", "n't", "\xc2\xb0"};

    for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++)
        if (is_word(word, words[i]))
            return true;
    return false;
}

static void put_word(struct joiner *joiner, struct wiki_span word)
{
    struct wiki_buffer *out = joiner->out;
    int joined = word.size == 3 && word.data[0] == '@' && word.data[2] == '@';
    int quote = is_word(word, "\""), first = out->size == 0 || out->data[out->size - 1] == '\n';
    int sign = is_word(word, "=");
    /* "boys ' ": a possessive plural. */
    int plural = is_word(word, "'") && out->size > 0 && out->data[out->size - 1] == 's';
    int left = joined || joins_left(word) || plural || (quote && joiner->quoted) ||
               (sign && joiner->heading);

    if (!first && !joiner->glue && !left)
        wiki_put_char(out, ' ');
    if (joined)
        wiki_put_char(out, word.data[1]);
    else
        wiki_put(out, word.data, word.size);
    joiner->glue = joined || is_word(word, "(") || is_word(word, "[") || is_word(word, "{") ||
                   (quote && !joiner->quoted);
    joiner->heading = sign;
    joiner->quoted ^= quote;
}

static void put_line(struct wiki_buffer *out, const char *at, const char *end)
{
    struct joiner joiner = {.out = out};

    while (at < end) {
        const char *from = at;

        while (at < end && !wiki_is_space(*at))
            at++;
        if (at > from)
            put_word(&joiner, wiki_span(from, (size_t)(at - from)));
        else
            at++;
    }
}

void detokenize(const char *data, size_t size, struct wiki_buffer *out)
{
    const char *end = data + size;

    out->size = 0;
    while (data < end) {
        const char *stop = memchr(data, '\n', (size_t)(end - data));

        put_line(out, data, stop ? stop : end);
        if (stop)
            wiki_put_char(out, '\n');
        data = stop ? stop + 1 : end;
    }
}
