/* SPDX-License-Identifier: Apache-2.0 */
#include "index_private.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define SIZE_LIMIT  ((int64_t)1 << 23)
#define LAYERS_MOST 4096

void index_clear(struct checkpoint_index *index)
{
    free(index->tensors);
    free(index->pieces);
    free(index->files);
    memset(index, 0, sizeof(*index));
}

/* Lists of tensors are in similar order: first try the one after the last match. */
static int find_from(const struct checkpoint_index *index, const char *name, int hint)
{
    for (int k = 0; k < index->tensor_count; k++) {
        int i = (hint + 1 + k) % index->tensor_count;

        if (strcmp(index->tensors[i].name, name) == 0)
            return i;
    }
    return -1;
}

int index_find(const struct checkpoint_index *index, const char *name)
{
    return find_from(index, name, -1);
}

/* --- Created from a layout ------------------------------------------------------------------- */

int index_create_tensors(struct checkpoint_index *index, const struct model_config *model,
                         struct error *err)
{
    struct model_config whole = *model;
    struct layout one = {1, 1, 1, 1};
    struct layout_position at = {0, 0, 0, 0};
    struct parameters p;
    int rc;

    memset(index, 0, sizeof(*index));
    index->model = *model;
    whole.split.chunks = 1;
    rc = parameters_create(&p, &whole, &one, &at, err);
    if (rc == 0) {
        index->tensors = calloc((size_t)p.count + 1, sizeof(*index->tensors));
        if (!index->tensors)
            rc = error_set(err, "out of memory");
    }
    for (int i = 0; i < p.count && rc == 0; i++) {
        struct index_tensor *tensor = &index->tensors[index->tensor_count++];
        int64_t rows = p.list[i].true_rows;

        memcpy(tensor->name, p.list[i].name, sizeof(tensor->name));
        tensor->rows = rows < p.list[i].all_rows ? rows : p.list[i].all_rows;
        tensor->cols = p.list[i].all_cols;
        tensor->first = -1;
    }
    parameters_destroy(&p);
    return rc;
}

int index_add_piece(struct checkpoint_index *index, const struct index_piece *piece,
                    struct error *err)
{
    int count = index->piece_count;
    struct index_piece *more = index->pieces;

    /* Capacity for 64, then doubled whenever a power of two is full. */
    if (count == 0 || (count >= 64 && (count & (count - 1)) == 0))
        more = realloc(index->pieces, (size_t)(count ? 2 * count : 64) * sizeof(*more));
    if (!more)
        return error_set(err, "out of memory");
    index->pieces = more;
    more[count] = *piece;
    more[count].next = index->tensors[piece->tensor].first;
    index->tensors[piece->tensor].first = count;
    index->piece_count++;
    return 0;
}

static int add_rank(struct checkpoint_index *index, const struct parameters *p,
                    const struct layout_position *at, int64_t shard, struct error *err)
{
    struct index_file *file = &index->files[index->file_count];
    struct pieces pieces;
    int rc = pieces_create(&pieces, p, at, shard, PIECES_WRITTEN, err), last = -1;

    snprintf(file->name, sizeof(file->name), "rank_%05d.safetensors", index->file_count);
    file->first = index->piece_count;
    for (int i = 0; i < pieces.count && rc == 0; i++) {
        const struct parameter *q = &p->list[pieces.list[i].parameter];
        struct index_piece piece = {
            .tensor = last = find_from(index, q->name, last),
            .first_row = q->first_row,
            .first_col = q->first_col,
            .rows = q->rows,
            .cols = q->cols,
            .start = pieces.list[i].start,
            .count = pieces.list[i].count,
            .offset = file->elements,
        };

        rc = piece.tensor < 0 ? error_bug(err, "there is no tensor called %s", q->name)
                              : index_add_piece(index, &piece, err);
        file->elements += piece.count;
        file->pieces++;
    }
    pieces_destroy(&pieces);
    index->file_count++;
    return rc;
}

int index_create(struct checkpoint_index *index, const struct model_config *model,
                 const struct layout *layout, struct error *err)
{
    int64_t ranks = layout->tp * layout->cp * layout->dp * layout->pp;

    if (index_create_tensors(index, model, err) < 0)
        return -1;
    index->layout = *layout;
    index->files = calloc((size_t)ranks, sizeof(*index->files));
    if (!index->files)
        return error_set(err, "out of memory");
    for (int64_t rank = 0; rank < ranks; rank++) {
        struct layout_position at = layout_position(layout, rank);
        struct parameters p;
        int rc = parameters_create(&p, model, layout, &at, err);

        if (rc == 0)
            rc = add_rank(index, &p, &at, shard_number(layout, &at), err);
        parameters_destroy(&p);
        if (rc < 0)
            return -1;
    }
    return 0;
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

static int in(int value, int count)
{
    return value >= 0 && value < count;
}

int index_check_blocks(const struct network *c, struct error *err)
{
    const double reals[] = {
        c->rope_scaling.attention, c->local_rotary_base, c->attention_scale, c->attention_softcap,
        c->logit_softcap,          c->embedding_scale,   c->qkv_clip};

    for (size_t i = 0; i < sizeof(reals) / sizeof(reals[0]); i++)
        if (!(reals[i] >= 0) || isinf(reals[i]))
            return error_set(err, "blocks: %g is not a valid number", reals[i]);
    if (!in((int)c->qk_norm, QK_NORM_WHOLE + 1) || !in((int)c->branch_norm, BRANCH_NORM_BOTH + 1) ||
        !in(c->parallel_residual, 2) || !in((int)c->activation, ACTIVATION_SQUARED_RELU + 1) ||
        !in((int)c->gate, GATE_QUICK_GELU + 1) || !in((int)c->rope_scaling.kind, ROPE_YARN + 1) ||
        !in((int)c->architecture, ARCHITECTURES) || !in(c->plain_norm, 2) ||
        !in(c->layernorm_1p, 2) || (c->layernorm_1p && (c->plain_norm || c->masked)) ||
        (c->plain_norm && (c->parallel_residual || c->branch_norm != BRANCH_NORM_INPUT)) ||
        (c->qkv_clip > 0 && c->qk_norm != QK_NORM_NONE) || c->window < 0 || c->window_every < 0 ||
        c->window > INT32_MAX || c->window_every > INT32_MAX)
        return error_set(
            err,
            "blocks: a model that this version does not support; use the version that saved it");
    return 0;
}

/* --- Comparing ------------------------------------------------------------------------------- */

int index_check_model(const struct checkpoint_index *index, const struct model_config *model,
                      struct error *err)
{
    struct checkpoint_index ours;
    char text[600], blocks[300], other[300];
    int differ = 0;
    size_t used;

    if (fields_compare(index_model_fields, &index->model.network, &model->network, text,
                       sizeof(text)) > 0)
        differ = 1;
    used = strlen(text);
    if (fields_compare(index_block_fields, &index->model.network, &model->network, blocks,
                       sizeof(blocks)) > 0) {
        snprintf(text + used, sizeof(text) - used, "%s%s", used ? ", " : "", blocks);
        differ = 1;
    }
    used = strlen(text);
    if (fields_compare(index_masked_fields, &index->model.network, &model->network, other,
                       sizeof(other)) > 0)
        differ = 1;
    snprintf(text + used, sizeof(text) - used, "%s%s", used && other[0] ? ", " : "", other);
    used = strlen(text);
    if (index_create_tensors(&ours, model, err) < 0) {
        index_clear(&ours);
        return -1;
    }
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

    if (fields_compare(index_rule_fields, &index->rules, rules, text, sizeof(text)) == 0 &&
        fields_compare(index_rule_more_fields, &index->rules, rules, text, sizeof(text)) == 0)
        return 0;
    error_set(err, "the learning-rate schedule differs from the checkpoint's: %s", text);
    return error_append(err, "; use the same values (without --lr-decay-iters the decay ends with "
                             "the run), --override-opt_param-scheduler to use these values, or "
                             "--use-checkpoint-opt_param-scheduler to use the checkpoint's");
}
