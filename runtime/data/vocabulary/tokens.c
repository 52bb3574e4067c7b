/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"
#include "tokens.h"
#include "data/curate/hash.h"

#include <stdlib.h>
#include <string.h>
#include "base/core/xmalloc.h"

enum { FIRST_SLOTS = 1024 };

/* Where the text is, or the empty slot where it would be. */
static size_t find_slot(const struct tokens *tokens, const void *text, size_t size)
{
    size_t mask = tokens->slot_count - 1, at = hash_bytes(text, size, 0) & mask;

    for (; tokens->slots[at] != 0; at = (at + 1) & mask) {
        size_t length;
        const char *other = token_text(tokens, tokens->slots[at] - 1, &length);

        if (length == size && memcmp(other, text, size) == 0)
            break;
    }
    return at;
}

int64_t tokens_find(const struct tokens *tokens, const void *text, size_t size)
{
    return tokens->slot_count == 0 ? -1 : (int64_t)tokens->slots[find_slot(tokens, text, size)] - 1;
}

static void grow_slots(struct tokens *tokens)
{
    free(tokens->slots);
    tokens->slot_count = tokens->slot_count ? tokens->slot_count * 2 : FIRST_SLOTS;
    tokens->slots = xcalloc(tokens->slot_count, sizeof(*tokens->slots));
    for (size_t id = 0; id < tokens->count; id++) {
        size_t size;
        const char *text = token_text(tokens, id, &size);

        tokens->slots[find_slot(tokens, text, size)] = (uint32_t)id + 1;
    }
}

size_t tokens_add(struct tokens *tokens, const void *text, size_t size)
{
    size_t at;

    if (tokens->count == tokens->capacity) {
        tokens->capacity = tokens->capacity ? tokens->capacity * 2 : FIRST_SLOTS;
        tokens->offsets = xrealloc(tokens->offsets, tokens->capacity + 1, sizeof(*tokens->offsets));
        tokens->offsets[tokens->count] = tokens->text.size;
    }
    if (tokens->count * 2 >= tokens->slot_count)
        grow_slots(tokens);
    at = find_slot(tokens, text, size);
    if (tokens->slots[at] != 0)
        return tokens->slots[at] - 1;
    bytes_put(&tokens->text, text, size);
    tokens->slots[at] = (uint32_t)++tokens->count;
    tokens->offsets[tokens->count] = tokens->text.size;
    return tokens->count - 1;
}

void tokens_clear(struct tokens *tokens)
{
    bytes_clear(&tokens->text);
    free(tokens->offsets);
    free(tokens->slots);
    memset(tokens, 0, sizeof(*tokens));
}
