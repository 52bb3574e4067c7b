/* SPDX-License-Identifier: Apache-2.0 */
#include "wordpiece.h"
#include "unicode.h"

#include <string.h>

int wordpiece_init(struct wordpiece *wordpiece, const struct vocabulary *vocabulary,
                   const char *prefix, size_t prefix_length)
{
    memset(wordpiece, 0, sizeof(*wordpiece));
    if (trie_init(&wordpiece->begins) < 0 || trie_init(&wordpiece->inner) < 0)
        return -1;
    for (uint32_t id = 0; id < vocabulary->count; id++) {
        size_t length;
        const uint8_t *text = vocabulary_text(vocabulary, id, &length);
        uint32_t former;

        if (vocabulary->entries[id].kind != VOCABULARY_TOKEN || length == 0)
            continue;
        if (trie_insert(&wordpiece->begins, text, length, id, &former) < 0)
            return -1;
        if (length > prefix_length && memcmp(text, prefix, prefix_length) == 0 &&
            trie_insert(&wordpiece->inner, text + prefix_length, length - prefix_length, id,
                        &former) < 0)
            return -1;
    }
    return 0;
}

void wordpiece_clear(struct wordpiece *wordpiece)
{
    trie_clear(&wordpiece->begins);
    trie_clear(&wordpiece->inner);
    memset(wordpiece, 0, sizeof(*wordpiece));
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
    const struct trie *trie = &wordpiece->begins;
    size_t count = 0, size;
    uint32_t point;

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
    for (; word < end; word += size, trie = &wordpiece->inner) {
        ids[count] = trie_longest(trie, word, (size_t)(end - word), &size);
        if (ids[count++] == TRIE_NONE) {
            ids[0] = wordpiece->unknown;
            return 1;
        }
    }
    return count;
}
