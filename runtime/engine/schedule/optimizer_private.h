/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of the optimizer share. */
#ifndef MEGATRON_OPTIMIZER_PRIVATE_H
#define MEGATRON_OPTIMIZER_PRIVATE_H

#include "engine/device/plans.h"
#include "optimizer.h"

/* Consecutive elements of a shard whose squares count in the gradient norm. */
struct segment {
    struct device_plan *plan;
    struct device_plan *widen; /* 16-bit weights without master weights to fp32; NULL: not these */
    struct device_plan *sum;   /* of squares of fp32 numbers; NULL: 'plan' */
    int64_t first;             /* in the gradient arena */
    int64_t shard_first;       /* in the shard arenas */
    int64_t count;
};

/* How elements are updated. */
enum way { WAY_PLAIN, WAY_DECOUPLED, WAY_MUON };

/* The elements of an update that belong to a weight in fp8. */
struct slice {
    struct device_plan *cast;
    int tensor;
    int64_t first;  /* within the update */
    int64_t inside; /* within the weight */
};

/* The update of elements of a bucket's shard in the same way. */
struct update {
    enum way way;
    struct device_plan *plan;
    struct device_plan *momentum; /* Muon: what comes before the matrices are orthogonalized */
    int bucket;
    int64_t first; /* within the shard */
    int64_t count;
    int slice, slices; /* the first one, and how many: none if the bucket is not in fp8 */
};

struct optimizer {
    struct optimizer_config config;
    struct model *model;
    struct model_facts facts; /* of the model */
    const struct parameters *parameters;
    const struct parallel *parallel;
    struct device *device;
    struct plans plans;
    enum device_type type;
    int64_t rank; /* number of this rank's shards */
    struct device_stream *stream, *reduce_stream;
    struct device_event *ready, *reduced;
    struct device_event **gathered; /* one per bucket; NULL if it has one shard */
    char *gathering;                /* per bucket: the model's stream does not wait for it yet */
    struct device_plan **round;     /* per bucket: vectors into the arena; NULL: they are there */
    char *rounded;                  /* per bucket: that was done in this step */
    struct device_event *held;      /* what the next update waits for; NULL: nothing */
    struct optimizer_state state;
    struct update *updates; /* in the order of the buckets */
    int update_count;
    struct slice *slices; /* in the order of the updates */
    int slice_count;
    struct segment *segments;
    int segment_count;
    struct device_plan *phases[STEP_PHASES];
    struct muon *muon;    /* NULL: another optimizer */
    struct segment *sums; /* the segments in parts that are on the device; NULL: all of it is */
    int sum_count;
};

/* This rank's shard of a bucket, in the arenas. */
static inline struct range shard_of(const struct optimizer *o, const struct bucket *bucket)
{
    return bucket_shard(bucket, o->rank);
}

/* Element 'at' of the gradient arena. */
static inline void *gradient_at(const struct optimizer *o, int64_t at)
{
    return (char *)o->facts.gradients + (size_t)at * type_size(o->facts.gradient_type);
}

/* optimizer_plans.c: what is done with which elements. */
int optimizer_create_plans(struct optimizer *o, struct error *err);
void optimizer_destroy_plans(struct optimizer *o);

#endif
