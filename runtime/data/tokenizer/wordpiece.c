/* SPDX-License-Identifier: Apache-2.0 */
#include "wordpiece.h"
#include "unicode.h"

#include <string.h>

static int insert_tokens(struct trie *begins, struct trie *inner,
                         const struct vocabulary *vocabulary, const char *prefix,
                         size_t prefix_length, struct error *err)
{
    for (uint32_t id = 0; id < vocabulary->count; id++) {
        size_t length;
        const uint8_t *text = vocabulary_text(vocabulary, id, &length);
        uint32_t former;

        if (vocabulary->entries[id].kind != VOCABULARY_TOKEN || length == 0)
            continue;
        if (trie_insert(begins, text, length, id, &former) < 0)
            return trie_full(err);
        if (length > prefix_length && memcmp(text, prefix, prefix_length) == 0 &&
            trie_insert(inner, text + prefix_length, length - prefix_length, id, &former) < 0)
            return trie_full(err);
    }
    return 0;
}

int wordpiece_init(struct wordpiece *wordpiece, const struct vocabulary *vocabulary,
                   const char *prefix, size_t prefix_length, struct error *err)
{
    uint32_t count = (uint32_t)vocabulary->count;
    struct trie begins = {0}, inner = {0};
    int rc;

    memset(wordpiece, 0, sizeof(*wordpiece));
    trie_init(&begins);
    trie_init(&inner);
    rc = insert_tokens(&begins, &inner, vocabulary, prefix, prefix_length, err);
    if (rc == 0)
        rc = double_array_build(&wordpiece->begins, &begins, count, NULL, err);
    if (rc == 0)
        rc = double_array_build(&wordpiece->inner, &inner, count, NULL, err);
    trie_clear(&begins);
    trie_clear(&inner);
    return rc;
}

void wordpiece_clear(struct wordpiece *wordpiece)
{
    double_array_clear(&wordpiece->begins);
    double_array_clear(&wordpiece->inner);
    memset(wordpiece, 0, sizeof(*wordpiece));
}

/* The longest token that 'text' begins with: its id + 1 and length, or 0. */
static inline uint32_t longest(const struct double_array *tokens, const uint8_t *text,
                               size_t length, size_t *matched)
{
    uint32_t base = tokens->root, number, found = 0;

    *matched = 0;
    for (size_t i = 0; i < length && double_array_step(tokens, text[i], &base, &number); i++)
        if (number) {
            found = number;
            *matched = i + 1;
        }
    return found;
}

uint32_t wordpiece_find(const struct wordpiece *wordpiece, const uint8_t *text, size_t length)
{
    size_t matched;
    uint32_t number = longest(&wordpiece->begins, text, length, &matched);

    return matched == length ? number - 1 : WORDPIECE_NONE;
}

static int too_long(const struct wordpiece *wordpiece, const uint8_t *word, size_t length)
{
    size_t characters = 0;

    if (length <= wordpiece->longest)
        return 0;
    for (size_t i = 0; i < length; i++)
        characters += (word[i] & 0xC0) != 0x80;
    return characters > wordpiece->longest;
}

size_t wordpiece_encode(const struct wordpiece *wordpiece, const uint8_t *word, size_t length,
                        uint32_t *ids)
{
    const uint8_t *end = word + length;
    const struct double_array *tokens = &wordpiece->begins;
    size_t count = 0, size;
    uint32_t point, number;

    while (word < end) {
        size = utf8_decode(word, end, &point);
        if (point == UNICODE_INVALID || unicode_class(point) != UNICODE_SPACE)
            break;
        word += size;
    }
    if (word < end && too_long(wordpiece, word, (size_t)(end - word))) {
        ids[0] = wordpiece->unknown;
        return 1;
    }
    for (; word < end; word += size, tokens = &wordpiece->inner) {
        number = longest(tokens, word, (size_t)(end - word), &size);
        if (number == 0) {
            ids[0] = wordpiece->unknown;
            return 1;
        }
        ids[count++] = number - 1;
    }
    return count;
}
