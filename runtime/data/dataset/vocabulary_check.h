/* SPDX-License-Identifier: Apache-2.0 */
/* Were the corpora of a run made by the tokenizer of its model? The file beside a corpus tells
 * (data_identity.h). Without it, a few tokens are looked at: whether they are in the vocabulary,
 * whether they use it, and whether documents end as the run expects. */
#ifndef MEGATRON_DATASET_VOCABULARY_CHECK_H
#define MEGATRON_DATASET_VOCABULARY_CHECK_H

#include "data_identity.h"

/* Findings that are warnings, not errors. */
enum vocabulary_finding {
    FOUND_UNREADABLE, /* the file beside the corpus cannot be used */
    FOUND_LARGER,     /* the corpus may have tokens that the model does not know */
    FOUND_UNUSED,     /* it uses only a small part of the vocabulary */
    FOUND_OTHER_END,  /* its documents end with another token */
    FOUND_NO_END,     /* they have no common end */
    FOUND_KINDS
};

struct vocabulary_check {
    int64_t vocabulary;                         /* tokens of the model; 0: not checked */
    const struct tokenizer_identity *tokenizer; /* of the model; NULL: not known */
    int64_t eod; /* the token that ends documents; -1: they need no end */
    /* The first corpus whose tokenizer is known: all must have the same. */
    struct tokenizer_identity first;
    char first_prefix[256];
    struct {
        int64_t count;
        struct error err; /* about the first one */
    } findings[FOUND_KINDS];
};

/* Check a corpus, at a cost that does not depend on its size. Returns 0, or -1: with code
 * ERROR_VOCABULARY if it has a token outside the vocabulary, and ERROR_USAGE if another tokenizer
 * made it. */
int vocabulary_check(struct vocabulary_check *check, const struct indexed *corpus,
                     struct error *err);

/* Warn about what was found in all corpora, once for each kind. */
void vocabulary_check_report(const struct vocabulary_check *check);

#endif
