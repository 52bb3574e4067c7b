/* SPDX-License-Identifier: Apache-2.0 */
/* Sentences of a text: the punkt algorithm (Kiss and Strunk, 2006) with NLTK's parameters and, byte
 * for byte, its results.
 *
 * A language's parameters are the four files of a directory of nltk_data/tokenizers/punkt_tab. */
#ifndef MEGATRON_PUNKT_H
#define MEGATRON_PUNKT_H

#include <stddef.h>
#include "lib/error.h"

struct punkt;

struct punkt_options {
    int keep_newlines; /* Megatron's: white space after a sentence belongs to it */
    int curly_quotes;  /* NLTK 3.10: closing curly quotes and guillemets belong to it, too */
};

/* Read the parameters in 'directory'. Returns NULL with 'err' naming file and line. */
struct punkt *punkt_open(const char *directory, struct error *err);
void punkt_close(struct punkt *punkt);

/* Find the directory of 'language' ("english"): in 'path', which may be the directory itself,
 * punkt_tab or nltk_data; without a path in the directories of $NLTK_DATA and NLTK's usual ones.
 * Returns 0, or -1 with 'err' naming where it was looked for. */
int punkt_find(const char *path, const char *language, char *directory, size_t size,
               struct error *err);

/* A sentence: bytes [begin, end) of the text. */
struct punkt_span {
    size_t begin, end;
};

/* Growing; all zero is an empty one. */
struct punkt_spans {
    struct punkt_span *items;
    size_t count, capacity;
};
void punkt_spans_clear(struct punkt_spans *spans);

/* Put the sentences of a text into 'spans'. Like Megatron, a text is cut every 1,000,000 characters
 * first. Returns 0, or -1 when memory is out. Callable from any thread. */
int punkt_split(const struct punkt *punkt, const struct punkt_options *options, const char *text,
                size_t length, struct punkt_spans *spans);

#endif
