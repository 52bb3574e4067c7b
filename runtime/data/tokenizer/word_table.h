/* SPDX-License-Identifier: Apache-2.0 */
/* A set of words with a count for each, numbered in the order in which they were added. */
#ifndef MEGATRON_WORD_TABLE_H
#define MEGATRON_WORD_TABLE_H

#include <stddef.h>
#include <stdint.h>

#define WORD_NONE SIZE_MAX

struct word_entry {
    size_t offset; /* into 'bytes' */
    uint64_t hash;
    int64_t count;
    uint32_t length;
};

/* All zero is an empty one. */
struct word_table {
    struct word_entry *entries;
    size_t count, capacity;
    char *bytes;
    size_t byte_count, byte_capacity;
    uint32_t *slots; /* number of the entry + 1; 0 is free */
    size_t mask;
};

void word_table_clear(struct word_table *table);

/* The number of a word, or WORD_NONE. */
size_t word_table_find(const struct word_table *table, const char *word, size_t length);

/* Add 'count' to a word, which is entered if it is new. Returns its number, or WORD_NONE when
 * memory is out (or there are 2^32 words). */
size_t word_table_add(struct word_table *table, const char *word, size_t length, int64_t count);

static inline const char *word_table_text(const struct word_table *table, size_t i)
{
    return table->bytes + table->entries[i].offset;
}

/* Python's str.isspace(): Unicode's white space and the four separators of ASCII. */
int word_is_space(uint32_t point);

/* The next word of a text, as Python's str.split() finds it: '*at' moves past it. Returns its
 * length and '*word', or 0 at the end. */
size_t word_next(const char *text, size_t length, size_t *at, const char **word);

/* Take white space from both ends of a text, as Python's str.strip() does. */
void word_strip(const char **text, size_t *length);

#endif
