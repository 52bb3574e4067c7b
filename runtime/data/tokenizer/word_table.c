/* SPDX-License-Identifier: Apache-2.0 */
#include "word_table.h"
#include "unicode.h"

#include <stdlib.h>
#include <string.h>
#include "base/core/xmalloc.h"

void word_table_clear(struct word_table *table)
{
    free(table->entries);
    free(table->bytes);
    free(table->slots);
    memset(table, 0, sizeof(*table));
}

static uint64_t hash_word(const char *word, size_t length)
{
    uint64_t hash = length * UINT64_C(0x9E3779B97F4A7C15);

    while (length > 0) {
        uint64_t part = 0;
        size_t take = length < 8 ? length : 8;

        memcpy(&part, word, take);
        hash = (hash ^ part) * UINT64_C(0xD6E8FEB86659FD93);
        hash ^= hash >> 32;
        word += take;
        length -= take;
    }
    return hash * UINT64_C(0x9E3779B97F4A7C15);
}

static size_t find_slot(const struct word_table *table, const char *word, size_t length,
                        uint64_t hash)
{
    size_t slot = hash >> 32 & table->mask;

    for (; table->slots[slot]; slot = (slot + 1) & table->mask) {
        const struct word_entry *entry = &table->entries[table->slots[slot] - 1];

        if (entry->hash == hash && entry->length == length &&
            memcmp(table->bytes + entry->offset, word, length) == 0)
            break;
    }
    return slot;
}

size_t word_table_find(const struct word_table *table, const char *word, size_t length)
{
    uint32_t found;

    if (table->count == 0)
        return WORD_NONE;
    found = table->slots[find_slot(table, word, length, hash_word(word, length))];
    return found ? found - 1 : WORD_NONE;
}

static void grow_slots(struct word_table *table)
{
    size_t count = table->mask ? 2 * (table->mask + 1) : 4096;
    uint32_t *slots = xcalloc(count, sizeof(*slots));

    free(table->slots);
    table->slots = slots;
    table->mask = count - 1;
    for (size_t i = 0; i < table->count; i++) {
        size_t slot = table->entries[i].hash >> 32 & table->mask;

        while (slots[slot])
            slot = (slot + 1) & table->mask;
        slots[slot] = (uint32_t)i + 1;
    }
}

static void reserve(struct word_table *table, size_t length)
{
    if (2 * (table->count + 1) > table->mask)
        grow_slots(table);
    if (table->count == table->capacity) {
        table->capacity = table->capacity ? 2 * table->capacity : 1024;
        table->entries = xrealloc(table->entries, table->capacity, sizeof(*table->entries));
    }
    if (table->byte_capacity - table->byte_count < length) {
        table->byte_capacity += table->byte_capacity + length + 4096;
        table->bytes = xrealloc(table->bytes, table->byte_capacity, 1);
    }
}

size_t word_table_add(struct word_table *table, const char *word, size_t length, int64_t count)
{
    uint64_t hash = hash_word(word, length);
    size_t slot, number = table->count;

    if (table->count >= UINT32_MAX - 1 || length > UINT32_MAX)
        return WORD_NONE;
    reserve(table, length);
    slot = find_slot(table, word, length, hash);
    if (table->slots[slot]) {
        number = table->slots[slot] - 1;
        table->entries[number].count += count;
        return number;
    }
    table->entries[number] = (struct word_entry){table->byte_count, hash, count, (uint32_t)length};
    memcpy(table->bytes + table->byte_count, word, length);
    table->byte_count += length;
    table->slots[slot] = (uint32_t)++table->count;
    return number;
}

/* --- Words of a text ------------------------------------------------------------------------- */

int word_is_space(uint32_t point)
{
    return (point >= 9 && point <= 13) || (point >= 0x1C && point <= 0x20) || point == 0x85 ||
           point == 0xA0 || point == 0x1680 || (point >= 0x2000 && point <= 0x200A) ||
           point == 0x2028 || point == 0x2029 || point == 0x202F || point == 0x205F ||
           point == 0x3000;
}

/* The length of the character at 'at', and whether it is white space. */
static size_t step(const uint8_t *text, size_t at, size_t length, int *space)
{
    uint32_t point;
    size_t size;

    if (text[at] < 0x80) {
        *space = word_is_space(text[at]);
        return 1;
    }
    size = utf8_decode(text + at, text + length, &point);
    *space = point != UNICODE_INVALID && word_is_space(point);
    return size;
}

size_t word_next(const char *text, size_t length, size_t *at, const char **word)
{
    const uint8_t *bytes = (const uint8_t *)text;
    size_t begin = *at, size, end;
    int space = 1;

    while (begin < length) {
        size = step(bytes, begin, length, &space);
        if (!space)
            break;
        begin += size;
    }
    for (end = begin; end < length; end += size) {
        size = step(bytes, end, length, &space);
        if (space)
            break;
    }
    *at = end;
    *word = text + begin;
    return end - begin;
}

void word_strip(const char **text, size_t *length)
{
    const uint8_t *bytes = (const uint8_t *)*text;
    size_t begin = 0, end = 0, at, size;
    int space;

    for (at = 0; at < *length; at += size) {
        size = step(bytes, at, *length, &space);
        if (!space)
            end = at + size;
        else if (end == 0)
            begin = at + size;
    }
    *text += end > 0 ? begin : 0;
    *length = end > 0 ? end - begin : 0;
}
