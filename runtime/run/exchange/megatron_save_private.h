/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by the files that write Megatron-LM checkpoints. */
#ifndef MEGATRON_MEGATRON_SAVE_PRIVATE_H
#define MEGATRON_MEGATRON_SAVE_PRIVATE_H

#include "megatron_private.h"
#include "megatron_save.h"
#include "torch_writer.h"

/* A save in progress. */
struct saving {
    const char *to, *from;
    const struct checkpoint_index *index;
    const struct megatron_target *target;
    struct megatron_split split;
    struct parameters parameters; /* of the whole model */
};

/* A tensor of Megatron-LM: one of ours, or several that it joins. */
struct saved {
    int number;       /* of the first of ours among the parameters */
    int64_t layer;    /* -1: it belongs to no layer */
    const char *name; /* Megatron-LM's, after the number of the layer */
    const struct megatron_name *row;
    int vector;
    int64_t rows, cols; /* of one rank's part; a vector is one column */
};

/* Describe the tensor that starts with parameter 'number'. Returns 0: it starts none. */
int saved_describe(const struct saving *saving, int number, struct saved *saved);

/* The elements of all ranks' parts, one after the other, in the target's type; the caller frees
 * them. NULL with 'err' set. */
void *saved_read(const struct saving *saving, const struct saved *saved, struct error *err);

/* Bytes of one rank's part. */
size_t saved_bytes(const struct saving *saving, const struct saved *saved);

/* Modules whose state beside their parameters is empty, but expected; NULL at the end. Those of a
 * layer, and of none. */
const char *const *saved_states(int local, int of_layer);

/* Append what all files contain: the arguments, the iteration, the version. The dict is open. */
void saved_put_common(const struct saving *saving, struct pickle_writer *pickle);

/* Open 'name' in the directory that is being written; -1 with 'err' set. */
int saved_open(const struct saving *saving, const char *name, char path[PATH_MAX],
               struct error *err);

/* Flush and close it. */
int saved_close(int fd, const char *path, struct error *err);

/* megatron_save_dist.c: the distributed checkpoint. */
int megatron_save_dist(const struct saving *saving, struct error *err);

#endif
