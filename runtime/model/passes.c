/* Forward and backward passes of a chunk of layers. */
#include "model_private.h"
#include "rng.h"

/* Layer 'i' of a chunk: its place among the rank's layers, and among all. */
static int64_t local_layer(const struct model *m, int chunk, int64_t i)
{
    return chunk * m->sizes.layers + i;
}

static int64_t global_layer(const struct model *m, int chunk, int64_t i)
{
    return model_layer(&m->config, &m->parallel->layout, m->parallel->at.pp, chunk, i);
}

static const int64_t *part_index(const struct model *m, const struct slot *slot)
{
    return slot->batch.row_index + first_row(m);
}

/* The chunk's first sum1 and y1. */
static void enter(struct model *m, const struct chunk *chunk, int number, struct slot *slot,
                  int evaluate)
{
    const struct layer_tensors *t = &m->parameters.layers[local_layer(m, number, 0)];
    struct layer_memory *a = &slot->layers[0];
    enum boundary boundary = chunk->first ? BOUNDARY_EMBEDDING : BOUNDARY_START;

    if (chunk->first)
        embedding_forward(m, slot);
    else
        device_copy(m->compute, a->sum1, m->scratch.arrived,
                    (size_t)(m->sizes.part_rows * m->sizes.hidden) * type_size(m->config.type),
                    COPY_ON_DEVICE);
    run_residual_norm(evaluate ? m->norms_evaluate[boundary] : m->norms[boundary][PASS_FORWARD],
                      m->compute,
                      &(struct residual_norm_operands){
                          .x = m->scratch.x,
                          .residual = a->sum1,
                          .sum = a->sum1,
                          .weight = weight(m, t->norm1),
                          .norm_bias = weight(m, t->norm1_bias),
                          .y = a->y1,
                          .mean = a->mean1,
                          .rstd = a->rstd1,
                          .row_index = part_index(m, slot),
                          .state = m->state,
                          .purpose = RNG_EMBEDDING_DROPOUT,
                      });
}

/* What lies behind layer 'i': the next layer's first norm, the final norm, or the end of a chunk.
 */
struct behind {
    enum boundary boundary;
    int norm, norm_bias;
    void *sum, *y;
    float *mean, *rstd;
};

static struct behind behind_layer(struct model *m, const struct chunk *chunk, int number,
                                  struct slot *slot, int64_t i)
{
    struct layer_memory *next = &slot->layers[i + 1];
    const struct layer_tensors *t;

    if (i + 1 < m->sizes.layers) {
        t = &m->parameters.layers[local_layer(m, number, i + 1)];
        return (struct behind){BOUNDARY_MIDDLE, t->norm1,    t->norm1_bias, next->sum1,
                               next->y1,        next->mean1, next->rstd1};
    }
    if (chunk->last)
        return (struct behind){BOUNDARY_MIDDLE,
                               m->parameters.final_norm,
                               m->parameters.final_norm_bias,
                               slot->sum_out,
                               slot->y_out,
                               slot->mean,
                               slot->rstd};
    return (struct behind){BOUNDARY_END, -1, -1, slot->sum_out, NULL, NULL, NULL};
}

void model_on_use(struct model *m, void (*use)(void *context, int chunk, int64_t layer),
                  void *context)
{
    m->use = use;
    m->use_context = context;
}

void model_forward(struct model *m, int number, int slot_number, int evaluate, int accumulate)
{
    struct chunk *chunk = &m->chunks[number];
    struct slot *slot = &chunk->slots[slot_number];

    if (m->use)
        m->use(m->use_context, number, 0);
    enter(m, chunk, number, slot, evaluate);
    for (int64_t i = 0; i < m->sizes.layers; i++) {
        const struct layer_tensors *t = &m->parameters.layers[local_layer(m, number, i)];
        struct behind b = behind_layer(m, chunk, number, slot, i);

        layer_forward(m, slot, local_layer(m, number, i), global_layer(m, number, i),
                      &slot->layers[i], evaluate);
        /* The step to come holds the first norm of the layer behind this one. */
        if (m->use && i + 1 < m->sizes.layers)
            m->use(m->use_context, number, i + 1);
        run_residual_norm(evaluate ? m->norms_evaluate[b.boundary]
                                   : m->norms[b.boundary][PASS_FORWARD],
                          m->compute,
                          &(struct residual_norm_operands){
                              .x = m->scratch.x,
                              .bias = weight(m, t->fc2_bias),
                              .residual = slot->layers[i].sum2,
                              .sum = b.sum,
                              .weight = weight(m, b.norm),
                              .norm_bias = weight(m, b.norm_bias),
                              .y = b.y,
                              .mean = b.mean,
                              .rstd = b.rstd,
                              .row_index = part_index(m, slot),
                              .state = m->state,
                              .purpose = (uint32_t)(RNG_MLP_DROPOUT + global_layer(m, number, i)),
                          });
    }
    if (chunk->last && m->config.cache > 0)
        head_logits(m, slot);
    else if (chunk->last)
        head_forward(m, slot, evaluate, accumulate);
}

/* Gradients through the chunk's first norm, to its input. */
static void leave(struct model *m, const struct chunk *chunk, int number, struct slot *slot,
                  int accumulate)
{
    const struct layer_tensors *t = &m->parameters.layers[local_layer(m, number, 0)];
    struct layer_memory *a = &slot->layers[0];
    struct scratch *s = &m->scratch;
    enum boundary boundary = chunk->first ? BOUNDARY_EMBEDDING : BOUNDARY_START;
    void *d = chunk->first ? s->d : slot->gradient;

    run_residual_norm_backward(m->norms[boundary][PASS_BACKWARD], m->compute,
                               &(struct residual_norm_backward_operands){
                                   .dy = s->dy,
                                   .dsum = s->d,
                                   .sum = a->sum1,
                                   .weight = weight(m, t->norm1),
                                   .mean = a->mean1,
                                   .rstd = a->rstd1,
                                   .dresidual = d,
                                   .dx = s->dx,
                                   .dweight = gradient(m, t->norm1),
                                   .dnorm_bias = gradient(m, t->norm1_bias),
                                   .accumulate = accumulate,
                                   .row_index = part_index(m, slot),
                                   .state = m->state,
                                   .purpose = RNG_EMBEDDING_DROPOUT,
                               });
    if (chunk->first)
        embedding_backward(m, slot, m->config.hidden_dropout > 0 ? s->dx : s->d, accumulate);
}

void model_backward(struct model *m, int number, int slot_number, int accumulate,
                    void (*ready)(void *context, int chunk, int64_t layer), void *context)
{
    struct chunk *chunk = &m->chunks[number];
    struct slot *slot = &chunk->slots[slot_number];
    struct scratch *s = &m->scratch;

    for (int64_t i = m->sizes.layers - 1; i >= 0; i--) {
        const struct layer_tensors *t = &m->parameters.layers[local_layer(m, number, i)];
        struct behind b = behind_layer(m, chunk, number, slot, i);
        int outermost = i == m->sizes.layers - 1;
        int again = m->config.recompute != RECOMPUTE_NONE && i < m->config.recompute_layers;

        run_residual_norm_backward(
            m->norms[b.boundary][PASS_BACKWARD], m->compute,
            &(struct residual_norm_backward_operands){
                .dy = outermost ? slot->y_out : s->dy,
                .dsum = !outermost    ? s->d
                        : chunk->last ? NULL
                                      : s->arrived_gradient,
                .sum = b.sum,
                .weight = weight(m, b.norm),
                .mean = b.mean,
                .rstd = b.rstd,
                .dresidual = s->d,
                .dx = s->dx,
                .dweight = gradient(m, b.norm),
                .dnorm_bias = gradient(m, b.norm_bias),
                .dbias = gradient(m, t->fc2_bias),
                .accumulate = accumulate,
                .row_index = part_index(m, slot),
                .state = m->state,
                .purpose = (uint32_t)(RNG_MLP_DROPOUT + global_layer(m, number, i)),
            });
        /* The step just taken held the first norm of the layer behind this one. */
        if (ready && !outermost)
            ready(context, number, i + 1);
        if (again)
            layer_recompute(m, slot, local_layer(m, number, i), global_layer(m, number, i),
                            &slot->layers[i]);
        layer_backward(m, slot, local_layer(m, number, i), global_layer(m, number, i),
                       &slot->layers[i], accumulate);
    }
    leave(m, chunk, number, slot, accumulate);
    if (ready)
        ready(context, number, 0);
}
