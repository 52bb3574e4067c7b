/* SPDX-License-Identifier: Apache-2.0 */
/* Words by patterns that no other splitter supports, and BERT's. */
#include "property.h"
#include "split_rules.h"
#include "unicode.h"

size_t split_steps(struct splitter *splitter, size_t size)
{
    const uint8_t *base = splitter->text + splitter->base, *end = splitter->text + splitter->length;
    const uint8_t *at = base;
    size_t count = 0;

    while (count < SPLIT_CHUNK && (size_t)(at - base) < size) {
        at = stepping_next(&splitter->stepping);
        if (!at || at == end) {
            at = end;
            break;
        }
        splitter->ends[count++] = (uint32_t)(at - base);
    }
    splitter->count = count;
    return (size_t)(at - base);
}

/* Bytes that the pattern splits where the engine cannot, before the engine tries again. */
enum { BEYOND_RARE = 256 };

size_t split_quick(struct splitter *splitter, size_t size)
{
    const struct regex *regex = &splitter->steps->steps[0]->regex;
    const uint8_t *base = splitter->text + splitter->base, *end = splitter->text + splitter->length;
    const uint8_t *at = base;
    size_t count = splitter->options.rule == SPLIT_CASED ? splitter->engine->cased(splitter, size)
                                                         : splitter->engine->llama3(splitter, size);

    if (count > 0)
        return count;
    if (size > BEYOND_RARE)
        size = BEYOND_RARE;
    while ((size_t)(at - base) < size) {
        at += regex_match(regex, at, end); /* the pattern matches everywhere */
        if (at < end)
            splitter->ends[count++] = (uint32_t)(at - base);
    }
    splitter->count = count;
    return (size_t)(at - base);
}

enum { WORD, SPACE, PUNCTUATION, BEYOND };

static const uint8_t ascii[256] = {
    [9 ... 13] = SPACE,          [' '] = SPACE,
    ['!' ... '/'] = PUNCTUATION, [':' ... '@'] = PUNCTUATION,
    ['[' ... '`'] = PUNCTUATION, ['{' ... '~'] = PUNCTUATION,
    [0x80 ... 0xFF] = BEYOND,
};

/* Does a word begin at a character after one of another class? Indexed by both. */
static const uint8_t begins[3][3] = {
    [WORD] = {[SPACE] = 1, [PUNCTUATION] = 1},
    [PUNCTUATION] = {[WORD] = 1, [SPACE] = 1, [PUNCTUATION] = 1},
};

static unsigned class_beyond(const uint8_t *at, const uint8_t *end, size_t *size)
{
    uint32_t point;
    unsigned flags;

    *size = utf8_decode(at, end, &point);
    flags = point == UNICODE_INVALID ? 0 : property_of(point).flags;
    return flags & PROPERTY_SPACE ? SPACE : flags & PROPERTY_PUNCTUATION ? PUNCTUATION : WORD;
}

size_t split_bert(struct splitter *splitter, size_t size)
{
    const uint8_t *base = splitter->text + splitter->base, *end = splitter->text + splitter->length;
    const uint8_t *at = base, *limit = base + size;
    uint32_t *ends = splitter->ends;
    unsigned before = SPACE; /* a chunk begins with a word, and nothing is cut before it */

    while (at < limit) {
        unsigned class = ascii[*at];
        size_t length = 1;

        if (__builtin_expect(class == BEYOND, 0))
            class = class_beyond(at, end, &length);
        *ends = (uint32_t)(at - base);
        ends += begins[before][class];
        before = class;
        at += length;
    }
    splitter->count = (size_t)(ends - splitter->ends);
    if (at >= end)
        return (size_t)(end - base);
    /* The last word may continue; it begins the next chunk. */
    if (splitter->count > 0)
        return splitter->ends[splitter->count - 1];
    while (at < end) {
        size_t length = 1;
        unsigned class = ascii[*at];

        if (class == BEYOND)
            class = class_beyond(at, end, &length);
        if (begins[before][class])
            break;
        before = class;
        at += length;
    }
    if (at < end)
        splitter->ends[splitter->count++] = (uint32_t)(at - base);
    return (size_t)(at - base);
}
