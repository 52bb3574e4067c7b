/* SPDX-License-Identifier: Apache-2.0 */
/* Regular expressions of pre-tokenizers, compiled to a DFA over classes of code points. Matches are
 * those of Oniguruma (leftmost, the first alternative that matches, greedy or lazy), found in one
 * pass. Supported: literals, classes (also nested and negated), \s \d \p{..} and the like, groups,
 * (?i:..), alternatives, greedy and lazy quantifiers, $, and a look-ahead for one character.
 * Everything else is refused by name. */
#ifndef MEGATRON_REGEX_H
#define MEGATRON_REGEX_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "lib/error.h"
#include "unicode.h"

#define REGEX_MATCH 0x8000 /* in the table: a match ends before the character */
#define REGEX_DEAD  0      /* the state without a way on */
#define REGEX_START 1

struct regex {
    uint8_t bytes[256]; /* class of an ASCII character, or of the one that ByteLevel writes */
    uint8_t level[256]; /* for a byte: see regex_match */
    uint16_t *pages;    /* code point >> 8 -> page */
    uint8_t (*classes)[256];
    size_t page_count;
    uint8_t invalid; /* class of a byte that is not UTF-8 */
    unsigned width;  /* classes and the end of the text, which is the last one */
    uint16_t *table; /* state * width + class -> next state */
    unsigned state_count;
    uint8_t starts[256]; /* may a match start with this byte? */
};

/* 'own': the pattern comes from this folder and may contain \p{BertPunctuation} and \p{RustDigit}.
 * Returns 0, or -1 with the unsupported feature in 'err', with code ERROR_USAGE; any other code is
 * another failure. */
int regex_compile(struct regex *regex, const char *pattern, size_t length, int own,
                  struct error *err);
void regex_clear(struct regex *regex);

/* The pattern of a plain text, to be freed. */
char *regex_escape(const char *text, size_t length, size_t *escaped);

/* Within regex*.c. */
#define REGEX_SETS  64
#define REGEX_NODES 8192
#define REGEX_ITEMS 512

enum regex_item_kind { ITEM_RANGE, ITEM_CATEGORIES, ITEM_FLAGS, ITEM_SET };

/* A part of a set of code points. */
struct regex_item {
    enum regex_item_kind kind;
    int negated;
    uint32_t low, high; /* range; categories or flags as bits; number of a set */
};

struct regex_set {
    int negated;
    unsigned first, count; /* items */
};

enum regex_node_kind {
    NODE_SET,
    NODE_CONCATENATION,
    NODE_ALTERNATIVES,
    NODE_REPEAT,
    NODE_LOOK, /* ahead: the next character is in the set or, with 'at_end', there is none */
    NODE_EMPTY,
};

struct regex_node {
    enum regex_node_kind kind;
    int left, right; /* nodes */
    unsigned set;
    int minimum, maximum; /* repeat; maximum -1: any number */
    int lazy, negated, at_end;
};

/* A parsed pattern. */
struct regex_tree {
    struct regex_item items[REGEX_ITEMS];
    struct regex_set sets[REGEX_SETS];
    struct regex_node nodes[REGEX_NODES];
    unsigned item_count, set_count, node_count;
    int root;
};

/* Returns 0, or -1 with 'err' set. */
int regex_parse(struct regex_tree *tree, const char *pattern, size_t length, int own,
                struct error *err);

/* Is a code point in a set? */
int regex_contains(const struct regex_tree *tree, unsigned set, uint32_t point);

/* Class and length of the character at 'at', which is before the end. */
static inline unsigned regex_class(const struct regex *regex, const uint8_t *at, const uint8_t *end,
                                   size_t *size)
{
    uint32_t point;

    *size = 1;
    if (*at < 0x80)
        return regex->bytes[*at];
    *size = utf8_decode(at, end, &point);
    if (point == UNICODE_INVALID)
        return regex->invalid;
    return regex->classes[regex->pages[point >> 8]][point & 255];
}

/* Length of the match at the start of a text, 0 if there is none. With 'level' each byte counts as
 * the character that ByteLevel writes for it. */
static inline __attribute__((always_inline)) size_t
regex_run(const struct regex *regex, const uint8_t *text, const uint8_t *end, bool level)
{
    const uint8_t *at = text, *last = text;
    unsigned state = REGEX_START;

    while (at < end) {
        size_t size = 1;
        unsigned class = level ? regex->level[*at] : regex_class(regex, at, end, &size);
        unsigned entry = regex->table[state * regex->width + class];

        if (entry & REGEX_MATCH)
            last = at;
        state = entry & ~(unsigned)REGEX_MATCH;
        if (state == REGEX_DEAD)
            return (size_t)(last - text);
        at += size;
    }
    if (regex->table[state * regex->width + regex->width - 1] & REGEX_MATCH)
        last = end;
    return (size_t)(last - text);
}

static inline size_t regex_match(const struct regex *regex, const uint8_t *text, const uint8_t *end)
{
    return regex_run(regex, text, end, false);
}

static inline size_t regex_match_level(const struct regex *regex, const uint8_t *text,
                                       const uint8_t *end)
{
    return regex_run(regex, text, end, true);
}

#endif
