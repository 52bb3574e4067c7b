/* SPDX-License-Identifier: Apache-2.0 */
/* A block is one step of a network: embedding, norm, attention, MLP or head. The file of each kind
 * owns its parameters, plans, memory and passes; block_list.c has the tables of which blocks a
 * network consists of; passes.c walks along them.
 *
 * The residual stream connects them. Embedding, attention and MLP are branches: they take the
 * output of the norm before them and leave theirs in scratch.x, without its bias. The norm after a
 * branch adds bias, dropout and residual and normalizes, in one operation. So a network alternates
 * between norms and branches; norm.c has the other places of a norm. */
#ifndef MEGATRON_BLOCK_H
#define MEGATRON_BLOCK_H

#include "fp8_layers.h"
#include "model_config.h"
#include "parameters.h"

#include <stdbool.h>

struct arena;
struct builder;
struct model;
struct pass;
struct planner;

/* Passes whose plans differ. A model that generates has plans of MODE_EVALUATE only. */
enum mode { MODE_TRAIN, MODE_EVALUATE, MODES };

/* What a block of a layer keeps from its forward to its backward pass. */
enum keep {
    KEEP_ALL,
    KEEP_COSTLY,  /* selective recomputation: all but what is cheap to compute and large to keep */
    KEEP_INPUT,   /* full recomputation: the residual stream into the layer */
    KEEP_NOTHING, /* generation: there is no backward pass */
};

/* The place of a norm; see norm.c. */
enum norm_place {
    NORM_INPUT,     /* before a branch, whose input it normalizes */
    NORM_PARALLEL,  /* between attention and an MLP that take the same residual stream */
    NORM_OUTPUT,    /* at the end of a branch, whose output it normalizes */
    NORM_STREAM,    /* after a branch: it normalizes the residual stream itself */
    NORM_EMBEDDING, /* after the embeddings; its output is the residual stream */
};

enum { BLOCK_TENSORS = 10 };

struct block {
    const struct block_kind *kind;
    const char *name;      /* of its parameters, after "layers.N."; NULL: it has none of its own */
    enum norm_place place; /* of a norm */
    struct block *before;
    int index;        /* among the blocks of its chunk */
    int64_t layer;    /* of its chunk; -1 outside the layers */
    int64_t number;   /* of the layer, counted over the whole model; -1 outside the layers */
    int64_t local;    /* of the layer, counted over the rank; -1 outside the layers */
    int position;     /* within the layer */
    int window;       /* tokens of its layer see a window only */
    int fp8;          /* its layer is one with fp8 */
    bool casts;       /* norm: it writes its output as e4m3, for the branch after it */
    bool defers_cast; /* norm: the branch after it casts its output and keeps only the fp8 copy */
    int variant;      /* blocks of one kind and variant share plans */
    /* Of the branch, for the norm after it: the tensor of its bias, or -1, and the purpose of the
     * dropout on its output. */
    int bias;
    uint32_t dropout_purpose;
    int tensors[BLOCK_TENSORS]; /* numbers in parameters.tensors; each kind names the entries */
    void *common;               /* plans and scratch memory that blocks of the variant share */
};

struct block_kind {
    const char *name;
    size_t memory_size;           /* of the structure with its pointers into the memory of a slot */
    size_t common_size;           /* of the structure with what blocks of a variant share */
    int linear_count, linears[2]; /* its linear layers, as entries of 'tensors' */
    enum linear_kind first_linear;

    /* Add its parameters to those of the rank, and set tensors, bias and dropout_purpose. */
    void (*add_parameters)(struct builder *builder, struct block *block);
    /* The variant of a block; NULL: there is only one. */
    int (*variant)(const struct network *network, const struct block *block);

    /* Lay out the memory of a slot that 'keep' asks for; the rest is shared with other layers and
     * has been set. NULL: none. */
    void (*lay_out)(struct model *m, const struct block *block, void *memory, struct arena *arena,
                    enum keep keep);
    /* Lay out scratch memory; NULL: none. */
    void (*lay_out_common)(struct model *m, struct block *block, struct arena *arena);

    /* Create the plans for all modes of the model and fill tables in device memory. */
    void (*prepare)(struct planner *planner, struct model *m, struct block *block);

    void (*forward)(struct pass *pass, struct block *block);
    /* Compute again what the block of a recomputed layer did not keep. NULL: nothing. */
    void (*recompute)(struct pass *pass, struct block *block);
    void (*backward)(struct pass *pass, struct block *block);
};

extern const struct block_kind embedding_block, norm_block, attention_block, mlp_block, head_block,
    mlm_head_block;

/* The blocks of a rank, chunk by chunk. */
struct block_list {
    struct block *blocks;
    int count;
    int *first; /* chunks + 1 entries: where each chunk begins */
};

/* The blocks of the rank at 'at'. Caller must destroy. */
struct block_list *block_list_create(const struct model_config *config, const struct layout *layout,
                                     const struct layout_position *at);
void block_list_destroy(struct block_list *list);

/* The rotation of channel pair 'i' of 'rotary' / 2 per position, in radians; 'window': in a layer
 * with a window. */
double rotary_rotation(const struct network *config, int window, int64_t rotary, int64_t i);

/* The factor of all sines and cosines. */
double rotary_magnitude(const struct network *config, int window);

#endif
