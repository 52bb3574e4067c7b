/* SPDX-License-Identifier: Apache-2.0 */
/* The layout of the output: the position of every part in the output files, computed once from the
 * footers of all parts. */
#ifndef MEGATRON_PREPROCESS_OUTPUT_LAYOUT_H
#define MEGATRON_PREPROCESS_OUTPUT_LAYOUT_H

#include "encode.h"

/* A position in the output: the totals of everything before it, over all shards. */
struct position {
    int64_t documents;
    int64_t tokens[PART_KEYS], sequences[PART_KEYS];
};

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

/* Compute the layout from the parts of all chunks, as the work of 'job'. Logs the first faulty
 * documents. Returns 0 or -1. The caller must clear 'layout'. */
int output_layout_make(struct output_layout *layout, struct encode *encode, struct job *job,
                       struct error *err);
void output_layout_clear(struct output_layout *layout);

/* Write a layout as the result of a job, and read it again. */
void output_layout_put(const struct output_layout *layout, struct bytes *bytes);
int output_layout_take(struct output_layout *layout, struct bytes *bytes);

#endif
