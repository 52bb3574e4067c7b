/* SPDX-License-Identifier: Apache-2.0 */
/* A set of byte strings with numbers, for exact and longest-prefix search. */
#ifndef MEGATRON_TRIE_H
#define MEGATRON_TRIE_H

#include <stddef.h>
#include <stdint.h>
#include "lib/error.h"

#define TRIE_NONE UINT32_MAX
#define TRIE_ROOT 0

struct trie {
    uint32_t roots[256]; /* children of the root */
    uint64_t *edges;     /* hash table: node, byte -> node; 0 is free */
    uint32_t *values;    /* by node */
    size_t edge_mask, node_count, node_capacity;
};

void trie_init(struct trie *trie);
void trie_clear(struct trie *trie);

/* Give 'text' (not empty) the number 'value'. '*former' is the number it already had, which is kept
 * (TRIE_NONE: none). Returns 0, or -1 if there would be more than 2^24 nodes. */
int trie_insert(struct trie *trie, const uint8_t *text, size_t length, uint32_t value,
                uint32_t *former);

/* Report that trie_insert failed. Returns -1. */
int trie_full(struct error *err);

/* The child of 'node' for 'byte', or TRIE_NONE. */
static inline uint32_t trie_step(const struct trie *trie, uint32_t node, uint8_t byte)
{
    uint32_t key;
    size_t slot;

    if (node == TRIE_ROOT)
        return trie->roots[byte];
    key = node << 8 | byte;
    for (slot = key * UINT64_C(0x9E3779B97F4A7C15) >> 32 & trie->edge_mask; trie->edges[slot];
         slot = (slot + 1) & trie->edge_mask)
        if (trie->edges[slot] >> 32 == key)
            return (uint32_t)trie->edges[slot];
    return TRIE_NONE;
}

/* The number of exactly this text, or TRIE_NONE. */
uint32_t trie_find(const struct trie *trie, const uint8_t *text, size_t length);

/* The longest entry that 'text' begins with; its number and length, or TRIE_NONE and 0. */
uint32_t trie_longest(const struct trie *trie, const uint8_t *text, size_t length, size_t *matched);

/* The end of messages about a tokenizer that is valid but too large or not supported. */
#define OTHER_TOKENIZER \
    "; choose another tokenizer (--tokenizer-type), or use a newer release of megatron"

#endif
