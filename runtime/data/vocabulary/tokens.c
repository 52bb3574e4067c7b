/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"
#include "tokens.h"
#include "data/curate/hash.h"

#include <stdlib.h>
#include <string.h>

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

static int grow_slots(struct tokens *tokens)
{
    size_t count = tokens->slot_count ? tokens->slot_count * 2 : FIRST_SLOTS;
    uint32_t *slots = calloc(count, sizeof(*slots));

    if (!slots)
        return -1;
    free(tokens->slots);
    tokens->slots = slots;
    tokens->slot_count = count;
    for (size_t id = 0; id < tokens->count; id++) {
        size_t size;
        const char *text = token_text(tokens, id, &size);

        slots[find_slot(tokens, text, size)] = (uint32_t)id + 1;
    }
    return 0;
}

static int grow_offsets(struct tokens *tokens)
{
    size_t capacity = tokens->capacity ? tokens->capacity * 2 : FIRST_SLOTS;
    uint64_t *offsets = realloc(tokens->offsets, (capacity + 1) * sizeof(*offsets));

    if (!offsets)
        return -1;
    offsets[tokens->count] = tokens->text.size;
    tokens->offsets = offsets;
    tokens->capacity = capacity;
    return 0;
}

int64_t tokens_add(struct tokens *tokens, const void *text, size_t size, struct error *err)
{
    size_t at;

    if ((tokens->count == tokens->capacity && grow_offsets(tokens) < 0) ||
        (tokens->count * 2 >= tokens->slot_count && grow_slots(tokens) < 0))
        return error_set(err, "%zu tokens: out of memory", tokens->count + 1);
    at = find_slot(tokens, text, size);
    if (tokens->slots[at] != 0)
        return (int64_t)tokens->slots[at] - 1;
    bytes_put(&tokens->text, text, size);
    if (tokens->text.failed)
        return error_set(err, "%zu tokens: out of memory", tokens->count + 1);
    tokens->slots[at] = (uint32_t)++tokens->count;
    tokens->offsets[tokens->count] = tokens->text.size;
    return (int64_t)tokens->count - 1;
}

void tokens_clear(struct tokens *tokens)
{
    bytes_clear(&tokens->text);
    free(tokens->offsets);
    free(tokens->slots);
    memset(tokens, 0, sizeof(*tokens));
}
