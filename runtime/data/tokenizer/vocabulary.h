/* SPDX-License-Identifier: Apache-2.0 */
/* The texts of all ids, and what kind of token each is. */
#ifndef MEGATRON_VOCABULARY_H
#define MEGATRON_VOCABULARY_H

#include <stddef.h>
#include <stdint.h>
#include "lib/error.h"

enum vocabulary_kind {
    VOCABULARY_ABSENT,  /* no such id */
    VOCABULARY_TOKEN,   /* produced by merges */
    VOCABULARY_SPECIAL, /* matched in texts as a whole, or only inserted by programs */
    VOCABULARY_CONTROL, /* inserted by programs; decodes to nothing */
    VOCABULARY_UNKNOWN, /* represents what the vocabulary cannot express */
    VOCABULARY_BYTE,    /* one byte of a character that is not in the vocabulary */
};

struct vocabulary {
    struct vocabulary_entry {
        size_t offset;
        uint32_t length;
        enum vocabulary_kind kind;
    } * entries;
    size_t count, capacity; /* of ids */
    uint8_t *bytes;
    size_t byte_count, byte_capacity;
};

void vocabulary_clear(struct vocabulary *vocabulary);

/* Enter the text of an id that has none yet. Returns 0, or -1 if the id is negative, too large or
 * taken. */
int vocabulary_set(struct vocabulary *vocabulary, int64_t id, const void *text, size_t length,
                   enum vocabulary_kind kind, struct error *err);

/* The last id with exactly this text, or -1. */
int64_t vocabulary_find(const struct vocabulary *vocabulary, const char *text);

static inline const uint8_t *vocabulary_text(const struct vocabulary *vocabulary, size_t id,
                                             size_t *length)
{
    *length = vocabulary->entries[id].length;
    return vocabulary->bytes + vocabulary->entries[id].offset;
}

#endif
