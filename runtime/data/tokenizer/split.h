/* SPDX-License-Identifier: Apache-2.0 */
/* Cut a text into words before BPE: where the regular expressions of the tokenizers cut, without
 * running them. */
#ifndef MEGATRON_SPLIT_H
#define MEGATRON_SPLIT_H

#include <stddef.h>
#include <stdint.h>
#include "engine.h"
#include "steps.h"

enum split_rule {
    /* 's|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+ */
    SPLIT_GPT2,
    /* (?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|
     * \s*[\r\n]+|\s+(?!\S)|\s+ */
    SPLIT_LLAMA3,
    /* Wherever two adjacent bytes are adjacent in no token (SPLIT_HERE), and before the last of
       several spaces (SPLIT_SPACES) unless there is a cut after it. */
    SPLIT_CUTS,
    /* [^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+C|
     * [^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*C|\p{N}{1,3}|
     *  ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+ with C: (?i:'s|'t|'re|'ve|'m|'ll|'d)?
     * What the engine cannot split of these two, the same pattern in 'steps' does. */
    SPLIT_CASED,
    /* Any patterns, one after the other. */
    SPLIT_STEPS,
    /* BERT's words: cut at punctuation, and at white space, which comes with the word after it and
     * is not part of it. */
    SPLIT_BERT,
};

/* Variants of SPLIT_LLAMA3 and SPLIT_CASED in other vocabularies. */
struct split_options {
    enum split_rule rule;
    int digits;          /* most digits in a word: 3, 1, or 0 for any number */
    int no_contractions; /* ' is like other punctuation */
};

/* In the table of cuts. */
enum { SPLIT_HERE = 1, SPLIT_SPACES = 16 };

#define SPLIT_CHUNK  4096
#define SPLIT_BLOCKS (SPLIT_CHUNK / 64)
#define SPLIT_AHEAD  8 /* ends that are written at a time */

/* Masks of a block, with the classes of characters beyond ASCII in them. */
struct split_block {
    uint64_t letter, number, space, blank, quote;
    uint64_t tail; /* bytes of a white space character after its first */
};

/* The state of a text that is being split. Set to zero and fill in 'options' and 'cuts' before the
 * first use. */
struct splitter {
    struct split_options options;
    const struct engine *engine; /* NULL: the best */
    const struct steps *steps;   /* SPLIT_STEPS; of SPLIT_LLAMA3 and SPLIT_CASED their pattern */
    struct stepping stepping;
    const uint8_t *cuts; /* SPLIT_CUTS: by first byte + 256 * second byte, where to cut */
    int joins; /* SPLIT_CUTS: words of one byte may stay together; there is no SPLIT_SPACES */
    const uint8_t *text;
    size_t length;
    size_t base;         /* ends[] count from here */
    size_t scanned;      /* everything before is cut */
    size_t decoded;      /* SPLIT_GPT2: characters beyond ASCII before here are in the masks */
    size_t count;        /* of ends */
    uint64_t set, clear; /* starts moved into the next chunk */
    struct split_block blocks[SPLIT_BLOCKS + 3]; /* one before the chunk, two after it */
    uint64_t starts[SPLIT_BLOCKS + 2];
    uint32_t ends[SPLIT_CHUNK + SPLIT_AHEAD];
};

/* The rule of a regular expression that has a splitter of its own. Returns 0 if there is none. */
int split_options_of(const char *pattern, size_t length, struct split_options *options);

/* The regular expression of a rule; NULL for rules that are not defined by one. */
const char *split_pattern(const struct split_options *options);

void split_begin(struct splitter *splitter, const uint8_t *text, size_t length);

/* Find the ends of further words: 'count' of them in 'ends', relative to 'base'. Each word begins
 * where the last one ended, the first at 0; a chunk may bring no end at all. Returns 0 when the
 * whole text was cut (then nothing is in 'ends'). */
int split_next(struct splitter *splitter);

#endif
