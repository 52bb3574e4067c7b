/* SPDX-License-Identifier: Apache-2.0 */
/* The model and the schedule in an index: their members, which values are valid, and whether two of
 * them are the same. */
#include "index_private.h"

#include <inttypes.h>
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

/* A checkpoint that was saved before there was a property has its default. */
void index_model_fields(struct field fields[NETWORK_PROPERTIES + 1])
{
    static const enum field_type types[] = {
        [PROPERTY_INT] = FIELD_INT, [PROPERTY_SIZE] = FIELD_INT64, [PROPERTY_REAL] = FIELD_DOUBLE};

    for (int i = 0; i < NETWORK_PROPERTIES; i++) {
        const struct network_property *p = &network_properties[i];

        fields[i] = (struct field){p->name, types[p->type], p->offset, p->loose, .optional = 1};
    }
    fields[NETWORK_PROPERTIES] = (struct field){0};
}

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

/* --- Comparing ------------------------------------------------------------------------------- */

int index_check_model(const struct checkpoint_index *index, const struct model_config *model,
                      struct error *err)
{
    struct field fields[NETWORK_PROPERTIES + 1];
    struct checkpoint_index ours;
    char text[600];
    int differ = 0;
    size_t used;

    index_model_fields(fields);
    differ = fields_compare(fields, &index->model.network, &model->network, text, sizeof(text)) > 0;
    used = strlen(text);
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
