/* SPDX-License-Identifier: Apache-2.0 */
/* The options of MediaWiki dumps, which `megatron preprocess` and `megatron data extract` share. */
#ifndef MEGATRON_COMMAND_WIKI_WORDS_H
#define MEGATRON_COMMAND_WIKI_WORDS_H

#include "data/corpus/corpus.h"
#include "base/core/option_rows.h"
#include "data/corpus/wiki.h"

struct wiki_words {
    int style, math, tables, disambiguations, redirects, no_title;
    int64_t min_length;
    const char *namespaces;
};

#define WIKI_WORDS_DEFAULT                     \
    {                                          \
        .min_length = 1, .disambiguations = -1 \
    }

/* Rows of an option table (option_rows.h) whose target has a struct wiki_words called 'member'. */
#define WIKI_OPTIONS(member)                                                     \
    HEADING("MediaWiki dumps"),                                                  \
        WORD("wiki-style", member.style, "STYLE", "clean|wikiextractor",         \
             "clean text, or the look of WikiExtractor 3.1.0's output"),         \
        WORD("wiki-math", member.math, "HOW", "latex|drop",                      \
             "keep the LaTeX of formulas or drop it"),                           \
        WORD("wiki-tables", member.tables, "HOW", "drop|text",                   \
             "drop tables or write a line of text per row"),                     \
        FLAG("wiki-no-title", member.no_title,                                   \
             "do not begin a document with the title of its page"),              \
        TEXT("wiki-namespaces", member.namespaces, "LIST",                       \
             "numbers of the namespaces to take (default: 0, the articles)"),    \
        FLAG("wiki-redirects", member.redirects, "take redirects, too"),         \
        WORD("wiki-disambiguations", member.disambiguations, "HOW", "drop|keep", \
             "drop disambiguation pages (default of clean) or keep them"),       \
        RANGE("wiki-min-length", member.min_length, 0, INT64_MAX,                \
              "skip pages with fewer characters of text")

/* Check the values and convert them to 'options'. Returns 0 or -1. */
int wiki_words_options(const struct wiki_words *words, struct wiki_options *options,
                       struct error *err);

/* Fails if one of the options was given: the input is not a dump. */
int wiki_words_given(const struct options_result *result, struct error *err);

/* Is the first of the inputs a dump? Reads its beginning, decompressed, and consumes nothing. */
int wiki_words_detect(const char *const *inputs, size_t count);

#endif
