/* What the files of the model share. */
#ifndef MEGATRON_MODEL_PRIVATE_H
#define MEGATRON_MODEL_PRIVATE_H

#include "model.h"

/* What a layer keeps for its backward pass. With recomputation some of it is scratch that layers
 * share. Shapes beside the pointers: R rows, P part_rows, h hidden. */
struct layer_memory {
    void *sum1, *y1;       /* (P, h) residual stream into the layer, and its norm */
    float *mean1, *rstd1;  /* (P) */
    void *qkv;             /* (R, qkv) rotated */
    void *attention;       /* (R, attention) */
    float *lse;            /* (batch, heads, sequence) */
    void *sum2, *y2;       /* (P, h) */
    float *mean2, *rstd2;  /* (P) */
    void *pre, *activated; /* (R, fc1), (R, ffn) */
};

struct slot {
    struct model_batch batch;
    struct layer_memory *layers;
    void *sum_out;      /* (P, h) residual stream behind the last layer */
    void *y_out;        /* (P, h) its norm, in the chunk with the head; then its gradient */
    float *mean, *rstd; /* (P) of that norm */
    void *gradient;     /* (P, h) of the chunk's input */
};

struct chunk {
    struct slot *slots;
    int slot_count;
    int first, last; /* has the embedding, has the head */
};

/* Buffers any layer may use between two operations. */
struct scratch {
    void *whole1, *whole2; /* (R, h) where tp > 1 */
    void *x;               /* (P, h) output of a row-parallel layer */
    void *d;               /* (P, h) gradient of the residual stream */
    void *dx, *dy;         /* (P, h) */
    void *dqkv, *dattention, *dactivated;
    void *arrived;          /* (P, h) where pp > 1: the next input of a chunk */
    void *arrived_gradient; /* (P, h) where pp > 1: the next gradient of an output */
    void *logits;           /* (head_rows, vocabulary) */
    void *head_x;           /* (head_rows, h) where a model generates: what logits are wanted of */
    float *partial, *partials;
    void *kv_part, *kv_ranks, *kv, *dkv[2]; /* keys and values over all context-parallel ranks */
    struct layer_memory layer;              /* for recomputation */
};

enum pass { PASS_FORWARD, PASS_BACKWARD, PASSES };

/* Plans of one linear layer. */
struct linear_plans {
    struct device_plan *forward, *dgrad, *wgrad;
};

/* Where a step of the residual stream stands decides what goes in and out of it. */
enum boundary {
    BOUNDARY_EMBEDDING, /* behind the embedding */
    BOUNDARY_START,     /* first of a later chunk, or a norm made again */
    BOUNDARY_MIDDLE,
    BOUNDARY_END, /* last of a chunk without head: no norm */
    BOUNDARIES,
};

/* Plans of attention on a cache, each for twice the length of the one before: a step costs what the
 * text so far is long, not what the cache could hold. */
enum { REACHES = 24, FIRST_REACH = 256 };

/* Memory that a group's library was told of. */
struct registration {
    struct comm_group *group;
    void *handle;
};

enum { REGISTRATIONS = 4 };

struct model {
    struct model_config config;
    struct model_sizes sizes;
    const struct parallel *parallel;
    struct device *device;
    struct parameters parameters;
    struct device_stream *compute, *side;
    struct device_event *compute_mark, *side_mark;
    char *weights;
    float *gradients;
    char *activations;
    char *cache;        /* (layers, samples, cache, kv) */
    struct model *base; /* whose weights, cache, streams and rotations these are, or NULL */
    struct registration registered[REGISTRATIONS];
    int registered_count;
    struct step_state *state;
    void *staged[MODEL_STAGED];                           /* see model_staged */
    void (*use)(void *context, int chunk, int64_t layer); /* see model_on_use; or NULL */
    void *use_context;
    struct chunk *chunks;
    struct scratch scratch;
    float *cosine, *sine;
    /* Where cp > 1: row orders of gathered keys and values. */
    int32_t *kv_identity, *kv_by_position, *kv_by_rank;

    struct linear_plans qkv, projection, fc1, fc2, head;
    struct device_plan *norms[BOUNDARIES][PASSES];
    struct device_plan *norms_evaluate[BOUNDARIES];
    struct device_plan *attention[PASSES][2], *attention_evaluate[2]; /* one per piece */
    struct device_plan *rope[PASSES], *swiglu[PASSES], *activation;
    struct device_plan *embedding, *embedding_position, *embedding_backward;
    struct device_plan *position_backward;
    struct device_plan *loss_partial, *loss_finish, *loss_finish_evaluate;
    struct device_plan *cached[REACHES], *cache_put, *head_gather;
    int64_t reach[REACHES];
    int reaches, reached; /* plans there are, and the one for this pass */
    struct device_plan *kv_pack, *kv_unpack, *kv_order, *dkv_add, *dkv_clear;
};

/* Everything of a model that needs no device. */
struct model *model_create_shell(const struct model_config *config, const struct parallel *parallel,
                                 const int *slots, struct error *err);

/* window.c: the cache of a model that generates; nothing for one that trains. */
int model_create_cache(struct model *model, struct error *err);

int model_create_plans(struct model *model, struct error *err);
void model_destroy_plans(struct model *model);

/* Lay out all activations from 'base' (NULL: only count). Returns the bytes. */
size_t model_place(struct model *model, char *base);

/* registered.c: before the memory goes. */
void model_unregister(struct model *model);

/* Weight and main gradient of a tensor; NULL for tensor -1. */
static inline void *weight(struct model *m, int tensor)
{
    if (tensor < 0)
        return NULL;
    return m->weights + (size_t)m->parameters.tensors[tensor].offset * type_size(m->config.type);
}

static inline float *gradient(struct model *m, int tensor)
{
    return tensor < 0 ? NULL : m->gradients + m->parameters.tensors[tensor].offset;
}

/* This rank's first row under sequence parallelism. */
static inline int64_t first_row(const struct model *m)
{
    return range_tensor(&m->parallel->layout, &m->parallel->at, m->sizes.rows).first;
}

/* Has the side stream work at all? */
static inline int has_side(const struct model *m)
{
    return m->parallel->layout.tp > 1 || m->parallel->layout.cp > 1;
}

/* From here on the side stream may work on what the compute stream has done, and the other way. */
static inline void side_follows(struct model *m)
{
    if (!has_side(m))
        return;
    device_event_record(m->compute_mark, m->compute);
    device_event_follow(m->side, m->compute_mark);
}

static inline void compute_follows(struct model *m)
{
    if (!has_side(m))
        return;
    device_event_record(m->side_mark, m->side);
    device_event_follow(m->compute, m->side_mark);
}

/* Sequence parallelism. Begin to gather the parts (P, h) to 'whole' (R, h), or to add up the wholes
 * into parts, on the side stream; compute_follows() before the result is used. Where there is one
 * rank the part is the whole: gather returns 'part' itself. */
void *gather_rows_begin(struct model *m, void *part, void *whole);
void scatter_rows_begin(struct model *m, void *whole, void *part);

/* Where a row-parallel layer (or a column-parallel dgrad) writes what scatter_rows_begin adds up.
 */
static inline void *unscattered(struct model *m, void *part)
{
    return m->parallel->layout.tp == 1 ? part : m->scratch.whole2;
}

/* layer.c */
void layer_forward(struct model *m, struct slot *slot, int64_t tensors, int64_t global,
                   struct layer_memory *memory, int evaluate);
void layer_recompute(struct model *m, struct slot *slot, int64_t tensors, int64_t global,
                     struct layer_memory *memory);
void layer_backward(struct model *m, struct slot *slot, int64_t tensors, int64_t global,
                    struct layer_memory *memory, int accumulate);

/* attention.c: all heads of this rank, over all context-parallel ranks. */
void attention_forward(struct model *m, struct slot *slot, int64_t tensors, int64_t global,
                       struct layer_memory *memory, int evaluate);
void attention_backward(struct model *m, struct slot *slot, int64_t global,
                        struct layer_memory *memory);

/* ends.c: the embedding and the head. */
void embedding_forward(struct model *m, struct slot *slot);
void embedding_backward(struct model *m, struct slot *slot, void *dx, int accumulate);
void head_forward(struct model *m, struct slot *slot, int evaluate, int accumulate);
void head_logits(struct model *m, struct slot *slot);

#endif
