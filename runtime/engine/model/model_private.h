/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of the model share. */
#ifndef MEGATRON_MODEL_PRIVATE_H
#define MEGATRON_MODEL_PRIVATE_H

#include "block.h"
#include "fp8_layers.h"
#include "model.h"
#include "engine/device/plans.h"
#include "engine/parallel/overlap.h"

/* Memory of a micro-batch between its forward and its backward pass through a chunk. Slot i of any
 * chunk is the same memory. Batch and gradient have memory of their own in it: the gradient may
 * still be on its way to another stage when a forward pass of another chunk uses the slot. */
struct slot {
    struct model_batch batch;
    void **memory;  /* one entry per block of the chunk, of the kind's structure */
    void *gradient; /* (P, h) of the chunk's input; NULL in the chunk with the embedding */
};

struct chunk {
    struct block *blocks;
    int block_count;
    struct slot *slots; /* as many as the model has */
    int first, last;    /* has the embedding, has the head */
};

/* Buffers that any block may use between two operations. Shapes here and in the blocks: R rows of
 * the micro-batch on this context-parallel rank, P of these on this rank under sequence
 * parallelism, h hidden. */
struct scratch {
    void *whole1,
        *whole2;   /* (R, h) with tp > 1: gathered rows; partial sums before they are reduced */
    void *x;       /* (P, h) output of a branch, without its bias */
    void *d;       /* (P, h) gradient of the residual stream */
    void *dx;      /* (P, h) gradient of a branch's output, with dropout */
    void *dy;      /* (P, h) gradient of a norm's output */
    void *arrived; /* (P, h) with pp > 1: the next input of a chunk */
    void *arrived_gradient; /* (P, h) with pp > 1: the next gradient of an output */
};

/* Memory registered with the library of a group. */
struct registration {
    struct comm_group *group;
    void *handle;
};

enum { REGISTRATIONS = 4 };

/* What blocks of one kind and variant share. */
struct common {
    struct block *block; /* the first of them */
    void *shared;        /* kind->common_size bytes, owned */
};

/* Memory that the layers which do not keep theirs share: by kind and position within the layer. */
struct shared_memory {
    struct block like; /* kind and position, and no fp8 */
    void *memory;      /* kind->memory_size bytes, owned */
};

struct model {
    struct model_config config;
    struct model_sizes sizes;
    const struct parallel *parallel;
    struct device *device;
    struct parameters parameters;
    struct plans plans;     /* of all blocks */
    struct overlap overlap; /* the compute stream, and collectives beside it */
    char *weights;
    char *gradients; /* config's type of gradients */
    float *vectors;  /* gradients of vectors until a bucket is complete; NULL: in 'gradients' */
    float *start_weights; /* see struct model_facts; NULL: in gradients */
    char *activations;
    char *cache;        /* KV cache: (layers, samples, cache, kv) */
    struct model *base; /* the owner of weights, cache, streams and tables, or NULL */
    struct registration registered[REGISTRATIONS];
    int registered_count;
    struct step_state *state;
    void *staged[MODEL_STAGED];                           /* see struct model_facts */
    void (*use)(void *context, int chunk, int64_t layer); /* see model_on_use; or NULL */
    void *use_context;
    struct chunk *chunks;
    int slots;
    struct common *commons;
    int common_count;
    struct shared_memory *shared;
    int shared_count;
    struct scratch scratch;
    struct fp8_layers fp8;
    void *logits;    /* of the head, or NULL */
    int64_t longest; /* see model_extend */
};

/* A pass of a micro-batch through a chunk, and what goes from block to block in a backward pass. */
struct pass {
    struct model *m;
    struct slot *slot;
    enum mode mode;
    int accumulate;
    void *dx;   /* (P, h) gradient of the branch's output */
    void *dy;   /* (P, h) gradient of the norm's output; NULL if it has none */
    void *dsum; /* (P, h) gradient of the residual stream after the norm; NULL: 0 */
};

/* Everything of a model that needs no device. */
struct model *model_create_shell(const struct model_config *config, const struct parallel *parallel,
                                 int slots);

/* block_commons.c: what blocks share, from the list of blocks; then plans and tables. */
void model_create_commons(struct model *model);
int model_prepare_blocks(struct model *model, struct error *err);
void model_destroy_commons(struct model *model);
/* The memory that such blocks of layers share. */
struct shared_memory *model_shared_memory(const struct model *model, const struct block *block);
/* What blocks of the kind and variant share in 'model'; NULL: it has no such block. */
void *model_common(const struct model *model, const struct block_kind *kind, int variant);

/* decoding.c: the KV cache of a model that generates; nothing for one that trains. */
int model_create_cache(struct model *model, struct error *err);

/* Lay out all activations from 'base' (NULL: only count). Returns the bytes. */
size_t model_lay_out(struct model *model, char *base);

/* memory.c: the next 'elements' of 'size' bytes of an arena; NULL if it only counts. */
void *arena_take(struct arena *arena, int64_t elements, size_t size);

/* Copy a table to device memory and wait for it, unless the planner has failed. */
void model_upload(struct planner *planner, struct model *model, void *to, const void *from,
                  size_t bytes);

/* Set elements in device memory to 0, and wait; nothing if there are none. */
int model_clear(struct model *model, void *memory, int64_t elements, enum device_type type,
                struct error *err);

/* comm_memory.c: before the memory goes. */
void model_unregister(struct model *model);

/* Weight and main gradient of a tensor; NULL for tensor -1. */
static inline void *weight(struct model *m, int tensor)
{
    const struct tensor *t = tensor < 0 ? NULL : &m->parameters.tensors[tensor];

    return t ? m->weights + bucket_weight(&m->parameters.buckets[t->bucket], t->offset) : NULL;
}

/* That of a matrix or table has config's type of gradients, that of a vector is fp32. */
static inline void *gradient(struct model *m, int tensor)
{
    const struct tensor *t = tensor < 0 ? NULL : &m->parameters.tensors[tensor];

    if (!t)
        return NULL;
    if (m->vectors && class_has_vectors(t->class))
        return m->vectors + parameters_vector(&m->parameters, t);
    return m->gradients + (size_t)t->offset * type_size(m->config.numerics.gradient_type);
}

/* Element 'elements' of a tensor of the config's type. */
static inline void *element(struct model *m, void *base, int64_t elements)
{
    return (char *)base + (size_t)elements * type_size(m->config.numerics.type);
}

/* Memory of a block in the slot of the pass. */
static inline void *memory_of(const struct pass *p, const struct block *block)
{
    return p->slot->memory[block->index];
}

/* This rank's first row under sequence parallelism. */
static inline int64_t first_row(const struct model *m)
{
    return range_tensor(&m->parallel->layout, &m->parallel->at, m->sizes.rows).first;
}

static inline int trains(const struct model *m)
{
    return m->config.decoding.cache == 0;
}

static inline struct device_stream *compute(struct model *m)
{
    return m->overlap.compute;
}

/* norm.c: the output of a norm block, and the residual stream after it; both (P, h). */
void *norm_output(const struct pass *pass, const struct block *norm);
/* What is kept of its cast: by the norm if it casts, or 'own', of the branch after it, if it defers
 * the cast; otherwise NULL. */
const struct fp8_input *norm_cast(const struct pass *pass, const struct block *norm,
                                  const struct fp8_input *own);
void *norm_stream(const struct pass *pass, const struct block *norm);

#endif
