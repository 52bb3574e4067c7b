/* SPDX-License-Identifier: Apache-2.0 */
/* The embedding block: the word table, split by vocabulary over the tensor-parallel ranks, and
 * tables of learned positions and of token types, which all of them hold. */
#include "builder.h"
#include "linear.h"
#include "base/core/rng.h"

#include <math.h>

enum { WORD, POSITION, TOKEN_TYPE };

struct embedding_common {
    struct device_plan *word, *word_backward;
    struct device_plan *position, *position_backward;
    struct device_plan *token_type, *token_type_backward;
    struct device_plan *scale; /* of word embeddings and their gradients; NULL: none */
};

static void add_parameters(struct builder *b, struct block *block)
{
    const struct model_config *c = b->config;

    block->tensors[WORD] = builder_vocabulary(b, block, "embedding.word.weight", 0, CLASS_DIVIDED);
    b->p->word = block->tensors[WORD];
    if (c->network.position == POSITION_LEARNED) {
        block->tensors[POSITION] = builder_tensor(b, CLASS_SHARED);
        builder_add(b, block,
                    &(struct parameter_spec){"position.weight", c->network.positions,
                                             c->network.shape.hidden, SPLIT_NONE, 1,
                                             c->network.init_std, 0});
    }
    if (c->network.token_types > 0) {
        block->tensors[TOKEN_TYPE] = builder_tensor(b, CLASS_SHARED);
        builder_add(b, block,
                    &(struct parameter_spec){"token_type.weight", c->network.token_types,
                                             c->network.shape.hidden, SPLIT_NONE, 3,
                                             c->network.init_std, 0});
    }
    block->dropout_purpose = RNG_EMBEDDING_DROPOUT;
}

/* With one tensor-parallel rank, one operation adds both tables. Otherwise the rows of words are
 * reduced and scattered first. A scale is that of the words only, which it multiplies before. */
static void prepare_tables(struct planner *p, struct model *m, struct block *block)
{
    const struct model_config *c = &m->config;
    const struct model_sizes *z = &m->sizes;
    const struct parallel *parallel = m->parallel;
    struct embedding_common *common = block->common;
    int learned = block->tensors[POSITION] >= 0;
    int fused = learned && parallel->layout.tp == 1 && !common->scale;
    int64_t first = range_tensor(&parallel->layout, &parallel->at, c->padded_vocabulary).first;
    struct operation word = {.kind = OPERATION_EMBEDDING,
                             .embedding = {z->rows, z->hidden, first, z->vocabulary,
                                           c->numerics.type, fused, 0, TYPE_FP32}};
    struct operation position = {.kind = OPERATION_EMBEDDING,
                                 .embedding = {z->part_rows, z->hidden, 0, c->network.positions,
                                               c->numerics.type, 0, 1, TYPE_FP32}};
    struct operation token_type = {.kind = OPERATION_EMBEDDING,
                                   .embedding = {z->part_rows, z->hidden, 0, c->network.token_types,
                                                 c->numerics.type, 0, 1, TYPE_FP32}};

    common->word = plan_make(p, &word);
    if (learned && !fused)
        common->position = plan_make(p, &position);
    if (c->network.token_types > 0)
        common->token_type = plan_make(p, &token_type);
    if (!trains(m))
        return;
    word.kind = position.kind = token_type.kind = OPERATION_EMBEDDING_BACKWARD;
    word.embedding.gradient = position.embedding.gradient = token_type.embedding.gradient =
        c->numerics.gradient_type;
    common->word_backward = plan_make(p, &word);
    if (learned)
        common->position_backward = plan_make(p, &position);
    if (c->network.token_types > 0)
        common->token_type_backward = plan_make(p, &token_type);
}

/* The scale in the precision of the embeddings, as models with a scale (Gemma) are trained. */
static double scale_of(const struct model_config *c)
{
    int exponent;
    double fraction = frexp(c->network.embedding_scale, &exponent);
    double bits = c->numerics.type == TYPE_BF16   ? 256
                  : c->numerics.type == TYPE_FP16 ? 2048
                                                  : 16777216;

    return ldexp(rint(fraction * bits) / bits, exponent);
}

static void prepare(struct planner *p, struct model *m, struct block *block)
{
    const struct model_config *c = &m->config;
    struct embedding_common *common = block->common;
    struct operation scale = {
        .kind = OPERATION_SCALE,
        .scale = {m->sizes.part_rows * m->sizes.hidden, c->numerics.type, scale_of(c)}};

    if (c->network.embedding_scale > 0)
        common->scale = plan_make(p, &scale);
    prepare_tables(p, m, block);
}

/* scratch.x (P, h) = embeddings of this rank's rows. */
static void forward(struct pass *p, struct block *block)
{
    struct model *m = p->m;
    const struct embedding_common *common = block->common;
    const struct model_batch *batch = &p->slot->batch;
    struct sequence_rows rows = stream_rows(m);
    void *out = sequence_unreduced(&m->overlap, m->scratch.x, m->scratch.whole2);
    void *positions = weight(m, block->tensors[POSITION]);

    run_embedding(common->word, compute(m),
                  &(struct embedding_operands){batch->tokens, weight(m, block->tensors[WORD]),
                                               batch->positions, positions, out});
    sequence_scatter(&m->overlap, &rows, out, m->scratch.x);
    overlap_end(&m->overlap);
    if (common->scale)
        run_scale(common->scale, compute(m), &(struct scale_operands){m->scratch.x});
    if (common->position)
        run_embedding(common->position, compute(m),
                      &(struct embedding_operands){batch->positions + first_row(m), positions, NULL,
                                                   NULL, m->scratch.x});
    if (common->token_type)
        run_embedding(common->token_type, compute(m),
                      &(struct embedding_operands){batch->token_types + first_row(m),
                                                   weight(m, block->tensors[TOKEN_TYPE]), NULL,
                                                   NULL, m->scratch.x});
}

static void backward(struct pass *p, struct block *block)
{
    struct model *m = p->m;
    const struct parameters *parameters = &m->parameters;
    const struct embedding_common *common = block->common;
    const struct model_batch *batch = &p->slot->batch;
    struct sequence_rows rows = stream_rows(m);
    void *whole = NULL;
    /* A tied head on this rank has written its gradient to the table already. */
    int added = p->accumulate || parameters->head == parameters->word;

    if (!common->scale)
        whole = sequence_gather(&m->overlap, &rows, p->dx, m->scratch.whole2);
    if (common->position_backward)
        run_embedding_backward(common->position_backward, compute(m),
                               &(struct embedding_backward_operands){
                                   batch->positions + first_row(m), p->dx,
                                   gradient(m, block->tensors[POSITION]), p->accumulate});
    if (common->token_type_backward)
        run_embedding_backward(common->token_type_backward, compute(m),
                               &(struct embedding_backward_operands){
                                   batch->token_types + first_row(m), p->dx,
                                   gradient(m, block->tensors[TOKEN_TYPE]), p->accumulate});
    if (common->scale) {
        run_scale(common->scale, compute(m), &(struct scale_operands){p->dx});
        whole = sequence_gather(&m->overlap, &rows, p->dx, m->scratch.whole2);
    }
    overlap_end(&m->overlap);
    run_embedding_backward(common->word_backward, compute(m),
                           &(struct embedding_backward_operands){
                               batch->tokens, whole, gradient(m, block->tensors[WORD]), added});
}

const struct block_kind embedding_block = {
    .name = "embedding",
    .common_size = sizeof(struct embedding_common),
    .add_parameters = add_parameters,
    .prepare = prepare,
    .forward = forward,
    .backward = backward,
};
