/* SPDX-License-Identifier: Apache-2.0 */
/* The MLP block: a column-parallel layer, an activation or a gate (SwiGLU, GeGLU), and a
 * row-parallel layer. */
#include "builder.h"
#include "linear.h"
#include "base/core/rng.h"

enum { FC1, FC1_BIAS, FC2, FC2_BIAS };

struct mlp_memory {
    void *pre, *activated;      /* (R, fc1), (R, ffn) */
    struct fp8_input fc1_input; /* what is kept of the cast of a norm's output, if it passes it */
    struct fp8_input fc2_input; /* and of the activated values */
};

struct mlp_common {
    struct linear fc1, fc2;
    struct device_plan *swiglu, *swiglu_backward; /* a gate apart from the products */
    struct device_plan *again;                    /* recomputes 'activated' from 'pre' */
    void *dactivated;                             /* (R, ffn) */
    int fused;                                    /* see is_fused */
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

/* The activation of an MLP without gate. */
static enum activation activation_of(const struct model_config *c)
{
    return c->network.swiglu                          ? ACTIVATION_NONE
           : c->network.activation != ACTIVATION_NONE ? c->network.activation
           : c->network.gelu_erf                      ? ACTIVATION_GELU_ERF
                                                      : ACTIVATION_GELU_TANH;
}

/* The activation that is fused into the products; with fp8 a gate is a separate operation. */
static enum activation product_activation(const struct model_config *c, const struct block *block)
{
    return c->network.swiglu && !block->fp8 ? gate_activation(c->network.gate) : activation_of(c);
}

/* With both layers in fp8, the activation and its gradient are computed where they are cast, from
 * the value before the activation: neither is written in bf16 or kept. There are such casts for
 * GELU by tanh and SwiGLU. */
static int is_fused(const struct model *m, const struct block *block)
{
    const struct model_config *c = &m->config;
    const int all = PRODUCT_FORWARD | PRODUCT_DGRAD | PRODUCT_WGRAD;

    return block->fp8 && fp8_products(c, &m->sizes, LINEAR_FC1) == all &&
           fp8_products(c, &m->sizes, LINEAR_FC2) == all &&
           (c->network.swiglu ? c->network.gate == GATE_SILU
                              : activation_of(c) == ACTIVATION_GELU_TANH);
}

/* The transposed activated values in fp8 are kept for the backward pass: with the value before the
 * activation 3 bytes of each, where bf16 keeps 4. With a gate they would cost memory that bf16 does
 * not need: only its two inputs are kept. */
static int keeps_columns(const struct model *m, const struct block *block)
{
    return is_fused(m, block) && !m->config.network.swiglu && trains(m);
}

static int variant(const struct block *block)
{
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
    if (keep == KEEP_ALL && !is_fused(m, block))
        a->activated = arena_take(arena, m->sizes.rows * m->sizes.ffn, size);
    if (keep == KEEP_ALL && block->before && block->before->passes)
        fp8_input_keep(m, block, LINEAR_FC1, &a->fc1_input, arena);
    if (keep == KEEP_ALL && keeps_columns(m, block))
        fp8_input_keep(m, block, LINEAR_FC2, &a->fc2_input, arena);
}

static void lay_out_common(struct model *m, struct block *block, struct arena *arena)
{
    struct mlp_common *common = block->common;

    if (trains(m))
        common->dactivated =
            arena_take(arena, m->sizes.rows * m->sizes.ffn, type_size(m->config.numerics.type));
}

/* Both layers with the activation in the casts; see is_fused. */
static void plan_fused(struct planner *p, struct model *m, const struct block *block)
{
    const struct model_config *c = &m->config;
    const struct model_sizes *z = &m->sizes;
    struct mlp_common *common = block->common;
    const struct linear_spec fc1 = {.rows = z->rows,
                                    .in = z->hidden,
                                    .out = z->fc1,
                                    .bias = c->network.linear_bias,
                                    .wgrad_bias = c->network.linear_bias,
                                    .fp8 = fp8_products(c, z, LINEAR_FC1),
                                    .gradient = c->network.swiglu ? QUANTIZE_GATE_GRADIENT
                                                                  : QUANTIZE_ACTIVATION_GRADIENT,
                                    .source_activation = activation_of(c),
                                    .source_gate = c->network.gate,
                                    .input_cast = block->before->casts};
    const struct linear_spec fc2 = {.rows = z->rows,
                                    .in = z->ffn,
                                    .out = z->hidden,
                                    .fp8 = fp8_products(c, z, LINEAR_FC2),
                                    .input =
                                        c->network.swiglu ? QUANTIZE_GATE : QUANTIZE_ACTIVATION,
                                    .source_activation = activation_of(c),
                                    .source_gate = c->network.gate};

    linear_plan(p, m, &common->fc1, &fc1);
    linear_plan(p, m, &common->fc2, &fc2);
}

/* What recomputes the activated values, and a gate that no product takes with it. */
static void plan_gate(struct planner *p, struct model *m, const struct block *block)
{
    const struct model_config *c = &m->config;
    const struct model_sizes *z = &m->sizes;
    struct mlp_common *common = block->common;
    int apart = c->network.swiglu && !is_gated(product_activation(c, block));
    struct operation swiglu = {
        .kind = OPERATION_SWIGLU,
        .swiglu = {z->rows, z->ffn, c->numerics.type, c->numerics.type, c->network.gate}};
    struct operation backward = {.kind = OPERATION_SWIGLU_BACKWARD, .swiglu = swiglu.swiglu};
    struct operation again = {
        .kind = OPERATION_ACTIVATION,
        .activation = {z->rows * z->ffn, c->numerics.type, c->numerics.type, activation_of(c), 0}};

    if (apart)
        planner_make(p, &common->swiglu, &swiglu);
    if (apart && trains(m))
        planner_make(p, &common->swiglu_backward, &backward);
    if (c->recompute == RECOMPUTE_SELECTIVE)
        planner_make(p, &common->again, c->network.swiglu ? &swiglu : &again);
}

/* The bias gradient of fc1 comes with the dgrad of fc2, except with SwiGLU. */
static void plan_apart(struct planner *p, struct model *m, const struct block *block)
{
    const struct model_config *c = &m->config;
    const struct model_sizes *z = &m->sizes;
    struct mlp_common *common = block->common;
    enum activation activation = product_activation(c, block);
    const struct linear_spec fc1 = {.rows = z->rows,
                                    .in = z->hidden,
                                    .out = z->fc1,
                                    .bias = c->network.linear_bias,
                                    .activation = activation,
                                    .wgrad_bias = c->network.linear_bias && c->network.swiglu,
                                    .fp8 = block->fp8 ? fp8_products(c, z, LINEAR_FC1) : 0,
                                    .input_cast = block->before->casts};
    const struct linear_spec fc2 = {.rows = z->rows,
                                    .in = z->ffn,
                                    .out = z->hidden,
                                    .before = activation,
                                    .before_bias = c->network.linear_bias && !c->network.swiglu,
                                    .fp8 = block->fp8 ? fp8_products(c, z, LINEAR_FC2) : 0};

    linear_plan(p, m, &common->fc1, &fc1);
    linear_plan(p, m, &common->fc2, &fc2);
    plan_gate(p, m, block);
}

static int prepare(struct model *m, struct block *block, struct error *err)
{
    struct mlp_common *common = block->common;
    struct planner p = {m->device, err, 0};

    common->fused = is_fused(m, block);
    if (common->fused)
        plan_fused(&p, m, block);
    else
        plan_apart(&p, m, block);
    return p.failed ? -1 : 0;
}

static void release(void *shared)
{
    struct mlp_common *common = shared;

    linear_release(&common->fc1);
    linear_release(&common->fc2);
    plan_destroy(common->swiglu);
    plan_destroy(common->swiglu_backward);
    plan_destroy(common->again);
}

static struct column_parallel fc1_of(struct pass *p, struct block *block)
{
    const struct mlp_memory *a = memory_of(p, block);

    return (struct column_parallel){.part = norm_output(p, block->before),
                                    .weight = block->tensors[FC1],
                                    .bias = block->tensors[FC1_BIAS],
                                    .pre = a->pre,
                                    .input = norm_cast(p, block->before, &a->fc1_input)};
}

/* What fc2 takes: the activated values, or those before the activation. */
static void *fc2_input(struct pass *p, struct block *block)
{
    const struct mlp_common *common = block->common;
    const struct mlp_memory *a = memory_of(p, block);

    return common->fused ? a->pre : a->activated;
}

static void run_gate(struct pass *p, struct block *block, struct device_plan *swiglu)
{
    struct mlp_memory *a = memory_of(p, block);

    run_swiglu(swiglu, compute(p->m), &(struct swiglu_operands){.x = a->pre, .y = a->activated});
}

/* The output of the norm -> pre, activated */
static void expand(struct pass *p, struct block *block)
{
    const struct mlp_common *common = block->common;
    struct mlp_memory *a = memory_of(p, block);
    struct column_parallel fc1 = fc1_of(p, block);

    column_parallel_forward(p->m, &common->fc1, &fc1,
                            common->swiglu || common->fused ? a->pre : a->activated, a->pre);
    if (common->swiglu)
        run_gate(p, block, common->swiglu);
}

static void forward(struct pass *p, struct block *block)
{
    const struct mlp_common *common = block->common;

    expand(p, block);
    row_parallel_forward(p->m, &common->fc2, block->tensors[FC2], fc2_input(p, block),
                         &((struct mlp_memory *)memory_of(p, block))->fc2_input);
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
    else if (!common->fused && p->m->config.network.swiglu)
        run_gate(p, block, common->again);
    else if (!common->fused)
        run_activation(common->again, compute(p->m),
                       &(struct activation_operands){.x = a->pre, .y = a->activated});
}

static void backward(struct pass *p, struct block *block)
{
    struct model *m = p->m;
    struct mlp_common *common = block->common;
    struct mlp_memory *a = memory_of(p, block);
    struct column_parallel fc1 = fc1_of(p, block);
    float *dbias = gradient(m, block->tensors[FC1_BIAS]);
    int gate = m->config.network.swiglu && !common->fused;
    void *dpre = gate ? a->pre : common->dactivated; /* pre is not needed any more */
    const struct row_parallel_gradient fc2 = {.weight = block->tensors[FC2],
                                              .x = fc2_input(p, block),
                                              .dpart = p->dx,
                                              .dx = common->swiglu ? common->dactivated : dpre,
                                              .pre = a->pre,
                                              .product = common->dactivated,
                                              .dbias = dbias,
                                              .input = &a->fc2_input};

    row_parallel_backward(m, &common->fc2, &fc2, p->accumulate);
    if (common->swiglu)
        run_swiglu_backward(
            common->swiglu_backward, compute(m),
            &(struct swiglu_backward_operands){.dy = common->dactivated, .x = a->pre, .dx = dpre});
    column_parallel_backward(m, &common->fc1, &fc1, dpre, gate || common->fused ? dbias : NULL,
                             p->accumulate);
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
    .release = release,
    .forward = forward,
    .recompute = recompute,
    .backward = backward,
};
