/* SPDX-License-Identifier: Apache-2.0 */
/* How often each word occurs: a hash table over one arena of records. Records stay in the order in
 * which words were first added, so the same input always gives the same bytes. */
#ifndef MEGATRON_WORD_COUNTS_H
#define MEGATRON_WORD_COUNTS_H

#include <stddef.h>
#include <stdint.h>
#include "data/jobs/bytes.h"

struct word_slot {
    uint64_t hash;
    uint64_t offset; /* of its record in the arena, plus 1; 0: the slot is empty */
};

/* All zero is an empty table. */
struct word_counts {
    struct bytes arena; /* records, one after the other */
    struct word_slot *slots;
    size_t capacity; /* of slots: a power of two, or 0 */
    size_t count;
};

/* Count a word 'times' more. */
void word_counts_add(struct word_counts *counts, const void *text, size_t size, int64_t times);
void word_counts_clear(struct word_counts *counts);

/* A word of the arena, or of records that were copied from one. */
struct word_record {
    const uint8_t *text;
    size_t size;
    int64_t times;
};

/* The record at '*at', which is advanced past it. Returns 0 at the end, or where no whole record is
 * left. */
int word_record_next(const uint8_t *data, size_t size, size_t *at, struct word_record *record);

/* Bytes that a record takes. */
size_t word_record_size(const struct word_record *record);

/* The hash that decides which bucket a word belongs to. */
uint64_t word_record_hash(const struct word_record *record);

#endif
