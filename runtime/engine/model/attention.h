/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of the attention block share: attention.c has the block, attention_softmax.c
 * softmax attention over the positions of this rank or of all context-parallel ranks,
 * attention_cache.c that over a KV cache. */
#ifndef MEGATRON_MODEL_ATTENTION_H
#define MEGATRON_MODEL_ATTENTION_H

#include "linear.h"

struct attention_memory {
    void *projected; /* (R, qkv) before norms of queries and keys, or clipping; NULL without them */
    float *head_mean, *head_rstd;                 /* (R, heads) of these norms */
    void *qkv;                                    /* (R, qkv) rotated */
    void *out;                                    /* (R, attention) */
    float *lse;                                   /* (batch, heads, sequence) */
    struct fp8_input qkv_input, projection_input; /* see linear_lay_out */
};

/* Plans of attention on a KV cache, each for twice the length of the one before: the cost of a step
 * grows with the text so far, not with the size of the cache. */
enum { REACHES = 24, FIRST_REACH = 256 };

struct attention_cache {
    struct device_plan *put; /* keys and values into the cache */
    struct device_plan *plans[REACHES];
    int64_t reach[REACHES]; /* positions that each plan looks at */
    int count;
};

/* Keys and values of whole sequences, gathered over the context-parallel ranks: (rank, sample,
 * slice, row) as they arrive, (sample, position) for attention. */
struct attention_context {
    struct device_plan *pack, *unpack, *order, *add, *clear;
    void *part, *ranks, *kv, *dkv[2];
    int32_t *identity, *by_position, *by_rank; /* row orders */
};

struct attention_common {
    struct linear qkv, projection;
    struct device_plan *head_norm, *head_norm_backward; /* NULL: none */
    struct device_plan *clip, *clip_backward;           /* NULL: none */
    struct device_plan *rope, *rope_backward;
    int window;           /* of layers with a window */
    float *cosine, *sine; /* (positions, rotary / 2) */
    /* qkv -> out, as the model's mode of working needs it. */
    void (*attend)(struct pass *pass, struct block *block);
    struct device_plan *softmax[MODES][2], *softmax_backward[2]; /* one per slice */
    struct attention_cache cache;
    struct attention_context context;
    void *dqkv, *dout; /* (R, qkv), (R, attention) */
};

/* attention.c: the factor of the scores. */
double attention_scale(const struct model_config *config);

/* attention_softmax.c */
void attention_softmax_lay_out(struct model *m, struct attention_common *common,
                               struct arena *arena);
void attention_softmax_prepare(struct planner *p, struct model *m, struct attention_common *common);
void attention_softmax_backward(struct pass *pass, struct block *block);

/* attention_cache.c */
void attention_cache_prepare(struct planner *p, struct model *m, struct attention_common *common);

#endif
