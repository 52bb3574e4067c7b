/* SPDX-License-Identifier: Apache-2.0 */
/* Megatron-LM's names for our tensors, and how its ranks divide them. */
#include "megatron_private.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* --- Names ----------------------------------------------------------------------------------- */

static const struct megatron_name outer_names[] = {
    {"embedding.word.weight",
     CUT_ROWS,
     0,
     {"language_model/embedding/word_embeddings/weight", "embedding.word_embeddings.weight"}},
    {"embedding.position.weight",
     CUT_NONE,
     0,
     {"language_model/embedding/position_embeddings/weight",
      "embedding.position_embeddings.weight"}},
    {"final_norm.weight",
     CUT_NONE,
     0,
     {"language_model/transformer/final_layernorm.weight",
      "language_model/encoder/final_layernorm.weight", "language_model/encoder/final_norm.weight",
      "decoder.final_layernorm.weight"}},
    {"final_norm.bias",
     CUT_NONE,
     0,
     {"language_model/transformer/final_layernorm.bias",
      "language_model/encoder/final_layernorm.bias", "language_model/encoder/final_norm.bias",
      "decoder.final_layernorm.bias"}},
    {"head.weight", CUT_ROWS, 0, {"language_model/output_layer/weight", "output_layer.weight"}},
    {0},
};

/* Tensors of a layer, after one of the prefixes below and the layer number. */
static const struct megatron_name layer_names[] = {
    {"norm1.weight",
     CUT_NONE,
     0,
     {"input_layernorm.weight", "input_norm.weight",
      "self_attention.linear_qkv.layer_norm_weight"}},
    {"norm1.bias",
     CUT_NONE,
     0,
     {"input_layernorm.bias", "input_norm.bias", "self_attention.linear_qkv.layer_norm_bias"}},
#define QKV(ours, part, kind)                                                          \
    {                                                                                  \
        ours, CUT_QKV, part,                                                           \
        {                                                                              \
            "attention.query_key_value." kind, "self_attention.query_key_value." kind, \
                "self_attention.linear_qkv." kind                                      \
        }                                                                              \
    }
    QKV("attention.query.weight", 0, "weight"),
    QKV("attention.key.weight", 1, "weight"),
    QKV("attention.value.weight", 2, "weight"),
    QKV("attention.query.bias", 0, "bias"),
    QKV("attention.key.bias", 1, "bias"),
    QKV("attention.value.bias", 2, "bias"),
    {"attention.projection.weight",
     CUT_COLS,
     0,
     {"attention.dense.weight", "self_attention.dense.weight",
      "self_attention.linear_proj.weight"}},
    {"attention.projection.bias",
     CUT_NONE,
     0,
     {"attention.dense.bias", "self_attention.dense.bias", "self_attention.linear_proj.bias"}},
    {"norm2.weight",
     CUT_NONE,
     0,
     {"post_attention_layernorm.weight", "post_attention_norm.weight",
      "mlp.linear_fc1.layer_norm_weight", "pre_mlp_layernorm.weight"}},
    {"norm2.bias",
     CUT_NONE,
     0,
     {"post_attention_layernorm.bias", "post_attention_norm.bias", "mlp.linear_fc1.layer_norm_bias",
      "pre_mlp_layernorm.bias"}},
    {"mlp.gate.weight", CUT_FC1, 0, {"mlp.dense_h_to_4h.weight", "mlp.linear_fc1.weight"}},
    {"mlp.up.weight", CUT_FC1, 1, {"mlp.dense_h_to_4h.weight", "mlp.linear_fc1.weight"}},
    {"mlp.gate.bias", CUT_FC1, 0, {"mlp.dense_h_to_4h.bias", "mlp.linear_fc1.bias"}},
    {"mlp.up.bias", CUT_FC1, 1, {"mlp.dense_h_to_4h.bias", "mlp.linear_fc1.bias"}},
    {"mlp.down.weight", CUT_COLS, 0, {"mlp.dense_4h_to_h.weight", "mlp.linear_fc2.weight"}},
    {"mlp.down.bias", CUT_NONE, 0, {"mlp.dense_4h_to_h.bias", "mlp.linear_fc2.bias"}},
    {0},
};

static const struct megatron_name *row_of(const struct megatron_name *table, const char *ours)
{
    for (; table->ours; table++)
        if (strcmp(table->ours, ours) == 0)
            return table;
    return NULL;
}

const struct megatron_name *megatron_row(const char *ours, int of_layer)
{
    return row_of(of_layer ? layer_names : outer_names, ours);
}

const struct megatron_name *megatron_name_of(const char *ours, int64_t *layer)
{
    int end = 0;

    *layer = -1;
    if (sscanf(ours, "layers.%" SCNd64 ".%n", layer, &end) == 1 && end > 0)
        return row_of(layer_names, ours + end);
    return row_of(outer_names, ours);
}

int megatron_is_theirs(const char *name, int of_layer)
{
    const struct megatron_name *row = of_layer ? layer_names : outer_names;

    for (; row->ours; row++)
        for (int i = 0; i < 4 && row->theirs[i]; i++)
            if (strcmp(row->theirs[i], name) == 0)
                return 1;
    return 0;
}

int megatron_missing(const char *ours, const struct megatron_name *name, struct error *err)
{
    error_set(err, "tensor %s is missing (expected as %s", ours, name->theirs[0]);
    for (int i = 1; i < 4 && name->theirs[i]; i++)
        error_append(err, " or %s", name->theirs[i]);
    return error_append(err, "); copy the checkpoint again");
}

/* --- Rows ------------------------------------------------------------------------------------ */

/* Where a channel of a query or key is within its head. */
static int64_t channel_of(const struct megatron_split *split, const struct megatron_name *name,
                          int64_t channel)
{
    if (name->part == 2 || channel >= 2 * split->pairs)
        return channel;
    return 2 * (channel % split->pairs) + channel / split->pairs;
}

int64_t megatron_rank_of_row(const struct megatron_split *split, const struct megatron_name *name,
                             int64_t rows, int64_t row, int64_t *local)
{
    const struct model_shape *m = &split->model->network.shape;
    int64_t part = rows / split->tp, d = m->kv_channels;
    int64_t heads, head, group, queries, slot, channel;

    if (name->cut == CUT_NONE || name->cut == CUT_COLS) {
        *local = row;
        return 0;
    }
    *local = row % part;
    if (name->cut == CUT_FC1 && split->model->network.swiglu)
        *local += name->part * part;
    if (name->cut != CUT_QKV)
        return row / part;
    heads = part / d;
    head = row / d % heads;
    channel = channel_of(split, name, row % d);
    if (split->version == 0) { /* (3, heads, d) */
        *local = (name->part * heads + head) * d + channel;
    } else if (split->version == 1) { /* (heads, d, 3) */
        *local = (head * d + channel) * 3 + name->part;
    } else { /* (groups, queries of a group + 2, d) */
        queries = m->heads / m->query_groups;
        group = name->part == 0 ? head / queries : head;
        slot = name->part == 0 ? head % queries : queries + name->part - 1;
        *local = (group * (queries + 2) + slot) * d + channel;
    }
    return row / part;
}

void megatron_part_shape(const struct megatron_split *split, const struct megatron_name *name,
                         int64_t rows, int64_t cols, int64_t *part_rows, int64_t *part_cols)
{
    const struct model_shape *m = &split->model->network.shape;

    *part_rows = rows;
    *part_cols = cols;
    if (name->cut == CUT_QKV)
        *part_rows = (m->heads + 2 * m->query_groups) * m->kv_channels / split->tp;
    else if (name->cut == CUT_FC1)
        *part_rows = rows / split->tp * (split->model->network.swiglu ? 2 : 1);
    else if (name->cut == CUT_ROWS)
        *part_rows = (rows + split->tp - 1) / split->tp;
    else if (name->cut == CUT_COLS)
        *part_cols = cols / split->tp;
}
