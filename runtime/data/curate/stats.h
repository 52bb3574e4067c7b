/* SPDX-License-Identifier: Apache-2.0 */
/* `megatron data stats`: statistics of a corpus, as text, as JSON and as an HTML page with
 * plots. */
#ifndef MEGATRON_CURATE_STATS_H
#define MEGATRON_CURATE_STATS_H

#include "dedup.h"
#include "fasttext.h"
#include "data/tokenizer/tokenizer.h"

struct stats_config {
    struct jobs_config base;                  /* 'output' is the prefix of .json and .html */
    const char *model;                        /* a fastText model; NULL: do not count languages */
    const struct tokenizer_config *tokenizer; /* NULL: do not count tokens */
    int duplicates;                           /* count duplicate texts */
};

int stats_run(struct stats_config *config, struct error *err);

enum { STATS_BINS = 48 };

/* A histogram of document lengths: bin 0 counts 0, bin i lengths from 2^(i-1) to 2^i - 1. */
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
    struct stats_language *languages; /* most documents first; the last one is "unknown" */
    size_t language_count;
    int has_tokens, has_duplicates;
    struct dedup_counts duplicates;
};

/* Private to curate/: the outputs. */
void stats_print(const struct stats *stats);
int stats_write_json(const struct stats *stats, const char *path, struct error *err);
int stats_write_html(const struct stats *stats, const char *title, const char *path,
                     struct error *err);

#endif
