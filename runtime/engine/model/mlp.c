/* SPDX-License-Identifier: Apache-2.0 */
/* The MLP block: a column-parallel layer, an activation or a gate (SwiGLU, GeGLU), and a
 * row-parallel layer. */
#include "builder.h"
#include "linear.h"
#include "base/core/rng.h"

enum { FC1, FC1_BIAS, FC2, FC2_BIAS };

struct mlp_memory {
    void *pre, *activated;                 /* (R, fc1), (R, ffn) */
    struct fp8_input fc1_input, fc2_input; /* see linear_lay_out */
};

struct mlp_common {
    struct linear fc1, fc2;
    enum activation_at at;
    struct device_plan *gate, *gate_backward; /* with ACTIVATION_APART */
    struct device_plan *again;                /* recomputes 'activated' from 'pre' */
    void *dactivated;                         /* (R, ffn) */
};

/* The gate, if there is one, comes before the projection that it multiplies. */
static void add_parameters(struct builder *b, struct block *block)
{
    const struct model_config *c = b->config;
    int64_t h = c->network.shape.hidden, f = c->network.shape.ffn_hidden;
    int *t = block->tensors;

    t[FC1] = builder_tensor(b, CLASS_DIVIDED);
    if (c->network.swiglu)
        builder_add(
            b, block,
            &(struct parameter_spec){"gate.weight", f, h, SPLIT_ROWS, 4, c->network.init_std, 0});
    builder_add(b, block,
                &(struct parameter_spec){"up.weight", f, h, SPLIT_ROWS, 5, c->network.init_std, 0});
    if (c->network.linear_bias) {
        t[FC1_BIAS] = builder_tensor(b, CLASS_RAW);
        if (c->network.swiglu)
            builder_add(b, block, &(struct parameter_spec){"gate.bias", 1, f, SPLIT_COLS, 0, 0, 0});
        builder_add(b, block, &(struct parameter_spec){"up.bias", 1, f, SPLIT_COLS, 0, 0, 0});
    }
    t[FC2] = builder_matrix(b, block,
                            &(struct parameter_spec){"down.weight", h, f, SPLIT_COLS, 6,
                                                     builder_output_deviation(b), 0});
    if (c->network.linear_bias)
        t[FC2_BIAS] = builder_vector(b, block, "down.bias", h, 0);
    block->bias = t[FC2_BIAS];
    block->dropout_purpose = (uint32_t)(RNG_MLP_DROPOUT + block->number);
}

static enum activation activation_of(const struct model_config *c)
{
    return c->network.swiglu                          ? gate_activation(c->network.gate)
           : c->network.activation != ACTIVATION_NONE ? c->network.activation
           : c->network.gelu_erf                      ? ACTIVATION_GELU_ERF
                                                      : ACTIVATION_GELU_TANH;
}

static int variant(const struct network *network, const struct block *block)
{
    (void)network;
    return block->fp8;
}

static void lay_out(struct model *m, const struct block *block, void *memory, struct arena *arena,
                    enum keep keep)
{
    struct mlp_memory *a = memory;
    size_t size = type_size(m->config.numerics.type);

    if (keep == KEEP_INPUT || keep == KEEP_NOTHING)
        return;
    a->pre = arena_take(arena, m->sizes.rows * m->sizes.fc1, size);
    if (keep == KEEP_ALL && linear_activation_at(m, block) != ACTIVATION_IN_CAST)
        a->activated = arena_take(arena, m->sizes.rows * m->sizes.ffn, size);
    linear_lay_out(m, block, LINEAR_FC1, &a->fc1_input, arena, keep);
    linear_lay_out(m, block, LINEAR_FC2, &a->fc2_input, arena, keep);
}

static void lay_out_common(struct model *m, struct block *block, struct arena *arena)
{
    struct mlp_common *common = block->common;

    if (trains(m))
        common->dactivated =
            arena_take(arena, m->sizes.rows * m->sizes.ffn, type_size(m->config.numerics.type));
}

static void prepare(struct planner *p, struct model *m, struct block *block)
{
    const struct model_config *c = &m->config;
    const struct model_sizes *z = &m->sizes;
    struct mlp_common *common = block->common;
    const struct linear_spec fc1 = {.block = block,
                                    .kind = LINEAR_FC1,
                                    .bias = c->network.linear_bias,
                                    .activation = activation_of(c)};
    const struct linear_spec fc2 = {.block = block,
                                    .kind = LINEAR_FC2,
                                    .before = activation_of(c),
                                    .before_bias = c->network.linear_bias};
    struct operation gate = {
        .kind = OPERATION_SWIGLU,
        .swiglu = {z->rows, z->ffn, c->numerics.type, c->numerics.type, c->network.gate}};
    struct operation gate_backward = {.kind = OPERATION_SWIGLU_BACKWARD, .swiglu = gate.swiglu};
    struct operation activation = {
        .kind = OPERATION_ACTIVATION,
        .activation = {z->rows * z->ffn, c->numerics.type, c->numerics.type, activation_of(c), 0}};

    common->at = linear_activation_at(m, block);
    linear_plan(p, m, &common->fc1, &fc1);
    linear_plan(p, m, &common->fc2, &fc2);
    if (common->at == ACTIVATION_APART)
        common->gate = plan_make(p, &gate);
    if (common->at == ACTIVATION_APART && trains(m))
        common->gate_backward = plan_make(p, &gate_backward);
    if (common->at != ACTIVATION_IN_CAST && c->recompute == RECOMPUTE_SELECTIVE)
        common->again = plan_make(p, c->network.swiglu ? &gate : &activation);
}

static struct column_parallel fc1_of(struct pass *p, struct block *block)
{
    const struct mlp_memory *a = memory_of(p, block);

    return (struct column_parallel){.norm = block->before,
                                    .weight = block->tensors[FC1],
                                    .bias = block->tensors[FC1_BIAS],
                                    .pre = a->pre,
                                    .kept = &a->fc1_input};
}

/* What fc2 takes: the activated values, or those before the activation. */
static void *fc2_input(struct pass *p, struct block *block)
{
    const struct mlp_common *common = block->common;
    const struct mlp_memory *a = memory_of(p, block);

    return common->at == ACTIVATION_IN_CAST ? a->pre : a->activated;
}

static void run_gate(struct pass *p, struct block *block, struct device_plan *gate)
{
    struct mlp_memory *a = memory_of(p, block);

    run_swiglu(gate, compute(p->m), &(struct swiglu_operands){.x = a->pre, .y = a->activated});
}

/* The output of the norm -> pre, activated */
static void expand(struct pass *p, struct block *block)
{
    const struct mlp_common *common = block->common;
    struct mlp_memory *a = memory_of(p, block);
    struct column_parallel fc1 = fc1_of(p, block);

    column_parallel_forward(p, &common->fc1, &fc1,
                            common->at == ACTIVATION_IN_PRODUCT ? a->activated : a->pre, a->pre);
    if (common->gate)
        run_gate(p, block, common->gate);
}

static void forward(struct pass *p, struct block *block)
{
    const struct mlp_common *common = block->common;
    const struct mlp_memory *a = memory_of(p, block);

    expand(p, block);
    row_parallel_forward(p, &common->fc2, block->tensors[FC2], fc2_input(p, block), &a->fc2_input);
}

static void recompute(struct pass *p, struct block *block)
{
    const struct mlp_common *common = block->common;
    struct mlp_memory *a = memory_of(p, block);

    /* With a norm after it, its output is needed too: it is what was normalized. */
    if (p->m->config.recompute == RECOMPUTE_FULL &&
        (p->m->config.network.post_norm || p->m->config.network.branch_norm != BRANCH_NORM_INPUT))
        forward(p, block);
    else if (p->m->config.recompute == RECOMPUTE_FULL)
        expand(p, block);
    else if (common->again && p->m->config.network.swiglu)
        run_gate(p, block, common->again);
    else if (common->again)
        run_activation(common->again, compute(p->m),
                       &(struct activation_operands){.x = a->pre, .y = a->activated});
}

static void backward(struct pass *p, struct block *block)
{
    struct model *m = p->m;
    struct mlp_common *common = block->common;
    struct mlp_memory *a = memory_of(p, block);
    struct column_parallel fc1 = fc1_of(p, block);
    /* The gradient of a gate is as wide as 'pre', which is not needed any more. */
    bool wide = m->config.network.swiglu && common->at != ACTIVATION_IN_CAST;
    void *dpre = wide ? a->pre : common->dactivated;
    const struct row_parallel_gradient fc2 = {.weight = block->tensors[FC2],
                                              .x = fc2_input(p, block),
                                              .dpart = p->dx,
                                              .dx = common->gate ? common->dactivated : dpre,
                                              .pre = a->pre,
                                              .product = common->dactivated,
                                              .dbias = gradient(m, block->tensors[FC1_BIAS]),
                                              .kept = &a->fc2_input};

    row_parallel_backward(p, &common->fc2, &fc2);
    if (common->gate)
        run_swiglu_backward(
            common->gate_backward, compute(m),
            &(struct swiglu_backward_operands){.dy = common->dactivated, .x = a->pre, .dx = dpre});
    column_parallel_backward(p, &common->fc1, &fc1, dpre);
    p->dy = m->scratch.dy;
}

const struct block_kind mlp_block = {
    .name = "mlp",
    .memory_size = sizeof(struct mlp_memory),
    .common_size = sizeof(struct mlp_common),
    .linear_count = 2,
    .linears = {FC1, FC2},
    .first_linear = LINEAR_FC1,
    .add_parameters = add_parameters,
    .variant = variant,
    .lay_out = lay_out,
    .lay_out_common = lay_out_common,
    .prepare = prepare,
    .forward = forward,
    .recompute = recompute,
    .backward = backward,
};
