/* SPDX-License-Identifier: Apache-2.0 */
/* The tokens of a vocabulary that is being learned: each text once, numbered in the order in which
 * they were added. */
#ifndef MEGATRON_VOCABULARY_TOKENS_H
#define MEGATRON_VOCABULARY_TOKENS_H

#include <stddef.h>
#include <stdint.h>
#include "data/jobs/bytes.h"

/* All zero is an empty list. */
struct tokens {
    struct bytes text; /* of all tokens, one after the other */
    uint64_t *offsets; /* count + 1: where each begins */
    size_t count, capacity;
    uint32_t *slots; /* by hash: id + 1; 0: empty */
    size_t slot_count;
};

/* The id of a text; -1 if it is not among them. */
int64_t tokens_find(const struct tokens *tokens, const void *text, size_t size);

/* The id of a text, which is added if it is new. */
size_t tokens_add(struct tokens *tokens, const void *text, size_t size);

/* The text of a token; valid until the next one is added. */
static inline const char *token_text(const struct tokens *tokens, size_t id, size_t *size)
{
    *size = tokens->offsets[id + 1] - tokens->offsets[id];
    return (const char *)tokens->text.data + tokens->offsets[id];
}

void tokens_clear(struct tokens *tokens);

#endif
