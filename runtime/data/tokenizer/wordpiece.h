/* SPDX-License-Identifier: Apache-2.0 */
/* WordPiece, BERT's model: a word is cut from the left into the longest possible tokens; tokens
 * within a word have a prefix (##). A word that cannot be cut is unknown as a whole. */
#ifndef MEGATRON_WORDPIECE_H
#define MEGATRON_WORDPIECE_H

#include <stddef.h>
#include <stdint.h>
#include "double_array.h"
#include "lib/error.h"
#include "vocabulary.h"

#define WORDPIECE_NONE UINT32_MAX

struct wordpiece {
    /* Tokens at the start of a word, and later ones without their prefix. */
    struct double_array begins, inner;
    uint32_t unknown;
    size_t longest; /* characters of a word; a longer one is unknown */
};

/* Build from the tokens of a vocabulary. Returns 0, or -1 with 'err'. */
int wordpiece_init(struct wordpiece *wordpiece, const struct vocabulary *vocabulary,
                   const char *prefix, size_t prefix_length, struct error *err);
void wordpiece_clear(struct wordpiece *wordpiece);

/* The id of a token as it is written in the vocabulary, or WORDPIECE_NONE. */
uint32_t wordpiece_find(const struct wordpiece *wordpiece, const uint8_t *text, size_t length);

/* Write the ids of a word, at most 'length' (at least 1). Leading white space is ignored; a word of
 * nothing else has no ids. Returns their number. */
size_t wordpiece_encode(const struct wordpiece *wordpiece, const uint8_t *word, size_t length,
                        uint32_t *ids);

#endif
