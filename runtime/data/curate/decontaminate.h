/* SPDX-License-Identifier: Apache-2.0 */
/* `megatron data decontaminate`: remove the texts of test sets from a corpus.
 *
 *     megatron  as Megatron-LM's tools for openwebtext do it: cut out each n-gram of a test set
 * with its surroundings, up to the ends of sentences; the text on either side becomes a document.
 * N-grams that are frequent in the corpus are ignored. drop      as GPT-3, Llama and FineWeb's
 * tools do it: drop documents that contain an n-gram of a test set. */
#ifndef MEGATRON_CURATE_DECONTAMINATE_H
#define MEGATRON_CURATE_DECONTAMINATE_H

#include "data/jobs/jobs.h"

enum decontaminate_rule { DECONTAMINATE_MEGATRON, DECONTAMINATE_DROP };

struct decontaminate_config {
    struct jobs_config base;
    const char *const *against; /* files of test sets */
    size_t against_count;
    const char *const *keys; /* names of the members that hold texts */
    size_t key_count;
    int plain_text; /* the test sets are plain text, not JSON */
    enum decontaminate_rule rule;
    int64_t ngram,
        least;      /* in words; a test with fewer words, but at least 'least', counts as a whole */
    int64_t spare;  /* ignore n-grams that occur this often in the corpus; 0: none */
    int64_t margin; /* minimum number of characters to cut on each side */
    int64_t piece;  /* drop pieces of at most this many characters */
    int64_t pieces; /* drop documents with more pieces than this */
};

int decontaminate_run(struct decontaminate_config *config, struct error *err);

#endif
