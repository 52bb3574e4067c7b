/* The parallel layout: how ranks are divided, and whether a model and a job can be divided so. */
#ifndef MEGATRON_LAYOUT_H
#define MEGATRON_LAYOUT_H

#include <stdint.h>
#include "error.h"
#include "preset.h"

/* world = tp * cp * dp * pp, tp fastest, as Megatron orders its ranks. */
struct layout {
    int64_t tp, cp, dp, pp;
};

struct layout_position {
    int64_t tp, cp, dp, pp;
};

/* How the options are called where the layout comes from, for the errors:
 * {"--megatron-tp", ...} in the plugin, {"--tensor-model-parallel-size", ...} in the runtime. */
struct layout_names {
    const char *tp, *pp, *cp;
};
extern const struct layout_names layout_names_plugin, layout_names_runtime;

/* Set layout->dp for 'world' ranks from the other three. Returns -1 where tp*pp*cp does not divide.
 */
int layout_divide(struct layout *layout, int64_t world, const struct layout_names *names,
                  struct error *err);

/* Can 'shape' be divided so: heads, query groups, hidden, ffn by tp; layers by pp (and by pp times
 * 'chunks' virtual stages; 1 without); the sequence by tp and 2*cp? Returns 0 or -1. */
int layout_check_model(const struct layout *layout, const struct model_shape *shape, int64_t chunks,
                       const struct layout_names *names, struct error *err);

/* Does a tensor-parallel group stay within a node of 'tasks' tasks and 'gpus' GPUs (0: not known or
 * none asked for)? Ranks without GPUs may be spread, and the only task of a node may stand for
 * many. Returns 0 or -1. */
int layout_check_node(const struct layout *layout, int64_t tasks, int64_t gpus,
                      const struct layout_names *names, struct error *err);

/* Where 'rank' stands, and back. */
struct layout_position layout_position(const struct layout *layout, int64_t rank);
int64_t layout_rank(const struct layout *layout, struct layout_position position);

#endif
