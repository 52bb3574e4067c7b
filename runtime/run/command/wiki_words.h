/* SPDX-License-Identifier: Apache-2.0 */
/* The options of MediaWiki dumps, which `megatron preprocess` and `megatron data extract` share. */
#ifndef MEGATRON_COMMAND_WIKI_WORDS_H
#define MEGATRON_COMMAND_WIKI_WORDS_H

#include "data/corpus/corpus.h"
#include "base/core/option.h"
#include "data/corpus/wiki.h"

struct wiki_words {
    int style, math, tables, disambiguations, redirects, no_title;
    int64_t min_length;
    const char *namespaces;
};

/* clang-format off */
#define WIKI_WORDS_DEFAULT {.min_length = 1, .disambiguations = -1}

/* Rows of an option table whose struct 'type' has a struct wiki_words called 'field'. */
#define WIKI_OPTIONS(type, field) \
    {"MediaWiki dumps", OPTION_HEADING, 0, NULL, NULL, NULL, 0, 0}, \
    {"wiki-style", OPTION_CHOICE, offsetof(type, field.style), "STYLE", \
     "clean text (default), or the look of WikiExtractor 3.1.0's output", "clean|wikiextractor", 0, 0}, \
    {"wiki-math", OPTION_CHOICE, offsetof(type, field.math), "HOW", \
     "keep the LaTeX of formulas (default) or drop it", "latex|drop", 0, 0}, \
    {"wiki-tables", OPTION_CHOICE, offsetof(type, field.tables), "HOW", \
     "drop tables (default) or write a line of text per row", "drop|text", 0, 0}, \
    {"wiki-no-title", OPTION_FLAG, offsetof(type, field.no_title), NULL, \
     "do not begin a document with the title of its page", NULL, 0, 0}, \
    {"wiki-namespaces", OPTION_TEXT, offsetof(type, field.namespaces), "LIST", \
     "numbers of the namespaces to take (default: 0, the articles)", NULL, 0, 0}, \
    {"wiki-redirects", OPTION_FLAG, offsetof(type, field.redirects), NULL, "take redirects, too", NULL, 0, 0}, \
    {"wiki-disambiguations", OPTION_CHOICE, offsetof(type, field.disambiguations), "HOW", \
     "drop disambiguation pages (default of clean) or keep them", "drop|keep", 0, 0}, \
    {"wiki-min-length", OPTION_INT, offsetof(type, field.min_length), "N", \
     "skip pages with fewer characters of text (default: 1)", NULL, 0, INT64_MAX}
/* clang-format on */

/* Check the words and turn them into 'options'. Returns 0 or -1. */
int wiki_words_options(const struct wiki_words *words, struct wiki_options *options,
                       struct error *err);

/* Fails if one of the options was given: the input is not a dump. */
int wiki_words_given(const struct options_result *result, struct error *err);

/* Is the first file that the words name a dump? Reads its beginning, decompressed. Neither standard
 * input nor a directory is looked at. */
int wiki_words_detect(const char *const *inputs, size_t count);

#endif
