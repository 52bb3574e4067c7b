/* SPDX-License-Identifier: Apache-2.0 */
/* The data of a training run: its splits and their prefetching loaders. */
#ifndef MEGATRON_FEEDS_H
#define MEGATRON_FEEDS_H

#include "arguments.h"
#include "masked_words.h"
#include "run/checkpoint/checkpoint.h"

enum { FEED_BUFFERS = 4 };

/* By split; NULL if a split has no data or is not needed. */
struct feeds {
    struct masked_words words; /* of a masked language model */
    struct masked_config masked;
    struct dataset *splits[DATASET_SPLITS];
    struct batch_loader *loaders[DATASET_SPLITS];
    void *buffers[DATASET_SPLITS][FEED_BUFFERS];
};

/* Check that the data options are valid and the files exist, before weights are created or loaded,
 * which may take minutes. */
int feeds_check(const struct arguments *a, struct error *err);

/* Open the data in the order given by 'seed' and start reading at 'progress'; the run ends at
 * iteration 'total'. Collective. Returns 0, TRAIN_REFUSED on all ranks if there is not enough data
 * for the run, or -1. Call feeds_close in all cases; it accepts a zeroed struct. */
int feeds_open(struct feeds *feeds, const struct arguments *a, const struct parallel *parallel,
               uint64_t seed, const struct progress *progress, int64_t total, struct error *err);
/* Steps of one evaluation: --eval-iters, or those of the whole split for a masked language model.
 */
int64_t feeds_eval_steps(const struct feeds *feeds, const struct arguments *a,
                         enum dataset_split split);

void feeds_close(struct feeds *feeds);

/* Read the split's data from their beginning again. */
int feeds_restart(struct feeds *feeds, enum dataset_split split, const struct arguments *a,
                  const struct parallel *parallel, struct error *err);

#endif
