/* SPDX-License-Identifier: Apache-2.0 */
/* Checkpoints of torch.distributed.checkpoint, which Megatron-LM calls torch_dist: the index in
 * .metadata, a pickle, describes the tensors and lists where the parts of each, its chunks, are in
 * the *.distcp files. Every chunk is a file of torch.save inside them. Nothing in the files is
 * executed. */
#ifndef MEGATRON_TORCH_DIST_H
#define MEGATRON_TORCH_DIST_H

#include "torch_file.h"

#define TORCH_DIST_INDEX ".metadata"

struct torch_dist_tensor {
    struct pickle_text name;
    int dimensions;
    int64_t shape[TORCH_DIMENSIONS];
    size_t first, chunks; /* range within the list of chunks */
};

struct torch_dist;

/* Open the directory of a checkpoint; the chunks are read when they are needed. Returns NULL with
 * 'err' set. Caller must destroy. */
struct torch_dist *torch_dist_open(const char *directory, struct error *err);
void torch_dist_destroy(struct torch_dist *dist);

/* The tensors in alphabetical order; NULL after the last. Objects that are not tensors are not
 * listed. */
const struct torch_dist_tensor *torch_dist_at(const struct torch_dist *dist, size_t index);

/* The tensor called 'name', or NULL. */
const struct torch_dist_tensor *torch_dist_find(const struct torch_dist *dist, const char *name);

/* Read a tensor as fp32, row by row, with at most two dimensions; of one with one more dimension,
 * its part 'index' of the first one. -1: the tensor is not divided in this way. */
int torch_dist_read(struct torch_dist *dist, const struct torch_dist_tensor *tensor, int64_t index,
                    float *out, struct error *err);

#endif
