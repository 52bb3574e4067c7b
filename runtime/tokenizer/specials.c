#include "specials.h"

#include <string.h>

int specials_init(struct specials *specials)
{
    memset(specials, 0, sizeof(*specials));
    specials->only_first = -1;
    return trie_init(&specials->trie);
}

int specials_add(struct specials *specials, const uint8_t *text, size_t length, uint32_t id)
{
    uint32_t former;

    if (length == 0)
        return 0;
    if (trie_insert(&specials->trie, text, length, id, &former) < 0)
        return -1;
    if (specials->count++ == 0)
        specials->only_first = text[0];
    else if (specials->only_first != text[0])
        specials->only_first = -1;
    specials->first[text[0]] = 1;
    return 0;
}

void specials_clear(struct specials *specials)
{
    trie_clear(&specials->trie);
    memset(specials, 0, sizeof(*specials));
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
            *at = (size_t)(next - text);
            return id;
        }
    }
    return TRIE_NONE;
}
