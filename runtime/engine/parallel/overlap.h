/* SPDX-License-Identifier: Apache-2.0 */
/* Collectives of tensor and context parallelism beside the computation: they run on a stream of
 * their own, which events order against the compute stream. Without such collectives (tp = cp = 1)
 * all of this does nothing. */
#ifndef MEGATRON_OVERLAP_H
#define MEGATRON_OVERLAP_H

#include "parallel.h"

struct overlap {
    const struct parallel *parallel;
    struct device_stream *compute, *side;
    struct device_event *computed, *communicated;
};

/* Create both streams and their events. Caller must destroy. */
void overlap_create(struct overlap *overlap, const struct parallel *parallel,
                    struct device *device);
void overlap_destroy(struct overlap *overlap);

/* Work enqueued on the side stream from here on waits for what is on the compute stream now. */
void overlap_begin(struct overlap *overlap);

/* Work enqueued on the compute stream from here on waits for what is on the side stream now. */
void overlap_end(struct overlap *overlap);

/* A matrix with one row per token that sequence parallelism divides: each tensor-parallel rank
 * holds part_rows rows, the whole matrix has part_rows * tp. */
struct sequence_rows {
    int64_t part_rows, cols;
    enum device_type type;
};

/* Begin to all-gather the parts into 'whole'; overlap_end before the result is used. Returns where
 * the result will be: with one rank the part is the whole. */
void *sequence_gather(struct overlap *overlap, const struct sequence_rows *rows, void *part,
                      void *whole);

/* Begin to reduce-scatter the wholes into 'part'; overlap_end before the result is used. With one
 * rank nothing happens: the caller has written 'part' itself (see sequence_unreduced). */
void sequence_scatter(struct overlap *overlap, const struct sequence_rows *rows, void *whole,
                      void *part);

/* Where a row-parallel layer writes what sequence_scatter adds up: 'whole', or 'part' with one
 * rank.
 */
void *sequence_unreduced(const struct overlap *overlap, void *part, void *whole);

#endif
