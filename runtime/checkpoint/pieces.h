/* What one rank's share of the optimizer holds of the whole model's tensors: the unit in which
 * checkpoints are written and read, whatever the layout of ranks. */
#ifndef MEGATRON_PIECES_H
#define MEGATRON_PIECES_H

#include "parameters.h"

/* Elements start .. start + count - 1, row by row, of a parameter's own (rows, cols). Padding of
 * the vocabulary is in none: it is 0 and stays so. */
struct piece {
    int parameter; /* number in the list of parameters */
    int64_t start, count;
    int64_t shard; /* its first element in the shard arenas */
};

struct pieces {
    struct piece *list;
    int count;
    int64_t elements; /* of all pieces together */
};

enum pieces_of {
    PIECES_HELD,    /* all that the rank holds */
    PIECES_WRITTEN, /* what it writes: of tensors that several ranks hold, one writes each */
};

/* The pieces of the rank at 'at', which is number 'shard' among those that divide the optimizer.
 * Returns 0 or -1; pieces_destroy in both cases. */
int pieces_create(struct pieces *pieces, const struct parameters *parameters,
                  const struct layout_position *at, int64_t shard, enum pieces_of of,
                  struct error *err);
void pieces_destroy(struct pieces *pieces);

#endif
