/* SPDX-License-Identifier: Apache-2.0 */
/* `megatron data decontaminate`: texts of test sets are taken out of a corpus.
 *
 * megatron: the rule of Megatron-LM's tools for openwebtext. An n-gram of a test set is cut out
 * with what is around it, up to the ends of sentences, and what is left on both sides becomes a
 *           document each; n-grams that are frequent in the corpus are no sign of a test.
 * drop:     a document with an n-gram of a test set is dropped, as GPT-3, Llama and FineWeb's tools
 *           do it. */
#ifndef MEGATRON_CURATE_DECONTAMINATE_H
#define MEGATRON_CURATE_DECONTAMINATE_H

#include "curate.h"

enum decontaminate_rule { DECONTAMINATE_MEGATRON, DECONTAMINATE_DROP };

struct decontaminate_config {
    struct curate_config base;
    const char *const *against; /* files of test sets */
    size_t against_count;
    const char *const *keys; /* of their members with texts */
    size_t key_count;
    int plain_text; /* their lines are texts, not JSON */
    enum decontaminate_rule rule;
    int64_t ngram,
        least;      /* words; a test of fewer than n words counts as a whole from 'least' on */
    int64_t spare;  /* n-grams that come so often in the corpus are left alone; 0: none */
    int64_t margin; /* characters that are cut on each side, at least */
    int64_t piece;  /* pieces of so many characters or fewer are dropped */
    int64_t pieces; /* documents with more pieces are dropped */
};

int decontaminate_run(struct decontaminate_config *config, struct error *err);

#endif
