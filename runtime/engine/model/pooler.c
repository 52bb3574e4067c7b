/* SPDX-License-Identifier: Apache-2.0 */
#include "pooler.h"

enum { DENSE, DENSE_BIAS, CLASSIFIER, CLASSIFIER_BIAS };

enum { LABELS = 2 };

void pooler_add_parameters(struct builder *b, struct block *block, int *t)
{
    const struct model_config *c = b->config;
    int64_t h = c->network.shape.hidden;

    t[DENSE] = builder_matrix(
        b, block,
        &(struct parameter_spec){"pooler.weight", h, h, SPLIT_ROWS, 5, c->network.init_std, 0});
    t[DENSE_BIAS] = builder_tensor(b, CLASS_RAW);
    builder_add(b, block, &(struct parameter_spec){"pooler.bias", 1, h, SPLIT_COLS, 0, 0, 0});
    t[CLASSIFIER] = builder_matrix(b, block,
                                   &(struct parameter_spec){"binary.weight", LABELS, h, SPLIT_COLS,
                                                            6, c->network.init_std, 0});
    t[CLASSIFIER_BIAS] = builder_vector(b, block, "binary.bias", LABELS, 0);
}

static int64_t part_of(const struct model *m)
{
    return m->sizes.hidden / m->parallel->layout.tp;
}

void pooler_lay_out(struct model *m, struct pooler *pooler, struct arena *arena)
{
    const struct model_sizes *z = &m->sizes;
    size_t size = type_size(m->config.numerics.type);

    pooler->x = arena_take(arena, z->samples * z->hidden, size);
    pooler->pre = arena_take(arena, z->samples * part_of(m), size);
    pooler->pooled = arena_take(arena, z->samples * part_of(m), size);
    pooler->d = arena_take(arena, z->samples * part_of(m), size);
    pooler->logits = arena_take(arena, z->samples * LABELS, size);
}

static void plan_elements(struct planner *p, struct model *m, struct pooler *pooler)
{
    const struct model_sizes *z = &m->sizes;
    enum device_type type = m->config.numerics.type;
    struct operation select = {.kind = OPERATION_GATHER_ROWS,
                               .gather_rows = {z->samples, z->hidden, type, 0, 0, 0}};
    struct operation add = {.kind = OPERATION_ADD, .add = {z->samples * z->hidden, type}};
    struct operation clear = {.kind = OPERATION_FILL, .fill = {LABELS, TYPE_FP32, 0}};
    struct operation tanh = {
        .kind = OPERATION_ACTIVATION,
        .activation = {z->samples * part_of(m), type, type, ACTIVATION_TANH, 0}};

    pooler->select = plan_make(p, &select);
    select.gather_rows.scatter = 1;
    pooler->unselect = plan_make(p, &select);
    pooler->add = plan_make(p, &add);
    pooler->clear_bias = plan_make(p, &clear);
    pooler->tanh = plan_make(p, &tanh);
    tanh.activation.backward = 1;
    pooler->tanh_backward = plan_make(p, &tanh);
}

void pooler_plan(struct planner *p, struct model *m, struct pooler *pooler)
{
    const struct model_sizes *z = &m->sizes;
    const struct linear_spec dense = {
        .rows = z->samples, .in = z->hidden, .out = part_of(m), .bias = 1};
    struct linear_spec classifier = {.rows = z->samples, .in = part_of(m), .out = LABELS};
    struct operation loss = {.kind = OPERATION_CROSS_ENTROPY_FINISH,
                             .cross_entropy = {.rows = z->samples,
                                               .cols = LABELS,
                                               .vocabulary = LABELS,
                                               .type = m->config.numerics.type,
                                               .parts = 1,
                                               .backward = 1,
                                               .pair = 1}};

    pooler->has_bias = m->parallel->at.tp == 0;
    classifier.bias = pooler->has_bias;
    plan_elements(p, m, pooler);
    linear_plan(p, m, &pooler->dense, &dense);
    linear_plan(p, m, &pooler->classifier, &classifier);
    pooler->finish[MODE_TRAIN] = plan_make(p, &loss);
    loss.cross_entropy.backward = 0;
    pooler->finish[MODE_EVALUATE] = plan_make(p, &loss);
}

/* Replace a matrix of one row per sample by its sum over the tensor-parallel ranks. */
static void reduce(struct model *m, void *rows, int64_t cols)
{
    if (m->parallel->layout.tp == 1)
        return;
    overlap_begin(&m->overlap);
    comm_all_reduce(m->parallel->tensor, m->overlap.side, rows, (size_t)(m->sizes.samples * cols),
                    m->config.numerics.type, COMM_SUM);
    overlap_end(&m->overlap);
}

/* The bias of the classifier is replicated, and such gradients are added up over the
 * tensor-parallel ranks later: one rank computes it. */
static void classifier_backward(struct pass *p, const struct pooler *pooler, const int *t)
{
    struct model *m = p->m;
    float *dbias = gradient(m, t[CLASSIFIER_BIAS]);

    run_linear_wgrad(pooler->classifier.wgrad, compute(m),
                     &(struct linear_wgrad_operands){.dy = pooler->logits,
                                                     .x = pooler->pooled,
                                                     .dweight = gradient(m, t[CLASSIFIER]),
                                                     .dbias = dbias,
                                                     .accumulate = p->accumulate});
    if (!pooler->has_bias && !p->accumulate)
        run_fill(pooler->clear_bias, compute(m), &(struct fill_operands){dbias});
    run_linear_dgrad(pooler->classifier.dgrad, compute(m),
                     &(struct linear_dgrad_operands){.dy = pooler->logits,
                                                     .weight = weight(m, t[CLASSIFIER]),
                                                     .dx = pooler->d});
}

static void differentiate(struct pass *p, const struct pooler *pooler, const int *t, void *pair)
{
    struct model *m = p->m;

    classifier_backward(p, pooler, t);
    run_activation(
        pooler->tanh_backward, compute(m),
        &(struct activation_operands){.x = pooler->pre, .y = pooler->d, .dy = pooler->d});
    run_linear_wgrad(pooler->dense.wgrad, compute(m),
                     &(struct linear_wgrad_operands){.dy = pooler->d,
                                                     .x = pooler->x,
                                                     .dweight = gradient(m, t[DENSE]),
                                                     .dbias = gradient(m, t[DENSE_BIAS]),
                                                     .accumulate = p->accumulate});
    run_linear_dgrad(pooler->dense.dgrad, compute(m),
                     &(struct linear_dgrad_operands){
                         .dy = pooler->d, .weight = weight(m, t[DENSE]), .dx = pair});
    reduce(m, pair, m->sizes.hidden);
}

void pooler_forward(struct pass *p, const struct pooler *pooler, const int *t, const void *stream,
                    void *pair)
{
    struct model *m = p->m;
    const struct model_batch *batch = &p->slot->batch;

    run_gather_rows(pooler->select, compute(m),
                    &(struct gather_rows_operands){stream, batch->pair_row, pooler->x});
    reduce(m, pooler->x, m->sizes.hidden);
    run_linear_forward(pooler->dense.forward, compute(m),
                       &(struct linear_forward_operands){.x = pooler->x,
                                                         .weight = weight(m, t[DENSE]),
                                                         .bias = weight(m, t[DENSE_BIAS]),
                                                         .y = pooler->pre});
    run_activation(pooler->tanh, compute(m),
                   &(struct activation_operands){.x = pooler->pre, .y = pooler->pooled});
    run_linear_forward(pooler->classifier.forward, compute(m),
                       &(struct linear_forward_operands){.x = pooler->pooled,
                                                         .weight = weight(m, t[CLASSIFIER]),
                                                         .bias = weight(m, t[CLASSIFIER_BIAS]),
                                                         .y = pooler->logits});
    reduce(m, pooler->logits, LABELS);
    run_cross_entropy_finish(
        pooler->finish[p->mode], compute(m),
        &(struct cross_entropy_finish_operands){pooler->logits, batch->pair_targets, NULL,
                                                batch->pair_weight, NULL, m->state, NULL});
    if (p->mode == MODE_TRAIN)
        differentiate(p, pooler, t, pair);
}

void pooler_backward(struct pass *p, const struct pooler *pooler, const void *pair, void *dstream)
{
    struct model *m = p->m;
    const int32_t *rows = p->slot->batch.pair_row;

    run_gather_rows(pooler->select, compute(m),
                    &(struct gather_rows_operands){dstream, rows, pooler->x});
    run_add(pooler->add, compute(m), &(struct add_operands){pair, pooler->x});
    run_gather_rows(pooler->unselect, compute(m),
                    &(struct gather_rows_operands){pooler->x, rows, dstream});
}
