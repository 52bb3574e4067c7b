/* SPDX-License-Identifier: Apache-2.0 */
/* Tokens that are found in a text as a whole, before it is cut into words. */
#ifndef MEGATRON_SPECIALS_H
#define MEGATRON_SPECIALS_H

#include <stddef.h>
#include <stdint.h>
#include "trie.h"

/* The white space that a special token takes with it. */
enum { SPECIAL_LEFT = 1, SPECIAL_RIGHT = 2 };

struct specials {
    struct trie trie; /* text -> place in 'items' */
    struct special_row {
        uint32_t id;
        int strip;
    } * items;
    size_t count, room;
    uint8_t first[256]; /* may a special token begin with this byte? */
    int only_first;     /* the one byte that all begin with, or -1 */
};

void specials_init(struct specials *specials);
/* A text given twice keeps its first id. Returns 0, or -1 like trie_insert. */
int specials_add(struct specials *specials, const uint8_t *text, size_t length, uint32_t id,
                 int strip);
void specials_clear(struct specials *specials);

/* The next special token in 'text', leftmost and of those the longest: its place in '*at' and its
 * length in '*size', with the white space that belongs to it. Returns its id, or TRIE_NONE. */
uint32_t specials_find(const struct specials *specials, const uint8_t *text, size_t length,
                       size_t *at, size_t *size);

#endif
