/* SPDX-License-Identifier: Apache-2.0 */
/* `megatron tokenizer train`: a vocabulary from a corpus, by all ranks of a step together.
 *
 *     count   each chunk of the input: its words and how often they occur, by bucket
 *     merge   each bucket: the words of all chunks
 *     learn   one job: the vocabulary, from the most frequent words
 *
 * The result does not depend on the number of ranks and threads. */
#ifndef MEGATRON_VOCABULARY_LEARN_H
#define MEGATRON_VOCABULARY_LEARN_H

#include "data/jobs/jobs.h"

enum learn_type { LEARN_BPE, LEARN_UNIGRAM, LEARN_WORDPIECE };
#define LEARN_TYPES "bpe|unigram|wordpiece"

/* How byte-level BPE splits texts into words. */
enum learn_split { LEARN_GPT2, LEARN_LLAMA3, LEARN_O200K };
#define LEARN_SPLITS "gpt2|llama3|o200k"

struct learn_config {
    struct jobs_config base; /* its output is a directory */
    enum learn_type type;
    enum learn_split split;
    int64_t vocab_size;
    int64_t min_frequency;
    int64_t limit_alphabet; /* characters of WordPiece and Unigram */
    int64_t max_words;      /* different words that are learned from */
    int cased;              /* WordPiece */
    int split_scripts;      /* Unigram: no piece with characters of two scripts */
    const char *const *specials;
    size_t special_count;
};

int learn_vocabulary(struct learn_config *config, struct error *err);

#endif
