/* The plans of all operations of a model, made once. */
#include "model_private.h"

#include <math.h>
#include <stddef.h>
#include <string.h>

/* All plans that fail to be made leave the first error; later ones are not tried. */
struct planner {
    struct model *m;
    struct error *err;
    int failed;
};

static void make(struct planner *p, struct device_plan **plan, const struct operation *operation)
{
    if (p->failed)
        return;
    *plan = plan_create(p->m->device, operation, p->err);
    p->failed = !*plan;
}

/* 'bias' of the forward pass and of the weight gradient; with 'activation' the layer has it behind
 * it; 'behind' is the activation in front of it, whose gradient its dgrad takes, with the bias
 * gradient of the layer before if 'bias_behind'. */
static void make_linear(struct planner *p, struct linear_plans *plans, struct linear_shape shape,
                        enum activation behind, int bias_behind, int bias_in_wgrad)
{
    struct operation op = {
        .kind = OPERATION_LINEAR_FORWARD, .head = plans == &p->m->head, .linear = shape};

    make(p, &plans->forward, &op);
    if (p->m->config.cache > 0)
        return;
    op.kind = OPERATION_LINEAR_DGRAD;
    op.linear.activation = behind;
    op.linear.bias = bias_behind;
    op.linear.save_pre = 0;
    make(p, &plans->dgrad, &op);
    op.kind = OPERATION_LINEAR_WGRAD;
    op.linear.activation = ACTIVATION_NONE;
    op.linear.bias = bias_in_wgrad;
    make(p, &plans->wgrad, &op);
}

static void make_linears(struct planner *p)
{
    struct model *m = p->m;
    const struct model_config *c = &m->config;
    const struct model_sizes *z = &m->sizes;
    enum activation activation = c->swiglu ? ACTIVATION_NONE : ACTIVATION_GELU_TANH;
    int qkv_bias = c->linear_bias || c->qkv_bias;

    make_linear(p, &m->qkv,
                (struct linear_shape){z->rows, z->hidden, z->qkv, linear_types(c->type), qkv_bias,
                                      ACTIVATION_NONE, 0},
                ACTIVATION_NONE, 0, qkv_bias);
    make_linear(p, &m->projection,
                (struct linear_shape){z->rows, z->attention, z->hidden, linear_types(c->type), 0,
                                      ACTIVATION_NONE, 0},
                ACTIVATION_NONE, 0, 0);
    /* The bias gradient of fc1 comes with the dgrad of fc2, except behind SwiGLU. */
    make_linear(p, &m->fc1,
                (struct linear_shape){z->rows, z->hidden, z->fc1, linear_types(c->type),
                                      c->linear_bias, activation, !c->swiglu && c->cache == 0},
                ACTIVATION_NONE, 0, c->linear_bias && c->swiglu);
    make_linear(p, &m->fc2,
                (struct linear_shape){z->rows, z->ffn, z->hidden, linear_types(c->type), 0,
                                      ACTIVATION_NONE, 0},
                activation, c->linear_bias && !c->swiglu, 0);
    if (m->parameters.head >= 0)
        make_linear(p, &m->head,
                    (struct linear_shape){z->head_rows, z->hidden, z->vocabulary,
                                          linear_types(c->type), 0, ACTIVATION_NONE, 0},
                    ACTIVATION_NONE, 0, 0);
}

static void make_norms(struct planner *p)
{
    struct model *m = p->m;
    const struct model_config *c = &m->config;

    for (int b = 0; b < BOUNDARIES; b++) {
        struct operation op = {
            .kind = OPERATION_RESIDUAL_NORM,
            .residual_norm = {
                .rows = m->sizes.part_rows,
                .cols = m->sizes.hidden,
                .type = c->type,
                .y_type = c->type,
                .norm = b == BOUNDARY_END ? NORM_NONE : c->norm,
                .epsilon = c->epsilon,
                .input = b != BOUNDARY_START,
                .bias = c->linear_bias && (b == BOUNDARY_MIDDLE || b == BOUNDARY_END),
                .residual = b != BOUNDARY_EMBEDDING,
                .dropout = b == BOUNDARY_START ? 0 : c->hidden_dropout,
            }};

        if (c->cache == 0) {
            make(p, &m->norms[b][PASS_FORWARD], &op);
            op.kind = OPERATION_RESIDUAL_NORM_BACKWARD;
            make(p, &m->norms[b][PASS_BACKWARD], &op);
        }
        op.kind = OPERATION_RESIDUAL_NORM;
        op.residual_norm.dropout = 0;
        make(p, &m->norms_evaluate[b], &op);
    }
}

static void make_cached_attention(struct planner *p)
{
    struct model *m = p->m;
    const struct model_config *c = &m->config;
    const struct model_sizes *z = &m->sizes;
    struct operation put = {.kind = OPERATION_GATHER_ROWS,
                            .gather_rows = {z->rows, z->kv, c->type, z->qkv, 0, 1}};
    struct operation op = {.kind = OPERATION_ATTENTION,
                           .attention = {
                               .batch = z->samples,
                               .q_rows = z->sequence,
                               .heads = z->heads,
                               .kv_heads = z->groups,
                               .head_size = z->head_size,
                               .type = c->type,
                               .q = {z->sequence * z->qkv, z->qkv, z->head_size},
                               .kv = {z->cache * z->kv, z->kv, z->head_size},
                               .out = {z->sequence * z->attention, z->attention, z->head_size},
                               .scale = 1 / sqrt((double)z->head_size),
                               .causal = 1,
                               .cached = 1,
                               .all_heads = c->shape.heads,
                               .first_head = z->heads * m->parallel->at.tp,
                               .sequence = z->cache,
                           }};
    int64_t reach = FIRST_REACH;

    make(p, &m->cache_put, &put);
    while (reach < z->sequence)
        reach *= 2;
    for (; m->reaches < REACHES; reach *= 2) {
        op.attention.kv_rows = m->reach[m->reaches] = reach < z->cache ? reach : z->cache;
        make(p, &m->cached[m->reaches++], &op);
        if (reach >= z->cache)
            break;
    }
}

static void make_attention(struct planner *p)
{
    struct model *m = p->m;
    const struct model_config *c = &m->config;
    const struct model_sizes *z = &m->sizes;
    struct zigzag split = zigzag_split(c->shape.sequence, m->parallel->layout.cp);

    for (int64_t i = 0; i < z->slices; i++) {
        struct range rows = zigzag_slice(&split, m->parallel->at.cp, i);
        int64_t kv_rows = rows.first + rows.count; /* causal: keys up to the last query */
        int64_t kv_width = z->slices == 1 ? z->qkv : z->kv;
        struct operation op = {
            .kind = OPERATION_ATTENTION,
            .attention = {
                .batch = c->micro_batch,
                .q_rows = z->slice_rows,
                .kv_rows = kv_rows,
                .heads = z->heads,
                .kv_heads = z->groups,
                .head_size = z->head_size,
                .type = c->type,
                .q = {z->sequence * z->qkv, z->qkv, z->head_size},
                .kv = {(z->slices == 1 ? z->sequence : c->shape.sequence) * kv_width, kv_width,
                       z->head_size},
                .out = {z->sequence * z->attention, z->attention, z->head_size},
                .scale = 1 / sqrt((double)z->head_size),
                .causal = 1,
                .documents = c->documents,
                .dropout = c->attention_dropout,
                .all_heads = c->shape.heads,
                .first_head = z->heads * m->parallel->at.tp,
                .sequence = c->shape.sequence,
            }};

        make(p, &m->attention[PASS_FORWARD][i], &op);
        op.kind = OPERATION_ATTENTION_BACKWARD;
        make(p, &m->attention[PASS_BACKWARD][i], &op);
        op.kind = OPERATION_ATTENTION;
        op.attention.dropout = 0;
        make(p, &m->attention_evaluate[i], &op);
    }
}

static void make_context(struct planner *p)
{
    struct model *m = p->m;
    const struct model_sizes *z = &m->sizes;
    enum device_type type = m->config.type;
    int64_t all = z->rows * m->parallel->layout.cp;
    struct operation pack = {.kind = OPERATION_GATHER_ROWS,
                             .gather_rows = {z->rows, z->kv, type, z->qkv, 0, 0}};
    struct operation unpack = {.kind = OPERATION_GATHER_ROWS,
                               .gather_rows = {z->rows, z->kv, type, 0, z->qkv, 0}};
    struct operation order = {.kind = OPERATION_GATHER_ROWS,
                              .gather_rows = {all, z->kv, type, 0, 0, 0}};
    struct operation add = {.kind = OPERATION_ADD, .add = {all * z->kv, type}};
    struct operation clear = {.kind = OPERATION_FILL, .fill = {all * z->kv, type, 0}};

    if (z->slices == 1)
        return;
    make(p, &m->kv_pack, &pack);
    make(p, &m->kv_unpack, &unpack);
    make(p, &m->kv_order, &order);
    make(p, &m->dkv_add, &add);
    make(p, &m->dkv_clear, &clear);
}

static void make_elementwise(struct planner *p)
{
    struct model *m = p->m;
    const struct model_config *c = &m->config;
    const struct model_sizes *z = &m->sizes;
    struct operation swiglu = {.kind = OPERATION_SWIGLU,
                               .swiglu = {z->rows, z->ffn, c->type, c->type}};
    struct operation rope = {
        .kind = OPERATION_ROPE,
        .rope = {z->rows, z->heads + z->groups, z->head_size, z->rotary, z->qkv, c->type, 0}};
    struct operation activation = {
        .kind = OPERATION_ACTIVATION,
        .activation = {z->rows * z->ffn, c->type, c->type, ACTIVATION_GELU_TANH}};

    if (c->swiglu)
        make(p, &m->swiglu[PASS_FORWARD], &swiglu);
    if (c->position == POSITION_ROPE)
        make(p, &m->rope[PASS_FORWARD], &rope);
    if (c->cache > 0)
        return;
    swiglu.kind = OPERATION_SWIGLU_BACKWARD;
    if (c->swiglu)
        make(p, &m->swiglu[PASS_BACKWARD], &swiglu);
    else
        make(p, &m->activation, &activation);
    rope.rope.backward = 1;
    if (c->position == POSITION_ROPE)
        make(p, &m->rope[PASS_BACKWARD], &rope);
}

static void make_ends(struct planner *p)
{
    struct model *m = p->m;
    const struct model_config *c = &m->config;
    const struct model_sizes *z = &m->sizes;
    int tp = (int)m->parallel->layout.tp, learned = m->parameters.position >= 0;
    int64_t first =
        range_tensor(&m->parallel->layout, &m->parallel->at, c->padded_vocabulary).first;
    struct operation word = {
        .kind = OPERATION_EMBEDDING,
        .embedding = {z->rows, z->hidden, first, z->vocabulary, c->type, tp == 1 && learned, 0}};
    struct operation position = {
        .kind = OPERATION_EMBEDDING,
        .embedding = {z->part_rows, z->hidden, 0, c->positions, c->type, 0, 1}};
    struct operation wanted = {.kind = OPERATION_GATHER_ROWS,
                               .gather_rows = {z->head_rows, z->hidden, c->type, 0, 0, 0}};
    struct operation loss = {
        .kind = OPERATION_CROSS_ENTROPY_PARTIAL,
        .cross_entropy = {z->head_rows, z->vocabulary, first, c->shape.vocabulary, c->type, tp, 1}};

    if (m->parameters.word >= 0)
        make(p, &m->embedding, &word);
    if (learned)
        make(p, &m->embedding_position, &position);
    if (m->parameters.head >= 0 && c->cache > 0)
        make(p, &m->head_gather, &wanted);
    if (c->cache > 0)
        return;
    word.kind = OPERATION_EMBEDDING_BACKWARD;
    if (m->parameters.word >= 0)
        make(p, &m->embedding_backward, &word);
    position.kind = OPERATION_EMBEDDING_BACKWARD;
    if (learned)
        make(p, &m->position_backward, &position);
    if (m->parameters.head >= 0) {
        make(p, &m->loss_partial, &loss);
        loss.kind = OPERATION_CROSS_ENTROPY_FINISH;
        make(p, &m->loss_finish, &loss);
        loss.cross_entropy.backward = 0;
        make(p, &m->loss_finish_evaluate, &loss);
    }
}

int model_create_plans(struct model *model, struct error *err)
{
    struct planner p = {model, err, 0};

    make_linears(&p);
    make_norms(&p);
    if (model->config.cache > 0)
        make_cached_attention(&p);
    else
        make_attention(&p);
    make_context(&p);
    make_elementwise(&p);
    make_ends(&p);
    return p.failed ? -1 : 0;
}

static void destroy_linear(struct linear_plans *plans)
{
    plan_destroy(plans->forward);
    plan_destroy(plans->dgrad);
    plan_destroy(plans->wgrad);
}

void model_destroy_plans(struct model *m)
{
    struct linear_plans *linears[] = {&m->qkv, &m->projection, &m->fc1, &m->fc2, &m->head};
    struct device_plan *others[] = {
        m->rope[0],           m->rope[1],      m->swiglu[0],          m->swiglu[1],
        m->activation,        m->embedding,    m->embedding_position, m->embedding_backward,
        m->position_backward, m->loss_partial, m->loss_finish,        m->loss_finish_evaluate,
        m->kv_pack,           m->kv_unpack,    m->kv_order,           m->dkv_add,
        m->dkv_clear,         m->cache_put,    m->head_gather,
    };

    for (size_t i = 0; i < sizeof(linears) / sizeof(linears[0]); i++)
        destroy_linear(linears[i]);
    for (int b = 0; b < BOUNDARIES; b++) {
        plan_destroy(m->norms[b][PASS_FORWARD]);
        plan_destroy(m->norms[b][PASS_BACKWARD]);
        plan_destroy(m->norms_evaluate[b]);
    }
    for (int i = 0; i < 2; i++) {
        plan_destroy(m->attention[PASS_FORWARD][i]);
        plan_destroy(m->attention[PASS_BACKWARD][i]);
        plan_destroy(m->attention_evaluate[i]);
    }
    for (int i = 0; i < m->reaches; i++)
        plan_destroy(m->cached[i]);
    for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++)
        plan_destroy(others[i]);
}
