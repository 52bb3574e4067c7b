/* SPDX-License-Identifier: Apache-2.0 */
/* Training data: the order of the samples and their tokens. The order is Megatron-core's, sample by
 * sample; gpt_index.h and blend.h explain it.
 *
 *     struct dataset *splits[DATASET_SPLITS];
 *     dataset_create(&config, splits, &err);                 on all ranks that need data
 *     loader = batch_loader_create(&loader_config, &err);    threads prefetch into buffers
 *     while (training) {
 *         batch_loader_next(loader, &batch, &err);           waits only if data is late
 *         ... copy batch->tokens etc. to the device ...
 *         batch_loader_release(loader, &batch);              the buffer may be reused
 *     }
 */
#ifndef MEGATRON_DATASET_H
#define MEGATRON_DATASET_H

#include <stddef.h>
#include <stdint.h>
#include "lib/error.h"
#include "base/core/option.h"

struct tokenizer_identity;

enum dataset_split { DATASET_TRAIN, DATASET_VALID, DATASET_TEST, DATASET_SPLITS };

#define DATASET_DEFAULT_SPLIT "969,30,1" /* Megatron's */

/* "training", "validation" or "test", for messages. */
const char *dataset_split_words(enum dataset_split split);

/* Everything that determines the samples. Strings are not copied; they are needed only during
 * dataset_create. */
struct dataset_config {
    /* --data-path: PREFIX, PREFIX PREFIX..., or WEIGHT PREFIX WEIGHT PREFIX..., divided by 'split';
     * or one such list per split (--train-data-path etc.), which is not divided. */
    struct option_list data_path;
    struct option_list split_path[DATASET_SPLITS];
    const char *split; /* "949,50,1"; NULL: DATASET_DEFAULT_SPLIT */
    int mock;          /* --mock-data: synthetic tokens, no files */

    int64_t samples[DATASET_SPLITS]; /* requested; 0: the split is not needed; negative: one
                                        epoch */
    int64_t sequence_length;
    int64_t vocabulary; /* tokens outside [0, vocabulary) are an error; 0: not checked */
    /* The tokenizer of the model (tokenizer.h), which must have made the data; NULL: not known. */
    const struct tokenizer_identity *tokenizer;
    int32_t eod; /* the token at the end of each document */
    uint32_t seed;
    int eod_mask_loss, reset_position_ids, reset_attention_mask;
    const struct masked_config *masked; /* samples of a masked language model (masked.h); or NULL */

    /* --data-cache-path. NULL: PREFIX/cache/GPTDataset_indices in the directory of the data or, if
     * that is not writable, a directory of this user in $TMPDIR or /tmp (one build per node). */
    const char *cache_path;
    int64_t cyclic_ranks, cyclic_micro_batch; /* --dataloader-type cyclic: data-parallel ranks and
                                                 micro-batch size; 0: samples in their order */
    int threads;     /* threads that build indices (--num-dataset-builder-threads); 0: one per CPU,
                        up to 16 */
    double deadline; /* seconds to wait for another process that builds an index; 0: 600 */
};

struct dataset;

/* Check that the files that dataset_create will open exist, were made by the model's tokenizer and
 * have training data, if it is needed; warn about what looks wrong. A cheap check before slow work.
 */
int dataset_check(const struct dataset_config *config, struct error *err);

/* Open the data of all splits; missing indices are built and cached. splits[i] is NULL if
 * config->samples[i] is 0 or the split has no data (validation and test: or too little). Returns 0,
 * or -1 with 'err' set and all of 'splits' NULL; code ERROR_NO_CACHE means that no directory is
 * writable for the indices. Destroy each. */
int dataset_create(const struct dataset_config *config, struct dataset *splits[DATASET_SPLITS],
                   struct error *err);
void dataset_destroy(struct dataset *dataset);

/* The number of samples: at least the requested number, except for a blend without weights, which
 * has at most one epoch of each corpus. */
int64_t dataset_samples(const struct dataset *dataset);
/* How many corpora of a blend are too small for a sample of this split, and are left out of it.
 * Sets '*names' to their prefixes. */
int64_t dataset_left_out(const struct dataset *dataset, const char **names);

/* The data of a masked language model, or NULL. */
struct masked *dataset_masked(const struct dataset *dataset);

/* Read the sequence_length + 1 tokens of sample 'i' in training order. Callable from any thread. */
int dataset_text(const struct dataset *dataset, int64_t i, int32_t *text, struct error *err);

/* A micro-batch: arrays of (micro_batch, sequence_length) in one buffer owned by the caller. */
struct batch {
    int64_t first; /* the number of its first sample; the others follow it */
    int32_t *tokens;
    int32_t *labels;       /* the next token of each */
    float *loss_mask;      /* 0 at the end of a document with eod_mask_loss, else 1 */
    int32_t *position_ids; /* from 0 in each sample; with reset_position_ids in each document */
    /* Document boundaries, for attention over packed documents: document_offsets[0] = 0 <
     * document_offsets[1] < ... < document_offsets[document_count] = micro_batch * sequence_length,
     * counted over the whole batch. A document is a sample; with
     * reset_attention_mask it also ends after each end-of-document token. */
    int32_t *document_offsets;
    int32_t document_count;
    int32_t longest_document;
    int slot; /* the loader's */
    /* For masked language models the arrays above mean:
     * - tokens: after masking, with padding at the end of a sample;
     * - labels: the original token if it was selected for prediction, else BATCH_IGNORE;
     * - loss_mask: 1 if it was selected, else 0; at most model_config.masked_max per sample;
     * - position_ids: rows of the position table, offset and padding included (RoBERTa: first 2,
     *   padding 1);
     * - document_offsets: tokens see their whole document and nothing else. The padding of a sample
     *   is a document of its own; so is a sample of padding only.
     * Then there are: */
    int32_t *token_types; /* rows of the table of token types; NULL: all 0 */
    int32_t *binary;      /* (micro_batch) label of the sentence pair, 0 or 1, or BATCH_IGNORE; NULL
                             without binary head */
    double step_tokens;   /* selected tokens of the whole step, over all micro-batches and ranks;
                             0: not known before all ranks have read them */
};

enum { BATCH_IGNORE = -1 };

/* Bytes of a buffer for one batch, a multiple of 4096, or 0 if the shape is too large. */
size_t batch_size(int64_t micro_batch, int64_t sequence_length);

/* Fill 'buffer' (aligned to 64 bytes) with samples [first, first + micro_batch) and make 'batch'
 * point into it. Validation and test data wrap around: a run that resumes with another evaluation
 * interval may have consumed more of them than were requested. */
int dataset_batch(const struct dataset *dataset, int64_t first, int64_t micro_batch, void *buffer,
                  struct batch *batch, struct error *err);

/* Prefetched batches in training order. Data-parallel rank r of R gets samples [r * m, (r + 1) * m)
 * of each consecutive m * R, starting at sample 'consumed': the order of the samples is the same
 * for every R, so a run may resume with another one. */
struct batch_loader_config {
    const struct dataset *dataset; /* must outlive the loader */
    int64_t consumed;
    int64_t micro_batch;
    int rank, ranks;
    void *const *buffers; /* of batch_size() bytes each, e.g. pinned by the device; owned by the
                             caller */
    int buffer_count;     /* 2 or more: one is in use while the others are filled */
    int threads;          /* prefetching threads; 0: 2 */
    double deadline;      /* the longest wait of batch_loader_next, in seconds; 0: 600 */
};

struct batch_loader;

struct batch_loader *batch_loader_create(const struct batch_loader_config *config,
                                         struct error *err);

/* Stop the threads and wait for them; then the buffers are no longer used. */
void batch_loader_destroy(struct batch_loader *loader);

/* Get the next batch. Returns -1 if the data is exhausted, cannot be read or is not read within the
 * deadline. The error is permanent. */
int batch_loader_next(struct batch_loader *loader, struct batch *batch, struct error *err);

/* Release a batch's buffer when its copy to the device is done. Batches are released in order. */
void batch_loader_release(struct batch_loader *loader, const struct batch *batch);

#endif
