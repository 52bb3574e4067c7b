/* SPDX-License-Identifier: Apache-2.0 */
#include "trie.h"

#include <stdlib.h>
#include <string.h>
#include "base/core/xmalloc.h"

#define NODE_LIMIT (1u << 24)

void trie_init(struct trie *trie)
{
    memset(trie, 0, sizeof(*trie));
    memset(trie->roots, 0xFF, sizeof(trie->roots));
    trie->edge_mask = 4095;
    trie->node_capacity = 2048;
    trie->edges = xcalloc(trie->edge_mask + 1, sizeof(*trie->edges));
    trie->values = xcalloc(trie->node_capacity, sizeof(*trie->values));
    trie->values[TRIE_ROOT] = TRIE_NONE;
    trie->node_count = 1;
}

void trie_clear(struct trie *trie)
{
    free(trie->edges);
    free(trie->values);
    memset(trie, 0, sizeof(*trie));
}

static void put_edge(uint64_t *edges, size_t mask, uint64_t edge)
{
    size_t slot = (edge >> 32) * UINT64_C(0x9E3779B97F4A7C15) >> 32 & mask;

    while (edges[slot])
        slot = (slot + 1) & mask;
    edges[slot] = edge;
}

/* Twice the nodes and edges. */
static void grow(struct trie *trie)
{
    size_t mask = trie->edge_mask * 2 + 1;
    uint64_t *edges = xcalloc(mask + 1, sizeof(*edges));

    trie->node_capacity *= 2;
    trie->values = xrealloc(trie->values, trie->node_capacity, sizeof(*trie->values));
    for (size_t i = 0; i <= trie->edge_mask; i++)
        if (trie->edges[i])
            put_edge(edges, mask, trie->edges[i]);
    free(trie->edges);
    trie->edges = edges;
    trie->edge_mask = mask;
}

static uint32_t add_child(struct trie *trie, uint32_t node, uint8_t byte)
{
    uint32_t child;

    if (trie->node_count >= NODE_LIMIT)
        return TRIE_NONE;
    if (trie->node_count == trie->node_capacity)
        grow(trie);
    child = (uint32_t)trie->node_count++;
    trie->values[child] = TRIE_NONE;
    if (node == TRIE_ROOT)
        trie->roots[byte] = child;
    else
        put_edge(trie->edges, trie->edge_mask, (uint64_t)(node << 8 | byte) << 32 | child);
    return child;
}

int trie_insert(struct trie *trie, const uint8_t *text, size_t length, uint32_t value,
                uint32_t *former)
{
    uint32_t node = TRIE_ROOT;

    for (size_t i = 0; i < length; i++) {
        uint32_t child = trie_step(trie, node, text[i]);

        if (child == TRIE_NONE)
            child = add_child(trie, node, text[i]);
        if (child == TRIE_NONE)
            return -1;
        node = child;
    }
    *former = trie->values[node];
    if (*former == TRIE_NONE)
        trie->values[node] = value;
    return 0;
}

int trie_full(struct error *err)
{
    return error_set(err,
                     "the tokens of the vocabulary have more than %u different prefixes, "
                     "the most that are supported" OTHER_TOKENIZER,
                     NODE_LIMIT - 1);
}

uint32_t trie_find(const struct trie *trie, const uint8_t *text, size_t length)
{
    uint32_t node = TRIE_ROOT;

    for (size_t i = 0; i < length; i++) {
        node = trie_step(trie, node, text[i]);
        if (node == TRIE_NONE)
            return TRIE_NONE;
    }
    return trie->values[node];
}

uint32_t trie_longest(const struct trie *trie, const uint8_t *text, size_t length, size_t *matched)
{
    uint32_t node = TRIE_ROOT, found = TRIE_NONE;

    *matched = 0;
    for (size_t i = 0; i < length; i++) {
        node = trie_step(trie, node, text[i]);
        if (node == TRIE_NONE)
            break;
        if (trie->values[node] != TRIE_NONE) {
            found = trie->values[node];
            *matched = i + 1;
        }
    }
    return found;
}
