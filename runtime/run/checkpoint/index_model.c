/* SPDX-License-Identifier: Apache-2.0 */
/* The model and the schedule in an index: their members, which values are valid, and whether two of
 * them are the same. */
#include "index_private.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

#define SIZE_LIMIT  ((int64_t)1 << 23)
#define LAYERS_MOST 4096

/* Members that make two schedules different. */
#define RULE(name, member, type) FIELD(struct step_rules, name, member, type)
const struct field index_rule_fields[] = {
    RULE("lr", lr, FIELD_DOUBLE),
    RULE("min-lr", min_lr, FIELD_DOUBLE),
    RULE("lr-decay-style", style, FIELD_INT),
    RULE("warm-up samples", warmup_samples, FIELD_DOUBLE),
    RULE("decay samples", decay_samples, FIELD_DOUBLE),
    RULE("weight-decay", weight_decay, FIELD_DOUBLE),
    RULE("lr-warmup-init", warmup_init, FIELD_DOUBLE),
    RULE("lr-wsd-decay-style", wsd_style, FIELD_INT),
    RULE("lr-wsd-decay samples", wsd_samples, FIELD_DOUBLE),
    RULE("weight-decay-incr-style", decay_style, FIELD_INT),
    RULE("start-weight-decay", start_weight_decay, FIELD_DOUBLE),
    RULE("weight-decay-incr samples", decay_growth_samples, FIELD_DOUBLE),
    RULE("decoupled-lr", decoupled_lr, FIELD_DOUBLE),
    RULE("decoupled-min-lr", decoupled_min_lr, FIELD_DOUBLE),
    RULE("optimizer", optimizer, FIELD_INT),
    {0},
};

/* The members of a model. */
#define MODEL(name, member, type) FIELD(struct network, name, member, type)
#define LOOSE(name_, member, type_)                                                          \
    {                                                                                        \
        .name = name_, .type = type_, .offset = offsetof(struct network, member), .loose = 1 \
    }
const struct field index_model_fields[] = {
    MODEL("num-layers", shape.layers, FIELD_INT64),
    MODEL("hidden-size", shape.hidden, FIELD_INT64),
    MODEL("ffn-hidden-size", shape.ffn_hidden, FIELD_INT64),
    MODEL("num-attention-heads", shape.heads, FIELD_INT64),
    MODEL("num-query-groups", shape.query_groups, FIELD_INT64),
    MODEL("kv-channels", shape.kv_channels, FIELD_INT64),
    MODEL("vocab-size", shape.vocabulary, FIELD_INT64),
    MODEL("position-embedding-type", position, FIELD_INT),
    MODEL("rotary-base", shape.rotary_base, FIELD_DOUBLE),
    MODEL("rotary-percent", rotary_percent, FIELD_DOUBLE),
    MODEL("use-rope-scaling", rope_scaling.kind, FIELD_INT),
    MODEL("rope-scaling-factor", rope_scaling.factor, FIELD_DOUBLE),
    MODEL("rope-scaling-low", rope_scaling.low, FIELD_DOUBLE),
    MODEL("rope-scaling-high", rope_scaling.high, FIELD_DOUBLE),
    MODEL("rope-scaling-original", rope_scaling.original, FIELD_DOUBLE),
    MODEL("normalization", norm, FIELD_INT),
    MODEL("norm-epsilon", epsilon, FIELD_DOUBLE),
    MODEL("swiglu", swiglu, FIELD_INT),
    MODEL("tied", tied, FIELD_INT),
    MODEL("bias", linear_bias, FIELD_INT),
    MODEL("add-qkv-bias", qkv_bias, FIELD_INT),
    MODEL("rope-attention-factor", rope_scaling.attention, FIELD_DOUBLE),
    MODEL("qk-layernorm", qk_norm, FIELD_INT),
    MODEL("norm-placement", branch_norm, FIELD_INT),
    MODEL("use-parallel-residual", parallel_residual, FIELD_INT),
    MODEL("activation", activation, FIELD_INT),
    MODEL("exact-gelu", gelu_erf, FIELD_INT),
    MODEL("gate", gate, FIELD_INT),
    MODEL("window", window, FIELD_INT64),
    MODEL("window-attn-skip-freq", window_every, FIELD_INT64),
    MODEL("rotary-base-local", local_rotary_base, FIELD_DOUBLE),
    MODEL("softmax-scale", attention_scale, FIELD_DOUBLE),
    MODEL("attn-logit-softcapping", attention_softcap, FIELD_DOUBLE),
    MODEL("final-logit-softcapping", logit_softcap, FIELD_DOUBLE),
    MODEL("embedding-scale", embedding_scale, FIELD_DOUBLE),
    MODEL("norm-without-weights", plain_norm, FIELD_INT),
    MODEL("apply-layernorm-1p", layernorm_1p, FIELD_INT),
    MODEL("clip-qkv", qkv_clip, FIELD_DOUBLE),
    MODEL("masked-lm", masked, FIELD_INT),
    MODEL("post-norm", post_norm, FIELD_INT),
    MODEL("num-token-types", token_types, FIELD_INT64),
    MODEL("position-offset", position_offset, FIELD_INT64),
    MODEL("bert-binary-head", binary_head, FIELD_INT),

    /* May change between two runs of a model, or only says where the weights came from. */
    LOOSE("architecture", architecture, FIELD_INT),
    LOOSE("seq-length", shape.sequence, FIELD_INT64),
    LOOSE("max-position-embeddings", positions, FIELD_INT64),
    LOOSE("hidden-dropout", hidden_dropout, FIELD_DOUBLE),
    LOOSE("attention-dropout", attention_dropout, FIELD_DOUBLE),
    LOOSE("init-method-std", init_std, FIELD_DOUBLE),
    {0},
};

/* --- Sizes ----------------------------------------------------------------------------------- */

int index_check_sizes(const struct network *model, struct error *err)
{
    const struct model_shape *s = &model->shape;
    const struct {
        const char *name;
        int64_t value, most;
    } rows[] = {
        {"hidden size", s->hidden, SIZE_LIMIT},
        {"FFN hidden size", s->ffn_hidden, SIZE_LIMIT},
        {"number of attention heads", s->heads, SIZE_LIMIT},
        {"number of query groups", s->query_groups, SIZE_LIMIT},
        {"size of an attention head", s->kv_channels, SIZE_LIMIT},
        /* Any value that an option accepts: most models do not store position embeddings. */
        {"vocabulary size", s->vocabulary, INT32_MAX},
        {"number of positions", model->positions, INT32_MAX},
        {"sequence length", s->sequence, INT32_MAX},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
        if (rows[i].value < 1 || rows[i].value > rows[i].most)
            return error_set(err, "the %s is %" PRId64 ", not between 1 and %" PRId64, rows[i].name,
                             rows[i].value, rows[i].most);
    if (s->heads * s->kv_channels > SIZE_LIMIT || s->layers < 1 || s->layers > LAYERS_MOST ||
        s->heads % s->query_groups != 0)
        return error_set(err,
                         "invalid model: %" PRId64 " layers with %" PRId64
                         " attention heads of size %" PRId64 " and %" PRId64 " query groups",
                         s->layers, s->heads, s->kv_channels, s->query_groups);
    return 0;
}

static int in(int value, int count)
{
    return value >= 0 && value < count;
}

static int is_count(int64_t value)
{
    return value >= 0 && value <= INT32_MAX;
}

int index_check_network(const struct network *c, struct error *err)
{
    const double reals[] = {
        c->rope_scaling.attention, c->local_rotary_base, c->attention_scale, c->attention_softcap,
        c->logit_softcap,          c->embedding_scale,   c->qkv_clip};

    for (size_t i = 0; i < sizeof(reals) / sizeof(reals[0]); i++)
        if (!(reals[i] >= 0) || isinf(reals[i]))
            return error_set(err, "model: %g is not a valid number", reals[i]);
    if (!in((int)c->qk_norm, QK_NORM_WHOLE + 1) || !in((int)c->branch_norm, BRANCH_NORM_BOTH + 1) ||
        !in(c->parallel_residual, 2) || !in((int)c->activation, ACTIVATION_SQUARED_RELU + 1) ||
        !in((int)c->gate, GATE_QUICK_GELU + 1) || !in((int)c->rope_scaling.kind, ROPE_YARN + 1) ||
        !in((int)c->architecture, ARCHITECTURES) || !in(c->plain_norm, 2) ||
        !in(c->layernorm_1p, 2) || !in(c->masked, 2) || !is_count(c->token_types) ||
        !is_count(c->position_offset) || !is_count(c->window) || !is_count(c->window_every) ||
        (c->layernorm_1p && (c->plain_norm || c->masked)) ||
        (c->plain_norm && (c->parallel_residual || c->branch_norm != BRANCH_NORM_INPUT)) ||
        (c->qkv_clip > 0 && c->qk_norm != QK_NORM_NONE))
        return error_set(
            err, "a model that this version does not support; use the version that saved it");
    return 0;
}

/* --- Comparing ------------------------------------------------------------------------------- */

int index_check_model(const struct checkpoint_index *index, const struct model_config *model,
                      struct error *err)
{
    struct checkpoint_index ours;
    char text[600];
    int differ = fields_compare(index_model_fields, &index->model.network, &model->network, text,
                                sizeof(text)) > 0;
    size_t used = strlen(text);

    index_create_tensors(&ours, model);
    for (int i = 0, shown = 0; i < ours.tensor_count && shown < 3; i++) {
        const struct index_tensor *a = &ours.tensors[i], *b;
        int found = index_find(index, a->name);

        b = found < 0 ? NULL : &index->tensors[found];
        if (b && b->rows == a->rows && b->cols == a->cols)
            continue;
        differ = 1;
        if (b)
            snprintf(text + used, sizeof(text) - used,
                     "%s%s (%" PRId64 " x %" PRId64 ", here %" PRId64 " x %" PRId64 ")",
                     used ? ", " : "", a->name, b->rows, b->cols, a->rows, a->cols);
        else
            snprintf(text + used, sizeof(text) - used, "%s%s (missing)", used ? ", " : "", a->name);
        used = strlen(text);
        shown++;
    }
    index_clear(&ours);
    return differ ? error_set(err,
                              "the checkpoint belongs to another model: %s; use the model options "
                              "that it was trained with",
                              text)
                  : 0;
}

int index_check_rules(const struct checkpoint_index *index, const struct step_rules *rules,
                      struct error *err)
{
    char text[600];

    if (fields_compare(index_rule_fields, &index->rules, rules, text, sizeof(text)) == 0)
        return 0;
    error_set(err, "the learning-rate schedule differs from the checkpoint's: %s", text);
    return error_append(err, "; use the same values (without --lr-decay-iters the decay ends with "
                             "the run), --override-opt_param-scheduler to use these values, or "
                             "--use-checkpoint-opt_param-scheduler to use the checkpoint's");
}
