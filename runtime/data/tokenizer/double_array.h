/* SPDX-License-Identifier: Apache-2.0 */
/* A trie that does not change any more, in one array: a step is one load and one comparison. The
 * child of a node for a byte is the unit at the node's base XOR the byte. */
#ifndef MEGATRON_DOUBLE_ARRAY_H
#define MEGATRON_DOUBLE_ARRAY_H

#include <stddef.h>
#include <stdint.h>
#include "lib/error.h"
#include "trie.h"

struct double_array {
    uint64_t *units; /* byte + 1 (9 bits; 0: free), base of its children (23), number + 1 (32) */
    uint32_t root;   /* base */
};

/* Build it from a trie with the numbers below 'limit' of which values[number] is not NAN (NULL:
 * with all of them). Returns 0, or -1 with 'err' if there are more than 2^23
 * units. */
int double_array_build(struct double_array *array, const struct trie *trie, uint32_t limit,
                       const double *values, struct error *err);
void double_array_clear(struct double_array *array);

/* Step to a child: '*base' becomes its base, '*number' its number + 1, or 0 if it has none.
 * Returns 0 if there is no such child. */
static inline int double_array_step(const struct double_array *array, uint8_t byte, uint32_t *base,
                                    uint32_t *number)
{
    uint64_t unit = array->units[*base ^ byte];

    if ((unit & 0x1FF) != byte + 1U)
        return 0;
    *base = (uint32_t)unit >> 9;
    *number = (uint32_t)(unit >> 32);
    return 1;
}

#endif
