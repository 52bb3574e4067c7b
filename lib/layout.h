/* SPDX-License-Identifier: Apache-2.0 */
/* The parallel layout: how ranks are divided, and whether it fits a model and a job. */
#ifndef MEGATRON_LAYOUT_H
#define MEGATRON_LAYOUT_H

#include <stdint.h>
#include "error.h"
#include "preset.h"

/* world = tp * cp * dp * pp, with tp varying fastest, as in Megatron. */
struct layout {
    int64_t tp, cp, dp, pp;
};

struct layout_position {
    int64_t tp, cp, dp, pp;
};

/* The names of the options that set the layout, for errors. */
struct layout_names {
    const char *tp, *pp, *cp;
};

/* Set layout->dp for 'world' ranks from the other three. Returns 0, or -1 if tp*pp*cp does not
 * divide 'world'. */
int layout_divide(struct layout *layout, int64_t world, const struct layout_names *names,
                  struct error *err);

/* Does the layout fit 'shape': heads, query groups, hidden size and ffn size are divisible by tp;
 * layers by pp (times 'chunks' virtual stages; 1: none); the sequence by tp and 2*cp? Returns 0 or
 * -1. */
int layout_check_model(const struct layout *layout, const struct model_shape *shape, int64_t chunks,
                       const struct layout_names *names, struct error *err);

/* Does a tensor-parallel group stay within a node of 'tasks' tasks and 'gpus' GPUs (0: unknown or
 * none requested)? Ranks without GPUs may span nodes, and the only task of a node may drive several
 * GPUs. Returns 0 or -1. */
int layout_check_node(const struct layout *layout, int64_t tasks, int64_t gpus,
                      const struct layout_names *names, struct error *err);

/* Convert a rank to its coordinates, and back. */
struct layout_position layout_position(const struct layout *layout, int64_t rank);
int64_t layout_rank(const struct layout *layout, struct layout_position position);

#endif
