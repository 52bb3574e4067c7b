/* SPDX-License-Identifier: Apache-2.0 */
/* fp8_scales of a checkpoint: the scaling state of all fp8 tensors of the model, which every rank
 * has, so that it does not depend on the layout. A header of SCALING_HEADER bytes, padded with
 * spaces,
 *
 *   megatron fp8 scales 1 hybrid delayed count 48 history 16 checksum 0123456789abcdef
 *
 * is followed by fp32 numbers: the scales (count) and the history (history, count), the oldest step
 * first. The checksum is that of the numbers. The header of delayed scaling continues with " margin
 * 0 algorithm max", or "most_recent". */
#ifndef MEGATRON_SCALING_FILE_H
#define MEGATRON_SCALING_FILE_H

#include "index.h"

#define SCALING_NAME "fp8_scales"
enum { SCALING_HEADER = 128 };

/* What a checkpoint was trained with. */
struct scaling_found {
    int present; /* it has fp8 scales */
    int hybrid, delayed, blocks;
    int64_t length;          /* of the history */
    int margin, most_recent; /* of delayed scaling */
};

/* The longest history of 'count' tensors that a file may have, in steps. */
int64_t scaling_file_longest(int64_t count);

/* Write the file to 'directory' and fill in its record for the index; 'kept' is laid out as
 * fp8_layers.h describes it. */
int scaling_file_write(const char *directory, const struct scaling_rules *rules, const float *kept,
                       struct index_scales *record, struct error *err);

/* Read the file, if the index has a record of it, into 'kept' (or NULL: only 'found'). The state is
 * 0, with which the next step uses current scales, if it cannot be taken over: there is none, or
 * its format or recipe is another. With another margin or algorithm the scales are 0, and the
 * history is taken over. Of a longer history the last steps are taken. Returns 0,
 * CHECKPOINT_DAMAGED, CHECKPOINT_UNREADABLE or -1. */
int scaling_file_read(const char *directory, const struct index_scales *record,
                      const struct scaling_rules *rules, float *kept, struct scaling_found *found,
                      struct error *err);

/* Were its scales computed with the margin and the algorithm of these rules? */
int scaling_same_scales(const struct scaling_found *found, const struct scaling_rules *rules);

/* "most_recent" or "max". */
const char *scaling_algorithm_name(int most_recent);

/* "delayed", "tensorwise" or "blockwise". */
const char *scaling_recipe_name(int delayed, int blocks);

#endif
