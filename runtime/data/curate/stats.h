/* SPDX-License-Identifier: Apache-2.0 */
/* `megatron data stats`: what is in a corpus, as text, JSON and a page with plots. */
#ifndef MEGATRON_CURATE_STATS_H
#define MEGATRON_CURATE_STATS_H

#include "dedup.h"
#include "fasttext.h"
#include "data/tokenizer/tokenizer.h"

struct stats_config {
    struct curate_config base;                /* its output is the prefix of .json and .html */
    const char *model;                        /* of fastText; NULL: languages are not counted */
    const struct tokenizer_config *tokenizer; /* NULL: tokens are not counted */
    int duplicates;                           /* count texts that are there before */
};

int stats_run(struct stats_config *config, struct error *err);

enum { STATS_BINS = 48 };

/* Lengths of documents by powers of two: bin 0 holds 0, bin i lengths from 2^(i-1) on. */
struct stats_lengths {
    int64_t sum, shortest, longest;
    int64_t bins[STATS_BINS];
};

struct stats_language {
    const char *label;
    int64_t documents, bytes;
};

struct stats {
    struct tally tally;
    struct stats_lengths chars, words, tokens;
    struct stats_language *languages; /* most documents first; the last is of those unknown */
    size_t language_count;
    int has_tokens, has_duplicates;
    struct dedup_counts duplicates;
};

/* Inside: what is shown. */
void stats_print(const struct stats *stats);
int stats_write_json(const struct stats *stats, const char *path, struct error *err);
int stats_write_html(const struct stats *stats, const char *title, const char *path,
                     struct error *err);

#endif
