/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"
#include "wiki_utf8.h"
#include "unicode.h"

#ifdef WIKI_VECTOR
/* What is wrong with the 16 bytes at 'at', by the three bytes before each of them. */
static inline wiki_bytes wrong_bytes(const char *at)
{
    wiki_bytes bytes = wiki_vector(at), first = wiki_vector(at - 1);
    wiki_bytes lead =
        wiki_vector_or(wiki_vector_in(first, 0xC0, 0xFF),
                       wiki_vector_or(wiki_vector_in(wiki_vector(at - 2), 0xE0, 0xFF),
                                      wiki_vector_in(wiki_vector(at - 3), 0xF0, 0xFF)));
    /* Exactly the bytes after a lead must continue it. */
    wiki_bytes wrong = wiki_vector_xor(lead, wiki_vector_in(bytes, 0x80, 0xBF));
    wiki_bytes never =
        wiki_vector_or(wiki_vector_in(bytes, 0xC0, 0xC1), wiki_vector_in(bytes, 0xF5, 0xFF));
    /* Overlong forms of three and four bytes, surrogates, above U+10FFFF. */
    wiki_bytes three = wiki_vector_or(
        wiki_vector_and(wiki_vector_is(first, '\xE0'), wiki_vector_in(bytes, 0, 0x9F)),
        wiki_vector_and(wiki_vector_is(first, '\xED'), wiki_vector_in(bytes, 0xA0, 0xFF)));
    wiki_bytes four = wiki_vector_or(
        wiki_vector_and(wiki_vector_is(first, '\xF0'), wiki_vector_in(bytes, 0, 0x8F)),
        wiki_vector_and(wiki_vector_is(first, '\xF4'), wiki_vector_in(bytes, 0x90, 0xFF)));

    return wiki_vector_or(wiki_vector_or(wrong, never), wiki_vector_or(three, four));
}

/* Are the 16 bytes at 'at' and the three before them ASCII? */
static inline int is_ascii(const char *at)
{
    wiki_bytes all = wiki_vector_or(wiki_vector(at), wiki_vector(at - 3));

    return wiki_vector_bits(wiki_vector_in(all, 0x80, 0xFF)) == 0;
}

/* Up to 15 bytes of a text from 'at' on, after three bytes before them. Zeros follow, so that the
 * last character must be complete. */
static int is_end_wrong(const char *before, const char *at, size_t size)
{
    char end[3 + WIKI_VECTOR] = {0};

    memcpy(end, before, 3);
    if (size > 0)
        memcpy(end + 3, at, size);
    return wiki_vector_bits(wrong_bytes(end + 3)) != 0;
}

int wiki_is_utf8(struct wiki_span text)
{
    const char *at = text.data;
    size_t left = text.size;
    char begin[3 + WIKI_VECTOR] = {0};
    wiki_bytes wrong;

    if (left < WIKI_VECTOR)
        return !is_end_wrong(begin, at, left);
    memcpy(begin + 3, at, WIKI_VECTOR);
    wrong = wrong_bytes(begin + 3);
    for (at += WIKI_VECTOR, left -= WIKI_VECTOR; left >= WIKI_VECTOR;
         at += WIKI_VECTOR, left -= WIKI_VECTOR)
        if (!is_ascii(at))
            wrong = wiki_vector_or(wrong, wrong_bytes(at));
    return wiki_vector_bits(wrong) == 0 && !is_end_wrong(at - 3, at, left);
}
#else
int wiki_is_utf8(struct wiki_span text)
{
    return utf8_valid((const uint8_t *)text.data, text.size);
}
#endif
