/* SPDX-License-Identifier: Apache-2.0 */
#include "specials.h"
#include "unicode.h"

#include <stdlib.h>
#include <string.h>
#include "base/core/list.h"

void specials_init(struct specials *specials)
{
    memset(specials, 0, sizeof(*specials));
    specials->only_first = -1;
    trie_init(&specials->trie);
}

int specials_add(struct specials *specials, const uint8_t *text, size_t length, uint32_t id,
                 int strip)
{
    uint32_t former;

    if (length == 0)
        return 0;
    if (trie_insert(&specials->trie, text, length, (uint32_t)specials->count, &former) < 0)
        return -1;
    *list_add(specials) = (struct special_row){id, strip};
    if (specials->count == 1)
        specials->only_first = text[0];
    else if (specials->only_first != text[0])
        specials->only_first = -1;
    specials->first[text[0]] = 1;
    return 0;
}

void specials_clear(struct specials *specials)
{
    trie_clear(&specials->trie);
    list_free(specials);
    memset(specials, 0, sizeof(*specials));
}

/* Extend a match by the white space that the token takes with it. */
static void add_spaces(int strip, const uint8_t *text, size_t length, size_t *at, size_t *size)
{
    size_t begin = *at, end = *at + *size;
    uint32_t point;

    while (strip & SPECIAL_LEFT && begin > 0) {
        size_t last = begin - 1;

        while (last > 0 && (text[last] & 0xC0) == 0x80)
            last--;
        if (utf8_decode(text + last, text + begin, &point) != begin - last ||
            point == UNICODE_INVALID || unicode_class(point) != UNICODE_SPACE)
            break;
        begin = last;
    }
    while (strip & SPECIAL_RIGHT && end < length) {
        size_t one = utf8_decode(text + end, text + length, &point);

        if (point == UNICODE_INVALID || unicode_class(point) != UNICODE_SPACE)
            break;
        end += one;
    }
    *at = begin;
    *size = end - begin;
}

uint32_t specials_find(const struct specials *specials, const uint8_t *text, size_t length,
                       size_t *at, size_t *size)
{
    const uint8_t *end = text + length, *next;
    uint32_t id;

    if (specials->count == 0)
        return TRIE_NONE;
    for (next = text; next < end; next++) {
        if (specials->only_first >= 0) {
            next = memchr(next, specials->only_first, (size_t)(end - next));
            if (!next)
                break;
        } else if (!specials->first[*next]) {
            continue;
        }
        id = trie_longest(&specials->trie, next, (size_t)(end - next), size);
        if (id != TRIE_NONE) {
            const struct special_row *row = &specials->items[id];

            *at = (size_t)(next - text);
            if (row->strip)
                add_spaces(row->strip, text, length, at, size);
            return row->id;
        }
    }
    return TRIE_NONE;
}
