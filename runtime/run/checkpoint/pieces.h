/* SPDX-License-Identifier: Apache-2.0 */
/* Pieces: the parts of the whole model's tensors that one rank's optimizer shard contains. They are
 * the unit in which checkpoints are written and read, independent of the layout of ranks. */
#ifndef MEGATRON_PIECES_H
#define MEGATRON_PIECES_H

#include "engine/model/parameters.h"

/* Elements start .. start + count - 1, row by row, of a parameter's local (rows, cols). No piece
 * contains padding of the vocabulary, which is always 0. */
struct piece {
    int parameter; /* index in the list of parameters */
    int64_t start, count;
    int64_t shard; /* its first element in the shard arenas */
};

struct pieces {
    struct piece *list;
    int count;
    int64_t elements; /* total of all pieces */
};

enum pieces_of {
    PIECES_HELD,    /* everything the rank has */
    PIECES_WRITTEN, /* what it writes: of replicated tensors, only one rank writes each */
};

/* The pieces of the rank at position 'at', which has optimizer shard number 'shard'. Caller must
 * destroy. */
void pieces_create(struct pieces *pieces, const struct parameters *parameters,
                   const struct layout_position *at, int64_t shard, enum pieces_of of);
void pieces_destroy(struct pieces *pieces);

#endif
