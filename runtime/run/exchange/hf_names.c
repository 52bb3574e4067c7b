/* SPDX-License-Identifier: Apache-2.0 */
#include "hf_masked.h"
#include "hf_private.h"

#include <stdio.h>
#include <string.h>

const struct hf_name hf_gpt2_names[] = {
    {"embedding.word.weight", "transformer.wte.weight", PART_WHOLE, 0},
    {"embedding.position.weight", "transformer.wpe.weight", PART_WHOLE, 0},
    {"layers.%d.norm1.weight", "transformer.h.%d.ln_1.weight", PART_WHOLE, 0},
    {"layers.%d.norm1.bias", "transformer.h.%d.ln_1.bias", PART_WHOLE, 0},
    {"layers.%d.attention.query.weight", "transformer.h.%d.attn.c_attn.weight", PART_QUERY,
     HF_TRANSPOSED},
    {"layers.%d.attention.key.weight", "transformer.h.%d.attn.c_attn.weight", PART_KEY,
     HF_TRANSPOSED},
    {"layers.%d.attention.value.weight", "transformer.h.%d.attn.c_attn.weight", PART_VALUE,
     HF_TRANSPOSED},
    {"layers.%d.attention.query.bias", "transformer.h.%d.attn.c_attn.bias", PART_QUERY, 0},
    {"layers.%d.attention.key.bias", "transformer.h.%d.attn.c_attn.bias", PART_KEY, 0},
    {"layers.%d.attention.value.bias", "transformer.h.%d.attn.c_attn.bias", PART_VALUE, 0},
    {"layers.%d.attention.projection.weight", "transformer.h.%d.attn.c_proj.weight", PART_WHOLE,
     HF_TRANSPOSED},
    {"layers.%d.attention.projection.bias", "transformer.h.%d.attn.c_proj.bias", PART_WHOLE, 0},
    {"layers.%d.norm2.weight", "transformer.h.%d.ln_2.weight", PART_WHOLE, 0},
    {"layers.%d.norm2.bias", "transformer.h.%d.ln_2.bias", PART_WHOLE, 0},
    {"layers.%d.mlp.up.weight", "transformer.h.%d.mlp.c_fc.weight", PART_WHOLE, HF_TRANSPOSED},
    {"layers.%d.mlp.up.bias", "transformer.h.%d.mlp.c_fc.bias", PART_WHOLE, 0},
    {"layers.%d.mlp.down.weight", "transformer.h.%d.mlp.c_proj.weight", PART_WHOLE, HF_TRANSPOSED},
    {"layers.%d.mlp.down.bias", "transformer.h.%d.mlp.c_proj.bias", PART_WHOLE, 0},
    {"final_norm.weight", "transformer.ln_f.weight", PART_WHOLE, 0},
    {"final_norm.bias", "transformer.ln_f.bias", PART_WHOLE, 0},
    {0, 0, 0, 0},
};

/* Llama, Mistral, Qwen 2 (biases of query, key and value) and Qwen 3 (norms of query and key). */
const struct hf_name hf_llama_names[] = {
    {"embedding.word.weight", "model.embed_tokens.weight", PART_WHOLE, 0},
    {"layers.%d.attention.query.weight", "model.layers.%d.self_attn.q_proj.weight", PART_WHOLE, 0},
    {"layers.%d.attention.query.bias", "model.layers.%d.self_attn.q_proj.bias", PART_WHOLE, 0},
    {"layers.%d.attention.key.weight", "model.layers.%d.self_attn.k_proj.weight", PART_WHOLE, 0},
    {"layers.%d.attention.key.bias", "model.layers.%d.self_attn.k_proj.bias", PART_WHOLE, 0},
    {"layers.%d.attention.value.weight", "model.layers.%d.self_attn.v_proj.weight", PART_WHOLE, 0},
    {"layers.%d.attention.value.bias", "model.layers.%d.self_attn.v_proj.bias", PART_WHOLE, 0},
    {"layers.%d.attention.projection.weight", "model.layers.%d.self_attn.o_proj.weight", PART_WHOLE,
     0},
    {"layers.%d.attention.query_norm.weight", "model.layers.%d.self_attn.q_norm.weight", PART_WHOLE,
     0},
    {"layers.%d.attention.key_norm.weight", "model.layers.%d.self_attn.k_norm.weight", PART_WHOLE,
     0},
    {"layers.%d.mlp.gate.weight", "model.layers.%d.mlp.gate_proj.weight", PART_WHOLE, 0},
    {"layers.%d.mlp.up.weight", "model.layers.%d.mlp.up_proj.weight", PART_WHOLE, 0},
    {"layers.%d.mlp.down.weight", "model.layers.%d.mlp.down_proj.weight", PART_WHOLE, 0},
    {"layers.%d.norm1.weight", "model.layers.%d.input_layernorm.weight", PART_WHOLE, 0},
    {"layers.%d.norm2.weight", "model.layers.%d.post_attention_layernorm.weight", PART_WHOLE, 0},
    {"final_norm.weight", "model.norm.weight", PART_WHOLE, 0},
    {"head.weight", "lm_head.weight", PART_WHOLE, 0},
    {0, 0, 0, 0},
};

const struct hf_name hf_phi3_names[] = {
    {"embedding.word.weight", "model.embed_tokens.weight", PART_WHOLE, 0},
    {"layers.%d.attention.projection.weight", "model.layers.%d.self_attn.o_proj.weight", PART_WHOLE,
     0},
    {"layers.%d.attention.query.weight", "model.layers.%d.self_attn.qkv_proj.weight", PART_QUERY,
     0},
    {"layers.%d.attention.key.weight", "model.layers.%d.self_attn.qkv_proj.weight", PART_KEY, 0},
    {"layers.%d.attention.value.weight", "model.layers.%d.self_attn.qkv_proj.weight", PART_VALUE,
     0},
    {"layers.%d.mlp.gate.weight", "model.layers.%d.mlp.gate_up_proj.weight", PART_GATE, 0},
    {"layers.%d.mlp.up.weight", "model.layers.%d.mlp.gate_up_proj.weight", PART_UP, 0},
    {"layers.%d.mlp.down.weight", "model.layers.%d.mlp.down_proj.weight", PART_WHOLE, 0},
    {"layers.%d.norm1.weight", "model.layers.%d.input_layernorm.weight", PART_WHOLE, 0},
    {"layers.%d.norm2.weight", "model.layers.%d.post_attention_layernorm.weight", PART_WHOLE, 0},
    {"final_norm.weight", "model.norm.weight", PART_WHOLE, 0},
    {"head.weight", "lm_head.weight", PART_WHOLE, 0},
    {0, 0, 0, 0},
};

const struct hf_name hf_neox_names[] = {
    {"embedding.word.weight", "gpt_neox.embed_in.weight", PART_WHOLE, 0},
    {"layers.%d.norm1.weight", "gpt_neox.layers.%d.input_layernorm.weight", PART_WHOLE, 0},
    {"layers.%d.norm1.bias", "gpt_neox.layers.%d.input_layernorm.bias", PART_WHOLE, 0},
    {"layers.%d.norm2.weight", "gpt_neox.layers.%d.post_attention_layernorm.weight", PART_WHOLE, 0},
    {"layers.%d.norm2.bias", "gpt_neox.layers.%d.post_attention_layernorm.bias", PART_WHOLE, 0},
    {"layers.%d.attention.query.weight", "gpt_neox.layers.%d.attention.query_key_value.weight",
     PART_QUERY, HF_INTERLEAVED},
    {"layers.%d.attention.key.weight", "gpt_neox.layers.%d.attention.query_key_value.weight",
     PART_KEY, HF_INTERLEAVED},
    {"layers.%d.attention.value.weight", "gpt_neox.layers.%d.attention.query_key_value.weight",
     PART_VALUE, HF_INTERLEAVED},
    {"layers.%d.attention.query.bias", "gpt_neox.layers.%d.attention.query_key_value.bias",
     PART_QUERY, HF_INTERLEAVED},
    {"layers.%d.attention.key.bias", "gpt_neox.layers.%d.attention.query_key_value.bias", PART_KEY,
     HF_INTERLEAVED},
    {"layers.%d.attention.value.bias", "gpt_neox.layers.%d.attention.query_key_value.bias",
     PART_VALUE, HF_INTERLEAVED},
    {"layers.%d.attention.projection.weight", "gpt_neox.layers.%d.attention.dense.weight",
     PART_WHOLE, 0},
    {"layers.%d.attention.projection.bias", "gpt_neox.layers.%d.attention.dense.bias", PART_WHOLE,
     0},
    {"layers.%d.mlp.up.weight", "gpt_neox.layers.%d.mlp.dense_h_to_4h.weight", PART_WHOLE, 0},
    {"layers.%d.mlp.up.bias", "gpt_neox.layers.%d.mlp.dense_h_to_4h.bias", PART_WHOLE, 0},
    {"layers.%d.mlp.down.weight", "gpt_neox.layers.%d.mlp.dense_4h_to_h.weight", PART_WHOLE, 0},
    {"layers.%d.mlp.down.bias", "gpt_neox.layers.%d.mlp.dense_4h_to_h.bias", PART_WHOLE, 0},
    {"final_norm.weight", "gpt_neox.final_layer_norm.weight", PART_WHOLE, 0},
    {"final_norm.bias", "gpt_neox.final_layer_norm.bias", PART_WHOLE, 0},
    {"head.weight", "embed_out.weight", PART_WHOLE, 0},
    {0, 0, 0, 0},
};

/* OLMo 2 and 3. */
const struct hf_name hf_olmo_names[] = {
    {"embedding.word.weight", "model.embed_tokens.weight", PART_WHOLE, 0},
    {"layers.%d.attention.query.weight", "model.layers.%d.self_attn.q_proj.weight", PART_WHOLE, 0},
    {"layers.%d.attention.key.weight", "model.layers.%d.self_attn.k_proj.weight", PART_WHOLE, 0},
    {"layers.%d.attention.value.weight", "model.layers.%d.self_attn.v_proj.weight", PART_WHOLE, 0},
    {"layers.%d.attention.projection.weight", "model.layers.%d.self_attn.o_proj.weight", PART_WHOLE,
     0},
    {"layers.%d.attention.query_norm.weight", "model.layers.%d.self_attn.q_norm.weight", PART_WHOLE,
     0},
    {"layers.%d.attention.key_norm.weight", "model.layers.%d.self_attn.k_norm.weight", PART_WHOLE,
     0},
    {"layers.%d.mlp.gate.weight", "model.layers.%d.mlp.gate_proj.weight", PART_WHOLE, 0},
    {"layers.%d.mlp.up.weight", "model.layers.%d.mlp.up_proj.weight", PART_WHOLE, 0},
    {"layers.%d.mlp.down.weight", "model.layers.%d.mlp.down_proj.weight", PART_WHOLE, 0},
    {"layers.%d.attention_norm.weight", "model.layers.%d.post_attention_layernorm.weight",
     PART_WHOLE, 0},
    {"layers.%d.mlp_norm.weight", "model.layers.%d.post_feedforward_layernorm.weight", PART_WHOLE,
     0},
    {"final_norm.weight", "model.norm.weight", PART_WHOLE, 0},
    {"head.weight", "lm_head.weight", PART_WHOLE, 0},
    {0, 0, 0, 0},
};

const struct hf_name hf_gemma_names[] = {
    {"embedding.word.weight", "model.embed_tokens.weight", PART_WHOLE, 0},
    {"layers.%d.attention.query.weight", "model.layers.%d.self_attn.q_proj.weight", PART_WHOLE, 0},
    {"layers.%d.attention.key.weight", "model.layers.%d.self_attn.k_proj.weight", PART_WHOLE, 0},
    {"layers.%d.attention.value.weight", "model.layers.%d.self_attn.v_proj.weight", PART_WHOLE, 0},
    {"layers.%d.attention.projection.weight", "model.layers.%d.self_attn.o_proj.weight", PART_WHOLE,
     0},
    {"layers.%d.mlp.gate.weight", "model.layers.%d.mlp.gate_proj.weight", PART_WHOLE, 0},
    {"layers.%d.mlp.up.weight", "model.layers.%d.mlp.up_proj.weight", PART_WHOLE, 0},
    {"layers.%d.mlp.down.weight", "model.layers.%d.mlp.down_proj.weight", PART_WHOLE, 0},
    {"layers.%d.norm1.weight", "model.layers.%d.input_layernorm.weight", PART_WHOLE, HF_MINUS_ONE},
    {"layers.%d.norm2.weight", "model.layers.%d.post_attention_layernorm.weight", PART_WHOLE,
     HF_MINUS_ONE},
    {"final_norm.weight", "model.norm.weight", PART_WHOLE, HF_MINUS_ONE},
    {"head.weight", "lm_head.weight", PART_WHOLE, 0},
    {0, 0, 0, 0},
};

/* Gemma 2 and 3. */
const struct hf_name hf_gemma2_names[] = {
    {"embedding.word.weight", "model.embed_tokens.weight", PART_WHOLE, 0},
    {"layers.%d.attention.query.weight", "model.layers.%d.self_attn.q_proj.weight", PART_WHOLE, 0},
    {"layers.%d.attention.key.weight", "model.layers.%d.self_attn.k_proj.weight", PART_WHOLE, 0},
    {"layers.%d.attention.value.weight", "model.layers.%d.self_attn.v_proj.weight", PART_WHOLE, 0},
    {"layers.%d.attention.projection.weight", "model.layers.%d.self_attn.o_proj.weight", PART_WHOLE,
     0},
    {"layers.%d.attention.query_norm.weight", "model.layers.%d.self_attn.q_norm.weight", PART_WHOLE,
     HF_MINUS_ONE},
    {"layers.%d.attention.key_norm.weight", "model.layers.%d.self_attn.k_norm.weight", PART_WHOLE,
     HF_MINUS_ONE},
    {"layers.%d.mlp.gate.weight", "model.layers.%d.mlp.gate_proj.weight", PART_WHOLE, 0},
    {"layers.%d.mlp.up.weight", "model.layers.%d.mlp.up_proj.weight", PART_WHOLE, 0},
    {"layers.%d.mlp.down.weight", "model.layers.%d.mlp.down_proj.weight", PART_WHOLE, 0},
    {"layers.%d.norm1.weight", "model.layers.%d.input_layernorm.weight", PART_WHOLE, HF_MINUS_ONE},
    {"layers.%d.attention_norm.weight", "model.layers.%d.post_attention_layernorm.weight",
     PART_WHOLE, HF_MINUS_ONE},
    {"layers.%d.norm2.weight", "model.layers.%d.pre_feedforward_layernorm.weight", PART_WHOLE,
     HF_MINUS_ONE},
    {"layers.%d.mlp_norm.weight", "model.layers.%d.post_feedforward_layernorm.weight", PART_WHOLE,
     HF_MINUS_ONE},
    {"final_norm.weight", "model.norm.weight", PART_WHOLE, HF_MINUS_ONE},
    {"head.weight", "lm_head.weight", PART_WHOLE, 0},
    {0, 0, 0, 0},
};

const struct hf_name *hf_find_name(const struct hf_map *map, const char *ours, char theirs[HF_NAME])
{
    char text[HF_NAME];
    int layer = -1;

    sscanf(ours, "layers.%d.", &layer);
    for (const struct hf_name *row = map->names; row->ours; row++) {
        if (strchr(row->ours, '%') ? layer < 0 : layer >= 0)
            continue;
        snprintf(text, sizeof(text), row->ours, layer);
        if (strcmp(text, ours) != 0)
            continue;
        snprintf(theirs, HF_NAME, row->theirs, layer);
        return row;
    }
    return NULL;
}

int hf_offset(const struct hf_map *map, const struct hf_name *row)
{
    const char *end = strrchr(row->ours, '.');
    int norm = strstr(row->ours, "norm") && end && strcmp(end, ".weight") == 0;

    return (norm && map->layernorm_1p) - ((row->how & HF_MINUS_ONE) != 0);
}

/* The rows of a part in a fused tensor: its first row, and the rows of the whole. */
struct fused_rows {
    int64_t first, all;
};

static struct fused_rows fused_rows_of(const struct hf_map *map, const struct hf_name *row,
                                       int64_t rows)
{
    int64_t qkv = map->query + 2 * map->key;

    switch (row->part) {
    case PART_QUERY:
        return (struct fused_rows){0, qkv};
    case PART_KEY:
        return (struct fused_rows){map->query, qkv};
    case PART_VALUE:
        return (struct fused_rows){map->query + map->key, qkv};
    case PART_GATE:
        return (struct fused_rows){0, 2 * map->ffn};
    case PART_UP:
        return (struct fused_rows){map->ffn, 2 * map->ffn};
    default:
        return (struct fused_rows){0, rows};
    }
}

/* Our row 'r' (or element of a vector) of a part in the fused tensor. */
static int64_t row_of(const struct hf_map *map, const struct hf_name *row, int64_t rows, int64_t r)
{
    if (row->how & HF_INTERLEAVED)
        return (r / map->head * 3 + (int64_t)row->part - PART_QUERY) * map->head + r % map->head;
    return fused_rows_of(map, row, rows).first + r;
}

void hf_shape(const struct hf_map *map, const struct hf_name *row, const struct parameter *p,
              int64_t *rows, int64_t *cols)
{
    int64_t all_rows = p->true_rows < p->all_rows ? p->true_rows : p->all_rows;

    if (all_rows == 1 || p->all_cols == 1) {
        *rows = 1;
        *cols = fused_rows_of(map, row, all_rows * p->all_cols).all;
    } else if (row->how & HF_TRANSPOSED) {
        *rows = p->all_cols;
        *cols = fused_rows_of(map, row, all_rows).all;
    } else {
        *rows = fused_rows_of(map, row, all_rows).all;
        *cols = p->all_cols;
    }
}

int64_t hf_index(const struct hf_map *map, const struct hf_name *row, const struct parameter *p,
                 int64_t r, int64_t c)
{
    int64_t rows, cols;

    hf_shape(map, row, p, &rows, &cols);
    if (rows == 1)
        return row_of(map, row, p->all_cols, p->all_cols == 1 ? r : c);
    if (row->how & HF_TRANSPOSED)
        return c * cols + row_of(map, row, p->all_rows, r);
    return row_of(map, row, p->all_rows, r) * cols + c;
}

int64_t hf_adjacent(const struct hf_map *map, const struct hf_name *row, const struct parameter *p)
{
    if (row->how & HF_INTERLEAVED)
        return map->head;
    return p->all_rows == 1 ? p->cols : p->rows;
}

int64_t hf_true_rows(const struct parameter *p)
{
    int64_t rows = p->true_rows - p->first_row;

    return rows < 0 ? 0 : rows < p->rows ? rows : p->rows;
}
