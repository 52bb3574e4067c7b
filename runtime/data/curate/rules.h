/* SPDX-License-Identifier: Apache-2.0 */
/* Rules for the quality of a text, as published for Gopher (Rae et al. 2021), C4 (Raffel et al.
 * 2020) and FineWeb (Penedo et al. 2024). Each rule has a threshold and can be switched on and
 * off. */
#ifndef MEGATRON_CURATE_RULES_H
#define MEGATRON_CURATE_RULES_H

#include <stddef.h>
#include <stdint.h>
#include "lib/error.h"
#include "hash.h"
#include "wordlist.h"

enum rule {
    RULE_NONE = -1,
    RULE_LANGUAGE, /* decided by the caller, who has the model */
    RULE_EMPTY,
    RULE_REPEATED_PARAGRAPHS,
    RULE_REPEATED_PARAGRAPH_CHARS,
    RULE_REPEATED_LINES,
    RULE_REPEATED_LINE_CHARS,
    RULE_TOP_2_GRAM,
    RULE_TOP_3_GRAM,
    RULE_TOP_4_GRAM,
    RULE_REPEATED_5_GRAMS,
    RULE_REPEATED_6_GRAMS,
    RULE_REPEATED_7_GRAMS,
    RULE_REPEATED_8_GRAMS,
    RULE_REPEATED_9_GRAMS,
    RULE_REPEATED_10_GRAMS,
    RULE_MIN_WORDS,
    RULE_MAX_WORDS,
    RULE_MIN_WORD_LENGTH,
    RULE_MAX_WORD_LENGTH,
    RULE_HASHES,
    RULE_ELLIPSES,
    RULE_BULLET_LINES,
    RULE_ELLIPSIS_LINES,
    RULE_ALPHABETIC_WORDS,
    RULE_STOP_WORDS,
    RULE_C4_LINE_END, /* these remove lines, not documents */
    RULE_C4_LINE_WORDS,
    RULE_C4_LONG_WORD,
    RULE_C4_JAVASCRIPT,
    RULE_C4_POLICY,
    RULE_C4_CITATIONS, /* removes [1], [edit] and [citation needed] */
    RULE_C4_LOREM_IPSUM,
    RULE_C4_CURLY_BRACKET,
    RULE_C4_SENTENCES,
    RULE_FINEWEB_LINE_END,
    RULE_FINEWEB_SHORT_LINES,
    RULE_FINEWEB_REPEATED_CHARS,
    RULE_FINEWEB_NEWLINES,
    RULE_COUNT
};

struct rule_entry {
    const char *name, *group;
    double value;     /* the published threshold */
    const char *help; /* at most one %g, for the threshold */
};

extern const struct rule_entry rule_table[RULE_COUNT];

struct rules {
    unsigned char on[RULE_COUNT];
    double value[RULE_COUNT];
};

/* FineWeb's recipe: all rules except C4's rule on line ends, with the published thresholds. */
void rules_default(struct rules *rules);

/* Switch rules on or off: one rule by name, a group (gopher-repetition, gopher-quality, c4,
 * fineweb), both Gopher groups (gopher), "all" or "none". Returns 0 or -1. */
int rules_switch(struct rules *rules, const char *name, int on, struct error *err);

/* Set a threshold: "NAME=NUMBER". */
int rules_set(struct rules *rules, const char *word, struct error *err);

/* A hash table of counters. */
struct counter {
    uint64_t key;
    uint32_t count, stamp;
};
struct counters {
    struct counter *items;
    size_t mask;
    int shift;
    uint32_t stamp;
};

/* Clear it and make room for 'count' keys. */
void counters_reset(struct counters *counters, size_t count);

static inline struct counter *counters_at(struct counters *counters, uint64_t key)
{
    size_t at = (size_t)((key * HASH_B) >> counters->shift);

    for (;; at = (at + 1) & counters->mask) {
        struct counter *counter = &counters->items[at];

        if (counter->stamp != counters->stamp) {
            *counter = (struct counter){key, 0, counters->stamp};
            return counter;
        }
        if (counter->key == key)
            return counter;
    }
}

/* Buffers of one thread. All zero is a valid start. */
struct rule_scratch {
    struct wordlist words;
    struct counters counters;
    char *edited, *folded;
    size_t edited_capacity, folded_capacity;
    uint64_t *ngrams;
    size_t ngrams_capacity;
    int64_t lines_removed[RULE_COUNT]; /* removed by C4's rules, in all texts so far */
    int64_t citations;
};
void rule_scratch_clear(struct rule_scratch *scratch);

struct verdict {
    int rule;         /* the rule that the text violates, or RULE_NONE */
    const char *text; /* what is left, in the scratch buffer or the text itself */
    size_t size;
    int edited;
};

/* Apply the rules to a text. */
void rules_apply(const struct rules *rules, struct rule_scratch *scratch, const char *text,
                 size_t size, struct verdict *verdict);

/* Private: the groups. Each returns the violated rule, or RULE_NONE.
 * The words of 'scratch' are those of the text. */
int rules_repetition(const struct rules *rules, struct rule_scratch *scratch, const char *text,
                     size_t size);
int rules_quality(const struct rules *rules, struct rule_scratch *scratch, const char *text,
                  size_t size);
int rules_c4(const struct rules *rules, struct rule_scratch *scratch, const char *text, size_t size,
             struct verdict *verdict);
int rules_fineweb(const struct rules *rules, struct rule_scratch *scratch, const char *text,
                  size_t size);

/* The next line from '*at' on, without its newline, split like Python's splitlines for \n and \r\n.
 * Returns 0 after the last one. */
int text_line(const char *text, size_t size, size_t *at, const char **line, size_t *length);

/* Trim white space (text_space) at both ends. */
void text_trim(const char **line, size_t *length);

/* Does the text end with one of . ? ! " ' or an equivalent of another script? */
int text_ends_sentence(const char *text, size_t size);
int text_ends_with_ellipsis(const char *text, size_t size);

#endif
