/* The data of a training run: its splits, and what is read ahead of them. */
#ifndef MEGATRON_FEEDS_H
#define MEGATRON_FEEDS_H

#include "arguments.h"
#include "checkpoint.h"

enum { FEED_BUFFERS = 4 };

/* By split; NULL where a split has no data or is not needed. */
struct feeds {
    struct dataset *splits[DATASET_SPLITS];
    struct batch_loader *loaders[DATASET_SPLITS];
    void *buffers[DATASET_SPLITS][FEED_BUFFERS];
};

/* Are the files there? A prefix that is not is said before weights are made or read, which may take
 * minutes. */
int feeds_check(const struct arguments *a, struct error *err);

/* Open the data, in the order that 'seed' makes, and begin to read where 'progress' stands in it;
 * 'total' is the iteration at which the run ends. Collective. Returns 0, TRAIN_REFUSED on all ranks
 * where the data does not last as long as the run, or -1; feeds_close in all cases, and
 * where all is zero. */
int feeds_open(struct feeds *feeds, const struct arguments *a, const struct parallel *parallel,
               uint64_t seed, const struct progress *progress, int64_t total, struct error *err);
void feeds_close(struct feeds *feeds);

#endif
