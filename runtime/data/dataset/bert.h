/* SPDX-License-Identifier: Apache-2.0 */
/* Samples of Megatron's BERT, number for number: consecutive sentences of a document, cut into a
 * pair whose order a binary head predicts, with masked n-grams of whole words.
 *
 * The corpus has a sequence for each sentence (megatron preprocess --split-sentences). The mapping
 * lists the samples of all epochs in training order; it is kept in the index cache. */
#ifndef MEGATRON_BERT_H
#define MEGATRON_BERT_H

#include "index_file.h"
#include "indexed.h"
#include "masked.h"

/* A sample: sentences [first, end), cut to 'target' tokens. */
struct bert_range {
    uint32_t first, end, target;
};

struct bert_request {
    const int64_t *documents; /* first sentence of each, and the end of the last */
    int64_t document_count;
    const int32_t *lengths; /* of all sentences of the corpus */
    int64_t samples;        /* at least so many; negative: one epoch */
    int64_t target;         /* tokens of a sample without [CLS] and [SEP] */
    double short_probability;
    uint32_t seed;
    int least; /* sentences of a sample */
};

/* Build the mapping. The caller frees '*ranges'. Returns its length, or -1. */
int64_t bert_mapping(const struct bert_request *request, struct bert_range **ranges,
                     struct error *err);

/* One sample with its masks; arrays of 'sequence_length'. */
struct bert_sample {
    int32_t *tokens, *labels, *types;
    int64_t count;
    int32_t is_random; /* the halves were swapped */
};

/* Fill 'sample' from 'count' sentences, whose tokens follow each other in 'text'; 'ends' are their
 * ends in it. 'number' is that of the sample in training. Returns 0 or -1. */
int bert_make(const struct masked_config *config, uint32_t seed, int64_t number,
              const int32_t *text, const int64_t *ends, int64_t count, int64_t target,
              struct bert_sample *sample, struct error *err);

/* Get the mapping of documents [first, first + count) of a corpus from the index cache, or build
 * it; 'split' is its name ("train"). Caller must close. */
struct index_file *bert_index_get(const struct indexed *corpus, int64_t first, int64_t count,
                                  const struct masked_config *config, int64_t sequence_length,
                                  int64_t samples, uint32_t seed, const char *split,
                                  const struct index_place *place, struct error *err);
int64_t bert_index_samples(const struct index_file *index);

/* Put sample 'number' of a mapping into a row of 'batch'. Callable from any thread. */
int bert_fill(const struct masked_config *config, const struct index_file *index,
              const struct indexed *corpus, int64_t sequence_length, uint32_t seed, int64_t number,
              struct batch *batch, int64_t row, struct error *err);

#endif
