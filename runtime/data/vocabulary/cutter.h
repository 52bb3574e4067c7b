/* SPDX-License-Identifier: Apache-2.0 */
/* A text split into words, as the tokenizer that is being trained will split it. */
#ifndef MEGATRON_VOCABULARY_CUTTER_H
#define MEGATRON_VOCABULARY_CUTTER_H

#include "learn.h"
#include "data/tokenizer/pretokenizer.h"
#include "word_counts.h"

/* One per thread. */
struct cutter {
    enum learn_type type;
    int split_scripts; /* Unigram */
    struct splitter splitter;
    struct steps steps; /* the regular expression, for texts that need it */
    struct rewrites rewrites;
    struct rewriting rewriting;
    struct text_buffer word; /* Unigram */
};

/* Returns 0 or -1. The caller clears it in both cases. */
int cutter_init(struct cutter *cutter, const struct learn_config *config, struct error *err);
void cutter_clear(struct cutter *cutter);

/* How byte-level BPE splits texts. */
const struct split_options *cutter_split(const struct learn_config *config);

/* Count the words of a text. Returns 0 or -1. */
int cutter_count(struct cutter *cutter, const char *text, size_t size, struct word_counts *counts,
                 struct error *err);

#endif
