/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"
#include "word_counts.h"
#include "data/curate/hash.h"

#include <stdlib.h>
#include <string.h>
#include "base/core/xmalloc.h"

enum { FIRST_CAPACITY = 4096 };

/* A record: how often, how many bytes, and the bytes. */
struct head {
    int64_t times;
    uint64_t size;
};

int word_record_next(const uint8_t *data, size_t size, size_t *at, struct word_record *record)
{
    struct head head;

    if (size - *at < sizeof(head))
        return 0;
    memcpy(&head, data + *at, sizeof(head));
    if (size - *at - sizeof(head) < head.size)
        return 0;
    *record = (struct word_record){data + *at + sizeof(head), head.size, head.times};
    *at += sizeof(head) + head.size;
    return 1;
}

size_t word_record_size(const struct word_record *record)
{
    return sizeof(struct head) + record->size;
}

uint64_t word_record_hash(const struct word_record *record)
{
    return hash_bytes(record->text, record->size, 0);
}

static void grow(struct word_counts *counts)
{
    size_t capacity = counts->capacity ? counts->capacity * 2 : FIRST_CAPACITY;
    struct word_slot *slots = xcalloc(capacity, sizeof(*slots));

    for (size_t i = 0; i < counts->capacity; i++) {
        const struct word_slot *slot = &counts->slots[i];
        size_t at = slot->hash & (capacity - 1);

        if (slot->offset == 0)
            continue;
        while (slots[at].offset != 0)
            at = (at + 1) & (capacity - 1);
        slots[at] = *slot;
    }
    free(counts->slots);
    counts->slots = slots;
    counts->capacity = capacity;
}

static int is_word(const uint8_t *record, const void *text, size_t size)
{
    struct head head;

    memcpy(&head, record, sizeof(head));
    return head.size == size && memcmp(record + sizeof(head), text, size) == 0;
}

static void add_times(uint8_t *record, int64_t times)
{
    struct head head;

    memcpy(&head, record, sizeof(head));
    head.times += times;
    memcpy(record, &head, sizeof(head));
}

void word_counts_add(struct word_counts *counts, const void *text, size_t size, int64_t times)
{
    struct head head = {times, size};
    uint64_t hash = hash_bytes(text, size, 0);
    size_t at;

    if (counts->count * 2 >= counts->capacity)
        grow(counts);
    for (at = hash & (counts->capacity - 1); counts->slots[at].offset != 0;
         at = (at + 1) & (counts->capacity - 1)) {
        const struct word_slot *slot = &counts->slots[at];

        if (slot->hash == hash && is_word(counts->arena.data + slot->offset - 1, text, size)) {
            add_times(counts->arena.data + slot->offset - 1, times);
            return;
        }
    }
    counts->slots[at] = (struct word_slot){hash, counts->arena.size + 1};
    counts->count++;
    bytes_put(&counts->arena, &head, sizeof(head));
    bytes_put(&counts->arena, text, size);
}

void word_counts_clear(struct word_counts *counts)
{
    bytes_clear(&counts->arena);
    free(counts->slots);
    memset(counts, 0, sizeof(*counts));
}
