/* SPDX-License-Identifier: Apache-2.0 */
/* Training data of masked language models in fairseq's order.
 *
 * Words used here: a block is a sample before <s> is put before it; a batch is what one rank gets
 * for one micro-batch, up to max_sentences blocks; a step takes 'slots' batches, one per rank and
 * micro-batch. The last step of an epoch may have slots without a batch. Batch number
 * step * slots + micro * ranks + rank is what fairseq gives to that rank with --update-freq, so the
 * contents of a step depend on ranks x micro-batches only. */
#ifndef MEGATRON_MASKED_H
#define MEGATRON_MASKED_H

#include "masked_blocks.h"
#include "dataset.h"
#include "masked_tokens.h"

struct masked_config {
    enum break_mode break_mode;
    int64_t max_sentences; /* the micro-batch size */
    int64_t max_tokens;    /* 0: no limit */
    int64_t multiple;      /* --required-batch-size-multiple */
    int64_t slots;         /* batches in a step: ranks x micro-batches */
    int64_t evaluated;     /* steps of an evaluation; 0: the whole split */
    int per_token; /* all selected tokens of a training step count alike: they are counted before
                      it */
    int32_t bos, pad;
    int64_t position_offset; /* of the first token in the position table */
    /* Put several blocks into a row, as long as it has room for them and for 'most_selected'
     * predicted tokens; each sees only itself. The order is then not fairseq's. */
    int pack;
    int64_t most_selected;
    /* Samples of Megatron's BERT (bert.h) instead of fairseq's, from sentences. */
    int bert;
    int binary;               /* pairs of sentences, whose order is predicted */
    int32_t sep;              /* ends each half */
    double short_probability; /* of a shorter sample */
    struct mask_config mask;  /* 'begins' must outlive the data */
};

struct masked;

/* Open the data of one split: PREFIX.bin and .idx, or with NULL mock data. 'sequence_length' is the
 * longest sample with <s>. Returns NULL with 'err' set. Caller must close. */
struct masked *masked_open(const char *prefix, const struct masked_config *config,
                           int64_t sequence_length, enum dataset_split split, uint32_t seed,
                           struct error *err);
void masked_close(struct masked *masked);

int64_t masked_slots(const struct masked *masked);

/* Steps in an epoch, or of one evaluation. */
int64_t masked_steps(const struct masked *masked);

/* Totals of the split. */
struct masked_counts {
    int64_t blocks, skipped, batches;
    int64_t longest; /* tokens of the longest block that is skipped */
    int64_t rows;    /* of all batches */
    int64_t tokens;  /* in them, without padding */
};
struct masked_counts masked_counts(const struct masked *masked);

/* Totals of a step over all ranks; every rank computes the same numbers. */
struct masked_step {
    int64_t epoch;     /* from 1 */
    int64_t in_epoch;  /* number of the step in its epoch, from 1 */
    int64_t sentences; /* samples */
    int64_t tokens;    /* without padding */
    int64_t selected;  /* tokens that are predicted */
};
int masked_step_of(struct masked *masked, int64_t step, struct masked_step *out, struct error *err);

/* Fill the rows of 'batch', whose pointers and zeroed counts the caller has set, with the batch of
 * slot 'slot' of 'step'. Callable from any thread. */
int masked_fill(struct masked *masked, int64_t step, int64_t slot, struct batch *batch,
                struct error *err);

/* Put a sample into row 'row': tokens, labels and types (or NULL) of 'count' tokens, then padding.
 * For samples that are not fairseq's, too. */
struct masked_row {
    const int32_t *tokens, *labels, *types;
    int64_t count;
};
void masked_put(const struct masked_config *config, int64_t sequence_length, struct batch *batch,
                int64_t row, const struct masked_row *sample);

#endif
