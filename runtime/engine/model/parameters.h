/* SPDX-License-Identifier: Apache-2.0 */
/* The weights of one rank: its tensors, their part of the whole model, and their offsets in the
 * arenas. Weights, main gradients and (in shards) the optimizer's arrays all use this one order;
 * only weights may be of another type in some buckets.
 * Needs no device: the weights of any rank can be listed anywhere. */
#ifndef MEGATRON_PARAMETERS_H
#define MEGATRON_PARAMETERS_H

#include "model_config.h"
#include "engine/parallel/ranges.h"

/* Elements of an arena are ordered by bucket, and within a bucket by class: the elements with
 * weight decay come first, and those that are replicated over tensor-parallel ranks are adjacent.
 */
enum parameter_class {
    CLASS_DIVIDED,    /* with weight decay, split over tensor-parallel ranks */
    CLASS_TIED,       /* the last stage's copy of a tied embedding: not counted in norms */
    CLASS_SHARED,     /* with weight decay, replicated over tensor-parallel ranks */
    CLASS_SHARED_RAW, /* without weight decay, replicated */
    CLASS_RAW,        /* without weight decay, split */
    CLASS_COUNT,
};

/* Several ranks may hold the same parameters of a class. Does the one at 'at' own them, that is,
 * count them in norms and write them to checkpoints? Each parameter has one owner among
 * tensor-parallel ranks and stages. */
static inline int class_is_owned(enum parameter_class class, const struct layout_position *at)
{
    if (class == CLASS_TIED)
        return 0;
    return at->tp == 0 || (class != CLASS_SHARED && class != CLASS_SHARED_RAW);
}

/* Vectors have no weight decay; they are the last elements of a bucket. */
static inline int class_has_vectors(enum parameter_class class)
{
    return class == CLASS_SHARED_RAW || class == CLASS_RAW;
}

/* Rows first_row .. first_row + rows - 1 and columns first_col .. of a tensor of the whole model.
 * Vectors have one row. */
struct parameter {
    char name[64]; /* of the whole tensor: "layers.3.attention.query.weight" */
    int64_t rows, cols, first_row, first_col, all_rows, all_cols;
    int64_t true_rows; /* rows from here on are padding of the vocabulary */
    int64_t offset;    /* first element in the arenas; dense */
    enum parameter_class class;
    int tensor;       /* the fused tensor it is a part of */
    double deviation; /* standard deviation of its initial values */
    double start;     /* its initial value if deviation is 0 */
    uint32_t purpose; /* of the random draw */
};

/* A tensor as kernels see it: one parameter or several, one after the other. */
struct tensor {
    int64_t offset, elements;
    int bucket;
    enum parameter_class class;
    int first, pieces; /* among the parameters */
};

/* Consecutive elements of the arena whose gradients are reduced together. Each of the ranks with
 * the same weights (parallel->data) optimizes one shard of it (ZeRO-1). With fp8.gather the weights
 * of fp8 layers are in buckets of their own. */
struct bucket {
    enum device_type type;            /* of its weights: config's, or e4m3 */
    size_t weights;                   /* where they begin in the arena of weights, in bytes */
    int shards;                       /* as many as there are such ranks */
    int64_t first, size;              /* size is a multiple of 'shards' */
    int64_t class_first[CLASS_COUNT]; /* where each class begins, from 'first' on */
    int64_t class_size[CLASS_COUNT];
    int64_t decayed;     /* elements from the start */
    int64_t shard_first; /* first element of this rank's shard in the shard arenas */
    int64_t vectors;     /* its vectors and the padding after them, among those of all buckets */
    int chunk;           /* its gradients are complete after the backward pass */
    int64_t layer;       /* of this layer of this chunk */
};

struct block_list;

struct parameters {
    struct parameter *list;
    int count;
    struct tensor *tensors;
    int tensor_count;
    struct bucket *buckets;
    int bucket_count;
    struct block_list *blocks; /* the blocks that the tensors belong to */
    int word, head;          /* tensors of the word table and the head; -1 if another rank has it */
    int64_t elements;        /* of the arenas, with padding */
    size_t weight_bytes;     /* of the arena of weights */
    int64_t shard_elements;  /* of this rank's shards of all buckets */
    int64_t vector_elements; /* of the vectors of all buckets, with padding */
    int64_t true_elements;   /* parameters of this rank, without padding */
};

/* Shard 'shard' of a bucket, as elements of the arenas. */
static inline struct range bucket_shard(const struct bucket *bucket, int64_t shard)
{
    return shard_range((struct range){bucket->first, bucket->size}, bucket->shards, shard);
}

/* Where the weight of element 'at' of a bucket is in the arena of weights, in bytes. */
static inline size_t bucket_weight(const struct bucket *bucket, int64_t at)
{
    return bucket->weights + (size_t)(at - bucket->first) * type_size(bucket->type);
}

/* The vectors of a bucket and the padding after them, as elements of the arenas. */
static inline struct range bucket_vectors(const struct bucket *bucket)
{
    int64_t first = bucket->class_first[CLASS_SHARED_RAW];

    return (struct range){bucket->first + first, bucket->size - first};
}

/* Where a tensor of vectors begins among the vectors of all buckets. */
static inline int64_t parameters_vector(const struct parameters *p, const struct tensor *tensor)
{
    const struct bucket *bucket = &p->buckets[tensor->bucket];

    return bucket->vectors + tensor->offset - bucket_vectors(bucket).first;
}

/* The weights of the rank at 'at'. Caller must destroy. */
void parameters_create(struct parameters *parameters, const struct model_config *config,
                       const struct layout *layout, const struct layout_position *at);
void parameters_destroy(struct parameters *parameters);

#endif
