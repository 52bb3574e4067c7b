/* SPDX-License-Identifier: Apache-2.0 */
/* Every split of a tensor over ranks, one formula each. Pure functions of the layout: any rank's
 * part can be computed on any rank, without a device. */
#ifndef MEGATRON_RANGES_H
#define MEGATRON_RANGES_H

#include <stdint.h>
#include "lib/layout.h"

/* Elements first .. first + count - 1 of something. */
struct range {
    int64_t first, count;
};

/* Part 'i' of 'total' elements in 'parts' equal, consecutive parts. 'parts' divides 'total'. */
struct range range_part(int64_t total, int64_t parts, int64_t i);

/* What two ranges have in common; count 0 if nothing. */
struct range range_intersect(struct range a, struct range b);

/* --- Tensor parallelism ------------------------------------------------------------------------
 * Column-parallel weights are split by rows, row-parallel ones by columns, vocabulary tables by
 * token, and, between the layers, activations by row (sequence parallelism): always into equal,
 * consecutive parts in the order of the tensor-parallel ranks. */
struct range range_tensor(const struct layout *layout, const struct layout_position *at,
                          int64_t total);

/* The part of range_tensor(padded) that holds tokens of the vocabulary; the rest is padding. */
struct range range_vocabulary(const struct layout *layout, const struct layout_position *at,
                              int64_t padded, int64_t vocabulary);

/* --- Context parallelism -----------------------------------------------------------------------
 * The zigzag split: a sequence is cut into 2 * cp slices, and rank r holds slices r and
 * 2 * cp - 1 - r, one after the other, so that all ranks do the same share of causal attention.
 * With cp = 1 there is one slice, the sequence itself. */
struct zigzag {
    int64_t cp, slices; /* slices of a sequence on each rank: 2, or 1 without context parallelism */
    int64_t rows;       /* positions of a slice */
};

struct zigzag zigzag_split(int64_t sequence, int64_t cp);

/* The positions of the whole sequence that slice 'i' of 'rank' covers. */
struct range zigzag_slice(const struct zigzag *split, int64_t rank, int64_t i);

/* The position in the whole sequence of row 'row' of 'rank'. */
int64_t zigzag_position(const struct zigzag *split, int64_t rank, int64_t row);

/* --- ZeRO-1 sharding ---------------------------------------------------------------------------
 * The ranks with the same weights (data- and context-parallel) divide the optimizer: each bucket of
 * parameters is cut into as many equal shards, in the order of these ranks. */
int64_t shard_count(const struct layout *layout);
int64_t shard_number(const struct layout *layout, const struct layout_position *at);

/* Shard 'shard' of 'shards' of a bucket, as elements of the arena. */
struct range shard_range(struct range bucket, int64_t shards, int64_t shard);

#endif
