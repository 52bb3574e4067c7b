/* SPDX-License-Identifier: Apache-2.0 */
/* The order of a GPT model's samples, as in Megatron-core. Three arrays define it:
 *   document   the numbers of the sequences, one epoch after the other, shuffled
 *   sample     where each sample starts in the stream of all these sequences: (index into
 *              'document', token within that sequence). Sample k starts at token k * S of the
 *              stream and has S + 1 tokens, so the last token of each sample is the first token of
 *              the next one
 *   shuffle    which of these samples is the i-th in training
 *
 * They are stored in a file of the index cache and read from there, 12 bytes per sample. */
#ifndef MEGATRON_GPT_INDEX_H
#define MEGATRON_GPT_INDEX_H

#include <stdint.h>
#include "lib/error.h"
#include "index_file.h"
#include "indexed.h"

enum { GPT_DOCUMENT, GPT_SAMPLE, GPT_SHUFFLE }; /* arrays of the index file */

/* Everything that determines the order. */
struct gpt_request {
    const struct indexed *corpus;
    int64_t first, count; /* the sequences of this split */
    int64_t sequence_length;
    int64_t samples; /* at least this many; negative: one epoch */
    uint32_t seed;
};

/* The number of epochs needed, and the sizes that follow from it. */
struct gpt_sizes {
    int64_t tokens; /* in one epoch */
    int64_t epochs;
    int64_t documents;  /* entries of the document array */
    int64_t samples;    /* entries of the shuffle array */
    int64_t sans_final; /* samples of all epochs but the last, if that is shuffled separately */
    int separate;       /* ... which happens if less than 80 % of it is needed */
    int sample_width;   /* bytes of a number in the sample array: 4 or 8 */
    int shuffle_width;  /* the same for the shuffle array */
};

/* The sizes for a corpus of 'tokens' tokens in 'sequences' sequences. Returns 0 or -1. */
int gpt_sizes(int64_t tokens, int64_t sequences, int64_t sequence_length, int64_t samples,
              struct gpt_sizes *sizes, struct error *err);

/* Get the index for 'request' from the cache, or build it with 'threads' threads. 'split' is its
 * name ("train"). Building needs less memory than the size of the index. Caller must close. */
struct index_file *gpt_index_get(const struct gpt_request *request, const char *split,
                                 const struct index_place *place, int threads, struct error *err);

/* The number of threads to build an index with if the caller asks for 'wanted' (at most 64); 0: one
 * per CPU that this thread may run on, at most 16. */
int index_threads(int wanted);

/* The number of samples in an index. */
int64_t gpt_index_samples(const struct index_file *index);

/* Read the S + 1 tokens of the i-th sample in training. */
int gpt_index_text(const struct index_file *index, const struct indexed *corpus,
                   int64_t sequence_length, int64_t i, int32_t *text, struct error *err);

/* Within gpt_*.c: build the arrays into a file of the index cache. */
struct gpt_build {
    const struct gpt_request *request;
    int threads;
};

/* An index_builder; 'arg' is a struct gpt_build. */
int gpt_build(void *arg, struct index_writer *writer, struct error *err);

#endif
