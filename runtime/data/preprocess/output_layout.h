/* SPDX-License-Identifier: Apache-2.0 */
/* The layout of the output: the position of every part in the output files, computed once from the
 * footers of all parts. */
#ifndef MEGATRON_PREPROCESS_OUTPUT_LAYOUT_H
#define MEGATRON_PREPROCESS_OUTPUT_LAYOUT_H

#include "part.h"
#include "data/jobs/board.h"
#include "data/jobs/work.h"

/* A position in the output: the totals of everything before it, over all shards. */
struct position {
    int64_t documents;
    int64_t tokens[PART_KEYS], sequences[PART_KEYS];
};

/* Advance past a part. */
void position_add(struct position *position, const struct part_totals *totals, size_t keys);

struct output_layout {
    size_t keys, id_size, shards;
    uint64_t tag;            /* in the names of draft files, so that two layouts never share them */
    size_t chunks;           /* number of chunks in use: fewer than all if documents are limited */
    struct position *begins; /* position of each chunk, and of the end of the last one */
    struct position *cuts;   /* position of each shard, and of the end */
    int64_t bytes, faults[FAULT_COUNT];
    size_t copies; /* copy jobs: job i is chunks [groups[i], groups[i + 1]) */
    size_t *groups;
    char first_fault[512]; /* location and text of the first faulty document; not stored */
};

/* Compute the layout from the parts of all chunks. If a part is damaged, removes it, resets its job
 * and returns 1: the chunk must be encoded again. Logs the first faulty documents. Touches 'claim',
 * the claim of the layout job, because this may take longer than the lease. Otherwise returns 0 or
 * -1. The caller must clear 'layout'. */
int output_layout_make(struct output_layout *layout, const struct preprocess_config *config,
                       const struct input_plan *plan, const struct tokenizer *tokenizer,
                       struct work *work, struct board *board, struct board *claim,
                       struct error *err);
void output_layout_clear(struct output_layout *layout);

/* If a layout exists already, it is kept. */
int output_layout_write(const struct output_layout *layout, const char *path, struct error *err);
/* Returns 0, 1 if there is no layout, or -1. */
int output_layout_read(struct output_layout *layout, const char *path, struct error *err);

/* Open the part of 'chunk', whose path also contains the counts in its job. */
struct part_reader *output_layout_open_part(struct work *work, struct board *board, size_t chunk,
                                            size_t keys, size_t id_size, int *torn,
                                            struct error *err);

#endif
