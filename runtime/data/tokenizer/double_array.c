/* SPDX-License-Identifier: Apache-2.0 */
#include "double_array.h"
#include "trie.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "base/core/xmalloc.h"

#define BLOCK       256
#define UNIT_LIMIT  (1u << 23)
#define OPEN_BLOCKS 2 /* earlier ones are full enough */

/* 256 bits. */
struct places {
    uint64_t bits[4];
};

struct child {
    uint32_t node;
    uint8_t byte;
};

struct builder {
    const struct trie *trie;
    uint32_t limit;
    const double *values;
    struct child *children; /* of all nodes, one node after the other */
    uint32_t *first;        /* by node: its first child; one more at the end */
    uint32_t *bases;        /* by node */
    uint64_t *units;
    struct places *free_units, *free_bases; /* by block */
    size_t blocks, capacity;
};

void double_array_clear(struct double_array *array)
{
    free(array->units);
    memset(array, 0, sizeof(*array));
}

/* One of the four words of a permuted set of places: place i becomes place i XOR byte. */
static inline uint64_t moved(const struct places *from, uint8_t byte, unsigned word)
{
    static const uint64_t low[6] = {
        UINT64_C(0x5555555555555555), UINT64_C(0x3333333333333333), UINT64_C(0x0F0F0F0F0F0F0F0F),
        UINT64_C(0x00FF00FF00FF00FF), UINT64_C(0x0000FFFF0000FFFF), UINT64_C(0x00000000FFFFFFFF),
    };
    uint64_t bits = from->bits[word ^ byte >> 6];

    for (unsigned i = 0; i < 6; i++)
        if (byte >> i & 1)
            bits = (bits & low[i]) << (1u << i) | (bits >> (1u << i) & low[i]);
    return bits;
}

static int count_places(const struct places *places)
{
    int count = 0;

    for (unsigned word = 0; word < 4; word++)
        count += __builtin_popcountll(places->bits[word]);
    return count;
}

static void take(struct places *places, size_t at)
{
    places[at / BLOCK].bits[at % BLOCK / 64] &= ~(UINT64_C(1) << at % 64);
}

/* The children of all nodes, sorted by node (counting sort over the edges). */
static void collect_children(struct builder *builder)
{
    const struct trie *trie = builder->trie;
    uint32_t *first = builder->first;

    for (unsigned byte = 0; byte < 256; byte++)
        first[1] += trie->roots[byte] != TRIE_NONE;
    for (size_t slot = 0; slot <= trie->edge_mask; slot++)
        if (trie->edges[slot])
            first[(trie->edges[slot] >> 40) + 1]++;
    for (size_t node = 0; node < trie->node_count; node++)
        first[node + 1] += first[node];
    builder->children = xcalloc(first[trie->node_count] + 1, sizeof(*builder->children));
    for (unsigned byte = 0; byte < 256; byte++)
        if (trie->roots[byte] != TRIE_NONE)
            builder->children[first[TRIE_ROOT]++] =
                (struct child){trie->roots[byte], (uint8_t)byte};
    for (size_t slot = 0; slot <= trie->edge_mask; slot++)
        if (trie->edges[slot])
            builder->children[first[trie->edges[slot] >> 40]++] =
                (struct child){(uint32_t)trie->edges[slot], (uint8_t)(trie->edges[slot] >> 32)};
    /* Each entry is now the start of the next node. */
    memmove(first + 1, first, trie->node_count * sizeof(*first));
    first[0] = 0;
}

static int add_block(struct builder *builder)
{
    if ((builder->blocks + 1) * BLOCK > UNIT_LIMIT)
        return -1;
    if (builder->blocks == builder->capacity) {
        size_t capacity = builder->capacity = builder->capacity * 2 + 16;

        builder->units = xrealloc(builder->units, capacity * BLOCK, sizeof(*builder->units));
        builder->free_units = xrealloc(builder->free_units, capacity, sizeof(*builder->free_units));
        builder->free_bases = xrealloc(builder->free_bases, capacity, sizeof(*builder->free_bases));
    }
    memset(builder->units + builder->blocks * BLOCK, 0, BLOCK * sizeof(*builder->units));
    memset(&builder->free_units[builder->blocks], 0xFF, sizeof(struct places));
    memset(&builder->free_bases[builder->blocks], 0xFF, sizeof(struct places));
    builder->blocks++;
    return 0;
}

/* A base whose units are free for all children of a node, and that no other node has. */
static int find_base(struct builder *builder, const struct child *child, const struct child *end,
                     uint32_t *base)
{
    /* Block 0 stays empty: it is where the children of a node without any are looked up. */
    size_t block = builder->blocks > OPEN_BLOCKS ? builder->blocks - OPEN_BLOCKS : 1;

    for (;; block++) {
        if (block >= builder->blocks && add_block(builder) < 0)
            return -1;
        if (count_places(&builder->free_units[block]) < end - child)
            continue;
        for (unsigned word = 0; word < 4; word++) {
            uint64_t fit = builder->free_bases[block].bits[word];

            for (const struct child *at = child; at < end && fit; at++)
                fit &= moved(&builder->free_units[block], at->byte, word);
            if (fit) {
                *base = (uint32_t)(block * BLOCK + word * 64 + (size_t)__builtin_ctzll(fit));
                return 0;
            }
        }
    }
}

static int place_children(struct builder *builder, uint32_t node)
{
    const struct child *child = builder->children + builder->first[node];
    const struct child *end = builder->children + builder->first[node + 1];
    uint32_t base;

    if (find_base(builder, child, end, &base) < 0)
        return -1;
    builder->bases[node] = base;
    take(builder->free_bases, base);
    for (; child < end; child++) {
        uint32_t number = builder->trie->values[child->node];
        int counts =
            number < builder->limit && !(builder->values && isnan(builder->values[number]));

        take(builder->free_units, base ^ child->byte);
        builder->units[base ^ child->byte] =
            (uint64_t)(counts ? number + 1 : 0) << 32 | (child->byte + 1U);
    }
    return 0;
}

/* Node by node in the order in which they were added, so that a parent comes first. */
static int place_all(struct builder *builder)
{
    if (add_block(builder) < 0)
        return -1;
    for (uint32_t node = 0; node < builder->trie->node_count; node++)
        if (builder->first[node] < builder->first[node + 1] && place_children(builder, node) < 0)
            return -1;
    /* Now that all bases are known. */
    for (uint32_t node = 0; node < builder->trie->node_count; node++)
        for (uint32_t i = builder->first[node]; i < builder->first[node + 1]; i++)
            builder->units[builder->bases[node] ^ builder->children[i].byte] |=
                builder->bases[builder->children[i].node] << 9;
    return 0;
}

int double_array_build(struct double_array *array, const struct trie *trie, uint32_t limit,
                       const double *values, struct error *err)
{
    struct builder builder = {.trie = trie, .limit = limit, .values = values};
    int rc;

    builder.first = xcalloc(trie->node_count + 2, sizeof(*builder.first));
    builder.bases = xcalloc(trie->node_count + 1, sizeof(*builder.bases));
    collect_children(&builder);
    rc = place_all(&builder);
    if (rc == 0) {
        array->units = builder.units;
        array->root = builder.bases[TRIE_ROOT];
    } else {
        free(builder.units);
        error_set(err,
                  "the tokens of the vocabulary have %zu different prefixes, which do "
                  "not fit into %u entries, the most that are supported" OTHER_TOKENIZER,
                  trie->node_count - 1, UNIT_LIMIT);
    }
    free(builder.first);
    free(builder.bases);
    free(builder.children);
    free(builder.free_units);
    free(builder.free_bases);
    return rc;
}
